//! One of the two sides: an API server with the scheduler that works on it.

use std::{collections::BTreeMap, path::Path, process::Command, time::Duration};

use anyhow::{Context as _, Result, bail};
use berth_test_control_plane::{Assets, ControlPlane, Objects, Options, User, is_refused};
use berth_test_processes::{Process, free_addresses, until};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::{
    devices::{self, CLAIMS},
    metrics,
    outcomes::{Outcomes, is_failing, is_gated, name, node, outcomes},
    round_kind::RoundKind,
    step::{Step, path_of, pods_of},
    volume_controllers,
    volumes::{self, VOLUMES},
};

pub(crate) const PODS: &str = "/api/v1/pods";

/// A scheduler has nothing to do if two checks with this interval have the same result.
const LOOK: Duration = Duration::from_millis(40);

/// The programs that are compared.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: std::path::PathBuf,
    /// The part of the command line before kube-scheduler's flags.
    pub(crate) command: Option<&'static str>,
    /// The feature gates of the scheduler and of its API server.
    pub(crate) feature_gates: Option<String>,
    /// Whether the scheduler logs each score.
    pub(crate) is_detailed: bool,
}

impl Program {
    fn gates_flag(&self) -> Option<String> {
        self.feature_gates.as_ref().map(|gates| format!("--feature-gates={gates}"))
    }
}

pub(crate) struct Side {
    pub(crate) objects: Objects,
    pub(crate) control_plane: ControlPlane,
    program: Program,
    kind: RoundKind,
    scheduler: Option<Running>,
}

/// A scheduler with its endpoints.
struct Running {
    process: Process,
    client: Client,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    Done,
    /// The API server refused the step, because the step breaks the API server's rules.
    Refused,
}

impl Side {
    pub(crate) async fn start(assets: &Assets, program: Program, kind: RoundKind) -> Result<Self> {
        // Pods contain their priorities, so no classes are needed. No controller runs that removes finalizers from
        // claims and volumes.
        let plugins = "ServiceAccount,TaintNodesByCondition,Priority,StorageObjectInUseProtection";
        let mut flags = vec![format!("--disable-admission-plugins={plugins}")];
        flags.extend(program.gates_flag());
        let control_plane = ControlPlane::start(assets, Options { api_server_flags: flags, audit: true }).await?;
        let objects = Objects::new(control_plane.client(User::Admin).await?);
        Ok(Self { objects, control_plane, program, kind, scheduler: None })
    }

    /// Starts the scheduler and waits until it is ready.
    pub(crate) async fn start_scheduler(&mut self) -> Result<()> {
        let dir = self.control_plane.dir();
        let config = dir.join("config.json");
        let mut document = configuration(&self.control_plane.kubeconfig(User::Scheduler));
        if self.kind == RoundKind::Backlog {
            document["profiles"] =
                json!([{"schedulerName": "default-scheduler", "plugins": {"score": decisive_weights()}}]);
        }
        std::fs::write(&config, document.to_string())?;
        let [address] = free_addresses()?;
        let mut command = Command::new(&self.program.path);
        command.args(self.program.command);
        command.arg(format!("--config={}", config.display())).arg("--bind-address=127.0.0.1");
        command.arg(format!("--secure-port={}", address.port())).arg(format!("--cert-dir={}", dir.display()));
        command.arg("--authorization-always-allow-paths=/metrics,/healthz,/livez,/readyz");
        command.args(self.program.gates_flag());
        if self.program.is_detailed {
            command.arg("-v=10");
        }
        command.env("HOME", dir).env_remove("KUBECONFIG");
        let mut process = Process::start(command)?;
        let mut config = Config::new(format!("https://{address}").parse()?);
        config.accept_invalid_certs = true;
        let client = Client::try_from(config)?;
        until("the scheduler ready", async || {
            if process.has_ended()? {
                bail!("it ended");
            }
            let answer = client.request_text(http::Request::get("/readyz").body(Vec::new())?).await;
            Ok(answer.ok().filter(|answer| answer.ends_with("ok")))
        })
        .await
        .with_context(|| process.last_lines(20))?;
        self.scheduler = Some(Running { process, client });
        Ok(())
    }

    pub(crate) async fn metrics(&self) -> Result<String> {
        let scheduler = self.scheduler.as_ref().context("the scheduler does not run")?;
        let answer = scheduler.client.request_text(http::Request::get("/metrics").body(Vec::new())?).await;
        answer.with_context(|| scheduler.process.last_lines(10))
    }

    /// Carries out a step.
    pub(crate) async fn apply(&self, step: &Step) -> Result<Applied> {
        let done = match step {
            Step::CreatePod(pod) => self.objects.create(&pods_of(pod), pod).await.map(drop),
            Step::Create { collection, object } => self.objects.create(collection, object).await.map(drop),
            Step::Change { path, patch } => self.objects.merge(path, patch).await.map(drop),
            Step::Delete { path } => self.objects.delete(path).await,
        };
        match done {
            Ok(()) => Ok(Applied::Done),
            Err(error) if is_refused(&error) => Ok(Applied::Refused),
            Err(error) => Err(error),
        }
    }

