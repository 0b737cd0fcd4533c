//! Pods as the API server last showed them, as far as they have no node yet.

use std::sync::Arc;

use berth_model::{Pod, PodUid, Sym, api};
use rustc_hash::FxHashMap;

use crate::action::PodRef;

/// A pod without a node, with what writing its status takes.
#[derive(Clone, Debug)]
pub(crate) struct PendingPod {
    pub(crate) pod: Arc<Pod>,
    pub(crate) resource_version: String,
    pub(crate) generation: i64,
    pub(crate) conditions: Vec<api::Condition>,
    /// `status.nominatedNodeName` as it is, or will be once what was written comes back.
    pub(crate) nominated_node_name: String,
}

impl PendingPod {
    pub(crate) fn new(pod: Arc<Pod>, api: &api::Pod) -> Self {
        Self {
            pod,
            resource_version: api.metadata.resource_version.clone(),
            generation: api.metadata.generation,
            conditions: api.status.conditions.clone(),
            nominated_node_name: api.status.nominated_node_name.clone(),
        }
    }
}

/// Pending pods by uid, and the uid behind each name, of placed pods too.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    pending: FxHashMap<PodUid, PendingPod>,
    by_name: FxHashMap<(String, String), PodUid>,
}

impl Pods {
    pub(crate) fn get(&self, uid: &str) -> Option<&PendingPod> {
        self.pending.get(uid)
    }

    pub(crate) fn get_mut(&mut self, uid: &str) -> Option<&mut PendingPod> {
        self.pending.get_mut(uid)
    }

    pub(crate) fn insert(&mut self, pod: PendingPod) -> Option<PendingPod> {
        self.pending.insert(pod.pod.uid.clone(), pod)
    }

    pub(crate) fn remove(&mut self, uid: &str) -> Option<PendingPod> {
        self.pending.remove(uid)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PendingPod> {
        self.pending.values()
    }

    /// Notes who bears the name; gives back the uid of another pod that bore it before.
    pub(crate) fn name(&mut self, metadata: &api::ObjectMeta, uid: &PodUid) -> Option<PodUid> {
        let key = (metadata.namespace.clone(), metadata.name.clone());
        self.by_name.insert(key, uid.clone()).filter(|old| old != uid)
    }

    /// The name is free again, unless another pod took it.
    pub(crate) fn unname(&mut self, namespace: &str, name: &str, uid: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        if self.by_name.get(&key).is_some_and(|known| **known == *uid) {
            self.by_name.remove(&key);
        }
    }

    pub(crate) fn pod_ref(&self, pod: &Pod, namespace: &str) -> PodRef {
        let known = self.pending.get(&pod.uid);
        PodRef {
            namespace: namespace.to_owned(),
            name: pod.name.to_string(),
            uid: pod.uid.clone(),
            resource_version: known.map(|known| known.resource_version.clone()).unwrap_or_default(),
        }
    }
}

/// Nothing is nominated.
pub(crate) const NO_NODE: Sym = Sym::NONE;
