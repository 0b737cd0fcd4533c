//! The API server and the scheduler, as two processes.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    figures::{Buckets, Mark},
    server::get,
};

/// Short limits, so that a storm of hanging plugins does not take a day.
const PLUGIN_CONFIG: &str = "\
apiVersion: berth.dev/v1alpha1
kind: PluginHostConfiguration
defaults:
  limits: {callMilliseconds: 100}
  probation: {seconds: 5, faults: 1}
  quarantine: {faults: 20, windowSeconds: 10, backoffSeconds: 1}
";

/// As fast as the API server takes requests: the default is 50 a second, as kube-scheduler's.
const CONFIG: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
";

/// For the scheduler to come up and list.
const PATIENCE: Duration = Duration::from_secs(120);

/// Both processes; they end with this value.
pub(crate) struct Processes {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) plugins_dir: PathBuf,
    address: SocketAddr,
    scheduler: Killed,
    _sandbox: Killed,
    _dir: TempDir,
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Processes {
    pub(crate) fn start(n_nodes: u32) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let kubeconfig = dir.path().join("kubeconfig");
        let plugins_dir = dir.path().join("plugins");
        fs::create_dir(&plugins_dir)?;
        let plugin_config = dir.path().join("plugin-host.yaml");
        fs::write(&plugin_config, PLUGIN_CONFIG)?;
        let config = dir.path().join("scheduler.yaml");
        fs::write(&config, CONFIG)?;
        let mut sandbox = Command::new(berth()?)
            .args(["sandbox", "--no-scheduler", "--log", "warn", "--nodes", &n_nodes.to_string(), "--kubeconfig"])
            .arg(&kubeconfig)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = sandbox.stdout.take().context("the sandbox's output")?;
        let sandbox = Killed(sandbox);
        let mut lines = BufReader::new(output).lines();
        ensure!(lines.any(|line| line.is_ok_and(|line| line.starts_with("serving "))), "the sandbox did not serve");
        let address = free_address()?;
        let log = fs::File::create(dir.path().join("scheduler.log"))?;
        let scheduler = Command::new(berth()?)
            .args(["run", "--leader-elect=false", "--log", "error", "--kubeconfig"])
            .arg(&kubeconfig)
            .arg("--plugins-dir")
            .arg(&plugins_dir)
            .arg("--plugin-config")
            .arg(&plugin_config)
            .arg("--artifact-cache")
            .arg(dir.path().join("artifacts"))
            .arg("--config")
            .arg(&config)
            .args(["--metrics-address", &address.to_string()])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        let scheduler = Killed(scheduler);
        let processes = Self { kubeconfig, plugins_dir, address, scheduler, _sandbox: sandbox, _dir: dir };
        processes.until_ready()?;
        Ok(processes)
    }

    fn until_ready(&self) -> Result<()> {
        let start = Instant::now();
        while get(self.address, "/readyz").is_err() {
            ensure!(start.elapsed() < PATIENCE, "the scheduler did not become ready");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// What the scheduler says about a plugin.
    pub(crate) fn plugin(&self, name: &str) -> Result<Value> {
        let list: Value = serde_json::from_str(&get(self.address, "/admin/plugins")?)?;
        let plugins = list.as_array().context("a list of plugins")?;
        plugins.iter().find(|plugin| plugin["name"] == name).cloned().with_context(|| format!("no plugin {name}"))
    }

    pub(crate) fn mark(&self) -> Result<Mark> {
        let metrics = get(self.address, "/metrics")?;
        let cycles = buckets(&metrics, "berth_scheduling_cycle_duration_seconds")?;
        let starved = self.starved().unwrap_or_default();
        Ok(Mark {
            at: Some(Instant::now()),
            cycles,
            pauses: buckets(&metrics, "berth_plugin_swap_pause_seconds")?,
            starved,
        })
    }

    /// How long the scheduling thread has had something to do and no processor; `None` where the system does not say.
    fn starved(&self) -> Option<Duration> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.scheduler.0.id())).ok()?;
        let is_it =
            |task: &PathBuf| fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "scheduling");
        let task = tasks.flatten().map(|task| task.path()).find(is_it)?;
        let statistics = fs::read_to_string(task.join("schedstat")).ok()?;
        statistics.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
    }

    pub(crate) fn resident_kilobytes(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.scheduler.0.id()))?;
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

/// The binary that was built beside this one.
fn berth() -> Result<PathBuf> {
    let berth = env::current_exe()?.with_file_name("berth");
    if !berth.is_file() {
        bail!("{} is not there; run `cargo xtask swap-storm`, which builds it", berth.display());
    }
    Ok(berth)
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
