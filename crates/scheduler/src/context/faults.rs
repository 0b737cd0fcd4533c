//! Faults of components. The supervisor decides about the component, and [`Isolation`](berth_lifecycle::Isolation)
//! decides whether pods of the same owner are held back.

use std::{collections::BTreeMap, time::Duration};

use berth_framework::{Plugin, Status, run::Refusal};
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
    /// hold is over. `None` if the pod is not held, if the plugin is optional for the pod, or if pods pass without the
    /// plugin.
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
        if profile.get(plugin).is_some_and(|instance| is_absent(instance) || instance.pass_over()) {
            return None;
        }
        self.isolation.wait(&owner, pod.uid.clone());
        Some(Refusal { plugin, status })
    }

    /// Whether pods of a profile pass without the plugin, although the profile names it.
    pub(super) fn lets_pods_pass(&mut self, plugin: &str) -> bool {
        let users = self.profiles.users_of(plugin, None);
        users.into_iter().any(|(scheduler_name, idx)| {
            let profile = self.profiles.get_mut(scheduler_name);
            profile.and_then(|profile| profile.get(idx)).is_some_and(is_absent)
        })
    }

    /// At most `n_most` owners whose pods are held for faults of a plugin that has a binary.
    pub(crate) fn held(&self, n_most: usize) -> BTreeMap<OwnerId, HeldOwner> {
        let plugins = self.held_owners();
        let held = self.isolation.held(self.now());
        held.filter(|(_, owner)| plugins.contains_key(&owner.plugin)).take(n_most).collect()
    }

    /// The number of owners whose pods are held, by plugin. While no binary of a plugin answers, its faults hold no
    /// pods: pods pass without the plugin, or all pods wait for it.
    pub(crate) fn held_owners(&self) -> BTreeMap<String, usize> {
        let has_binary = |plugin: &str| {
            let users = self.profiles.users_of(plugin, None);
            users.into_iter().any(|(scheduler_name, idx)| self.plugin_binary(scheduler_name, idx).is_some())
        };
        let mut n_held = self.isolation.n_held(self.now());
        n_held.retain(|plugin, _| has_binary(plugin));
        n_held
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

/// Whether the plugin has no binary and lets pods pass, for example because an operator disabled it.
fn is_absent(plugin: &mut (dyn Plugin + 'static)) -> bool {
    plugin.version().binary.is_none() && plugin.out_of_service().is_none()
}
