//! The preemptors whose victims are not evicted yet. Until the victims are evicted, PreEnqueue keeps the preemptors out
//! of activeQ. Without the feature gate SchedulerAsyncPreemption, no pod at all is tried in this time.

use std::{sync::Arc, time::Duration};

use berth_cache::Cache;
use berth_framework::{CycleId, Effect};
use berth_model::PodUid;
use rustc_hash::FxHashMap;

/// The evictions that a PostFilter plugin asked for and that are being carried out.
#[derive(Debug)]
struct Preemption {
    cycle: CycleId,
    plugin: Arc<str>,
    /// The victim that is evicted after all others.
    last_victim: PodUid,
    started: Option<Duration>,
}

/// The evictions in progress.
#[derive(Debug, Default)]
pub(crate) struct Preemptions {
    by_preemptor: FxHashMap<PodUid, Preemption>,
    /// Whether no pod is tried while evictions are in progress.
    is_synchronous: bool,
}

impl Preemptions {
    pub(crate) fn run_asynchronously(&mut self, is_asynchronous: bool) {
        self.is_synchronous = !is_asynchronous;
    }

    /// Whether no pod may be tried until the evictions are finished.
    pub(crate) fn hold_up_cycles(&self) -> bool {
        self.is_synchronous && !self.by_preemptor.is_empty()
    }

    /// The plugin in whose name the pod is kept out of activeQ; `None` once the last victim is terminating.
    pub(crate) fn gate(&self, preemptor: &str, cache: &Cache) -> Option<&Arc<str>> {
        if self.is_synchronous {
            return None;
        }
        let preemption = self.by_preemptor.get(preemptor)?;
        let last_victim = cache.pod(&preemption.last_victim)?;
        (!last_victim.pod().terminating).then_some(&preemption.plugin)
    }

    /// Notes the evictions among `effects`, before the preemptor returns to the queue. Returns the number of evictions.
    pub(crate) fn begin(
        &mut self,
        preemptor: &PodUid,
        cycle: CycleId,
        now: Option<Duration>,
        plugin: &Arc<str>,
        effects: &[Effect],
    ) -> usize {
        let victim = |effect: &Effect| match effect {
            Effect::Evict { uid, .. } => Some(PodUid::from(uid.as_str())),
            Effect::Allow { .. }
            | Effect::Reject { .. }
            | Effect::Activate { .. }
            | Effect::Nominate { .. }
            | Effect::Event { .. }
            | Effect::Bind
            | Effect::Patch { .. }
            | Effect::Create { .. }
            | Effect::Delete { .. }
            | Effect::Wait { .. } => None,
        };
        let victims: Vec<PodUid> = effects.iter().filter_map(victim).collect();
        if let Some(last_victim) = victims.last().cloned() {
            // kube-scheduler measures evictions only if other pods are tried at the same time.
            let started = now.filter(|_| !self.is_synchronous);
            let preemption = Preemption { cycle, plugin: Arc::clone(plugin), last_victim, started };
            self.by_preemptor.insert(preemptor.clone(), preemption);
        }
        victims.len()
    }

    /// Notes that the evictions of this attempt were carried out or failed. Returns the time at which the evictions
    /// began, if there were any.
    pub(crate) fn finish(&mut self, preemptor: &str, cycle: CycleId) -> Option<Option<Duration>> {
        if self.by_preemptor.get(preemptor).is_none_or(|preemption| preemption.cycle != cycle) {
            return None;
        }
        self.by_preemptor.remove(preemptor).map(|preemption| preemption.started)
    }

    /// Forgets a preemptor that is gone.
    pub(crate) fn forget(&mut self, preemptor: &str) {
        self.by_preemptor.remove(preemptor);
    }
}
