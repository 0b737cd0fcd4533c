//! `cargo xtask kind`: a release on a cluster of real kubelets, which kind (<https://kind.sigs.k8s.io>) runs in
//! containers.
//!
//! The API server is asked about every object of the manifests. Then Berth runs beside kube-scheduler, with a plugin,
//! over a crash of its leader and an upgrade. Berth then replaces kube-scheduler, and kube-scheduler replaces Berth.
//! After each step a Deployment must have all of its pods running. This needs a container engine, so on a machine
//! without a container engine, the command says that it did not run.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;

use crate::{manifests, output_of, run, sandbox::SERVICE_MONITOR, target_dir, without_own_variables};

const USAGE: &str = "\
usage: cargo xtask kind --release DIR [--image NAME] [--required]

  --release DIR   the files of a release
  --image NAME    the image of kind's nodes, which decides the release of Kubernetes; by default the image that kind chooses
  --required      fail if the container engine, kind, kubectl or Python is missing";

/// The options that were given.
#[derive(Debug, PartialEq, Eq)]
struct Options<'a> {
    release: &'a str,
    image: Option<&'a str>,
    is_required: bool,
}

/// The name of the cluster, and the beginning of the names of its nodes.
const CLUSTER: &str = "berth-release";

const NODES: &str = "kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
nodes: [{role: control-plane}, {role: worker}, {role: worker}]
";

/// A folder in which the kubelet finds kube-scheduler's manifest, and a folder in which it does not.
const MANIFEST: &str = "/etc/kubernetes/manifests/kube-scheduler.yaml";
const ASIDE: &str = "/root/kube-scheduler.yaml";

/// The overlay whose plugins are in a ConfigMap.
const WITH_PLUGIN: &str = "new/overlays/plugins-from-volume";

pub(crate) fn kind(arguments: &[String]) -> Result<()> {
    let Options { release, image, is_required } = options(arguments)?;
    let release = fs::canonicalize(release).with_context(|| format!("--release {release}"))?;
    if let Some(program) = unavailable() {
        ensure!(!is_required, "the cluster of real kubelets was NOT RUN: {program} failed");
        eprintln!("the cluster of real kubelets was NOT RUN: {program} failed");
        return Ok(());
    }
    let scratch = target_dir().join("kind");
    if scratch.exists() {
        fs::remove_dir_all(&scratch)?;
    }
    fs::create_dir_all(&scratch)?;
    let scratch = fs::canonicalize(scratch)?;
    let before = release_before(&scratch)?;
    unpack(&release, &scratch.join("new"))?;
    let cluster = Cluster::create(scratch, image)?;
    cluster.accepts(&release)?;
    cluster.upgrade(before.as_deref(), &release)?;
    cluster.plugin()?;
    cluster.failover()?;
    cluster.in_place_and_back()?;
    cluster.is_clean()
}

fn options(arguments: &[String]) -> Result<Options<'_>> {
    let (mut release, mut image, mut is_required) = (None, None, false);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().with_context(|| format!("{argument} needs a value\n{USAGE}"));
        match argument.as_str() {
            "--release" => release = Some(value()?.as_str()),
            "--image" => image = Some(value()?.as_str()),
            "--required" => is_required = true,
            _ => bail!("unknown option `{argument}`\n{USAGE}"),
        }
    }
    Ok(Options { release: release.context(USAGE)?, image, is_required })
}

/// A command that must work, and does not.
fn unavailable() -> Option<String> {
    let commands = [["docker", "info"], ["kind", "version"], ["kubectl", "options"], ["python3", "--version"]];
    commands.iter().find(|command| !works(command)).map(|command| command.join(" "))
}

