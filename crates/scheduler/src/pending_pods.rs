//! Pods without a node, as the API server last showed them.

use std::sync::Arc;

use berth_model::{ChangedKeys, Pod, PodUid, api};
use rustc_hash::FxHashMap;

/// A pod without a node, with the data from which a patch of its status is computed.
#[derive(Clone, Debug)]
pub(crate) struct PendingPod {
    pub(crate) pod: Arc<Pod>,
    pub(crate) resource_version: Arc<str>,
    pub(crate) generation: i64,
    pub(crate) conditions: Vec<api::Condition>,
    /// The condition that the scheduler requested and that the watch has not shown yet.
    pub(crate) asked: Option<api::Condition>,
    /// `status.nominatedNodeName`, as the scheduler last saw or requested it.
    pub(crate) nominated_node_name: String,
    /// The PodGroup that `spec.schedulingGroup` names.
    pub(crate) pod_group: Option<Arc<str>>,
}

impl PendingPod {
    pub(crate) fn new(pod: Arc<Pod>, api: &api::Pod) -> Self {
        Self {
            pod,
            resource_version: api.metadata.resource_version.as_str().into(),
            generation: api.metadata.generation,
            conditions: api.status.conditions.clone(),
            asked: None,
            nominated_node_name: api.status.nominated_node_name.clone(),
            pod_group: api.spec.scheduling_group.as_ref().map(|group| Arc::from(group.pod_group_name.as_str())),
        }
    }
}

impl PendingPod {
    /// The condition that says whether the pod has a node, as the watch shows it.
    pub(crate) fn scheduled(&self) -> Option<&api::Condition> {
        self.conditions.iter().find(|condition| condition.type_ == "PodScheduled")
    }

    /// The conditions to compare with when a patch is made. At that time, the API server may not have the requested
    /// condition yet. Reason and message of this condition are therefore empty in the result, so that the patch always
    /// contains them.
    pub(crate) fn conditions_to_patch(&self) -> Vec<api::Condition> {
        let mut conditions = self.conditions.clone();
        if let Some(asked) = &self.asked {
            for condition in conditions.iter_mut().filter(|condition| condition.type_ == asked.type_) {
                (condition.reason, condition.message, condition.observed_generation) = Default::default();
            }
        }
        conditions
    }
}

/// Every pod without a node, by uid.
#[derive(Debug, Default)]
pub(crate) struct PendingPods {
    pods: FxHashMap<PodUid, PendingPod>,
    changed: ChangedKeys<PodUid>,
}

impl PendingPods {
    pub(crate) fn get(&self, uid: &str) -> Option<&PendingPod> {
        self.pods.get(uid)
    }

    pub(crate) fn get_mut(&mut self, uid: &str) -> Option<&mut PendingPod> {
        self.pods.get_mut(uid)
    }

    /// Returns the previous state of the pod.
    pub(crate) fn insert(&mut self, mut pod: PendingPod) -> Option<PendingPod> {
        let before = self.pods.get_mut(&pod.pod.uid);
        // If the condition in the object did not change, the API server has not written the requested condition yet.
        if let Some(before) = before.filter(|before| before.scheduled() == pod.scheduled()) {
            pod.asked = before.asked.take();
        }
        self.changed.note(&pod.pod.uid);
        self.pods.insert(pod.pod.uid.clone(), pod)
    }

    pub(crate) fn remove(&mut self, uid: &str) -> Option<PendingPod> {
        let (uid, pod) = self.pods.remove_entry(uid)?;
        self.changed.note(&uid);
        Some(pod)
    }

    /// Starts to note changes. With `false`, stops and forgets the notes.
    pub(crate) fn follow(&mut self, is_followed: bool) {
        self.changed.follow(is_followed);
    }

    /// The pods that came, changed or went since the last call.
    pub(crate) fn changed(&mut self) -> impl Iterator<Item = PodUid> + '_ {
        self.changed.drain()
    }

    /// All pending pods, by uid.
    pub(crate) fn sorted(&self) -> Vec<Arc<Pod>> {
        let mut pods: Vec<_> = self.pods.values().map(|pending| Arc::clone(&pending.pod)).collect();
        pods.sort_by(|left, right| left.uid.cmp(&right.uid));
        pods
    }

    /// The `resourceVersion` of the pod; empty if the pod is not pending.
    pub(crate) fn resource_version(&self, uid: &str) -> Arc<str> {
        self.pods.get(uid).map_or_else(|| Arc::from(""), |pending| Arc::clone(&pending.resource_version))
    }
}
