//! Pods without a node, as the API server last showed them.

use std::sync::Arc;

use berth_model::{Pod, PodUid, api};
use rustc_hash::FxHashMap;

/// A pod without a node, with what a patch of its status is computed from.
#[derive(Clone, Debug)]
pub(crate) struct PendingPod {
    pub(crate) pod: Arc<Pod>,
    pub(crate) resource_version: String,
    pub(crate) generation: i64,
    pub(crate) conditions: Vec<api::Condition>,
    /// The condition that the scheduler asked for since then: the watch has not shown it yet.
    pub(crate) asked: Option<api::Condition>,
    /// `status.nominatedNodeName` as the scheduler last saw it or asked for it to be.
    pub(crate) nominated_node_name: String,
}

impl PendingPod {
    pub(crate) fn new(pod: Arc<Pod>, api: &api::Pod) -> Self {
        Self {
            pod,
            resource_version: api.metadata.resource_version.clone(),
            generation: api.metadata.generation,
            conditions: api.status.conditions.clone(),
            asked: None,
            nominated_node_name: api.status.nominated_node_name.clone(),
        }
    }
}

/// Every pod without a node, by uid.
#[derive(Debug, Default)]
pub(crate) struct PendingPods(FxHashMap<PodUid, PendingPod>);

impl PendingPods {
    pub(crate) fn get(&self, uid: &str) -> Option<&PendingPod> {
        self.0.get(uid)
    }

    pub(crate) fn get_mut(&mut self, uid: &str) -> Option<&mut PendingPod> {
        self.0.get_mut(uid)
    }

    /// Gives back the pod as it was before.
    pub(crate) fn insert(&mut self, pod: PendingPod) -> Option<PendingPod> {
        self.0.insert(pod.pod.uid.clone(), pod)
    }

    pub(crate) fn remove(&mut self, uid: &str) -> Option<PendingPod> {
        self.0.remove(uid)
    }

    /// All of them, by uid.
    pub(crate) fn sorted(&self) -> Vec<Arc<Pod>> {
        let mut pods: Vec<_> = self.0.values().map(|pending| Arc::clone(&pending.pod)).collect();
        pods.sort_by(|left, right| left.uid.cmp(&right.uid));
        pods
    }

    /// The `resourceVersion` of the pod; empty when it is not pending.
    pub(crate) fn resource_version(&self, uid: &str) -> &str {
        self.0.get(uid).map_or("", |pending| &pending.resource_version)
    }
}
