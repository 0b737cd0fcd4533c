//! One workload through the scheduling core, with an API server that agrees to everything at once.
//!
//! Every pod costs what it costs a real scheduler between the decoded watch event and the request to bind, and the two
//! events that follow: the answer, and the watch event that shows the pod on its node.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use berth_builtins::factories;
use berth_config::InTree;
use berth_framework::{Grants, Profile};
use berth_model::{ObjectKey, Time, api};
use berth_scheduler::{Action, Event, PodRequest, Request, Scheduler, Settings};

use crate::workload::Workload;

/// How a workload is run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Nodes of the cluster.
    pub n_nodes: usize,
    /// Pods to measure; `None` for as many as scheduler_perf has, scaled to the number of nodes.
    pub n_pods: Option<usize>,
    /// The measured pods differ in a label, in turn, with so many values.
    pub n_shapes: usize,
    /// As in `KubeSchedulerConfiguration`; 0 adapts to the size of the cluster.
    pub percentage_of_nodes_to_score: i32,
    /// Whether answers are kept for pods that are alike.
    pub keeps_boards: bool,
}

/// What the measured pods cost.
#[derive(Clone, Debug)]
pub struct Run {
    /// How many were placed.
    pub n_pods: usize,
    /// How many cycles that took, the initial pods' included, and how many of these had a board.
    pub n_cycles: u64,
    pub n_cycles_with_board: u64,
    /// From the first pod's event to the last binding's echo.
    pub wall: Duration,
    /// Of this thread; `None` where the kernel does not tell.
    pub cpu: Option<Duration>,
    /// Of `wall`: pods enter the queue, cycles, and answers to bindings.
    pub phases: Phases,
    /// The node of each measured pod, by name.
    pub placements: BTreeMap<String, String>,
}

/// Time by what it was spent on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Phases {
    pub queueing: Duration,
    pub cycles: Duration,
    pub confirming: Duration,
}

/// Runs the workload once.
///
/// # Errors
/// The profile cannot be built, or a pod was not placed.
pub fn run(workload: &Workload, options: &Options) -> Result<Run> {
    let mut engine = Engine::new(options)?;
    for node in workload.nodes(options.n_nodes) {
        engine.handle(Event::NodeApplied(Box::new(node)));
    }
    for object in workload.objects() {
        let kind = object["kind"].as_str().context("an object without a kind")?.to_owned();
        let (key, json) = (ObjectKey::of(&object), object.to_string().into_bytes().into());
        engine.handle(Event::ObjectApplied { resource: kind, key, json });
    }
    engine.handle(Event::Synced);
    engine.place(workload.initial_pods(options.n_nodes))?;
    engine.phases = Phases::default();
    let pods = workload.measured_pods(options.n_nodes, options.n_pods, options.n_shapes);
    let n_pods = pods.len();
    let measured = engine.place(pods)?;
    let metrics = engine.scheduler.metrics();
    Ok(Run {
        n_pods,
        n_cycles: metrics.cycles,
        n_cycles_with_board: metrics.cycles_with_board,
        wall: measured.wall,
        cpu: measured.cpu,
        phases: engine.phases,
        placements: measured.placements,
    })
}

struct Engine {
    scheduler: Scheduler,
    now: Time,
    phases: Phases,
}

/// One lot of pods, placed.
struct Placed {
    wall: Duration,
    cpu: Option<Duration>,
    placements: BTreeMap<String, String>,
}

impl Engine {
    fn new(options: &Options) -> Result<Self> {
        let settings = Settings {
            percentage_of_nodes_to_score: options.percentage_of_nodes_to_score,
            keeps_boards: options.keeps_boards,
            ..Settings::default()
        };
        let scheduler = Scheduler::new(settings, vec![default_profile()?]);
        Ok(Self { scheduler, now: Time(1_000_000_000), phases: Phases::default() })
    }

    fn handle(&mut self, event: Event) {
        self.scheduler.handle(event, self.now);
    }

