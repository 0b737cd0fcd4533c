//! Queueing hints: which events may make a pod schedulable that DynamicResources rejected.

use berth_framework::ClusterEvent;
use berth_model::{Pod, api, pod::ClaimName};

use super::{claim_table::EXTENDED_RESOURCE_CLAIM, objects::ResourceClaim, pod_claims::are_generated};

pub(super) fn may_help(pod: &Pod, event: &ClusterEvent, old: Option<&[u8]>, new: Option<&[u8]>) -> bool {
    // An object that cannot be decoded may help.
    match event.resource.as_str() {
        "resource.k8s.io/ResourceClaim" => match new.map(serde_json::from_slice) {
            Some(Ok(new)) => claim_changed(pod, old.and_then(|old| serde_json::from_slice(old).ok()).as_ref(), &new),
            Some(Err(_)) | None => true,
        },
        "Pod" => match new.map(serde_json::from_slice) {
            Some(Ok(new)) => pod_changed(pod, &new),
            Some(Err(_)) | None => true,
        },
        _ => true,
    }
}

/// Claims are compared by name alone: the namespace of the pod is a symbol that cannot be resolved here, and a claim with
/// the same name in another namespace costs one attempt at most.
fn claim_changed(pod: &Pod, old: Option<&ResourceClaim>, new: &ResourceClaim) -> bool {
    if !are_generated(pod) {
        return false;
    }
    let was_allocated = old.is_some_and(|old| old.status.allocation.is_some());
    if was_allocated && new.status.allocation.is_none() {
        return true;
    }
    let names_it = |name: &ClaimName| matches!(name, ClaimName::Known(name) if **name == *new.metadata.name);
    let is_made_for_it = new.metadata.annotations.contains_key(EXTENDED_RESOURCE_CLAIM)
        && new.metadata.owner_references.iter().any(|owner| *owner.uid == *pod.uid);
    if !is_made_for_it && !pod.resource_claims.iter().any(|claim| names_it(&claim.claim)) {
        return false;
    }
    old.is_none_or(|old| old.status != new.status)
}

fn pod_changed(pod: &Pod, new: &api::Pod) -> bool {
    let is_named = |name: &str| new.status.resource_claim_statuses.iter().any(|status| status.name == name);
    *new.metadata.uid == *pod.uid
        && new.spec.resource_claims.iter().all(|claim| claim.resource_claim_name.is_some() || is_named(&claim.name))
}
