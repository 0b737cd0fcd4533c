//! The conditions of a run, and its results.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Result, bail};
use serde::Serialize;

use crate::workload::{Cluster, Scene, Size, Workload};

/// Runs scenes on a scheduler.
pub trait Runner {
    /// The name of this runner, which says how scenes and plugins run. Figures are compared only with figures of a runner
    /// of the same name.
    fn name(&self) -> String;

    /// Runs the scene once. `progress` gets the number of bound measured pods from time to time.
    ///
    /// # Errors
    /// The scheduler cannot be started, or a pod was not placed.
    fn run(&mut self, scene: Scene, conditions: &RunConditions, progress: &mut dyn FnMut(usize)) -> Result<Run>;

    /// Runs storms of events on the cluster, each on a fresh scheduler.
    ///
    /// # Errors
    /// The scheduler cannot be made, or a pod was not placed. Only the engine supports storms.
    fn storms(&mut self, _conditions: &RunConditions, _cluster: &Cluster) -> Result<Vec<StormFigures>> {
        bail!("--storms measures the scheduling core: leave --through out")
    }
}

/// The conditions of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunConditions {
    /// The setting of `KubeSchedulerConfiguration`; 0 adapts to the size of the cluster.
    pub percentage_of_nodes_to_score: i32,
    /// Whether answers are kept for pods that are alike.
    pub equivalence_cache: bool,
    /// Pods that are created in a second, even if the scheduler does not keep up. `None` means that all exist before
    /// the clock starts.
    pub rate: Option<f64>,
    /// The number of allocations that this thread has made so far; `None` if allocations are not counted.
    pub allocations: Option<fn() -> u64>,
}

/// The cost of the measured pods.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The number of placed pods.
    pub n_pods: usize,
    /// The time from the first pod's event to the last binding.
    pub wall: Duration,
    /// Processor time of the scheduler by thread; empty if the kernel does not report it.
    pub threads: BTreeMap<String, Duration>,
    /// The times from the start to the binding of each pod, in order.
    pub bound_at: Vec<Duration>,
    /// The time of each pod from its creation to its binding; only if pods were created at a rate.
    pub latencies: Vec<Duration>,
    /// The times to the scheduler's answers while it schedules, if users asked.
    pub answers: AnswerTimes,
    /// Allocations; `None` if they were not counted.
    pub allocations: Option<u64>,
    /// The most memory that the scheduler's process had resident, in bytes.
    pub peak_memory: Option<u64>,
    /// Figures that only the engine measures.
    pub engine: Option<EngineFigures>,
    /// The node of each measured pod, by name.
    pub placements: BTreeMap<String, String>,
}

/// The times that users waited for the scheduler's answers.
#[derive(Clone, Debug, Default)]
pub struct AnswerTimes {
    /// Explanations of pods.
    pub explanations: Vec<Duration>,
    /// The first view of the page.
    pub first_views: Vec<Duration>,
}

impl AnswerTimes {
    /// Whether any answer came.
    pub(crate) fn came(&self) -> bool {
        !self.explanations.is_empty() || !self.first_views.is_empty()
    }
}

impl Run {
    /// Processor time of all threads, or the clock's time if the kernel does not report it.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        if self.threads.is_empty() { self.wall } else { self.threads.values().sum() }
    }
}

/// Additional figures of a run of the engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineFigures {
    /// The number of cycles for the measured pods, and the number of cycles that reused earlier answers.
    pub n_cycles: u64,
    pub n_cycles_with_earlier_answers: u64,
    /// The time by the kind of work: pods entering the queue, cycles, and the consequences of bindings.
    pub queueing: Duration,
    pub cycles: Duration,
    pub confirming: Duration,
}

/// The effect of a storm of events.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StormFigures {
    /// The name of the storm.
    pub storm: String,
    /// The number of events.
    pub events: usize,
    /// Milliseconds for all events, and for the pods, with one pod in each turn of the scheduler.
    pub all_millis: f64,
    /// The longest turn in milliseconds, with its events and its pod.
    pub longest_millis: f64,
}

/// The first measured pod that went to another node, with both nodes.
#[must_use]
pub fn first_difference(one: &BTreeMap<String, String>, other: &BTreeMap<String, String>) -> Option<String> {
    let missing = other.keys().find(|pod| !one.contains_key(*pod));
    if let Some(pod) = missing {
        return Some(format!("the first run did not place {pod}"));
    }
    one.iter().find_map(|(pod, node)| {
        let elsewhere = other.get(pod);
        let differs = elsewhere != Some(node);
        let elsewhere = elsewhere.map_or("nowhere", String::as_str);
        differs.then(|| format!("{pod} went to {node} in one run, and to {elsewhere} in the other"))
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
    conditions: &RunConditions,
) -> Result<Run> {
    runner.run(workload.scene(size).in_classes(n_classes), conditions, &mut |_| ())
}
