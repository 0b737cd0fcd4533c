//! Cleans up device claims after pods. A reservation ends with its pod, and the allocation ends with the last
//! reservation. A claim that was generated for a pod is deleted with the pod.

use serde_json::Value;

use crate::controllers::collections::{PODS, RESOURCE_CLAIMS};
use crate::controllers::controller::{Controller, Observed};
use crate::controllers::owners;
use crate::controllers::owners::owning_pod;
use crate::fields::json::{child_mut, is_being_deleted, items, metadata_mut, text};
use crate::fields::pods::is_done;
use crate::objects::update::edit;
use crate::state::ClusterState;
use crate::status::ApiResult;
use crate::storage::key;

/// The finalizer that prevents the removal of an allocated claim.
const PROTECTION: &str = "resource.kubernetes.io/delete-protection";

/// Cleans up claims. Its keys are the keys of claims.
pub(in crate::controllers) struct DeviceClaimController;

impl Controller for DeviceClaimController {
    fn affected(&self, _state: &ClusterState, observed: &Observed<'_>) -> Vec<String> {
        match observed.collection {
            RESOURCE_CLAIMS if !observed.gone => vec![observed.key()],
            PODS if observed.gone || is_done(&observed.object.value) => {
                let namespace = observed.object.namespace();
                claims_of(&observed.object.value).map(|claim| key(namespace, claim)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, state: &ClusterState, claim_key: &str) -> ApiResult<()> {
        let claims = state.collection(RESOURCE_CLAIMS);
        edit(&claims, claim_key, |claim| clean(state, claim));
        let Some(claim) = claims.get(claim_key) else { return Ok(()) };
        let is_free = items(&claim.value, "/status/reservedFor").is_empty();
        let Some(owner) = owning_pod(&claim.value).filter(|_| is_free && !is_being_deleted(&claim.value)) else {
            return Ok(());
        };
        if may_run(state, claim.namespace(), owner.name, owner.uid) {
            return Ok(());
        }
        let kind = state.built_in_kind("resource.k8s.io", "resourceclaims")?;
        owners::remove(state, &kind, &claim)
    }
}

/// The names of a pod's claims: the claims in its spec, the generated claims, and the claim for its extended resources.
fn claims_of(pod: &Value) -> impl Iterator<Item = &str> {
    let named = items(pod, "/spec/resourceClaims").iter();
    let generated = items(pod, "/status/resourceClaimStatuses").iter();
    let of_extended = pod.pointer("/status/extendedResourceClaimStatus").into_iter();
    let claims = named.chain(generated).chain(of_extended).map(|claim| text(claim, "/resourceClaimName"));
    claims.filter(|claim| !claim.is_empty())
}

/// Removes the reservations of pods that no longer exist or run. If none is left, also removes the allocation, the
/// status of the devices and the finalizer.
fn clean(state: &ClusterState, claim: &mut Value) {
    let namespace = text(claim, "/metadata/namespace").to_owned();
    let reserved = items(claim, "/status/reservedFor");
    let holds = |consumer: &&Value| {
        let is_pod = text(consumer, "/resource") == "pods" && text(consumer, "/apiGroup").is_empty();
        !is_pod || may_run(state, &namespace, text(consumer, "/name"), text(consumer, "/uid"))
    };
    let left: Vec<Value> = reserved.iter().filter(holds).cloned().collect();
    let has_ended = left.is_empty() && (!reserved.is_empty() || is_being_deleted(claim));
    if left.len() == reserved.len() && !has_ended {
        return;
    }
    let status = child_mut(claim, "status");
    if !has_ended {
        status.insert("reservedFor".to_owned(), left.into());
        return;
    }
    for field in ["reservedFor", "allocation", "devices"] {
        status.remove(field);
    }
    let metadata = metadata_mut(claim);
    if let Some(finalizers) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
        finalizers.retain(|finalizer| finalizer != PROTECTION);
        if finalizers.is_empty() {
            metadata.remove("finalizers");
        }
    }
}

/// Whether the pod with this name and uid exists and may still run.
fn may_run(state: &ClusterState, namespace: &str, name: &str, uid: &str) -> bool {
    let pod = state.collection(PODS).get(&key(namespace, name));
    pod.is_some_and(|pod| pod.uid() == uid && !is_done(&pod.value))
}