    /// Waits until the scheduler has nothing to do, and returns all pods.
    pub(crate) async fn settled(&self) -> Result<Vec<Value>> {
        let mut before: Option<(Outcomes, String)> = None;
        let mut busy = String::new();
        until("the scheduler has nothing to do", async || {
            tokio::time::sleep(LOOK).await;
            if self.kind == RoundKind::Volumes && volume_controllers::reconcile(&self.objects).await? {
                before = None;
                return Ok(None);
            }
            let samples = metrics::samples(&self.metrics().await?);
            let of = |name: &str| -> Vec<(&String, &f64)> {
                samples.iter().filter(|(series, _)| series.starts_with(name)).collect()
            };
            let is_busy = |series: &str| series.contains("\"active") || series.contains("\"backoff");
            let n_waiting: f64 =
                of("scheduler_pending_pods").iter().filter(|(series, _)| is_busy(series)).map(|(_, n)| **n).sum();
            let n_binding: f64 = of("scheduler_goroutines").iter().map(|(_, n)| **n).sum();
            let pods = self.objects.list(PODS).await?;
            let is_decided = |pod: &Value| node(pod).is_some() || !pod["status"]["conditions"].is_null();
            let mut attempts = of("scheduler_schedule_attempts_total");
            attempts.retain(|(series, _)| !series.contains("\"error"));
            let state = (outcomes(&pods), format!("{attempts:?}"));
            // The scheduler tries such pods again and again.
            let n_failing = count(&pods, is_failing)?;
            let undecided: Vec<&str> = pods.iter().filter(|pod| !is_decided(pod)).map(name).collect();
            // A pod that names a missing claim is gated, and the status of the pod does not show this.
            let n_gated: f64 = of("scheduler_pending_pods{queue=\"gated").iter().map(|(_, n)| **n).sum::<f64>()
                - count(&pods, is_gated)?;
            let all_decided = f64::from(u32::try_from(undecided.len())?) <= n_gated;
            let is_quiet = n_waiting <= n_failing && n_binding == 0.0 && all_decided;
            busy = format!("{n_waiting} pods wait, {n_binding} are being bound, undecided are {undecided:?}");
            let is_same = before.replace(state.clone()).is_some_and(|before| before == state);
            Ok((is_quiet && is_same).then_some(pods))
        })
        .await
        .with_context(|| format!("{busy}\n{}", self.last_lines()))
    }

    /// Does the kubelet's work: pods with a node run, and their start time is this second.
    pub(crate) async fn run_pods(&self, pods: &[Value], second: u32) -> Result<()> {
        for pod in pods.iter().filter(|pod| node(pod).is_some() && pod["status"]["startTime"].is_null()) {
            let started = format!("2026-01-01T{:02}:{:02}:{:02}Z", second / 3600 % 24, second / 60 % 60, second % 60);
            let patch = json!({"status": {"phase": "Running", "startTime": started}});
            self.objects.merge(&format!("{}/status", path_of(pod)), &patch).await?;
        }
        Ok(())
    }

    /// Does the work of the claims' controller: reservations of deleted pods are removed. The function changes one
    /// claim at a time, because a scheduler may see any number of several changes before its next attempt. Returns
    /// whether a claim was changed.
    pub(crate) async fn release_claim(&self, pods: &[Value]) -> Result<bool> {
        let claims = self.objects.list(CLAIMS).await?;
        let release = claims.iter().map(|claim| devices::release(claim, pods)).find(|patches| !patches.is_empty());
        let Some(patches) = release else { return Ok(false) };
        for (path, patch) in patches {
            self.objects.merge(&path, &patch).await?;
        }
        Ok(true)
    }

    /// The state of volumes and of claims for them, in rounds with volumes.
    pub(crate) async fn volumes(&self) -> Result<BTreeMap<String, String>> {
        if self.kind != RoundKind::Volumes {
            return Ok(BTreeMap::new());
        }
        Ok(volumes::outcomes(&self.objects.list(VOLUMES).await?, &self.objects.list(volumes::CLAIMS).await?))
    }

    /// The whole output of the scheduler.
    pub(crate) fn log(&self) -> String {
        self.scheduler.as_ref().map(|scheduler| scheduler.process.text()).unwrap_or_default()
    }

    pub(crate) fn last_lines(&self) -> String {
        self.scheduler.as_ref().map(|scheduler| scheduler.process.last_lines(15)).unwrap_or_default()
    }
}

fn count(pods: &[Value], is_such: fn(&Value) -> bool) -> Result<f64> {
    Ok(f64::from(u32::try_from(pods.iter().filter(|pod| is_such(pod)).count())?))
}

/// The defaults, except for speed: the rate of requests has no limit, and waits after a failed attempt are short.
fn configuration(kubeconfig: &Path) -> Value {
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "parallelism": 1,
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
        "leaderElection": {"leaderElect": false},
        "clientConnection": {
            "kubeconfig": kubeconfig, "qps": 5000, "burst": 10000, "contentType": "application/json"
        },
    })
}

/// The weights. The scores of TaintToleration distinguish nodes of different ranks. The weights matter only if the sums
/// of all other scores are equal, because the order of nodes, which breaks ties, is not forced at the start.
fn decisive_weights() -> Value {
    let others = [
        ("NodeAffinity", 2000),
        ("PodTopologySpread", 2000),
        ("InterPodAffinity", 2000),
        ("NodeResourcesFit", 1000),
        ("NodeResourcesBalancedAllocation", 1000),
        ("ImageLocality", 1000),
        ("TaintToleration", 1),
    ];
    let enabled = others.map(|(name, weight)| json!({"name": name, "weight": weight}));
    json!({"disabled": [{"name": "*"}], "enabled": enabled})
}
