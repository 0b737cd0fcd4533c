//! The resources of its node that a pod takes through its devices (KEP-5517), from Reserve on.
//!
//! A plugin at Reserve shares them as a fact, and at PreBind writes them into the pod's status. The pod counts with them
//! at once, and not only when the API server shows the status: otherwise another pod could be placed on the same
//! resources. A plugin that shares no facts is counted from PreBind on.

use std::sync::Arc;

use berth_framework::Effect;
use berth_model::{
    ClusterTable, Feature, Pod,
    api::{self, NodeAllocatableClaimStatus},
    intern,
};
use serde_json::Value;

use super::Context;

impl Context {
    /// Counts the share of a pod that a plugin shared at Reserve ([`berth_framework::Fact::node_share`]).
    pub(super) fn count_reserved_share(&mut self, pod_uid: &str, claims: &[u8]) {
        if self.counts_device_shares()
            && let Ok(claims) = serde_json::from_slice(claims)
        {
            self.count_device_share(pod_uid, claims);
        }
    }

    /// Counts the share of a pod that these effects write into the pod's status.
    pub(crate) fn count_written_share(&mut self, pod: &Pod, effects: &[Effect]) {
        if self.counts_device_shares()
            && let Some(claims) = effects.iter().find_map(|effect| written(effect, pod, self.table()))
        {
            self.count_device_share(&pod.uid, claims);
        }
    }

    fn counts_device_shares(&self) -> bool {
        self.queue().features().has(Feature::DRANodeAllocatableResources)
    }

    /// Counts the pod with these entries in its status, if the pod is assumed to be on a node.
    fn count_device_share(&mut self, pod_uid: &str, claims: Vec<NodeAllocatableClaimStatus>) {
        let assumed = self.cache().pod(pod_uid).filter(|cached| cached.is_assumed());
        let Some((pod, node)) = assumed.map(|cached| (Arc::clone(cached.pod()), cached.node())) else { return };
        // With the gate, all pending pods are kept as JSON.
        let object = pod.json.as_deref().and_then(|json| serde_json::from_slice::<api::Pod>(json).ok());
        let Some(mut object) = object else { return };
        object.status.node_allocatable_resource_claim_statuses = claims;
        self.text(node).clone_into(&mut object.spec.node_name);
        let features = self.queue().features();
        let counted = intern::pod(&object, features, self.symbols_mut());
        let counted = Pod { node_name: pod.node_name, json: pod.json.clone(), ..counted };
        self.cache_mut().recount_assumed(Arc::new(counted));
    }
}

/// The entries that the effect writes; `None` if it is no patch of them in the status of this pod.
fn written(effect: &Effect, pod: &Pod, table: &ClusterTable) -> Option<Vec<NodeAllocatableClaimStatus>> {
    let Effect::Patch { kind, namespace, name, subresource, patch, .. } = effect else { return None };
    let is_status = kind == "v1/Pod" && subresource.as_deref() == Some("status");
    if !is_status || **name != *pod.name || **namespace != *table.symbols.text(pod.namespace) {
        return None;
    }
    let patch: Value = serde_json::from_slice(patch).ok()?;
    let claims = patch.pointer("/status/nodeAllocatableResourceClaimStatuses")?;
    serde_json::from_value(claims.clone()).ok()
}
