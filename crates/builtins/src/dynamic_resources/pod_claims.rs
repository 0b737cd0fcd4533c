//! Finds the claims of a pod and checks that they can be allocated.

use std::{collections::BTreeSet, sync::Arc};

use berth_framework::Status;
use berth_model::{
    Feature, Features, Pod, Symbols,
    pod::{ClaimName, PodClaim},
};

use super::{
    claim_table::ClaimTable,
    dra_cache::DraCache,
    objects::{DeviceRequest, ResourceClaim},
};

/// The claims of the pod in the pod's order. A claim that the pod names twice is listed once.
///
/// # Errors
/// A claim is missing, is being deleted, or belongs to another pod.
pub(super) fn resolve(pod: &Pod, symbols: &Symbols, claims: &ClaimTable) -> Result<Vec<Arc<ResourceClaim>>, Status> {
    let namespace = symbols.text(pod.namespace);
    let mut resolved: Vec<Arc<ResourceClaim>> = Vec::with_capacity(pod.resource_claims.len());
    for pod_claim in &pod.resource_claims {
        let name = match &pod_claim.claim {
            ClaimName::NotNeeded => continue,
            ClaimName::Pending => {
                let text = format!("pod \"{namespace}/{}\": ResourceClaim not created yet", pod.name);
                return Err(Status::unresolvable(text));
            }
            ClaimName::Known(name) => name,
        };
        let Some(claim) = claims.get(namespace, name) else {
            let text = format!("could not find ResourceClaim \"{namespace}/{name}\"");
            return Err(Status::unresolvable(text));
        };
        if claim.metadata.deletion_timestamp.is_some() {
            return Err(Status::unresolvable(format!("resourceclaim {name:?} is being deleted")));
        }
        if !is_for(pod, pod_claim, claim) {
            return Err(Status::unresolvable(format!(
                "ResourceClaim {namespace}/{name} was not created for Pod {namespace}/{} (Pod is not owner)",
                pod.name
            )));
        }
        if !resolved.iter().any(|known| known.metadata.uid == claim.metadata.uid) {
            resolved.push(Arc::clone(claim));
        }
    }
    Ok(resolved)
}

/// The names of the pod's claims, as far as they are known.
pub(super) fn known_names(pod: &Pod) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for pod_claim in &pod.resource_claims {
        match &pod_claim.claim {
            ClaimName::Known(name) => {
                names.insert(&**name);
            }
            ClaimName::Pending | ClaimName::NotNeeded => {}
        }
    }
    names
}

/// Whether the pod may use the claim. A claim that was created from a template must be owned by the pod.
fn is_for(pod: &Pod, pod_claim: &PodClaim, claim: &ResourceClaim) -> bool {
    let mut owners = claim.metadata.owner_references.iter().filter(|owner| owner.controller);
    !pod_claim.from_template || owners.any(|owner| *owner.uid == *pod.uid)
}

/// Whether the requests of an unallocated claim are of a known kind and name classes that exist.
pub(super) fn check_requests(claim: &ResourceClaim, cache: &DraCache, features: Features) -> Result<(), Status> {
    for request in &claim.spec.devices.requests {
        let DeviceRequest { name, exactly, first_available } = request;
        if !first_available.is_empty() && !features.has(Feature::DRAPrioritizedList) {
            let (namespace, claim) = (&claim.metadata.namespace, &claim.metadata.name);
            let text = format!(
                "resource claim {namespace}/{claim}, request {name}: has subrequests, but the DRAPrioritizedList feature is disabled"
            );
            return Err(Status::unresolvable(text));
        }
        if let Some(exactly) = exactly {
            check_class(name, &exactly.device_class_name, cache)?;
        } else if first_available.is_empty() {
            let claim = &claim.metadata.name;
            let text = format!("resource claim {claim}, request {name}: unknown request type");
            return Err(Status::unresolvable(text));
        }
        for sub_request in first_available.iter().filter(|_| exactly.is_none()) {
            check_class(&format!("{name}/{}", sub_request.name), &sub_request.device_class_name, cache)?;
        }
    }
    Ok(())
}

fn check_class(request: &str, class: &str, cache: &DraCache) -> Result<(), Status> {
    if class.is_empty() {
        return Err(Status::error(format!("request {request}: unsupported request type")));
    }
    if cache.classes.contains_key(class) {
        return Ok(());
    }
    Err(Status::unresolvable(format!("request {request}: device class {class} does not exist")))
}