    /// Places all of these pods, which wait in the queue before the first cycle.
    fn place(&mut self, pods: Vec<api::Pod>) -> Result<Placed> {
        let mut bound: BTreeMap<String, Box<api::Pod>> =
            pods.iter().map(|pod| (pod.metadata.uid.clone(), Box::new(pod.clone()))).collect();
        let n_pods = pods.len();
        let pending: Vec<Box<api::Pod>> = pods.into_iter().map(Box::new).collect();
        let mut placements = Vec::with_capacity(n_pods);
        let (start, cpu) = (Instant::now(), cpu_time());
        for pod in pending {
            self.handle(Event::PodApplied(pod));
        }
        self.phases.queueing += start.elapsed();
        loop {
            let cycle_start = Instant::now();
            let is_busy = self.scheduler.run(self.now);
            let actions = self.scheduler.drain_actions();
            self.phases.cycles += cycle_start.elapsed();
            if !is_busy && actions.is_empty() {
                break;
            }
            for action in actions {
                self.confirm(action, &mut bound, &mut placements);
            }
        }
        let wall = start.elapsed();
        let cpu = cpu.zip(cpu_time()).map(|(start, end)| end.saturating_sub(start));
        ensure!(
            bound.is_empty(),
            "{} of {n_pods} pods were not placed, {:?} among them",
            bound.len(),
            bound.keys().next()
        );
        Ok(Placed { wall, cpu, placements: placements.into_iter().collect() })
    }

    /// Answers a binding, and shows the pod on its node.
    fn confirm(
        &mut self,
        action: Action,
        bound: &mut BTreeMap<String, Box<api::Pod>>,
        placements: &mut Vec<(String, String)>,
    ) {
        let Action::Pod(PodRequest { pod, request: Request::Bind { cycle, node } }) = action else { return };
        let Some(mut applied) = bound.remove(&*pod.uid) else { return };
        applied.spec.node_name.clone_from(&node);
        placements.push((pod.name, node));
        let start = Instant::now();
        self.handle(Event::BindFinished { cycle, uid: pod.uid, result: Ok(()) });
        self.handle(Event::PodApplied(applied));
        self.phases.confirming += start.elapsed();
    }
}

/// kube-scheduler's default profile with the built-in plugins.
fn default_profile() -> Result<Profile> {
    let factories = factories();
    let config = berth_config::Profile::from_json(None, &InTree::new(&factories))?;
    config.build(|name, args| {
        let factory = factories.iter().find(|factory| factory.manifest().name == **name);
        let factory = factory.with_context(|| format!("no built-in plugin is called {name}"))?;
        let plugin = factory.build(args).map_err(|error| anyhow!("{name}: {error}"))?;
        Ok(Some(berth_config::ProvidedPlugin { plugin, grants: Grants::ALL }))
    })
}

/// What this thread has used of the processor.
fn cpu_time() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split_whitespace().next()?.parse().ok()?))
}

/// The first measured pod that went elsewhere in the second run, with both nodes.
#[must_use]
pub fn first_difference(one: &Run, other: &Run) -> Option<String> {
    one.placements.iter().find_map(|(pod, node)| {
        let elsewhere = other.placements.get(pod);
        let differs = elsewhere != Some(node);
        differs.then(|| format!("{pod} went to {node} and to {}", elsewhere.map_or("nowhere", String::as_str)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::WORKLOADS;

    #[test]
    fn every_workload_goes_to_the_same_nodes_with_and_without_boards() {
        for workload in WORKLOADS {
            for (n_nodes, percentage_of_nodes_to_score, n_shapes) in [(30, 0, 1), (250, 0, 3), (150, 100, 2)] {
                let options = |keeps_boards| Options {
                    n_nodes,
                    n_pods: Some(n_nodes / 2),
                    n_shapes,
                    percentage_of_nodes_to_score,
                    keeps_boards,
                };
                let [with, without] = [true, false].map(|boards| run(&workload, &options(boards)).unwrap());
                assert_eq!(first_difference(&without, &with), None, "{} on {n_nodes} nodes", workload.name);
                assert_eq!(without.n_cycles_with_board, 0);
                assert!(with.n_cycles_with_board * 2 > with.n_cycles, "{}: {with:?}", workload.name);
            }
        }
    }
}
