//! Figures of runs: for people, as JSON, and beside those of an earlier run.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::engine::Run;

/// The figures of one workload, medians over the runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// As scheduler_perf calls it.
    pub workload: String,
    /// Nodes of the cluster.
    pub nodes: usize,
    /// Pods that were measured.
    pub pods: usize,
    /// Whether answers were kept for pods that are alike.
    pub boards: bool,
    /// How many runs.
    pub rounds: usize,
    /// Pods that one processor places in a second.
    pub pods_per_second: f64,
    /// Microseconds of one pod: of the processor where the kernel tells, else of the clock.
    pub micros_per_pod: f64,
    /// Of these, by the clock: entering the queue, the cycle, and the answer to the binding.
    pub queueing_micros: f64,
    pub cycle_micros: f64,
    pub confirming_micros: f64,
    /// The cycle divided by the number of nodes.
    pub cycle_nanos_per_node: f64,
    /// The share of cycles with a board.
    pub cycles_with_board: f64,
    /// By pod.
    pub placements: BTreeMap<String, String>,
}

fn per_pod(duration: Duration, run: &Run) -> f64 {
    duration.as_secs_f64() * 1e6 / run.n_pods.max(1) as f64
}

fn median(runs: &[Run], figure: impl Fn(&Run) -> f64) -> f64 {
    let mut figures: Vec<f64> = runs.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

impl Figures {
    /// The medians of `runs`, which place the same pods alike.
    #[must_use]
    pub fn of(workload: &str, nodes: usize, boards: bool, runs: &[Run]) -> Self {
        let micros_per_pod = median(runs, |run| per_pod(run.cpu.unwrap_or(run.wall), run));
        let cycle_micros = median(runs, |run| per_pod(run.phases.cycles, run));
        Self {
            workload: workload.to_owned(),
            nodes,
            pods: runs.first().map_or(0, |run| run.n_pods),
            boards,
            rounds: runs.len(),
            pods_per_second: 1e6 / micros_per_pod,
            micros_per_pod,
            queueing_micros: median(runs, |run| per_pod(run.phases.queueing, run)),
            cycle_micros,
            confirming_micros: median(runs, |run| per_pod(run.phases.confirming, run)),
            cycle_nanos_per_node: cycle_micros * 1e3 / nodes as f64,
            cycles_with_board: median(runs, |run| run.n_cycles_with_board as f64 / run.n_cycles as f64),
            placements: runs.first().map(|run| run.placements.clone()).unwrap_or_default(),
        }
    }

    /// The heading over [`Self::line`].
    #[must_use]
    pub fn heading() -> String {
        format!(
            "{:<34} {:>6} {:>6} {:>6} {:>9} {:>9} {:>8} {:>8} {:>8} {:>9} {:>7}",
            "workload", "boards", "nodes", "pods", "pods/s", "us/pod", "queue", "cycle", "confirm", "ns/node", "reused"
        )
    }

    /// One line for people.
    #[must_use]
    pub fn line(&self) -> String {
        format!(
            "{:<34} {:>6} {:>6} {:>6} {:>9.0} {:>9.1} {:>8.1} {:>8.1} {:>8.1} {:>9.2} {:>6.0}%",
            self.workload,
            if self.boards { "on" } else { "off" },
            self.nodes,
            self.pods,
            self.pods_per_second,
            self.micros_per_pod,
            self.queueing_micros,
            self.cycle_micros,
            self.confirming_micros,
            self.cycle_nanos_per_node,
            self.cycles_with_board * 100.0,
        )
    }

    /// Beside the figures of the same workload in an earlier run: how many times as fast, and whether the pods are where they
    /// were.
    #[must_use]
    pub fn compared_with(&self, before: &[Figures]) -> String {
        let key = |figures: &Figures| (figures.workload.clone(), figures.nodes, figures.pods, figures.boards);
        let Some(before) = before.iter().find(|before| key(before) == key(self)) else {
            return "not in the other file".to_owned();
        };
        let moved = self.placements.iter().filter(|(pod, node)| before.placements.get(*pod) != Some(*node)).count();
        format!(
            "{:.2} times as fast, {moved} of {} pods elsewhere",
            before.micros_per_pod / self.micros_per_pod,
            self.pods
        )
    }
}
