//! The scheduler as a process of its own.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result};
use berth_bench::{Conditions, usage, workload::SCHEDULER_NAME};
use serde_json::json;

use super::server::RunningServer;
use crate::options::{Execution, Scheduling};

/// The scheduler that is measured.
#[derive(Debug)]
pub(in crate::bench_command) enum Program {
    /// `berth run` of this program.
    Berth(Box<Scheduling>),
    /// A kube-scheduler, for comparison.
    KubeScheduler(PathBuf),
}

/// A running scheduler process that is killed when this value is dropped.
pub(super) struct SchedulerProcess(Child);

impl SchedulerProcess {
    /// # Errors
    /// The process cannot be started.
    pub(super) fn start(server: &RunningServer, program: &Program, conditions: &Conditions) -> Result<Self> {
        let mut command = match program {
            Program::Berth(scheduling) => berth(server, scheduling, conditions)?,
            Program::KubeScheduler(file) => kube_scheduler(file, server, conditions)?,
        };
        let started = command.stdout(Stdio::null()).spawn();
        Ok(Self(started.with_context(|| format!("cannot start {}", command.get_program().display()))?))
    }

    pub(super) fn id(&self) -> String {
        self.0.id().to_string()
    }

    pub(super) fn cpu_by_thread(&self) -> BTreeMap<String, Duration> {
        usage::cpu_by_thread(&self.id())
    }
}

impl Drop for SchedulerProcess {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn berth(server: &RunningServer, scheduling: &Scheduling, conditions: &Conditions) -> Result<Command> {
    let config = scheduling.config.clone().map_or_else(|| write_config(server, conditions), Ok)?;
    let mut command = Command::new(std::env::current_exe().context("cannot find the file of this program")?);
    command.args(["run", "--leader-elect=false", "--log", "warn", "--scheduler-name", SCHEDULER_NAME]);
    command.arg("--kubeconfig").arg(server.kubeconfig()).arg("--config").arg(config);
    command.arg("--admin-socket").arg(server.admin_socket());
    command.arg(format!("--kept-decisions-mib={}", scheduling.kept_decisions_mib));
    let execution = match scheduling.execution {
        Some(Execution::Wasm) => "wasm",
        Some(Execution::Native) => "native",
        Some(Execution::Auto) | None => "auto",
    };
    command.args(["--execution", execution]);
    let files = [
        ("--plugins-dir", &scheduling.plugins_dir),
        ("--plugin-config", &scheduling.plugin_config),
        ("--artifact-cache", &scheduling.artifact_cache),
    ];
    for (option, file) in files {
        command.args(file.iter().flat_map(|file| [OsString::from(option), file.into()]));
    }
    if !conditions.equivalence_cache {
        command.arg("--without-equivalence-cache");
    }
    Ok(command)
}

fn kube_scheduler(file: &Path, server: &RunningServer, conditions: &Conditions) -> Result<Command> {
    let mut command = Command::new(file);
    command.arg("--config").arg(write_config(server, conditions)?).args(["--secure-port", "0", "--v", "0"]);
    // kube-scheduler logs each event that it cannot write when it ends.
    command.stderr(Stdio::null());
    Ok(command)
}

/// Writes a configuration without a limit on the rate of requests. The default limit is 50 a second, as in
/// kube-scheduler.
fn write_config(server: &RunningServer, conditions: &Conditions) -> Result<PathBuf> {
    let config = json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"qps": -1, "kubeconfig": server.kubeconfig()}, "leaderElection": {"leaderElect": false},
        "percentageOfNodesToScore": conditions.percentage_of_nodes_to_score,
        "profiles": [{"schedulerName": SCHEDULER_NAME}]});
    let file = server.dir().join("scheduler.json");
    fs::write(&file, config.to_string()).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}
