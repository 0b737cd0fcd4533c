//! Figures of runs: for people, as JSON, and compared with the figures of an earlier run.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::run::Run;

/// The subject of the figures.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSetup {
    /// The name that scheduler_perf has for the workload.
    pub workload: String,
    /// The way the workload was run, and the way the plugins ran.
    pub runner: String,
    pub nodes: usize,
    /// Pods that existed before the clock started.
    pub initial_pods: usize,
    /// Pods that `--placed` put on nodes before the run, in addition to the workload's own pods.
    #[serde(default)]
    pub placed_pods: usize,
    /// Pods that were measured.
    pub pods: usize,
    /// Equivalence classes of the measured pods.
    pub classes: usize,
    pub percentage_of_nodes_to_score: i32,
    /// Whether answers were kept for pods that are alike.
    pub equivalence_cache: bool,
    /// Pods that were created in a second; `None` if all existed before the clock started.
    pub rate: Option<u64>,
}

impl RunSetup {
    fn is_of_same_pods(&self, other: &Self) -> bool {
        Self { runner: other.runner.clone(), equivalence_cache: other.equivalence_cache, ..self.clone() } == *other
    }
}

/// The figures of one workload, medians over the runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    #[serde(flatten)]
    pub subject: RunSetup,
    /// The number of runs.
    pub rounds: usize,
    /// Pods divided by the time from the first pod to the last binding.
    pub pods_per_second: f64,
    /// Pods that were bound in each second of the median run.
    pub bound_by_second: Vec<usize>,
    /// Milliseconds from the start of the scheduler's process to the first binding, if it started with the clock.
    pub first_binding_millis: Option<f64>,
    /// Microseconds of the scheduler's processor time for one pod, in total and by thread.
    pub cpu_micros_per_pod: f64,
    pub cpu_micros_by_thread: BTreeMap<String, f64>,
    /// The time from creation to binding, in milliseconds.
    pub latency_millis: Option<Latency>,
    /// The time to an explanation of a pod, and to the first view of the page, while the scheduler schedules.
    #[serde(default)]
    pub explanation_millis: Option<Latency>,
    #[serde(default)]
    pub first_view_millis: Option<Latency>,
    /// The cost of the copy that the scheduler keeps for the page and for explanations, without the explanations
    /// themselves. `None` if no user asked.
    #[serde(default)]
    pub copy: Option<ThreadCost>,
    /// Allocations for each pod, if allocations are counted.
    pub allocations_per_pod: Option<f64>,
    /// The peak memory of the scheduler's process, in megabytes.
    pub peak_megabytes: Option<f64>,
    /// Details that only the engine measures.
    pub engine: Option<EngineDetails>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Latency {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

/// The processor time of one thread of the scheduler.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadCost {
    /// Microseconds for each bound pod.
    pub micros_per_pod: f64,
    /// The share of one processor during the run, in hundredths.
    pub percent_of_core: f64,
}

/// The scheduler's thread that keeps the copy for the page and for explanations. The explanations themselves take the
/// time of the thread `explainer`.
const COPY_THREAD: &str = "follower";

/// The engine's elapsed time for a pod, by kind of work, in microseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EngineDetails {
    pub queueing_micros: f64,
    pub cycle_micros: f64,
    pub confirming_micros: f64,
    /// The cycle divided by the number of nodes.
    pub cycle_nanos_per_node: f64,
    /// The share of the cycles that used answers of earlier cycles.
    pub cycles_with_earlier_answers: f64,
}

