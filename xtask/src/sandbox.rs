//! A sandbox in a separate process, and kubectl, which uses this sandbox.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

/// The operator of Prometheus defines this kind. A definition that accepts any object is enough to store objects of
/// this kind.
pub(crate) const SERVICE_MONITOR: &str = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"servicemonitors.monitoring.coreos.com"},"spec":{"group":"monitoring.coreos.com","scope":"Namespaced",
"names":{"plural":"servicemonitors","singular":"servicemonitor","kind":"ServiceMonitor","listKind":"ServiceMonitorList"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object",
"x-kubernetes-preserve-unknown-fields":true}}}]}}"#;

/// A sandbox without a scheduler. The sandbox ends when the value is dropped.
pub(crate) struct Sandbox {
    process: Child,
    kubeconfig: PathBuf,
}

impl Sandbox {
    /// Starts `program`, which is a `berth`, as a sandbox with `n_nodes` nodes. `folder` gets its kubeconfig.
    pub(crate) fn start(program: &Path, folder: &Path, n_nodes: usize) -> Result<Self> {
        let kubeconfig = folder.join("kubeconfig");
        let mut process = Command::new(program)
            .args(["sandbox", "--no-scheduler", "--nodes", &n_nodes.to_string(), "--kubeconfig"])
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

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Creates the objects of a file, calls `while_there`, and deletes the objects. The sandbox must then have the same
    /// objects as before.
    pub(crate) fn with_objects(&self, file: &Path, while_there: impl FnOnce() -> Result<()>) -> Result<()> {
        let before = self.names()?;
        let path = file.display().to_string();
        self.kubectl(&["apply", "--validate=false", "-f", &path])?;
        while_there()?;
        self.kubectl(&["delete", "-f", &path])?;
        let after = self.names()?;
        ensure!(before == after, "{path} leaves something behind:\n{before}\nwas there before, and then\n{after}");
        Ok(())
    }

    /// The names of all objects of the kinds in a rendering, of kinds that no rendering may have, and of the pods, replica
    /// sets and claims that the controllers make.
    fn names(&self) -> Result<String> {
        const KINDS: &str = "configmaps,secrets,serviceaccounts,services,deployments,replicasets,statefulsets,pods,persistentvolumeclaims,\
                             poddisruptionbudgets,networkpolicies,roles,rolebindings,clusterroles,clusterrolebindings,priorityclasses,\
                             customresourcedefinitions,leases,servicemonitors";
        self.kubectl(&["get", KINDS, "--all-namespaces", "-o", "name"])
    }

    /// What `kubectl get ARGUMENT ...` prints as JSON.
    pub(crate) fn get(&self, arguments: &[&str]) -> Result<Value> {
        let text = self.kubectl(&[&["get", "-o", "json"], arguments].concat())?;
        serde_json::from_str(&text).with_context(|| format!("kubectl get {}", arguments.join(" ")))
    }

    /// Runs kubectl, and returns its output.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl_reads(arguments, "")
    }

    fn kubectl_reads(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        child.stdin.take().context("the program has no input")?.write_all(input.as_bytes())?;
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
