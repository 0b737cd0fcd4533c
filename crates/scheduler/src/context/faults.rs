//! Faults of components. The supervisor decides about the component, and [`Isolation`](berth_lifecycle::Isolation)
//! decides whether pods of the same owner are held back.

use std::{collections::BTreeMap, time::Duration};

use berth_framework::{Status, run::Refusal};
use berth_lifecycle::HeldOwner;
use berth_model::{BinaryId, Digest, OwnerId, Pod, PodUid};

use super::Context;
use crate::action::{Action, HeldPods, Supervision};

impl Context {
    /// Handles a fault. Pods of the same owner may be held because of this fault. The host is informed which instances
    /// are gone.
    pub(crate) fn plugin_faulted(
        &mut self,
        plugin: String,
        digest: Digest,
        reason: String,
        took: Duration,
        pod: Option<PodUid>,
    ) {
        let now = self.now();
        let pod = pod.and_then(|uid| {
            let pending = self.pending_pods.get(&uid).map(|pending| &pending.pod);
            let pod = pending.or_else(|| self.cache.pod(&uid).map(|cached| cached.pod()))?;
            Some((self.pod_ref(pod), self.owner_of(pod), self.controller_of(pod)))
        });
        let held = pod.as_ref().and_then(|(pod, owner, controller)| {
            let milliseconds = self.isolation.faulted(owner.clone(), &plugin, digest, &reason, now)?;
            let pod = format!("{}/{}", pod.namespace, pod.name);
            Some(HeldPods { controller: controller.clone(), pod, milliseconds })
        });
        let pod = pod.map(|(pod, owner, _)| (pod, owner));
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
        self.act(Action::Supervise(Supervision::Faulted { plugin, digest, reason, took, pod, held, scheduler_names }));
    }

    /// The plugin for whose faults the pod must wait, with the message for the pod. The pod is tried again when the
    /// hold is over. `None` if the pod is not held, or if the plugin is optional for the pod.
    pub(crate) fn hold(&mut self, pod: &Pod) -> Option<Refusal> {
        if self.isolation.is_empty() {
            return None;
        }
        let (owner, now) = (self.owner_of(pod), self.now());
        let hold = self.isolation.hold(&owner, now)?;
        let status = Status::unresolvable(hold.message());
        let profile = self.profiles.get_mut(pod.scheduler_name)?;
        // The profile may no longer have the plugin. Then the plugin's faults do not matter.
        let plugin = profile.find(hold.plugin())?;
        if profile.get(plugin).is_some_and(|instance| instance.pass_over()) {
            return None;
        }
        self.isolation.wait(&owner, pod.uid.clone());
        Some(Refusal { plugin, status })
    }

    /// At most `n_most` owners whose pods are held.
    pub(crate) fn held(&self, n_most: usize) -> BTreeMap<OwnerId, HeldOwner> {
        self.isolation.held(self.now()).take(n_most).collect()
    }

    /// The number of owners whose pods are held, by plugin.
    pub(crate) fn held_owners(&self) -> BTreeMap<String, usize> {
        self.isolation.n_held(self.now())
    }

    fn owner_of(&self, pod: &Pod) -> OwnerId {
        OwnerId::of(pod, &self.cache.table().symbols)
    }

    /// The controller of the pod in words: `ReplicaSet default/web`. The names come from the pod's author, so the
    /// length is bounded and control characters are escaped.
    fn controller_of(&self, pod: &Pod) -> Option<String> {
        const MAX_CHARS: usize = 253;
        let owner = pod.owner.as_ref()?;
        let namespace = self.cache.table().symbols.text(pod.namespace);
        let bounded = |text: &str| text.chars().take(MAX_CHARS).collect::<String>().escape_debug().to_string();
        Some(format!("{} {namespace}/{}", bounded(&owner.kind), bounded(&owner.name)))
    }

    /// Tries the pods again that were held for a plugin's faults and whose hold is over.
    pub(crate) fn release_held_pods(&mut self) {
        if self.isolation.is_empty() {
            return;
        }
        let now = self.now();
        let released = self.isolation.release(now);
        if !released.is_empty() {
            self.with_queue(|queue, policy| queue.activate(&released, now, policy));
        }
    }
}
