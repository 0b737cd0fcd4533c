//! Opportunistic batching (KEP-5598): consecutive pods with one signature share a ranking of nodes.
//!
//! A cycle that placed a signed pod keeps its ranking. If the next cycle has a pod with the same signature, and the
//! node of the previous pod is full, only the best of the remaining nodes is tried. Any other change that may affect
//! the ranking ends the batch.

use std::sync::Arc;

use berth_framework::{
    Code, CycleId, PluginIdx, Point, Profile,
    run::{self, Findings, Hint, HintOutcome, Ranking, Signature},
};
use berth_model::{ClusterTable, EquivalenceClass, NodeIdx, Pod, Sym, Time};
use rustc_hash::FxHashMap;

use crate::metrics::{BatchMetrics, ByProfile};

/// The age at which a ranking is no longer used, in milliseconds.
const MAX_AGE: u64 = 500;

/// The cycle that asks, its time, and its view of the nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CycleView<'a> {
    pub(crate) cycle: CycleId,
    pub(crate) now: Time,
    pub(crate) table: &'a ClusterTable,
}

/// The open batch.
#[derive(Debug, Default)]
pub(crate) struct Batching {
    open: Option<Batch>,
    /// The plugin that gave the previous pod no signature, by profile. This plugin is asked first.
    last_unsigned: FxHashMap<Sym, PluginIdx>,
    /// The number of placed pods, by whether the hint named their node.
    attempts: ByProfile<&'static str>,
    /// The number of batches that ended or did not begin, by reason.
    flushes: ByProfile<&'static str>,
}

#[derive(Debug)]
struct Batch {
    /// The class of the first pod. As long as the class exists, the symbols in the signature keep their meaning.
    class: EquivalenceClass,
    signature: Signature,
    since: Time,
    /// The cycle that last placed a pod of the batch.
    cycle: u64,
    /// The node on which the last pod of the batch was placed.
    last: Sym,
    /// The other nodes, by name, because their rows may be reused for other nodes.
    rest: Ranking<Sym>,
}

impl Batching {
    pub(crate) fn metrics(&self) -> BatchMetrics {
        BatchMetrics { attempts: self.attempts.totals(), flushes: self.flushes.totals() }
    }

    /// The signature of the pod. The plugins are not asked again about a pod of the open batch's equivalence class.
    pub(crate) fn sign(&mut self, profile: &mut Profile, pod: &Pod, cycle: CycleId) -> Option<Signature> {
        if let Some(batch) = &self.open
            && batch.class.contains(pod)
            && run::signs_by_class(profile)
        {
            return Some(batch.signature.clone());
        }
        let last_unsigned = self.last_unsigned.entry(pod.scheduler_name).or_insert(PluginIdx::NOBODY);
        let start = profile.meter().start(cycle);
        let signature = run::sign(profile, pod, last_unsigned);
        profile.meter().end(start, Point::Sign.as_str(), Code::Success);
        signature
    }

    /// The nodes to try first for a pod with this signature.
    pub(crate) fn hint(
        &mut self,
        profile: &Profile,
        pod: &Pod,
        signature: Option<&Signature>,
        CycleView { cycle: CycleId(cycle), now, table }: CycleView<'_>,
    ) -> Option<Hint> {
        let batch = self.open.as_mut()?;
        let last = table.find(batch.last);
        let reason = match (signature, last) {
            (None, _) => "pod_not_batchable",
            (Some(_), _) if cycle != batch.cycle + 1 => "pod_skipped",
            (Some(signature), _)
                if *signature != batch.signature || pod.scheduler_name != batch.class.pod().scheduler_name =>
            {
                "pod_incompatible"
            }
            (Some(_), _) if now.since(batch.since) > MAX_AGE => "expired",
            (Some(_), None) => "node_missing",
            (Some(_), Some(last)) => match batch.rest.pop().and_then(|name| table.find(name)) {
                Some(next) => return Some(Hint { last, next }),
                None => "empty_list",
            },
        };
        self.flush(&profile.scheduler_name, reason);
        None
    }

    /// Notes that a pod was placed, and keeps the ranking for the next pod.
    pub(crate) fn placed(
        &mut self,
        profile: &Profile,
        pod: &Arc<Pod>,
        signature: Option<Signature>,
        node: NodeIdx,
        findings: &Findings,
        CycleView { cycle: CycleId(cycle), now, table }: CycleView<'_>,
    ) {
        let result = match findings.hint() {
            HintOutcome::Used => "hint_used",
            HintOutcome::Refused => "hint_not_used",
            HintOutcome::NotFull | HintOutcome::None => "no_hint",
        };
        if findings.hint() == HintOutcome::NotFull {
            self.flush(&profile.scheduler_name, "node_not_full");
        }
        self.attempts.count(&profile.scheduler_name, result);
        let last = table.name(node);
        if let Some(batch) = self.open.as_mut().filter(|_| findings.hint() == HintOutcome::Used) {
            (batch.cycle, batch.last) = (cycle, last);
            return;
        }
        self.open = None;
        if findings.feasible_order().len() < 2 {
            return self.not_opened(&profile.scheduler_name, "empty_list");
        }
        let Some(signature) = signature else {
            return self.not_opened(&profile.scheduler_name, "pod_not_batchable");
        };
        let mut ranking = Ranking::new(findings);
        // The first node of the ranking is the chosen node.
        ranking.pop();
        let rest = ranking.map(|node| table.name(node));
        self.open = Some(Batch { class: EquivalenceClass::of(pod), signature, since: now, cycle, last, rest });
    }

    /// Notes that no node was found for a pod. This ends the batch.
    pub(crate) fn failed(&mut self, profile: &Profile) {
        if self.open.is_some() {
            self.flush(&profile.scheduler_name, "pod_failed");
        }
    }

    /// Handles a replacement of plugins. The ranking no longer holds, and each plugin may sign pods again.
    pub(crate) fn forget(&mut self) {
        self.open = None;
        self.last_unsigned.clear();
    }

    /// Counts that the attempt leaves no ranking for the next pod. kube-scheduler counts this as a flush, too
    /// (`StoreScheduleResults` in `pkg/scheduler/framework/runtime/batch.go`).
    fn not_opened(&mut self, scheduler_name: &str, reason: &'static str) {
        self.flushes.count(scheduler_name, reason);
    }

    fn flush(&mut self, scheduler_name: &str, reason: &'static str) {
        if self.open.take().is_some() {
            self.not_opened(scheduler_name, reason);
        }
    }
}
