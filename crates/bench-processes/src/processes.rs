//! A scene through the processes: objects are created in order, and a watch shows the bindings.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use berth_bench::{
    Run, RunConditions, Runner, usage,
    workload::{Change, Changes, SCHEDULER_NAME, Scene},
};
use berth_cluster::{WatchEvent, WatchHandle, Watches, spawn_watches};
use serde_json::{Value, json};
use tokio::{runtime::Runtime, sync::mpsc};

use crate::{
    scheduler::{Program, SchedulerProcess},
    server::{Objects, RunningServer, Server},
    users::Users,
};

/// The time without an event about a pod after which the remaining pods count as lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// Events of the watch that may wait to be processed.
const EVENTS_BOUND: usize = 4096;

/// Prefixes of pod names: pods that exist before the measurement, pods that are measured, and the pod that shows that
/// the scheduler is ready.
const INITIAL: &str = "init-";
const MEASURED: &str = "pod-";
const READY: &str = "ready-";

/// A [`Runner`] that starts an API server and a scheduler for each run.
#[derive(Debug)]
pub struct Processes {
    server: Server,
    name: String,
    program: Program,
    users: Users,
    runtime: Runtime,
}

/// The pods to be bound, as far as the watch has shown them.
struct Follower {
    events: mpsc::Receiver<WatchEvent>,
    _watches: WatchHandle,
    prefix: &'static str,
    is_listed: bool,
    /// The nodes of pods with names that begin with the prefix, by name.
    nodes: BTreeMap<String, (String, Instant)>,
}

impl Processes {
    /// `name` is shown to people.
    ///
    /// # Errors
    /// The runtime of tokio cannot be started.
    pub fn new(server: Server, program: Program, users: Users, name: &str) -> Result<Self> {
        let through = match &server {
            Server::Sandbox => "http",
            Server::Cluster(_) => "kubeconfig",
        };
        let name = format!("{through}, {name}{}", users.words());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")?;
        Ok(Self { server, name, program, users, runtime })
    }
}

impl Runner for Processes {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn run(&mut self, scene: Scene, conditions: &RunConditions, progress: &mut dyn FnMut(usize)) -> Result<Run> {
        let Self { server, program, users, runtime, .. } = self;
        runtime.block_on(async {
            let server = server.start().await?;
            let outcome = play(&server, program, *users, &scene, conditions, progress).await;
            server.stop().await?;
            outcome
        })
    }
}

async fn play(
    server: &RunningServer,
    program: &Program,
    users: Users,
    scene: &Scene,
    conditions: &RunConditions,
    progress: &mut dyn FnMut(usize),
) -> Result<Run> {
    let objects = server.objects();
    objects.create_each(&scene.objects).await?;
    objects.create_all(scene.nodes.clone()).await?;
    objects.create_all(scene.placed.iter().collect()).await?;
    let start = || SchedulerProcess::start(server, program, conditions);
    if !scene.initial.is_empty() {
        objects.create_all(scene.initial.iter().collect()).await?;
        let _scheduler = start()?;
        Follower::start(&objects, INITIAL).await?.until_bound(scene.initial.len(), None, &objects, &mut |_| ()).await?;
    }
    objects.create_all(scene.pending.iter().collect()).await?;
    let pods: Vec<Value> = scene.measured.iter().collect();
    let n_pods = pods.len();
    let names = || pods.iter().filter_map(|pod| Some(pod["metadata"]["name"].as_str()?.to_owned())).collect();
    let ask = || users.ask(&server.admin_socket(), names());
    let changes = scene.changes.as_ref();
    let Some(rate) = conditions.rate else {
        objects.create_all(pods.clone()).await?;
        let mut follower = Follower::start(&objects, MEASURED).await?;
        let started = Instant::now();
        let scheduler = start()?;
        let asking = ask();
        follower.until_bound(n_pods, changes, &objects, progress).await?;
        let run = follower.run(&scheduler, started, &BTreeMap::new())?;
        return Ok(Run { answers: asking.answers(), ..run });
    };
    let scheduler = start()?;
    objects.create_each(&[ready_pod()]).await?;
    Follower::start(&objects, READY).await?.until_bound(1, None, &objects, &mut |_| ()).await?;
    let used_before = scheduler.cpu_by_thread();
    let mut follower = Follower::start(&objects, MEASURED).await?;
    let started = Instant::now();
    let asking = ask();
    let creating = objects.create_at_rate(pods.clone(), started, rate);
    let bound = follower.until_bound(n_pods, changes, &objects, progress);
    tokio::try_join!(creating, bound)?;
    let mut run = follower.run(&scheduler, started, &used_before)?;
    run.latencies = latencies(&pods, &follower, started, rate);
    run.answers = asking.answers();
    Ok(run)
}

