//! Binds claims to volumes, as the persistent volume controller does.
//!
//! A claim whose class waits for the first consumer stays as it is until the scheduler has either reserved a volume for
//! it (`spec.claimRef`) or named the node (`volume.kubernetes.io/selected-node`), where a volume is then made.

use serde_json::{Value, json};

use super::volume_match::{best, claim_key, class_name, class_of, is_delayed, is_for_claim, satisfies};
use super::{
    Controller, Observed, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES, annotate, annotation, change, is_leaving,
    provisioner,
};
use crate::admission::default_storage_class;
use crate::api::Api;
use crate::object::{Object, carry, child_mut, text};
use crate::status::Answer;
use crate::store::key;

/// On a volume: a controller or the scheduler has chosen the claim. On a claim: the controller has chosen the volume.
pub(super) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The node that the scheduler has chosen for the pod.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Binds claims; its keys are claims.
pub(super) struct ClaimBinder;

impl Controller for ClaimBinder {
    fn concerned(&self, api: &Api, observed: &Observed<'_>) -> Vec<String> {
        match observed.collection {
            VOLUME_CLAIMS if !observed.gone => vec![observed.key()],
            VOLUMES => {
                let mut claims: Vec<String> =
                    observed.versions().filter_map(|volume| claim_key(&volume.value)).collect();
                if claim_key(&observed.object.value).is_none() && !observed.gone {
                    claims.extend(unbound(api));
                }
                claims
            }
            STORAGE_CLASSES if !observed.gone => unbound(api),
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, api: &Api, claim_key: &str) -> Answer<()> {
        let Some(claim) = api.store.collection(VOLUME_CLAIMS).get(claim_key) else { return Ok(()) };
        if !annotation(&claim.value, BIND_COMPLETED).is_empty() {
            check_bound(api, &claim);
            return Ok(());
        }
        if is_leaving(&claim.value) {
            return Ok(());
        }
        let wanted = text(&claim.value, "/spec/volumeName");
        if wanted.is_empty() {
            return find_volume(api, &claim);
        }
        if let Some(volume) = api.store.collection(VOLUMES).get(wanted) {
            let is_free = volume.value.pointer("/spec/claimRef").is_none() && satisfies(&volume.value, &claim.value);
            if is_free || is_for_claim(&volume.value, &claim) {
                bind(api, &volume, &claim);
            }
        }
        Ok(())
    }
}

fn unbound(api: &Api) -> Vec<String> {
    let (claims, _) = api.store.collection(VOLUME_CLAIMS).list("");
    let unbound = claims.iter().filter(|claim| annotation(&claim.value, BIND_COMPLETED).is_empty());
    unbound.map(|claim| key(claim.namespace(), claim.name())).collect()
}

fn find_volume(api: &Api, claim: &Object) -> Answer<()> {
    let class = class_of(api, &claim.value);
    let delayed = class.as_ref().is_some_and(|class| is_delayed(class));
    if let Some(volume) = best(api, claim, delayed) {
        bind(api, &volume, claim);
        return Ok(());
    }
    let Some(class) = class else {
        give_default_class(api, claim);
        return Ok(());
    };
    if delayed && annotation(&claim.value, SELECTED_NODE).is_empty() {
        return Ok(());
    }
    provisioner::provision(api, claim, &class)
}

/// A claim from before there was a default class gets it later, unless it asks for none by an empty name.
fn give_default_class(api: &Api, claim: &Object) {
    let has_choice = claim.value.pointer("/spec/storageClassName").is_some() || !class_name(&claim.value).is_empty();
    let Some(class) = default_storage_class(api).filter(|_| !has_choice) else { return };
    change(&api.store.collection(VOLUME_CLAIMS), &key(claim.namespace(), claim.name()), |value| {
        if value.pointer("/spec/storageClassName").is_none() {
            child_mut(value, "spec").insert("storageClassName".to_owned(), class.name().into());
        }
    });
}

/// Binds both sides. Nothing happens to the claim if somebody else got the volume first.
fn bind(api: &Api, volume: &Object, claim: &Object) {
    let volumes = api.store.collection(VOLUMES);
    change(&volumes, volume.name(), |value| {
        let is_reserved = is_for_claim(value, claim);
        if is_reserved || value.pointer("/spec/claimRef").is_none() {
            bind_volume(value, claim, is_reserved);
        }
    });
    let Some(volume) = volumes.get(volume.name()).filter(|volume| is_for_claim(&volume.value, claim)) else { return };
    change(&api.store.collection(VOLUME_CLAIMS), &key(claim.namespace(), claim.name()), |value| {
        if text(value, "/metadata/uid") == text(&claim.value, "/metadata/uid") {
            bind_claim(value, &volume);
        }
    });
}

fn bind_volume(volume: &mut Value, claim: &Object, is_reserved: bool) {
    let uid = text(&claim.value, "/metadata/uid");
    if text(volume, "/spec/claimRef/uid") != uid {
        let reference = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim.namespace(),
            "name": claim.name(),
            "uid": uid,
            "resourceVersion": claim.revision.to_string(),
        });
        child_mut(volume, "spec").insert("claimRef".to_owned(), reference);
    }
    if !is_reserved {
        annotate(volume, BOUND_BY_CONTROLLER, "yes");
    }
    child_mut(volume, "status").insert("phase".to_owned(), "Bound".into());
}

fn bind_claim(claim: &mut Value, volume: &Object) {
    if text(claim, "/spec/volumeName") != volume.name() {
        annotate(claim, BOUND_BY_CONTROLLER, "yes");
    }
    annotate(claim, BIND_COMPLETED, "yes");
    child_mut(claim, "spec").insert("volumeName".to_owned(), volume.name().into());
    let status = child_mut(claim, "status");
    status.insert("phase".to_owned(), "Bound".into());
    if let Some(spec) = volume.value.get("spec") {
        carry(spec, status, "accessModes");
        carry(spec, status, "capacity");
    }
}

/// A bound claim is lost when its volume goes or is given to another.
fn check_bound(api: &Api, claim: &Object) {
    match api.store.collection(VOLUMES).get(text(&claim.value, "/spec/volumeName")) {
        Some(volume) if is_for_claim(&volume.value, claim) || volume.value.pointer("/spec/claimRef").is_none() => {
            bind(api, &volume, claim);
        }
        Some(_) | None => {
            change(&api.store.collection(VOLUME_CLAIMS), &key(claim.namespace(), claim.name()), |value| {
                child_mut(value, "status").insert("phase".to_owned(), "Lost".into());
            });
        }
    }
}