fn median<T>(items: &[T], figure: impl Fn(&T) -> f64) -> f64 {
    let mut figures: Vec<f64> = items.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

/// The median, if every item has the figure.
fn median_of_some<T>(items: &[T], figure: impl Fn(&T) -> Option<f64>) -> Option<f64> {
    let figures: Option<Vec<f64>> = items.iter().map(figure).collect();
    Some(median(&figures.filter(|figures| !figures.is_empty())?, |figure| *figure))
}

fn first_binding_millis(run: &Run) -> Option<f64> {
    let started_with_clock = run.engine.is_none() && run.latencies.is_empty();
    run.bound_at.first().filter(|_| started_with_clock).map(|at| at.as_secs_f64() * 1e3)
}

fn micros_per_pod(duration: Duration, n_pods: usize) -> f64 {
    duration.as_secs_f64() * 1e6 / n_pods.max(1) as f64
}

impl Figures {
    /// The medians of `runs`, which place the same pods in the same way.
    #[must_use]
    pub fn of(subject: RunSetup, runs: &[Run]) -> Self {
        let mut threads: BTreeMap<String, f64> = BTreeMap::new();
        for name in runs.iter().flat_map(|run| run.threads.keys()) {
            let micros =
                median(runs, |run| micros_per_pod(run.threads.get(name).copied().unwrap_or_default(), run.n_pods));
            threads.insert(name.clone(), micros);
        }
        let nodes = subject.nodes.max(1) as f64;
        let has_users = runs.iter().any(|run| run.answers.came());
        Self {
            rounds: runs.len(),
            pods_per_second: median(runs, |run| run.n_pods as f64 / run.wall.as_secs_f64()),
            first_binding_millis: median_of_some(runs, first_binding_millis),
            bound_by_second: middle(runs).map(by_second).unwrap_or_default(),
            cpu_micros_per_pod: median(runs, |run| micros_per_pod(run.cpu(), run.n_pods)),
            cpu_micros_by_thread: threads,
            latency_millis: Latency::of(runs, |run| &run.latencies),
            explanation_millis: Latency::of(runs, |run| &run.answers.explanations),
            first_view_millis: Latency::of(runs, |run| &run.answers.first_views),
            copy: ThreadCost::of(runs, COPY_THREAD).filter(|_| has_users),
            allocations_per_pod: median_of_some(runs, |run| Some(run.allocations? as f64 / run.n_pods.max(1) as f64)),
            peak_megabytes: median_of_some(runs, |run| Some(run.peak_memory? as f64 / 1e6)),
            engine: EngineDetails::of(runs, nodes),
            subject,
        }
    }

    /// The headings of [`Self::row`].
    #[must_use]
    pub fn heading() -> [&'static str; 12] {
        [
            "WORKLOAD",
            "CACHE",
            "NODES",
            "PODS",
            "PODS/S",
            "CPU US/POD",
            "CYCLE US",
            "ALLOCS/POD",
            "P50 MS",
            "P99 MS",
            "PEAK MB",
            "CACHE USED",
        ]
    }

    /// The figures for people; `-` for values that were not measured.
    #[must_use]
    pub fn row(&self) -> [String; 12] {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let latency =
            |figure: fn(&Latency) -> f64| or_dash(self.latency_millis.as_ref().map(|it| format!("{:.2}", figure(it))));
        [
            self.subject.workload.clone(),
            if self.subject.equivalence_cache { "on" } else { "off" }.to_owned(),
            self.subject.nodes.to_string(),
            self.subject.pods.to_string(),
            format!("{:.0}", self.pods_per_second),
            format!("{:.1}", self.cpu_micros_per_pod),
            or_dash(self.engine.map(|it| format!("{:.1}", it.cycle_micros))),
            or_dash(self.allocations_per_pod.map(|it| format!("{it:.1}"))),
            latency(|it| it.p50),
            latency(|it| it.p99),
            or_dash(self.peak_megabytes.map(|it| format!("{it:.0}"))),
            or_dash(self.engine.map(|it| format!("{:.0}%", it.cycles_with_earlier_answers * 100.0))),
        ]
    }

    /// The new figures divided by the figures of the same subject in an earlier run. If that run has no such figures,
    /// the divisors are the figures of the same pods with another runner.
    #[must_use]
    pub fn compared_with(&self, before: &[Figures]) -> Option<Ratios> {
        let same = before.iter().find(|before| before.subject == self.subject);
        let before = same.or_else(|| before.iter().find(|before| before.subject.is_of_same_pods(&self.subject)))?;
        let ratio = |now: Option<f64>, then: Option<f64>| Some(now? / then.filter(|then| *then > 0.0)?);
        let p99 = |figures: &Figures| figures.latency_millis.map(|latency| latency.p99);
        Some(Ratios {
            pods_per_second: self.pods_per_second / before.pods_per_second,
            cpu: self.cpu_micros_per_pod / before.cpu_micros_per_pod,
            allocations: ratio(self.allocations_per_pod, before.allocations_per_pod),
            latency: ratio(p99(self), p99(before)),
            memory: ratio(self.peak_megabytes, before.peak_megabytes),
        })
    }
}

/// The new figures divided by the figures of an earlier run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ratios {
    pub pods_per_second: f64,
    pub cpu: f64,
    pub allocations: Option<f64>,
    /// The ratio of the 99th percentiles.
    pub latency: Option<f64>,
    pub memory: Option<f64>,
}

