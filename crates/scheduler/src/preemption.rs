//! Pods for which others leave: what is under way for whom, and victims that have not left the scheduler yet.

use std::sync::Arc;

use berth_cache::Cache;
use berth_framework::{CycleId, Effect, PluginIdx, Status};
use berth_model::{Pod, PodUid, Time};
use rustc_hash::FxHashMap;

use crate::{
    action::{Action, EventRecord},
    binding::{Setback, Stage},
    metrics::Observation,
    scheduler::Scheduler,
};

/// Evictions that a PostFilter plugin asked for and that are being carried out.
#[derive(Debug)]
struct Preemption {
    cycle: CycleId,
    plugin: Arc<str>,
    /// Evicted after all others.
    last_victim: Arc<str>,
}

/// Pods that must not be tried before their victims have been told to leave.
#[derive(Debug, Default)]
pub(crate) struct Preemptions(FxHashMap<PodUid, Preemption>);

impl Preemptions {
    /// Why the pod may not enter activeQ, and the plugin whose doing that is. The answer of the executor need not be
    /// waited for once the last victim leaves.
    pub(crate) fn gate(&self, uid: &str, cache: &Cache) -> Option<(&Arc<str>, Status)> {
        let preemption = self.0.get(uid)?;
        let last_victim = cache.pod(&preemption.last_victim)?;
        let text = "waiting for the preemption for this pod to be finished";
        (!last_victim.pod().terminating).then(|| (&preemption.plugin, Status::unresolvable(text)))
    }

    /// The pod is gone.
    pub(crate) fn forget(&mut self, uid: &str) {
        self.0.remove(uid);
    }
}

impl Scheduler {
    /// Notes that victims are about to be evicted for the pod. Must come before the pod goes back to the queue.
    pub(crate) fn begin_preemption(
        &mut self,
        pod: &Pod,
        cycle: CycleId,
        plugin: PluginIdx,
        effects: &[Effect],
    ) -> bool {
        let victim =
            |effect: &Effect| if let Effect::Evict { uid, .. } = effect { Some(Arc::from(&**uid)) } else { None };
        let victims: Vec<Arc<str>> = effects.iter().filter_map(victim).collect();
        let Some(last_victim) = victims.last().cloned() else { return false };
        let plugin = self.plugin_name(pod.scheduler_name, plugin);
        self.preemptions.0.insert(pod.uid.clone(), Preemption { cycle, plugin, last_victim });
        self.observations.push(Observation::Preemption { victims: victims.len() });
        true
    }

    /// The victims were told to leave, and the deletion of the last one brings the pod back; or something went wrong,
    /// and the pod is tried again.
    pub(crate) fn preemption_finished(&mut self, cycle: CycleId, uid: &str, result: &Result<(), String>, now: Time) {
        if self.preemptions.0.get(uid).is_none_or(|preemption| preemption.cycle != cycle) {
            return;
        }
        self.preemptions.forget(uid);
        if result.is_err() {
            self.with_queue(|queue, policy| queue.activate(&[PodUid::from(uid)], now, policy));
        }
    }

    /// Takes a victim back that waits on Permit or PreBind: the API server need not hear of it. Whether it was one.
    pub(crate) fn evict_in_memory(&mut self, preemptor: &Pod, plugin: &str, uid: &str, now: Time) -> bool {
        let since = match self.bindings.get(uid).map(|binding| &binding.stage) {
            Some(Stage::Waiting(waits)) => Some(waits.since()),
            Some(Stage::PreBinding { .. } | Stage::Watching { .. }) => None,
            Some(Stage::Sent { .. }) | None => return false,
        };
        let Some(binding) = self.bindings.remove(uid) else { return false };
        if let Some(since) = since {
            self.observations.push(Observation::PermitWait { result: "Error", milliseconds: now.since(since) });
            self.forget_waits(uid);
        }
        let note = format!(
            "Preempted by pod {} on node {} (in kube-scheduler memory).",
            preemptor.uid,
            self.text(binding.node)
        );
        self.actions.push(Action::Event(EventRecord {
            regarding: self.pod_ref(binding.pod()),
            warning: false,
            reason: "Preempted".to_owned(),
            action: "Preempting".to_owned(),
            note,
            reporting_controller: self.text(preemptor.scheduler_name).to_owned(),
        }));
        let status = Status::error(format!("preempted by {plugin}"));
        self.fall_back(binding, Setback::Failed(status), now);
        true
    }
}
