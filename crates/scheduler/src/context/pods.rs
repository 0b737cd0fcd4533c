//! The data about pods that neither the cache nor the queue has: their status, limits and evictions in progress.

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

    /// Notes that the pod appeared or changed. Returns the previous state of the pod.
    pub(crate) fn set_pending(&mut self, pod: PendingPod) -> Option<PendingPod> {
        self.pending_pods.insert(pod)
    }

    /// Notes that the pod no longer waits. It has a node, it is gone, or no profile serves it.
    pub(crate) fn no_longer_pending(&mut self, uid: &str) -> Option<PendingPod> {
        self.queue.delete(uid);
        self.pending_pods.remove(uid)
    }

    /// Forgets a deleted pod. Returns the data of a pod that was pending.
    pub(crate) fn forget_pod(&mut self, uid: &str) -> Option<PendingPod> {
        self.preemptions.forget(uid);
        self.pod_limits.remove(uid);
        self.no_longer_pending(uid)
    }

    /// Removes the pod from its node, so that other pods may use the room.
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

    /// The limits of the pod; `None` if the pod has no limits.
    pub(crate) fn limits(&self, uid: &str) -> Option<Arc<Requests>> {
        self.pod_limits.get(uid).cloned()
    }

    /// Starts to note which pods without a node change. With `false`, stops and forgets the notes.
    pub(crate) fn follow_pending_pods(&mut self, is_followed: bool) {
        self.pending_pods.follow(is_followed);
    }

    /// The pods without a node that came, changed or went since the last call.
    pub(crate) fn changed_pending_pods(&mut self) -> impl Iterator<Item = PodUid> + '_ {
        self.pending_pods.changed()
    }

    /// Notes the evictions among `effects`, before the preemptor returns to the queue. Returns whether `effects`
    /// contains evictions.
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

    /// Notes that the evictions of a preemption succeeded or failed. After success, the departure of the victims brings
    /// the preemptor back. After a failure, only this call brings it back.
    pub(crate) fn evictions_finished(&mut self, preemptor: PodUid, cycle: CycleId, succeeded: bool) {
        let Some(started) = self.preemptions.finish(&preemptor, cycle) else { return };
        self.outbox.observe_since(started, |duration| Observation::Evictions { succeeded, duration });
        if !succeeded {
            let now = self.outbox.now();
            self.with_queue(|queue, policy| queue.activate(&[preemptor], now, policy));
        }
    }

    /// Requests a patch of the parts of the pod's status that differ. Nothing happens if no part differs or the pod is
    /// gone.
    pub(crate) fn patch_status(
        &mut self,
        pod: &Pod,
        cycle: Option<CycleId>,
        condition: Option<api::Condition>,
        nominated: Option<String>,
    ) {
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
        let nominated_node_name = nominated;
        let change = StatusChange { cycle, old_conditions, condition, old_nominated_node_name, nominated_node_name };
        self.request(pod, Request::PatchStatus(change));
    }

    /// Notes that a patch was not written. The next attempt requests it again, if the pod still exists.
    pub(crate) fn status_patch_failed(&mut self, uid: &str) {
        let Some(known) = self.pending_pods.get_mut(uid) else { return };
        known.asked = None;
        let shown = self.cache.table().symbols.text(known.pod.nominated_node_name);
        shown.clone_into(&mut known.nominated_node_name);
    }

    /// Writes the node that was chosen for the pod into its `nominatedNodeName`, because the pod reaches it only after
    /// a while (KEP-5278).
    pub(crate) fn publish_expected_node(&mut self, pod: &Pod, cycle: CycleId, node: Sym) {
        if !self.hides_expected_nodes {
            let node = self.text(node).to_owned();
            self.patch_status(pod, Some(cycle), None, Some(node));
        }
    }
}
