//! The API server and the scheduler, as two processes.

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use berth_test_processes::{AdminSocket, Endpoints, Process, berth, berth_scheduler, beside, free_addresses};
use serde_json::Value;
use tempfile::TempDir;

use crate::{Buckets, Mark};

/// Binaries with a built-in's name get the grants of the built-in.
const GRANTS: &str = include_str!("../../../examples/replaced-built-ins.yaml");

/// Short limits, so that a storm of hanging plugins does not take a day.
const DEFAULTS: &str = "\
defaults:
  limits: {callMilliseconds: 100}
  probation: {seconds: 5, faults: 1}
  quarantine: {faults: 20, windowSeconds: 10, backoffSeconds: 1}
";

/// The rate of requests has no limit. The default is 50 per second, as in kube-scheduler.
const CONFIG: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
";

/// Both processes, which end when this value is dropped.
#[derive(Debug)]
pub struct Processes {
    pub kubeconfig: PathBuf,
    pub plugins_dir: PathBuf,
    endpoints: Endpoints,
    admin: AdminSocket,
    scheduler: Process,
    _sandbox: Process,
    _dir: TempDir,
}

impl Processes {
    /// Starts both processes. If `faults` has rules, the scheduler meets these faults at the API server. The rules have
    /// the form of `berth sandbox --faults`.
    pub async fn start(n_nodes: u32, faults: Option<&Value>) -> Result<Self> {
        Self::start_with(n_nodes, faults, ("", "")).await
    }

    /// Starts both processes with additional lines of the scheduler's configuration and of the plugins' configuration.
    pub async fn start_with(n_nodes: u32, faults: Option<&Value>, (config, rules): (&str, &str)) -> Result<Self> {
        let more = (config, rules);
        let dir = tempfile::tempdir()?;
        let kubeconfig = dir.path().join("kubeconfig");
        let plugins_dir = dir.path().join("plugins");
        fs::create_dir(&plugins_dir)?;
        let plugin_config = dir.path().join("plugin-host.yaml");
        fs::write(&plugin_config, format!("{GRANTS}{}{DEFAULTS}", more.1))?;
        let config = dir.path().join("scheduler.yaml");
        fs::write(&config, format!("{CONFIG}{}", more.0))?;
        let program = beside("berth")?;
        let mut sandbox = berth(&program, dir.path());
        sandbox.args(["sandbox", "--no-scheduler", "--log", "warn", "--nodes", &n_nodes.to_string(), "--kubeconfig"]);
        sandbox.arg(&kubeconfig);
        if let Some(faults) = faults {
            let rules = dir.path().join("faults.json");
            fs::write(&rules, faults.to_string())?;
            sandbox.arg("--faults").arg(rules);
        }
        let sandbox = Process::start(sandbox)?;
        sandbox.line("serving ").await?;
        let [address] = free_addresses()?;
        let mut scheduler = berth_scheduler(&program, dir.path());
        scheduler.args(["run", "--leader-elect=false", "--log", "error", "--kubeconfig"]).arg(&kubeconfig);
        scheduler.arg("--plugins-dir").arg(&plugins_dir).arg("--plugin-config").arg(&plugin_config);
        scheduler.arg("--config").arg(&config).args(["--metrics-address", &address.to_string()]);
        let scheduler = Process::start(scheduler)?;
        let endpoints = Endpoints::new(address);
        endpoints.until("/readyz", |answer| answer.ends_with("ok")).await?;
        let admin = AdminSocket::in_home(dir.path());
        Ok(Self { kubeconfig, plugins_dir, endpoints, admin, scheduler, _sandbox: sandbox, _dir: dir })
    }

    /// The scheduler's report about a plugin.
    pub fn plugin(&self, name: &str) -> Result<Value> {
        let list: Value = serde_json::from_str(&self.admin.get("/admin/plugins")?)?;
        let plugins = list.as_array().context("a list of plugins")?;
        plugins.iter().find(|plugin| plugin["name"] == name).cloned().with_context(|| format!("no plugin {name}"))
    }

    /// The scheduler's complete explanation of a pod in the default namespace, in JSON.
    pub fn explanation(&self, pod: &str) -> Result<String> {
        self.admin.get(&format!("/explain?namespace=default&name={pod}"))
    }

    /// The number of symbols in the scheduler.
    pub fn symbols(&self) -> Result<f64> {
        let metrics = self.endpoints.get("/metrics")?;
        let line = metrics.lines().find_map(|line| line.strip_prefix("berth_symbols ")).context("berth_symbols")?;
        Ok(line.trim().parse()?)
    }

    /// The address to which any client may connect.
    pub fn address(&self) -> SocketAddr {
        self.endpoints.address()
    }

    pub fn mark(&self) -> Result<Mark> {
        let metrics = self.endpoints.get("/metrics")?;
        let cycles = buckets(&metrics, "berth_scheduling_cycle_duration_seconds")?;
        let starved = self.starved().unwrap_or_default();
        Ok(Mark {
            at: Some(Instant::now()),
            cycles,
            pauses: buckets(&metrics, "berth_plugin_swap_pause_seconds")?,
            starved,
        })
    }

    /// The time for which the scheduling thread had work but no processor; `None` if the system does not report it.
    fn starved(&self) -> Option<Duration> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.scheduler.id())).ok()?;
        let is_it =
            |task: &PathBuf| fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "scheduling");
        let task = tasks.flatten().map(|task| task.path()).find(is_it)?;
        let statistics = fs::read_to_string(task.join("schedstat")).ok()?;
        statistics.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
    }

    pub fn resident_kilobytes(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.scheduler.id()))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
        Ok(resident.trim().trim_end_matches(" kB").trim().parse()?)
    }
}

fn buckets(metrics: &str, histogram: &str) -> Result<Buckets> {
    let prefix = format!("{histogram}_bucket{{le=\"");
    let mut buckets = Buckets::new();
    for line in metrics.lines().filter_map(|line| line.strip_prefix(&prefix)) {
        let (bound, count) = line.split_once("\"} ").context("a bucket")?;
        let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse()? };
        buckets.push((bound, count.parse()?));
    }
    ensure!(!buckets.is_empty(), "the scheduler has no histogram {histogram}");
    Ok(buckets)
}
