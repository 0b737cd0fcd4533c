//! Many pods on many nodes, through real HTTP, with scheduler and API server as two processes.
//!
//! `cargo bench -p berth-host --bench load`, or with `-- PODS NODES EXECUTION` (10000 1000 native). The pods are created
//! first, and components compiled; then the scheduler is started, and the clock runs from there to the last pod bound. Prints pods per second, CPU
//! time and peak memory of the scheduler process, and checks that every pod was bound once: no binding ever changed, none
//! is missing. Exit code 1 when a pod was lost or bound twice, or when the scheduler took more than 300 MB.

#![expect(clippy::print_stdout, reason = "the result")]

use std::{
    collections::HashMap,
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use berth_cluster::{Client, ConnectOptions, Creator, WatchEvent, Watches, connect, spawn_watches};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use tokio::sync::mpsc;

const MEMORY_LIMIT_KB: u64 = 300_000;

/// As fast as the API server takes requests: the default is 50 a second, as kube-scheduler's.
const CONFIG: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
";

/// Without news for so long, the rest is lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// Kernel clock ticks a second, the same on every Linux that this runs on.
const TICKS_PER_SECOND: f64 = 100.0;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let number = |position: usize, default: usize| match arguments.get(position) {
        Some(text) => text.parse().with_context(|| format!("`{text}` is not a number")),
        None => Ok(default),
    };
    let (n_pods, n_nodes) = (number(0, 10_000)?, number(1, 1_000)?);
    let execution = arguments.get(2).map_or("native", String::as_str);
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(load(n_pods, n_nodes, execution))
}

async fn load(n_pods: usize, n_nodes: usize, execution: &str) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let kubeconfig = dir.path().join("kubeconfig");
    let _sandbox = sandbox(&kubeconfig, n_nodes)?;
    let options = ConnectOptions { kubeconfig: Some(kubeconfig.clone()), ..ConnectOptions::default() };
    let client = connect(&options).await?.client;
    let created = Instant::now();
    create(&client, n_pods).await?;
    println!("created {n_pods} pods in {:.1?}", created.elapsed());
    compile(execution)?;
    let config = dir.path().join("scheduler.yaml");
    fs::write(&config, CONFIG)?;
    let started = Instant::now();
    let scheduler = Killed(
        Command::new(env!("CARGO_BIN_EXE_berth"))
            .args(["run", "--leader-elect=false", "--log", "warn", "--execution", execution, "--kubeconfig"])
            .arg(&kubeconfig)
            .arg("--config")
            .arg(&config)
            .stdout(Stdio::null())
            .spawn()?,
    );
    bound_once(&client, n_pods).await?;
    let elapsed = started.elapsed();
    let (cpu, peak) = usage(scheduler.0.id())?;
    let pods = u32::try_from(n_pods)?;
    println!("nodes {n_nodes}, pods {n_pods}, plugins {execution}");
    println!("bound all, each once, in {elapsed:.2?}: {:.0} pods/s", f64::from(pods) / elapsed.as_secs_f64());
    println!("scheduler CPU {:.2} s: {:.3} ms a pod", cpu, cpu * 1000.0 / f64::from(pods));
    println!("scheduler peak memory {:.0} MB", f64::from(u32::try_from(peak)?) / 1000.0);
    ensure!(peak <= MEMORY_LIMIT_KB, "the scheduler took {peak} kB, more than {MEMORY_LIMIT_KB} kB");
    Ok(())
}

/// A process that ends with its value.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn sandbox(kubeconfig: &Path, n_nodes: usize) -> Result<Killed> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["sandbox", "--no-scheduler", "--log", "warn", "--nodes", &n_nodes.to_string(), "--kubeconfig"])
        .arg(kubeconfig)
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().context("the sandbox's output")?;
    let sandbox = Killed(child);
    for line in BufReader::new(output).lines() {
        if line?.starts_with("serving ") {
            return Ok(sandbox);
        }
    }
    bail!("the sandbox ended before it served")
}

/// Has every plugin compiled and kept, which is no part of what is measured.
fn compile(execution: &str) -> Result<()> {
    let demo = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["demo", "--execution", execution])
        .stdout(Stdio::null())
        .status()?;
    ensure!(demo.success(), "berth demo --execution {execution} fails");
    Ok(())
}

async fn create(client: &Client, n_pods: usize) -> Result<()> {
    let creator = Creator::new(client.clone());
    stream::iter(0..n_pods)
        .map(|index| {
            let mut creator = creator.clone();
            async move { creator.create(&pod(index)).await }
        })
        .buffer_unordered(16)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    Ok(())
}

fn pod(index: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": format!("load-{index:06}"), "labels": {"app": "load"}},
        "spec": {"containers": [{
            "name": "main",
            "image": "example.com/web:1",
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        }]},
    })
}

/// Follows all pods until each has a node.
async fn bound_once(client: &Client, n_pods: usize) -> Result<()> {
    let (sink, mut events) = mpsc::channel(4096);
    let _watches = spawn_watches(client, Watches { pods: true, ..Watches::default() }, &sink);
    let mut nodes: HashMap<String, String> = HashMap::new();
    while nodes.len() < n_pods {
        let event = tokio::time::timeout(PATIENCE, events.recv()).await;
        let Ok(Some(event)) = event else { bail!("{} of {n_pods} pods were never bound", n_pods - nodes.len()) };
        if let WatchEvent::PodApplied(pod) = event
            && !pod.spec.node_name.is_empty()
        {
            let (uid, node) = (pod.metadata.uid, pod.spec.node_name);
            let before = nodes.insert(uid, node.clone());
            ensure!(before.as_ref().is_none_or(|before| *before == node), "{} was bound twice", pod.metadata.name);
        }
    }
    Ok(())
}

/// CPU seconds and peak resident kilobytes of a process, from /proc.
fn usage(pid: u32) -> Result<(f64, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may hold spaces; what follows it are numbers.
    let (_, fields) = stat.rsplit_once(')').context("/proc/PID/stat")?;
    let ticks: f64 = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("VmHWM")?;
    let peak = peak.trim().trim_end_matches(" kB").trim().parse()?;
    Ok((ticks / TICKS_PER_SECOND, peak))
}
