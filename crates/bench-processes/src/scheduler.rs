//! The scheduler as a separate process.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result};
use berth_bench::{RunConditions, usage, workload::SCHEDULER_NAME};
use serde_json::json;

use crate::server::RunningServer;

/// The scheduler that is measured.
#[derive(Debug)]
pub enum Program {
    /// `berth run` of this program.
    Berth(BerthRun),
    /// A kube-scheduler, for comparison.
    KubeScheduler(PathBuf),
}

/// The options of `berth run` that the user sets.
#[derive(Debug, Default)]
pub struct BerthRun {
    /// The KubeSchedulerConfiguration; `None` means the default plugins, without a limit on the rate of requests.
    pub config: Option<PathBuf>,
    /// Further arguments.
    pub arguments: Vec<OsString>,
}

/// A running scheduler process that is killed when this value is dropped.
pub(crate) struct SchedulerProcess(Child);

impl SchedulerProcess {
    /// # Errors
    /// The process cannot be started.
    pub(crate) fn start(server: &RunningServer, program: &Program, conditions: &RunConditions) -> Result<Self> {
        let mut command = match program {
            Program::Berth(run) => berth(server, run, conditions)?,
            Program::KubeScheduler(file) => kube_scheduler(file, server, conditions)?,
        };
        let started = command.stdout(Stdio::null()).spawn();
        Ok(Self(started.with_context(|| format!("cannot start {}", command.get_program().display()))?))
    }

    pub(crate) fn id(&self) -> String {
        self.0.id().to_string()
    }

    pub(crate) fn cpu_by_thread(&self) -> BTreeMap<String, Duration> {
        usage::cpu_by_thread(&self.id())
    }
}

impl Drop for SchedulerProcess {
    fn drop(&mut self) {
        // The process may already have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn berth(server: &RunningServer, run: &BerthRun, conditions: &RunConditions) -> Result<Command> {
    let config = run.config.clone().map_or_else(|| write_config(server, conditions), Ok)?;
    let mut command = Command::new(std::env::current_exe().context("cannot find the file of this program")?);
    command.args(["run", "--leader-elect=false", "--log", "warn", "--scheduler-name", SCHEDULER_NAME]);
    command.arg("--kubeconfig").arg(server.kubeconfig()).arg("--config").arg(config);
    command.arg("--admin-socket").arg(server.admin_socket()).args(&run.arguments);
    if !conditions.equivalence_cache {
        command.arg("--without-equivalence-cache");
    }
    Ok(command)
}

fn kube_scheduler(file: &Path, server: &RunningServer, conditions: &RunConditions) -> Result<Command> {
    let mut command = Command::new(file);
    command.arg("--config").arg(write_config(server, conditions)?).args(["--secure-port", "0", "--v", "0"]);
    // At its end, kube-scheduler logs each event that it could not write.
    command.stderr(Stdio::null());
    Ok(command)
}

/// Writes a configuration without a limit on the rate of requests. The default limit is 50 a second, as in
/// kube-scheduler.
fn write_config(server: &RunningServer, conditions: &RunConditions) -> Result<PathBuf> {
    let config = json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"qps": -1, "kubeconfig": server.kubeconfig()}, "leaderElection": {"leaderElect": false},
        "percentageOfNodesToScore": conditions.percentage_of_nodes_to_score,
        "profiles": [{"schedulerName": SCHEDULER_NAME}]});
    let file = server.dir().join("scheduler.json");
    fs::write(&file, config.to_string()).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}
