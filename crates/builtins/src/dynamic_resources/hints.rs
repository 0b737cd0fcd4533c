//! Queueing hints: the events that may make a pod schedulable after DynamicResources rejected it.

use berth_framework::{EventSubject, HintCall};
use berth_model::{Pod, pod::ClaimName};

use super::{
    claim_table::{ClaimTable, EXTENDED_RESOURCE_CLAIM},
    objects::ResourceClaim,
    pod_claims,
};
use crate::hints::{decoded, is_own_update};

/// Whether the event may help. `claims` are the current claims. An event about a claim or about the pod itself does not
/// help while a claim of the pod is missing, since PreEnqueue would hold the pod back again.
pub(super) fn may_help(call: &HintCall<'_>, claims: &ClaimTable) -> bool {
    let has_claims = |pod: &Pod| pod_claims::resolve(pod, &call.table.symbols, claims).is_ok();
    match call.subject {
        EventSubject::Object { key, old, new } if key.kind == "ResourceClaim" => {
            let is_in_namespace = call.table.symbols.text(call.pod.namespace) == key.namespace;
            // An object that cannot be decoded may help.
            decoded::<ResourceClaim>(new).is_none_or(|new| {
                has_claims(call.pod) && claim_changed(call.pod, is_in_namespace, decoded(old).as_ref(), &new)
            })
        }
        EventSubject::Pod { new: Some(new), .. } => is_own_update(call) && has_claims(new),
        EventSubject::Pod { .. } | EventSubject::Node { .. } | EventSubject::Object { .. } | EventSubject::Hidden => {
            true
        }
    }
}

/// Whether a change of a claim may help the pod. `is_in_namespace` says whether the claim is in the namespace of the
/// pod.
fn claim_changed(pod: &Pod, is_in_namespace: bool, old: Option<&ResourceClaim>, new: &ResourceClaim) -> bool {
    let was_allocated = old.is_some_and(|old| old.status.allocation.is_some());
    if was_allocated && new.status.allocation.is_none() {
        return true;
    }
    let names_it = |name: &ClaimName| matches!(name, ClaimName::Known(name) if **name == *new.metadata.name);
    let is_made_for_it = new.metadata.annotations.contains_key(EXTENDED_RESOURCE_CLAIM)
        && new.metadata.owner_references.iter().any(|owner| *owner.uid == *pod.uid);
    let is_named = is_in_namespace && pod.resource_claims.iter().any(|claim| names_it(&claim.claim));
    if !is_made_for_it && !is_named {
        return false;
    }
    old.is_none_or(|old| old.status != new.status)
}
