//! What is asked of a run, and what one tells.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Result, bail};
use serde::Serialize;

use crate::workload::{Cluster, Scene, Size, Workload};

/// Takes a scene through a scheduler.
pub trait Runner {
    /// What scenes are taken through, and how the plugins run: figures are compared with those of the same name.
    fn name(&self) -> String;

    /// Runs the scene once. `progress` hears now and then how many of the measured pods are bound.
    ///
    /// # Errors
    /// The scheduler cannot be started, or a pod was not placed.
    fn run(&mut self, scene: Scene, conditions: &Conditions, progress: &mut dyn FnMut(usize)) -> Result<Run>;

    /// Runs storms of events on the cluster, each on a fresh scheduler.
    ///
    /// # Errors
    /// The scheduler cannot be made, or a pod was not placed. Only the engine sees single events.
    fn storms(&mut self, _conditions: &Conditions, _cluster: &Cluster) -> Result<Vec<StormFigures>> {
        bail!("--storms measures the scheduling core: leave --through out")
    }
}

/// How a workload is run.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// The setting of `KubeSchedulerConfiguration`; 0 adapts to the size of the cluster.
    pub percentage_of_nodes_to_score: i32,
    /// Whether answers are kept for pods that are alike.
    pub equivalence_cache: bool,
    /// Pods that are created in a second, whether the scheduler keeps up or not. `None`: all are there before the clock starts.
    pub rate: Option<f64>,
    /// How many allocations this thread has made so far, if they are counted.
    pub allocations: Option<fn() -> u64>,
}

/// What the measured pods cost.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// How many were placed.
    pub n_pods: usize,
    /// The time from the first pod's event to the last binding.
    pub wall: Duration,
    /// Processor time of the scheduler by thread; empty where the kernel does not tell.
    pub threads: BTreeMap<String, Duration>,
    /// When each pod was bound, from the start, in order.
    pub bound_at: Vec<Duration>,
    /// The time of each pod from its creation to its binding; only if pods were created at a rate.
    pub latencies: Vec<Duration>,
    /// Allocations, if they were counted.
    pub allocations: Option<u64>,
    /// The most memory that the scheduler's process had resident, in bytes.
    pub peak_memory: Option<u64>,
    /// What only the engine tells.
    pub engine: Option<EngineFigures>,
    /// The node of each measured pod, by name.
    pub placements: BTreeMap<String, String>,
}

impl Run {
    /// Processor time of all threads; the clock's time where the kernel does not tell.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        if self.threads.is_empty() { self.wall } else { self.threads.values().sum() }
    }
}

/// What a run of the engine tells beside the rest.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineFigures {
    /// How many cycles the measured pods took, and how many of these had earlier answers.
    pub n_cycles: u64,
    pub n_cycles_with_earlier_answers: u64,
    /// Time by what it was spent on: pods enter the queue, cycles, and what follows bindings.
    pub queueing: Duration,
    pub cycles: Duration,
    pub confirming: Duration,
}

/// What a storm of events did.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StormFigures {
    /// What happened.
    pub storm: String,
    /// How often.
    pub events: usize,
    /// Milliseconds for all events, and for a pod in each turn of the scheduler.
    pub all_millis: f64,
    /// The longest turn in milliseconds: events, and the pod that comes next.
    pub longest_millis: f64,
}

/// The first measured pod that went elsewhere, with both nodes.
#[must_use]
pub fn first_difference(one: &BTreeMap<String, String>, other: &BTreeMap<String, String>) -> Option<String> {
    let missing = other.keys().find(|pod| !one.contains_key(*pod));
    if let Some(pod) = missing {
        return Some(format!("{pod} went nowhere the first time"));
    }
    one.iter().find_map(|(pod, node)| {
        let elsewhere = other.get(pod);
        let differs = elsewhere != Some(node);
        differs.then(|| format!("{pod} went to {node} and to {}", elsewhere.map_or("nowhere", String::as_str)))
    })
}

/// Runs the workload once at this size.
///
/// # Errors
/// Fails as [`Runner::run`] does.
pub fn run_once(
    runner: &mut dyn Runner,
    workload: &Workload,
    size: Size,
    n_classes: usize,
    conditions: &Conditions,
) -> Result<Run> {
    runner.run(workload.scene(size).in_classes(n_classes), conditions, &mut |_| ())
}