/// The time from the due moment of each pod to its binding, even if the pod was created late.
fn latencies(pods: &[Value], follower: &Follower, started: Instant, rate: f64) -> Vec<Duration> {
    let latency = |(at, pod): (usize, &Value)| {
        let (_, bound) = follower.nodes.get(pod["metadata"]["name"].as_str()?)?;
        let created = started + Duration::from_secs_f64(f64::from(u32::try_from(at).ok()?) / rate);
        Some(bound.saturating_duration_since(created))
    };
    pods.iter().enumerate().filter_map(latency).collect()
}

/// A pod that requests nothing, so it fits wherever a pod fits.
fn ready_pod() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("{READY}1"), "namespace": "default"},
        "spec": {"schedulerName": SCHEDULER_NAME, "containers": [{"name": "pause", "image": "registry.k8s.io/pause:3.10"}]}})
}

impl Follower {
    /// Returns once the watch has listed the pods, so that this process and the scheduler do not read the list at the
    /// same time.
    async fn start(objects: &Objects<'_>, prefix: &'static str) -> Result<Self> {
        let (sink, events) = mpsc::channel(EVENTS_BOUND);
        let watches = spawn_watches(objects.client(), Watches { pods: true, ..Watches::default() }, &sink);
        let mut follower = Self { events, _watches: watches, prefix, nodes: BTreeMap::new(), is_listed: false };
        while !follower.is_listed {
            follower.next().await?.context("the API server has not listed its pods")?;
        }
        Ok(follower)
    }

    /// Follows pods until `n_pods` of them have a node. The scene's changes are made during this time.
    async fn until_bound(
        &mut self,
        n_pods: usize,
        changes: Option<&Changes>,
        objects: &Objects<'_>,
        progress: &mut dyn FnMut(usize),
    ) -> Result<()> {
        while self.nodes.len() < n_pods {
            let n_before = self.nodes.len();
            let Some(n_bound) = self.next().await? else {
                bail!("{} of {n_pods} pods were never bound", n_pods - n_before)
            };
            if n_bound == n_before {
                continue;
            }
            progress(n_bound);
            for change in changes.map(|changes| changes.after(n_bound)).unwrap_or_default() {
                match change {
                    Change::Create(object) => objects.create_each(&[object]).await?,
                    Change::Delete(object) => objects.delete(&object).await?,
                }
            }
        }
        Ok(())
    }

    /// Takes the next event and returns how many pods are bound. `None` means that no event came within [`PATIENCE`].
    async fn next(&mut self) -> Result<Option<usize>> {
        let event = tokio::time::timeout(PATIENCE, self.events.recv()).await;
        let Ok(event) = event else { return Ok(None) };
        let event = event.context("the watch of the pods has ended")?;
        self.is_listed |= matches!(event, WatchEvent::PodsSynced { .. });
        if let WatchEvent::PodApplied(pod) = event
            && !pod.spec.node_name.is_empty()
            && pod.metadata.name.starts_with(self.prefix)
        {
            let (name, node) = (pod.metadata.name, pod.spec.node_name);
            let known = self.nodes.get(&name).filter(|(known, _)| *known != node);
            if let Some((known, _)) = known {
                bail!("pod {name} was bound to {known} and to {node}");
            }
            self.nodes.entry(name).or_insert_with(|| (node, Instant::now()));
        }
        Ok(Some(self.nodes.len()))
    }

    fn run(&self, scheduler: &SchedulerProcess, started: Instant, before: &BTreeMap<String, Duration>) -> Result<Run> {
        let mut bound_at: Vec<Duration> =
            self.nodes.values().map(|(_, at)| at.saturating_duration_since(started)).collect();
        bound_at.sort_unstable();
        let mut threads = scheduler.cpu_by_thread();
        for (name, used) in &mut threads {
            *used = used.saturating_sub(before.get(name).copied().unwrap_or_default());
        }
        Ok(Run {
            n_pods: self.nodes.len(),
            wall: bound_at.last().copied().context("no pod was bound")?,
            bound_at,
            threads,
            peak_memory: usage::peak_memory(&scheduler.id()),
            placements: self.nodes.iter().map(|(pod, (node, _))| (pod.clone(), node.clone())).collect(),
            ..Run::default()
        })
    }
}
