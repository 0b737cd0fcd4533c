//! The preemptors whose victims are not evicted yet. PreEnqueue keeps these preemptors out of activeQ until the victims
//! are evicted.

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

/// The evictions in progress, by the uid of the preemptor.
#[derive(Debug, Default)]
pub(crate) struct Preemptions(FxHashMap<PodUid, Preemption>);

impl Preemptions {
    /// The plugin in whose name the pod is kept out of activeQ; `None` once the last victim is terminating.
    pub(crate) fn gate(&self, preemptor: &str, cache: &Cache) -> Option<&Arc<str>> {
        let preemption = self.0.get(preemptor)?;
        let last_victim = cache.pod(&preemption.last_victim)?;
        (!last_victim.pod().terminating).then_some(&preemption.plugin)
    }

    /// Notes the evictions among `effects`, before the preemptor returns to the queue. Returns their number.
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
            self.0
                .insert(preemptor.clone(), Preemption { cycle, plugin: Arc::clone(plugin), last_victim, started: now });
        }
        victims.len()
    }

    /// Notes that the evictions of this attempt were carried out or failed. Returns the time at which they began, if
    /// there were any.
    pub(crate) fn finish(&mut self, preemptor: &str, cycle: CycleId) -> Option<Option<Duration>> {
        if self.0.get(preemptor).is_none_or(|preemption| preemption.cycle != cycle) {
            return None;
        }
        self.0.remove(preemptor).map(|preemption| preemption.started)
    }

    /// Forgets a preemptor that is gone.
    pub(crate) fn forget(&mut self, preemptor: &str) {
        self.0.remove(preemptor);
    }
}