fn works([program, argument]: &[&str; 2]) -> bool {
    let status = Command::new(program).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Makes the release of the newest tag before HEAD's own, for this machine alone. `None` if nothing was tagged.
fn release_before(scratch: &Path) -> Result<Option<PathBuf>> {
    let before = ["describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^"];
    let found = Command::new("git").args(before).stderr(Stdio::null()).output().context("cannot start git")?;
    if !found.status.success() {
        return Ok(None);
    }
    let tag = String::from_utf8(found.stdout)?.trim().to_owned();
    let (clone, out) = (scratch.join("clone"), scratch.join(&tag));
    run("git", &["clone", "--quiet", "--no-hardlinks", "--branch", &tag, ".", &clone.display().to_string()])?;
    let architecture = architecture();
    let mut command = Command::new(env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    command.args(["xtask", "release", "--arch", &architecture, "--out"]).arg(&out).current_dir(&clone);
    command.env("CARGO_TARGET_DIR", clone.join("target"));
    without_own_variables(&mut command);
    ensure!(command.status().context("cannot start cargo")?.success(), "the release {tag} cannot be made");
    fs::remove_dir_all(&clone).context("cannot remove the clone")?;
    unpack(&out, &scratch.join("before"))?;
    Ok(Some(out))
}

/// Unpacks the manifests of a release, and its program for this machine.
fn unpack(release: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    let to = to.display().to_string();
    let program = format!("-linux-{}.tar.gz", architecture());
    for ending in ["-deploy.tar.gz", program.as_str()] {
        let archive = file(release, ending)?.display().to_string();
        run("tar", &["-C", &to, "--strip-components=1", "-xf", &archive])?;
    }
    // The overlays are beside the base, as in the repository.
    for folder in ["base", "overlays"] {
        let (from, beside) = (Path::new(&to).join("kustomize").join(folder), Path::new(&to).join(folder));
        fs::rename(&from, &beside).with_context(|| from.display().to_string())?;
    }
    Ok(())
}

/// The name of this machine's architecture in a release.
fn architecture() -> String {
    env::consts::ARCH.replace("x86_64", "amd64").replace("aarch64", "arm64")
}

/// The file whose name ends so.
fn file(folder: &Path, ending: &str) -> Result<PathBuf> {
    let mut files = fs::read_dir(folder).with_context(|| folder.display().to_string())?.filter_map(Result::ok);
    let found = files.find(|entry| entry.file_name().to_string_lossy().ends_with(ending));
    Ok(found.with_context(|| format!("{}: no file ends with {ending}", folder.display()))?.path())
}

/// A cluster of three nodes. It is deleted when the value is dropped.
struct Cluster {
    scratch: PathBuf,
    kubeconfig: String,
}

impl Cluster {
    fn create(scratch: PathBuf, image: Option<&str>) -> Result<Self> {
        let config = scratch.join("nodes.yaml");
        fs::write(&config, NODES)?;
        let cluster = Self { kubeconfig: scratch.join("kubeconfig").display().to_string(), scratch };
        let (config, kubeconfig) = (config.display().to_string(), cluster.kubeconfig.as_str());
        let mut arguments = vec!["create", "cluster", "--name", CLUSTER, "--config", &config, "--wait", "5m"];
        arguments.extend(["--kubeconfig", kubeconfig]);
        if let Some(image) = image {
            arguments.extend(["--image", image]);
        }
        run("kind", &arguments)?;
        Ok(cluster)
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        output_of("kubectl", &[&["--kubeconfig", self.kubeconfig.as_str()], arguments].concat())
    }

    /// Runs kubectl for objects of `kube-system`.
    fn system(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl(&[&["--namespace", "kube-system"], arguments].concat())
    }

    fn folder(&self, name: &str) -> String {
        self.scratch.join(name).display().to_string()
    }

    /// The API server takes every object of the base, of each overlay, of the chart, and the static pods.
    fn accepts(&self, release: &Path) -> Result<()> {
        let chart = self.scratch.join("chart.yaml");
        manifests::render_chart(&file(release, ".tgz")?, &chart)?;
        let definition = self.scratch.join("service-monitor.json");
        fs::write(&definition, SERVICE_MONITOR)?;
        let definition = definition.display().to_string();
        self.kubectl(&["create", "-f", &definition])?;
        self.kubectl(&["wait", "--for=condition=Established", "-f", &definition, "--timeout=1m"])?;
        let mut files = vec![("-f", chart.display().to_string()), ("-k", self.folder("new/base"))];
        for (flag, parent) in [("-k", "new/overlays"), ("-f", "new/static-pod")] {
            for entry in fs::read_dir(self.scratch.join(parent)).with_context(|| parent.to_owned())? {
                files.push((flag, entry?.path().display().to_string()));
            }
        }
        for (flag, file) in files {
            self.kubectl(&["apply", "--dry-run=server", flag, &file])?;
        }
        self.kubectl(&["delete", "-f", &definition])?;
        eprintln!("the API server takes every object of the chart, the base and the overlays, and the static pods");
        Ok(())
    }

    /// Installs the previous release, if there is one, and then the new release over the previous release.
    fn upgrade(&self, before: Option<&Path>, release: &Path) -> Result<()> {
        match before {
            Some(before) => {
                load(before)?;
                self.install("before/base")?;
                self.workload("before", "berth")?;
            }
            None => eprintln!("the upgrade was NOT RUN: no release was tagged before this one"),
        }
        load(release)?;
        self.install("new/base")?;
        self.workload("installed", "berth")?;
        eprintln!("Berth schedules beside kube-scheduler");
        Ok(())
    }

    /// Applies a folder, and waits until all replicas of Berth are ready.
    fn install(&self, folder: &str) -> Result<()> {
        self.kubectl(&["apply", "-k", &self.folder(folder)])?;
        self.system(&["rollout", "status", "deployment/berth", "--timeout=5m"])?;
        Ok(())
    }

    /// Deletes the objects of a folder, and waits until Berth's pods are gone.
    fn uninstall(&self, folder: &str) -> Result<()> {
        self.kubectl(&["delete", "-k", &self.folder(folder)])?;
        self.system(&["wait", "--for=delete", "pod", "--selector=app=berth", "--timeout=5m"])?;
        Ok(())
    }

    /// A Deployment whose pods name the scheduler: all of them run on kubelets, and are then deleted.
    fn workload(&self, name: &str, scheduler: &str) -> Result<()> {
        let labels = json!({"app": name});
        let deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"replicas": 20, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels},
                "spec": {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}]},
            }},
        });
        let file = self.scratch.join(format!("{name}.json"));
        fs::write(&file, deployment.to_string())?;
        self.kubectl(&["apply", "-f", &file.display().to_string()])?;
        self.kubectl(&["rollout", "status", &format!("deployment/{name}"), "--timeout=5m"])?;
        self.kubectl(&["delete", "deployment", name, "--cascade=foreground"])?;
        Ok(())
    }

    /// The plugin of the guide's first page, as `berth plugin new` makes it, decides about a pod.
    fn plugin(&self) -> Result<()> {
        let berth = self.folder("new/berth");
        let plugin = self.folder("avoid-zone");
        run(&berth, &["plugin", "new", "AvoidZone", "--dir", &plugin])?;
        run(&berth, &["plugin", "build", &plugin])?;
        let component = format!("--from-file={plugin}/build/AvoidZone.wasm");
        self.system(&["create", "configmap", "plugins", &component])?;
        self.install(WITH_PLUGIN)?;
        let (first, second) = (format!("{CLUSTER}-worker"), format!("{CLUSTER}-worker2"));
        self.kubectl(&["label", "node", &first, &second, "topology.kubernetes.io/zone=west"])?;
        let overrides = "--overrides={\"spec\":{\"schedulerName\":\"berth\"}}";
        self.kubectl(&["run", "web", "--image=registry.k8s.io/pause:3.10", overrides])?;
        self.kubectl(&["wait", "pod/web", "--for=condition=PodScheduled=False", "--timeout=5m"])?;
        self.kubectl(&["label", "--overwrite", "node", &second, "topology.kubernetes.io/zone=east"])?;
        self.kubectl(&["wait", "pod/web", "--for=condition=Ready", "--timeout=5m"])?;
        let found = self.kubectl(&["get", "pod", "web", "-o", "jsonpath={.spec.nodeName}"])?;
        ensure!(found == second, "the pod is on {found}, and the plugin wanted {second}");
        self.kubectl(&["delete", "pod", "web", "--now"])?;
        self.kubectl(&["label", "node", &first, &second, "topology.kubernetes.io/zone-"])?;
        eprintln!("a plugin decides");
        Ok(())
    }

    /// The holder of a Lease of `kube-system`.
    fn holder(&self, lease: &str) -> Result<String> {
        self.system(&["get", "lease", lease, "-o", "jsonpath={.spec.holderIdentity}"])
    }

    /// The leader is killed, and another replica schedules.
    fn failover(&self) -> Result<()> {
        let holder = self.holder("berth")?;
        let pod = pod_of(&holder).with_context(|| format!("{holder} names no pod"))?;
        self.system(&["delete", "pod", pod, "--grace-period=0", "--force"])?;
        self.workload("after-failover", "berth")?;
        let next = self.holder("berth")?;
        ensure!(next != holder, "{holder} still holds the Lease");
        eprintln!("another replica schedules after a crash: {next}");
        Ok(())
    }

    /// The steps of the guide's page on installing, there and back.
    fn in_place_and_back(&self) -> Result<()> {
        const OVERLAY: &str = "new/overlays/cluster-scheduler";
        self.uninstall(WITH_PLUGIN)?;
        self.system(&["delete", "configmap", "plugins"])?;
        self.install(OVERLAY)?;
        let node = format!("{CLUSTER}-control-plane");
        let kube_scheduler = format!("pod/kube-scheduler-{node}");
        run("docker", &["exec", &node, "mv", MANIFEST, ASIDE])?;
        self.system(&["wait", "--for=delete", &kube_scheduler, "--timeout=5m"])?;
        self.workload("in-place", "default-scheduler")?;
        let holder = self.holder("kube-scheduler")?;
        ensure!(holder.starts_with("berth-"), "{holder} schedules in kube-scheduler's place");
        eprintln!("Berth schedules in kube-scheduler's place: {holder}");
        run("docker", &["exec", &node, "mv", ASIDE, MANIFEST])?;
        self.system(&["wait", "--for=create", &kube_scheduler, "--timeout=5m"])?;
        self.system(&["wait", "--for=condition=Ready", &kube_scheduler, "--timeout=5m"])?;
        self.uninstall(OVERLAY)?;
        self.workload("back", "default-scheduler")?;
        let holder = self.holder("kube-scheduler")?;
        ensure!(holder.starts_with(&node), "{holder} schedules after the return to kube-scheduler");
        eprintln!("kube-scheduler schedules again: {holder}");
        Ok(())
    }

    /// Nothing of Berth is left, apart from events, which the API server deletes after an hour.
    fn is_clean(&self) -> Result<()> {
        const KINDS: &str = "configmaps,secrets,serviceaccounts,services,deployments,replicasets,statefulsets,pods,persistentvolumeclaims,\
                             poddisruptionbudgets,networkpolicies,roles,rolebindings,clusterroles,clusterrolebindings,priorityclasses,\
                             customresourcedefinitions,leases";
        let names = self.kubectl(&["get", KINDS, "--all-namespaces", "-o", "name"])?;
        let left: Vec<&str> = names.lines().filter(|name| name.contains("berth") && !is_of_node(name)).collect();
        ensure!(left.is_empty(), "left behind: {}", left.join(", "));
        eprintln!("nothing of Berth is left");
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(error) = run("kind", &["delete", "cluster", "--name", CLUSTER]) {
            eprintln!("warning: {error:#}");
        }
    }
}

