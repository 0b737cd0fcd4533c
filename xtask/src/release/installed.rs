//! The manifests of a release on a sandbox, which must accept every object. The image runs as a replica of the
//! Deployment: with the command, variables, volumes and user of the pod that the sandbox makes from the Deployment. The
//! replica finds the sandbox by a kubeconfig, because the sandbox has no service accounts' tokens.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::container::{Image, Mount};
use crate::{manifests, run, sandbox::Sandbox};

/// The namespace that the manifests name.
const NAMESPACE: &str = "kube-system";

/// The longest time that a replica with the components may take to start, if nothing is compiled or cached yet.
const COLD_START: Duration = Duration::from_secs(1);

/// The number of starts that are measured. The fastest start counts, because other work of the machine only makes a
/// start slower.
const STARTS: usize = 3;

/// The longest wait for a line of the replica's log.
const PATIENCE: Duration = Duration::from_secs(60);

/// The place of the kubeconfig in the container.
const CLUSTER: &str = "/cluster";

/// Installs the base of the overlays and the chart, one after the other. This needs kubectl and Python.
pub(super) fn check(image: &Image, base: &Path, chart: &Path, scratch: &Path) -> Result<()> {
    let (from_base, from_chart) = (scratch.join("base.yaml"), scratch.join("chart.yaml"));
    manifests::render_overlay(base, &from_base)?;
    manifests::render_chart(chart, &from_chart)?;
    let sandbox = Sandbox::start(&image.program(), scratch, 3)?;
    for (file, what) in [(from_base, "the kustomize base"), (from_chart, "the chart")] {
        sandbox.with_objects(&file, || {
            let replica = Replica::read(&sandbox, image, &scratch.join("volumes"))?;
            replica.schedules(&sandbox).with_context(|| what.to_owned())?;
            replica.starts_fast().with_context(|| what.to_owned())
        })?;
        eprintln!("{what}: a sandbox took each object, a replica scheduled, and nothing was left");
    }
    Ok(())
}

/// One replica of the Deployment, as the manifests describe it.
#[derive(Debug)]
struct Replica<'a> {
    image: &'a Image,
    mounts: Vec<Mount>,
    variables: Vec<String>,
    command: Vec<String>,
}

impl<'a> Replica<'a> {
    /// Reads the first pod that the sandbox made from the Deployment. `folder` gets its volumes.
    fn read(sandbox: &Sandbox, image: &'a Image, folder: &Path) -> Result<Self> {
        let deployment = sandbox.get(&["deployment", "berth", "--namespace", NAMESPACE])?;
        let wanted = format!("--for=jsonpath={{.status.replicas}}={}", deployment["spec"]["replicas"]);
        sandbox.kubectl(&["wait", "deployment/berth", "--namespace", NAMESPACE, &wanted, "--timeout=60s"])?;
        let pods = sandbox.get(&["pods", "--namespace", NAMESPACE])?;
        let pod = &pods["items"][0];
        let container = &pod["spec"]["containers"][0];
        let user = &pod["spec"]["securityContext"];
        ensure!(
            format!("{}:{}", user["runAsUser"], user["runAsGroup"]) == image.user,
            "the image's user is {}, and the Deployment says {user}",
            image.user
        );
        ensure!(container["securityContext"]["readOnlyRootFilesystem"] == true, "the root can be written to");
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        let mut mounts = vec![cluster(sandbox, folder)?];
        for mount in list(&container["volumeMounts"]) {
            mounts.push(volume(sandbox, image, pod, mount, folder)?);
        }
        let mut variables = vec![format!("KUBECONFIG={CLUSTER}/config")];
        for variable in list(&container["env"]) {
            variables.push(format!("{}={}", text(&variable["name"])?, value(pod, variable)?));
        }
        let words = [&container["command"], &container["args"]].into_iter().flat_map(list);
        let command = words.map(|word| Ok(text(word)?.to_owned())).collect::<Result<_>>()?;
        Ok(Self { image, mounts, variables, command })
    }

    /// Starts the replica with further arguments, and with empty volumes where it may write.
    fn start(&self, more: &[&str]) -> Result<Running> {
        for mount in self.mounts.iter().filter(|mount| !mount.is_read_only) {
            empty(&mount.folder, self.image)?;
        }
        let more = more.iter().map(|word| (*word).to_owned());
        let command: Vec<String> = self.command.iter().cloned().chain(more).collect();
        Running::start(self.image.command(&self.mounts, &self.variables, &command)?)
    }

