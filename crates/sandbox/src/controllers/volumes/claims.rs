//! Binds claims to volumes, as the persistent volume controller does.
//!
//! A claim with a class that waits for the first consumer stays unchanged until the scheduler has either reserved a
//! volume for it (`spec.claimRef`) or chosen a node (`volume.kubernetes.io/selected-node`). A volume is then created
//! for this node.

use serde_json::Value;

use super::annotations::{BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE};
use super::matching::{best, claim_key, claim_reference, class_name, class_of, is_delayed, is_for_claim, satisfies};
use super::provisioner;
use crate::controllers::collections::{STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES};
use crate::controllers::controller::{Controller, Observed};
use crate::fields::json::{annotate, annotation, carry, child_mut, is_being_deleted, text, uid};
use crate::objects::update::edit;
use crate::rules::admission::default_storage_class;
use crate::state::ClusterState;
use crate::status::ApiResult;
use crate::storage::Object;

/// Binds claims to volumes. Its keys are the keys of claims.
pub(in crate::controllers) struct ClaimBinder;

impl Controller for ClaimBinder {
    fn affected(&self, state: &ClusterState, observed: &Observed<'_>) -> Vec<String> {
        match observed.collection {
            VOLUME_CLAIMS if !observed.gone => vec![observed.key()],
            VOLUMES => {
                let mut claims: Vec<String> =
                    observed.versions().filter_map(|volume| claim_key(&volume.value)).collect();
                if claim_key(&observed.object.value).is_none() && !observed.gone {
                    claims.extend(unbound(state));
                }
                claims
            }
            STORAGE_CLASSES if !observed.gone => unbound(state),
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, state: &ClusterState, claim_key: &str) -> ApiResult<()> {
        let Some(claim) = state.collection(VOLUME_CLAIMS).get(claim_key) else { return Ok(()) };
        if !annotation(&claim.value, BIND_COMPLETED).is_empty() {
            check_bound(state, &claim);
            return Ok(());
        }
        if is_being_deleted(&claim.value) {
            return Ok(());
        }
        let wanted = text(&claim.value, "/spec/volumeName");
        if wanted.is_empty() {
            return find_volume(state, &claim);
        }
        if let Some(volume) = state.collection(VOLUMES).get(wanted) {
            let is_free = volume.value.pointer("/spec/claimRef").is_none() && satisfies(&volume.value, &claim.value);
            if is_free || is_for_claim(&volume.value, &claim) {
                bind(state, &volume, &claim);
            }
        }
        Ok(())
    }
}

fn unbound(state: &ClusterState) -> Vec<String> {
    let (claims, _) = state.collection(VOLUME_CLAIMS).list("");
    let unbound = claims.iter().filter(|claim| annotation(&claim.value, BIND_COMPLETED).is_empty());
    unbound.map(|claim| claim.key()).collect()
}

fn find_volume(state: &ClusterState, claim: &Object) -> ApiResult<()> {
    let class = class_of(state, &claim.value);
    let delayed = class.as_ref().is_some_and(|class| is_delayed(class));
    if let Some(volume) = best(state, claim, delayed) {
        bind(state, &volume, claim);
        return Ok(());
    }
    let Some(class) = class else {
        give_default_class(state, claim);
        return Ok(());
    };
    if delayed && annotation(&claim.value, SELECTED_NODE).is_empty() {
        return Ok(());
    }
    provisioner::provision(state, claim, &class)
}

/// Gives the default class to a claim that was created before the cluster had a default class. A claim with an empty
/// class name asks for no class and stays unchanged.
fn give_default_class(state: &ClusterState, claim: &Object) {
    let has_choice = claim.value.pointer("/spec/storageClassName").is_some() || !class_name(&claim.value).is_empty();
    let Some(class) = default_storage_class(state).filter(|_| !has_choice) else { return };
    edit(&state.collection(VOLUME_CLAIMS), &claim.key(), |value| {
        if value.pointer("/spec/storageClassName").is_none() {
            child_mut(value, "spec").insert("storageClassName".to_owned(), class.name().into());
        }
    });
}

/// Binds the volume to the claim, then the claim to the volume. The claim stays unchanged if another claim got the
/// volume first.
fn bind(state: &ClusterState, volume: &Object, claim: &Object) {
    let volumes = state.collection(VOLUMES);
    edit(&volumes, volume.name(), |value| {
        let is_reserved = is_for_claim(value, claim);
        if is_reserved || value.pointer("/spec/claimRef").is_none() {
            bind_volume(value, claim, is_reserved);
        }
    });
    let Some(volume) = volumes.get(volume.name()).filter(|volume| is_for_claim(&volume.value, claim)) else { return };
    edit(&state.collection(VOLUME_CLAIMS), &claim.key(), |value| {
        if uid(value) == claim.uid() {
            bind_claim(value, &volume);
        }
    });
}

fn bind_volume(volume: &mut Value, claim: &Object, is_reserved: bool) {
    let uid = claim.uid();
    if text(volume, "/spec/claimRef/uid") != uid {
        child_mut(volume, "spec").insert("claimRef".to_owned(), claim_reference(claim));
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

/// Marks a bound claim as lost if its volume no longer exists or belongs to another claim.
fn check_bound(state: &ClusterState, claim: &Object) {
    match state.collection(VOLUMES).get(text(&claim.value, "/spec/volumeName")) {
        Some(volume) if is_for_claim(&volume.value, claim) || volume.value.pointer("/spec/claimRef").is_none() => {
            bind(state, &volume, claim);
        }
        Some(_) | None => {
            edit(&state.collection(VOLUME_CLAIMS), &claim.key(), |value| {
                child_mut(value, "status").insert("phase".to_owned(), "Lost".into());
            });
        }
    }
}
