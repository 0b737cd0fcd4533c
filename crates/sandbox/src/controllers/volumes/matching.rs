//! Finds the volume that fits a claim.

use std::sync::Arc;

use berth_model::quantity::Quantity;
use serde_json::{Value, json};

use super::annotations::CLASS_ANNOTATION;
use crate::controllers::collections::{STORAGE_CLASSES, VOLUMES};
use crate::fields::json::{annotation, is_being_deleted, items, text};
use crate::selectors::spec_selector;
use crate::state::ClusterState;
use crate::storage::{Object, key};

/// The name of the class of a claim or a volume; empty without a class.
pub(super) fn class_name(object: &Value) -> &str {
    let old = annotation(object, CLASS_ANNOTATION);
    if old.is_empty() { text(object, "/spec/storageClassName") } else { old }
}

/// The class of a claim; `None` if the claim names no class, or the class does not exist.
pub(super) fn class_of(state: &ClusterState, claim: &Value) -> Option<Arc<Object>> {
    state.collection(STORAGE_CLASSES).get(class_name(claim))
}

/// Whether claims of the class wait for the scheduler's choice of a node.
pub(super) fn is_delayed(class: &Object) -> bool {
    text(&class.value, "/volumeBindingMode") == "WaitForFirstConsumer"
}

/// The key of the claim for which a volume is reserved, or to which it is bound.
pub(super) fn claim_key(volume: &Value) -> Option<String> {
    volume.pointer("/spec/claimRef")?;
    Some(key(text(volume, "/spec/claimRef/namespace"), text(volume, "/spec/claimRef/name")))
}

/// The `spec.claimRef` of a volume that belongs to the claim.
pub(super) fn claim_reference(claim: &Object) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace(),
        "name": claim.name(),
        "uid": claim.uid(),
        "resourceVersion": claim.version.to_string(),
    })
}

/// Whether a volume is reserved for or bound to this claim, and not to an earlier claim of the same name. A reservation
/// may leave out the uid.
pub(super) fn is_for_claim(volume: &Value, claim: &Object) -> bool {
    let uid = text(volume, "/spec/claimRef/uid");
    claim_key(volume).is_some_and(|reserved| reserved == claim.key()) && (uid.is_empty() || uid == claim.uid())
}

/// Whether a volume has the size, mode, class and access modes that a claim asks for. Its node affinity and its present
/// binding are ignored.
pub(super) fn satisfies(volume: &Value, claim: &Value) -> bool {
    let same = |pointer: &str| text(volume, pointer) == text(claim, pointer);
    is_large_enough(volume, claim)
        && same("/spec/volumeMode")
        && same("/spec/volumeAttributesClassName")
        && class_name(volume) == class_name(claim)
        && has_modes(volume, claim)
}

/// The volume for a claim. A volume that is reserved for the claim comes first. Otherwise, if the claim does not wait
/// for a node, the result is the free volume with the fewest access modes. If several volumes have the same number, the
/// smallest volume is the result.
pub(super) fn best(state: &ClusterState, claim: &Object, delayed: bool) -> Option<Arc<Object>> {
    let (volumes, _) = state.collection(VOLUMES).list("");
    let reserved = volumes.iter().find(|volume| {
        is_for_claim(&volume.value, claim)
            && is_large_enough(&volume.value, &claim.value)
            && !is_being_deleted(&volume.value)
            && text(&volume.value, "/spec/volumeMode") == text(&claim.value, "/spec/volumeMode")
    });
    if reserved.is_some() || delayed {
        return reserved.cloned();
    }
    let is_free = |volume: &&Arc<Object>| {
        text(&volume.value, "/status/phase") == "Available"
            && volume.value.pointer("/spec/claimRef").is_none()
            && !is_being_deleted(&volume.value)
    };
    let is_selected = |volume: &&Arc<Object>| {
        let selector = claim.value.pointer("/spec/selector");
        selector.is_none_or(|selector| spec_selector::matches(selector, &volume.value))
    };
    let fits = |volume: &&Arc<Object>| satisfies(&volume.value, &claim.value);
    let free = volumes.iter().filter(is_free).filter(is_selected).filter(fits);
    let smallest = free.min_by(|a, b| {
        let n_modes = |volume: &Object| items(&volume.value, "/spec/accessModes").len();
        let by_size = || capacity(&a.value).partial_cmp(&capacity(&b.value)).unwrap_or(std::cmp::Ordering::Equal);
        n_modes(a).cmp(&n_modes(b)).then_with(by_size)
    });
    smallest.cloned()
}

fn is_large_enough(volume: &Value, claim: &Value) -> bool {
    let wanted = text(claim, "/spec/resources/requests/storage").parse::<Quantity>().ok();
    wanted.is_none_or(|wanted| capacity(volume).is_some_and(|size| size >= wanted))
}

fn capacity(volume: &Value) -> Option<Quantity> {
    text(volume, "/spec/capacity/storage").parse().ok()
}

fn has_modes(volume: &Value, claim: &Value) -> bool {
    let offered = items(volume, "/spec/accessModes");
    items(claim, "/spec/accessModes").iter().all(|mode| offered.contains(mode))
}
