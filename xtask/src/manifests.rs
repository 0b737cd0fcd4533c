//! `cargo xtask manifests`: renders, checks and applies the manifests that install Berth on a cluster.
//!
//! kubectl renders the overlays of `deploy/kustomize`. Helm's own library from PyPI renders the chart of
//! `deploy/chart`, for each file of values in `chart/ci`. Every object is checked against the schema of its kind. Each
//! rendering is then applied to a sandbox and deleted again, and the sandbox must hold the same objects as before.
//! promtool tests the alerts of `deploy/monitoring`. A check is not run if its tool is not installed, and the output
//! says so.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{cargo, setup, target_dir};

/// The operator of Prometheus defines this kind. A definition that accepts any object is enough to store the object.
const SERVICE_MONITOR: &str = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"servicemonitors.monitoring.coreos.com"},"spec":{"group":"monitoring.coreos.com","scope":"Namespaced",
"names":{"plural":"servicemonitors","singular":"servicemonitor","kind":"ServiceMonitor","listKind":"ServiceMonitorList"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object",
"x-kubernetes-preserve-unknown-fields":true}}}]}}"#;

pub(crate) fn manifests() -> Result<()> {
    let missing = ["kubectl", "python3"].into_iter().find(|program| !is_there(program));
    if let Some(program) = missing {
        eprintln!("the manifests were NOT RUN: {program} is not on the PATH");
        return Ok(());
    }
    setup()?;
    let out = target_dir().join("manifests");
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("cannot remove {}", out.display()))?;
    }
    fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
    kustomize(&out)?;
    let python = virtual_environment()?;
    succeeds(Command::new(python).arg("deploy/check/render.py").arg(&out), "deploy/check/render.py")?;
    monitoring()?;
    cargo(&["build", "--locked", "--bin", "berth"])?;
    let sandbox = Sandbox::start(&out)?;
    let n_applied = sandbox.apply_all(&out)?;
    eprintln!("{n_applied} renderings are valid; a sandbox took each, and kept nothing of it");
    Ok(())
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

fn succeeds(command: &mut Command, what: &str) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {what}"))?;
    ensure!(status.success(), "{what} failed");
    Ok(())
}

/// Renders the base and all overlays into files named after them.
fn kustomize(out: &Path) -> Result<()> {
    let mut folders = vec![PathBuf::from("deploy/kustomize/base")];
    for entry in fs::read_dir("deploy/kustomize/overlays").context("deploy/kustomize/overlays")? {
        folders.push(entry?.path());
    }
    for folder in folders {
        let name = folder.file_name().context("a folder")?.to_string_lossy().into_owned();
        let file = File::create(out.join(format!("{name}.yaml")))?;
        succeeds(Command::new("kubectl").arg("kustomize").arg(&folder).stdout(file), &folder.display().to_string())?;
    }
    Ok(())
}

/// Returns the Python of a virtual environment with the pinned packages. The environment is made once, and again when
/// the packages change.
fn virtual_environment() -> Result<PathBuf> {
    const REQUIREMENTS: &str = "deploy/check/requirements.txt";
    let folder = target_dir().join("manifests-python");
    let (python, installed) = (folder.join("bin/python"), folder.join("installed.txt"));
    let wanted = fs::read_to_string(REQUIREMENTS).context(REQUIREMENTS)?;
    if fs::read_to_string(&installed).is_ok_and(|found| found == wanted) {
        return Ok(python);
    }
    succeeds(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder), "python3 -m venv")?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS];
    succeeds(Command::new(&python).args(install), "pip install")?;
    fs::write(&installed, wanted)?;
    Ok(python)
}

/// Runs the tests of the alerts with promtool, in which each alert fires.
fn monitoring() -> Result<()> {
    const FOLDER: &str = "deploy/monitoring";
    if !is_there("promtool") {
        eprintln!("the alerts were NOT RUN: promtool is not on the PATH (Debian's package prometheus has it)");
        return Ok(());
    }
    succeeds(
        Command::new("promtool").current_dir(FOLDER).args(["test", "rules", "rules.test.yaml"]),
        "promtool test rules",
    )
}

/// A sandbox that stores the objects, without nodes or a scheduler.
struct Sandbox {
    process: Child,
    kubeconfig: PathBuf,
}

impl Sandbox {
    fn start(out: &Path) -> Result<Self> {
        let kubeconfig = out.join("kubeconfig");
        let mut process = Command::new(target_dir().join("debug/berth"))
            .args(["sandbox", "--nodes", "0", "--no-scheduler", "--kubeconfig"])
            .arg(&kubeconfig)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start berth sandbox")?;
        let output = process.stdout.take().context("berth sandbox has no output")?;
        let sandbox = Self { process, kubeconfig };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).context("cannot read the output of berth sandbox")?;
        ensure!(line.starts_with("serving "), "berth sandbox said: {line}");
        sandbox.kubectl_reads(&["create", "-f", "-"], SERVICE_MONITOR)?;
        Ok(sandbox)
    }

    /// Applies and deletes each file. Returns the number of files.
    fn apply_all(&self, out: &Path) -> Result<usize> {
        let mut files: Vec<PathBuf> = fs::read_dir(out)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
        files.sort();
        for file in &files {
            let before = self.names()?;
            self.kubectl(&["apply", "--validate=false", "-f", &file.display().to_string()])?;
            self.kubectl(&["delete", "-f", &file.display().to_string()])?;
            let after = self.names()?;
            ensure!(
                before == after,
                "{} leaves something behind:\n{before}\nwas there before, and then\n{after}",
                file.display()
            );
        }
        Ok(files.len())
    }

    /// The names of all objects of the kinds in a rendering, and of pods and replica sets.
    fn names(&self) -> Result<String> {
        const KINDS: &str = "configmaps,serviceaccounts,services,deployments,replicasets,pods,poddisruptionbudgets,networkpolicies,\
                             roles,rolebindings,clusterroles,clusterrolebindings,servicemonitors";
        self.kubectl(&["get", KINDS, "--all-namespaces", "-o", "name"])
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl_reads(arguments, "")
    }

    fn kubectl_reads(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        std::io::Write::write_all(&mut child.stdin.take().context("the program has no input")?, input.as_bytes())?;
        let ended = child.wait_with_output()?;
        if !ended.status.success() {
            bail!("kubectl {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&ended.stderr).trim());
        }
        Ok(String::from_utf8(ended.stdout)?)
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