fn load(release: &Path) -> Result<()> {
    let archive = file(release, "-image.tar")?.display().to_string();
    run("kind", &["load", "image-archive", &archive, "--name", CLUSTER])
}

/// The pod in the identity of a leader: its name, an underscore, and a unique id.
fn pod_of(holder: &str) -> Option<&str> {
    holder.rsplit_once('_').map(|(pod, _)| pod)
}

/// Whether the name contains a node's name: kubelets keep Leases and static pods of their own.
fn is_of_node(name: &str) -> bool {
    name.contains(&format!("{CLUSTER}-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_must_be_named() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let all = words("--release out --image kindest/node:v1.36.0 --required");
        let expected = Options { release: "out", image: Some("kindest/node:v1.36.0"), is_required: true };
        assert_eq!(options(&all).expect("options"), expected);
        let least = words("--release out");
        assert_eq!(options(&least).expect("options"), Options { release: "out", image: None, is_required: false });
        assert_eq!(options(&[]).expect_err("no release").to_string(), USAGE);
        assert!(options(&words("--release")).is_err() && options(&words("--nodes 3")).is_err());
    }

    #[test]
    fn the_leader_and_the_nodes_are_known_by_their_names() {
        assert_eq!(pod_of("berth-5c9-x_0b61"), Some("berth-5c9-x"));
        assert_eq!(pod_of("nobody"), None);
        assert!(is_of_node("lease.coordination.k8s.io/berth-release-worker"));
        assert!(is_of_node("pod/etcd-berth-release-control-plane"));
        assert!(!is_of_node("lease.coordination.k8s.io/berth"));
    }
}
