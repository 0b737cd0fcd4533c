//! Pods beside what cache and queue know of them: their status, limits and evictions under way.

use std::sync::Arc;

use berth_framework::{CycleId, Effect};
use berth_model::{Pod, PodUid, Sym, api, requests::Requests};

use super::Context;
use crate::{
    action::{Request, StatusChange},
    changes,
    metrics::Observation,
    pending_pods::PendingPod,
};

impl Context {
    /// A pod without a node, as the API server last showed it.
    pub(crate) fn pending_pod(&self, uid: &str) -> Option<&PendingPod> {
        self.pending_pods.get(uid)
    }

    /// All pods without a node, by uid.
    pub(crate) fn all_pending_pods(&self) -> Vec<Arc<Pod>> {
        self.pending_pods.sorted()
    }

    /// The pod appeared or changed. Gives back the pod as it was before.
    pub(crate) fn set_pending(&mut self, pod: PendingPod) -> Option<PendingPod> {
        self.pending_pods.insert(pod)
    }

    /// The pod has a node, is gone, or no profile here serves it: it waits no longer.
    pub(crate) fn no_longer_pending(&mut self, uid: &str) -> Option<PendingPod> {
        self.queue.delete(uid);
        self.pending_pods.remove(uid)
    }

    /// The pod is gone. What is known of it if it was pending.
    pub(crate) fn forget_pod(&mut self, uid: &str) -> Option<PendingPod> {
        self.preemptions.forget(uid);
        self.pod_limits.remove(uid);
        self.no_longer_pending(uid)
    }

    /// The pod takes no room on its node any more: others may try.
    pub(crate) fn leave_node(&mut self, uid: &str) {
        if let Some(profile) = self.cache.pod(uid).and_then(|cached| self.profiles.get_mut(cached.pod().scheduler_name))
        {
            profile.show_pods_to_reservers(&self.cache);
        }
        if let Some(removed) = self.cache.remove_pod(uid) {
            self.move_all(&changes::pod_deleted(&removed.pod));
        }
    }

    pub(crate) fn set_limits(&mut self, uid: &PodUid, pod: &api::Pod) {
        self.pod_limits.set(uid, pod);
    }

    /// What the pod is limited to, if it has limits.
    pub(crate) fn limits(&self, uid: &str) -> Option<Arc<Requests>> {
        self.pod_limits.get(uid).cloned()
    }

    /// Notes which pods without a node change from here on, or with `false` none any more.
    pub(crate) fn follow_pending_pods(&mut self, is_followed: bool) {
        self.pending_pods.follow(is_followed);
    }

    /// Pods without a node that came, changed or went since the last call.
    pub(crate) fn changed_pending_pods(&mut self) -> impl Iterator<Item = PodUid> + '_ {
        self.pending_pods.changed()
    }

    /// Notes the evictions among `effects`, before the preemptor goes back to the queue. Tells whether there are any.
    pub(crate) fn begin_evictions(
        &mut self,
        preemptor: &PodUid,
        cycle: CycleId,
        plugin: &Arc<str>,
        effects: &[Effect],
    ) -> bool {
        let now = self.outbox.instant();
        let victims = self.preemptions.begin(preemptor, cycle, now, plugin, effects);
        if victims > 0 {
            self.outbox.observe(Observation::Preemption { victims });
        }
        victims > 0
    }

    /// The victims of a preemption were told to leave, or not. Their going brings the preemptor back; after a failure nothing
    /// else does.
    pub(crate) fn evictions_finished(&mut self, preemptor: PodUid, cycle: CycleId, succeeded: bool) {
        let Some(started) = self.preemptions.finish(&preemptor, cycle) else { return };
        self.outbox.observe_since(started, |duration| Observation::Evictions { succeeded, duration });
        if !succeeded {
            let now = self.outbox.now();
            self.with_queue(|queue, policy| queue.activate(&[preemptor], now, policy));
        }
    }

    /// Asks for a patch of what differs from the pod's status; of nothing when nothing does, or the pod is gone.
    pub(crate) fn patch_status(&mut self, pod: &Pod, condition: Option<api::Condition>, nominated: Option<String>) {
        let Some(known) = self.pending_pods.get_mut(&pod.uid) else { return };
        let nominated = nominated.filter(|node| *node != known.nominated_node_name);
        if condition.is_none() && nominated.is_none() {
            return;
        }
        let old_nominated_node_name = known.nominated_node_name.clone();
        if let Some(node) = &nominated {
            known.nominated_node_name.clone_from(node);
        }
        let old_conditions = known.conditions_to_patch();
        if condition.is_some() {
            known.asked.clone_from(&condition);
        }
        let change =
            StatusChange { old_conditions, condition, old_nominated_node_name, nominated_node_name: nominated };
        self.request(pod, Request::PatchStatus(change));
    }

    /// What was asked for was not written: the next attempt asks again, if the pod is still there.
    pub(crate) fn status_patch_failed(&mut self, uid: &str) {
        let Some(known) = self.pending_pods.get_mut(uid) else { return };
        known.asked = None;
        let shown = self.cache.table().symbols.text(known.pod.nominated_node_name);
        shown.clone_into(&mut known.nominated_node_name);
    }

    /// Writes the node that the pod is going to into its `nominatedNodeName`, since getting there takes a while
    /// (KEP-5278).
    pub(crate) fn publish_expected_node(&mut self, pod: &Pod, node: Sym) {
        if !self.hides_expected_nodes {
            let node = self.text(node).to_owned();
            self.patch_status(pod, None, Some(node));
        }
    }
}
