//! The scores of plugins as kube-scheduler's log lines at verbosity 10 (`schedule_one.go`, `prioritizeNodes`). There is
//! one line for each node and plugin, and one line for each node's sum. No line is left out, even in a large cluster.

use berth_scheduler::Scheduler;
use berth_telemetry::klog::{V10, lines};
use tracing::{Level, enabled, trace};

/// Writes the lines of attempts.
#[derive(Debug, Default)]
pub(crate) struct ScoreLines {
    /// The attempt with the lines that were written last.
    written: u64,
}

impl ScoreLines {
    /// Writes the lines of the last attempt once, if the verbosity includes them.
    pub(crate) fn write(&mut self, scheduler: &Scheduler) {
        if !enabled!(target: V10, Level::TRACE) {
            return;
        }
        let Some((attempt, profile)) = scheduler.last_attempt() else { return };
        if std::mem::replace(&mut self.written, attempt.number) == attempt.number {
            return;
        }
        let symbols = &scheduler.cache().table().symbols;
        let (pod, namespace) = (&*attempt.pod.name, symbols.text(attempt.pod.namespace));
        let findings = &attempt.decision.findings;
        let weighted = findings.plugin_scores().map(|scores| {
            let weight = profile.plugins.weight(scores.plugin);
            let column: Vec<i64> = scores.normalized().map(|score| score * weight).collect();
            (&**profile.name(scores.plugin), column)
        });
        let weighted: Vec<(&str, Vec<i64>)> = weighted.collect();
        let node_names = || findings.feasible().iter().map(|row| symbols.text(scheduler.cache().table().name(row)));
        for (place, node) in node_names().enumerate() {
            for (plugin, scores) in &weighted {
                let Some(score) = scores.get(place).copied() else { continue };
                trace!(target: V10, pod, namespace, plugin, node, score, "{}", lines::PLUGIN_SCORED.message);
            }
        }
        for (node, score) in node_names().zip(findings.totals().iter().copied()) {
            trace!(target: V10, pod, namespace, node, score, "{}", lines::FINAL_SCORE.message);
        }
    }
}