    /// A pod that names the scheduler gets a node, and the replica ends in order.
    fn schedules(&self, sandbox: &Sandbox) -> Result<()> {
        let running = self.start(&[])?;
        let overrides = "--overrides={\"spec\":{\"schedulerName\":\"berth\"}}";
        sandbox.kubectl(&["run", "first", "--image=registry.example/app:1", overrides])?;
        let bound = ["wait", "pod/first", "--for=condition=PodScheduled", "--timeout=60s"];
        if let Err(error) = sandbox.kubectl(&bound) {
            bail!("{error:#}\nThe replica's log:\n{}", running.rest());
        }
        sandbox.kubectl(&["delete", "pod", "first", "--now"])?;
        running.stop()
    }

    /// The time from the start of the process until it schedules, with the components.
    fn starts_fast(&self) -> Result<()> {
        let mut fastest = Duration::MAX;
        for _ in 0..STARTS {
            let begun = Instant::now();
            let running = self.start(&["--execution=wasm"])?;
            running.until("berth_runtime::watching: scheduling")?;
            fastest = fastest.min(begun.elapsed());
            running.stop()?;
        }
        eprintln!("from a cold start to scheduling with the components: {} ms", fastest.as_millis());
        ensure!(fastest <= COLD_START, "that is more than {} ms", COLD_START.as_millis());
        Ok(())
    }
}

/// The kubeconfig of the sandbox.
fn cluster(sandbox: &Sandbox, folder: &Path) -> Result<Mount> {
    let folder = folder.join("cluster");
    fs::create_dir_all(&folder)?;
    fs::copy(sandbox.kubeconfig(), folder.join("config"))?;
    Ok(Mount { folder, at: CLUSTER.to_owned(), is_read_only: true })
}

/// Lays out the volume of a mount.
fn volume(sandbox: &Sandbox, image: &Image, pod: &Value, mount: &Value, folder: &Path) -> Result<Mount> {
    let name = text(&mount["name"])?;
    let volume = list(&pod["spec"]["volumes"]).find(|volume| volume["name"] == name);
    let volume = volume.with_context(|| format!("the pod has no volume {name}"))?;
    let folder = folder.join("volumes").join(name);
    fs::create_dir_all(&folder)?;
    if let Some(map) = volume["configMap"]["name"].as_str() {
        let map = sandbox.get(&["configmap", map, "--namespace", NAMESPACE])?;
        for (file, contents) in map["data"].as_object().into_iter().flatten() {
            fs::write(folder.join(file), text(contents)?)?;
        }
    } else {
        ensure!(volume["emptyDir"].is_object(), "the volume {name} is neither a ConfigMap nor an emptyDir");
        empty(&folder, image)?;
    }
    Ok(Mount { folder, at: text(&mount["mountPath"])?.to_owned(), is_read_only: mount["readOnly"] == true })
}

/// Makes a folder that is empty and belongs to the image's user.
fn empty(folder: &Path, image: &Image) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    run("chown", &[&image.user, &folder.display().to_string()])
}

/// The value of a variable, which may be a field of the pod.
fn value(pod: &Value, variable: &Value) -> Result<String> {
    if let Some(value) = variable["value"].as_str() {
        return Ok(value.to_owned());
    }
    let path = text(&variable["valueFrom"]["fieldRef"]["fieldPath"])?;
    let value = pod.pointer(&format!("/{}", path.replace('.', "/"))).and_then(Value::as_str);
    Ok(value.with_context(|| format!("the pod has no {path}"))?.to_owned())
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().with_context(|| format!("{value} is not a string"))
}

/// A process with its log. It is killed when the value is dropped.
struct Running {
    process: Child,
    /// The lines of its log.
    log: Receiver<String>,
}

impl Running {
    fn start(mut command: Command) -> Result<Self> {
        let mut process =
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().context("cannot start unshare")?;
        let errors = process.stderr.take().context("the process has no standard error")?;
        // A bounded channel could block the process while nobody reads its log.
        let (lines, log) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { process, log })
    }

    /// Waits for a line that ends so.
    fn until(&self, end: &str) -> Result<()> {
        let mut before = String::new();
        loop {
            let Ok(line) = self.log.recv_timeout(PATIENCE) else {
                bail!("the log has no line that ends with `{end}`:\n{before}");
            };
            if line.ends_with(end) {
                return Ok(());
            }
            before.push_str(&line);
            before.push('\n');
        }
    }

    /// The lines that came and were not read.
    fn rest(&self) -> String {
        self.log.try_iter().collect::<Vec<_>>().join("\n")
    }

    /// Asks the process to end, as the kubelet does.
    fn stop(mut self) -> Result<()> {
        run("kill", &["-TERM", &self.process.id().to_string()])?;
        let status = self.process.wait()?;
        ensure!(status.success(), "the replica ended with {status}:\n{}", self.rest());
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