impl Ratios {
    /// The ratios in one line.
    #[must_use]
    pub fn line(&self) -> String {
        let parts = [
            ("pods/s", Some(self.pods_per_second)),
            ("CPU", Some(self.cpu)),
            ("allocations", self.allocations),
            ("p99", self.latency),
            ("memory", self.memory),
        ];
        let parts: Vec<String> =
            parts.into_iter().filter_map(|(name, ratio)| Some(format!("{name} x{:.2}", ratio?))).collect();
        format!("    compared with the other run: {}", parts.join(", "))
    }
}

/// The run with the median throughput.
fn middle(runs: &[Run]) -> Option<&Run> {
    let mut sorted: Vec<&Run> = runs.iter().collect();
    sorted.sort_by_key(|run| run.wall);
    sorted.get(sorted.len() / 2).copied()
}

fn by_second(run: &Run) -> Vec<usize> {
    let mut counts = Vec::new();
    for at in &run.bound_at {
        let second = usize::try_from(at.as_secs()).unwrap_or(usize::MAX);
        if counts.len() <= second {
            counts.resize(second + 1, 0);
        }
        counts[second] += 1;
    }
    counts
}

impl Latency {
    /// The percentiles over all times of all runs.
    fn of(runs: &[Run], times: impl Fn(&Run) -> &[Duration]) -> Option<Self> {
        let mut all: Vec<Duration> = runs.iter().flat_map(|run| times(run).iter().copied()).collect();
        all.sort_unstable();
        let at = |percent: usize| Some(all.get((all.len() * percent / 100).min(all.len() - 1))?.as_secs_f64() * 1e3);
        if all.is_empty() {
            return None;
        }
        Some(Self { p50: at(50)?, p90: at(90)?, p99: at(99)?, max: at(100)? })
    }
}

impl ThreadCost {
    fn of(runs: &[Run], thread: &str) -> Option<Self> {
        let used = |run: &Run| run.threads.get(thread).copied();
        Some(Self {
            micros_per_pod: median_of_some(runs, |run| Some(micros_per_pod(used(run)?, run.n_pods)))?,
            percent_of_core: median_of_some(runs, |run| Some(percent(used(run)?, run.wall)))?,
        })
    }
}

fn percent(part: Duration, whole: Duration) -> f64 {
    part.as_secs_f64() / whole.as_secs_f64() * 100.0
}

impl std::fmt::Display for ThreadCost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2} us/pod, {:.2} % of a core", self.micros_per_pod, self.percent_of_core)
    }
}

impl std::fmt::Display for Latency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { p50, p90, p99, max } = self;
        write!(f, "p50 {p50:.1} ms, p90 {p90:.1} ms, p99 {p99:.1} ms, max {max:.1} ms")
    }
}

impl EngineDetails {
    fn of(runs: &[Run], nodes: f64) -> Option<Self> {
        let figure = |figure: fn(&crate::run::EngineFigures) -> Duration| {
            median_of_some(runs, |run| Some(micros_per_pod(figure(run.engine.as_ref()?), run.n_pods)))
        };
        let cycle_micros = figure(|it| it.cycles)?;
        let share = |run: &Run| {
            let engine = run.engine?;
            Some(engine.n_cycles_with_earlier_answers as f64 / engine.n_cycles.max(1) as f64)
        };
        Some(Self {
            queueing_micros: figure(|it| it.queueing)?,
            cycle_micros,
            confirming_micros: figure(|it| it.confirming)?,
            cycle_nanos_per_node: cycle_micros * 1e3 / nodes,
            cycles_with_earlier_answers: median_of_some(runs, share)?,
        })
    }
}
