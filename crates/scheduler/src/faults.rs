//! A component faulted: its pod is looked at, and somebody outside decides about the component.

use std::time::Duration;

use berth_model::{BinaryId, Digest, OwnerId, Pod, PodUid};

use crate::{action::Notice, context::Context};

impl Context {
    /// Takes a fault in: pods of the same owner may be held for it, and the host learns which instances are gone.
    pub(crate) fn plugin_faulted(
        &mut self,
        (plugin, digest): (String, Digest),
        reason: String,
        took: Duration,
        pod: Option<PodUid>,
    ) {
        let now = self.outbox.now();
        let pod = pod.and_then(|uid| {
            let pending = self.pending_pods.get(&uid).map(|pending| &pending.pod);
            let pod = pending.or_else(|| self.cache.pod(&uid).map(|cached| cached.pod()))?;
            Some((self.pod_ref(pod), self.owner_of(pod)))
        });
        let held =
            pod.as_ref().and_then(|(_, owner)| self.isolation.faulted(owner.clone(), (&plugin, digest), &reason, now));
        let mut scheduler_names = Vec::new();
        for (scheduler_name, idx) in self.profiles.users_of(&plugin, None) {
            let Some(profile) = self.profiles.get_mut(scheduler_name) else { continue };
            let is_gone = profile.get(idx).is_some_and(|instance| {
                instance.version().binary == Some(BinaryId::Component(digest)) && instance.out_of_service().is_some()
            });
            if is_gone {
                scheduler_names.push(profile.scheduler_name.clone());
            }
        }
        self.outbox.notice(Notice::PluginFaulted { plugin, digest, reason, took, pod, held, scheduler_names });
    }

    pub(crate) fn owner_of(&self, pod: &Pod) -> OwnerId {
        OwnerId::of(pod, &self.cache.table().symbols)
    }

    /// Pods that were held for a plugin's faults are tried again when their time is over.
    pub(crate) fn release_held_pods(&mut self) {
        if self.isolation.is_empty() {
            return;
        }
        let now = self.outbox.now();
        let released = self.isolation.release(now);
        if !released.is_empty() {
            self.with_queue(|queue, policy| queue.activate(&released, now, policy));
        }
    }
}
