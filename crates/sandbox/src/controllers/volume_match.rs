//! Which volume suits a claim.

use std::sync::Arc;

use serde_json::Value;

use super::{STORAGE_CLASSES, VOLUMES, annotation, is_leaving};
use crate::api::Api;
use crate::object::{Object, items, text};
use crate::quantity::Quantity;
use crate::selection;
use crate::store::key;

/// Where a class was named before there was a field for it.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// The name of the class of a claim or a volume; empty for none.
pub(super) fn class_name(object: &Value) -> &str {
    let old = annotation(object, CLASS_ANNOTATION);
    if old.is_empty() { text(object, "/spec/storageClassName") } else { old }
}

/// The class of a claim, if it has one that exists.
pub(super) fn class_of(api: &Api, claim: &Value) -> Option<Arc<Object>> {
    api.store.collection(STORAGE_CLASSES).get(class_name(claim))
}

/// Whether claims of the class wait for the scheduler's choice of a node.
pub(super) fn is_delayed(class: &Object) -> bool {
    text(&class.value, "/volumeBindingMode") == "WaitForFirstConsumer"
}

/// The key of the claim that a volume is reserved for or bound to.
pub(super) fn claim_key(volume: &Value) -> Option<String> {
    volume.pointer("/spec/claimRef")?;
    Some(key(text(volume, "/spec/claimRef/namespace"), text(volume, "/spec/claimRef/name")))
}

/// Whether a volume is reserved for or bound to this incarnation of a claim. A reservation may leave out the uid.
pub(super) fn is_for_claim(volume: &Value, claim: &Object) -> bool {
    let uid = text(volume, "/spec/claimRef/uid");
    claim_key(volume).is_some_and(|reserved| reserved == key(claim.namespace(), claim.name()))
        && (uid.is_empty() || uid == text(&claim.value, "/metadata/uid"))
}

/// Whether a volume has what a claim asks for, wherever it is and whoever has it.
pub(super) fn satisfies(volume: &Value, claim: &Value) -> bool {
    let same = |pointer: &str| text(volume, pointer) == text(claim, pointer);
    is_large_enough(volume, claim)
        && same("/spec/volumeMode")
        && same("/spec/volumeAttributesClassName")
        && class_name(volume) == class_name(claim)
        && has_modes(volume, claim)
}

/// The volume for a claim: the one reserved for it; else, unless the claim waits for a node, the free one with the
/// fewest access modes, and of those the smallest.
pub(super) fn best(api: &Api, claim: &Object, delayed: bool) -> Option<Arc<Object>> {
    let (volumes, _) = api.store.collection(VOLUMES).list("");
    let reserved = volumes.iter().find(|volume| {
        is_for_claim(&volume.value, claim)
            && is_large_enough(&volume.value, &claim.value)
            && !is_leaving(&volume.value)
            && text(&volume.value, "/spec/volumeMode") == text(&claim.value, "/spec/volumeMode")
    });
    if reserved.is_some() || delayed {
        return reserved.cloned();
    }
    let is_free = |volume: &&Arc<Object>| {
        text(&volume.value, "/status/phase") == "Available"
            && volume.value.pointer("/spec/claimRef").is_none()
            && !is_leaving(&volume.value)
    };
    let is_selected = |volume: &&Arc<Object>| {
        let selector = claim.value.pointer("/spec/selector");
        selector.is_none_or(|selector| selection::matches(selector, &volume.value))
    };
    let suits = |volume: &&Arc<Object>| satisfies(&volume.value, &claim.value);
    let free = volumes.iter().filter(is_free).filter(is_selected).filter(suits);
    let smallest = free.min_by(|a, b| {
        let n_modes = |volume: &Object| items(&volume.value, "/spec/accessModes").len();
        let by_size = || capacity(&a.value).partial_cmp(&capacity(&b.value)).unwrap_or(std::cmp::Ordering::Equal);
        n_modes(a).cmp(&n_modes(b)).then_with(by_size)
    });
    smallest.cloned()
}

fn is_large_enough(volume: &Value, claim: &Value) -> bool {
    let wanted = Quantity::parse(text(claim, "/spec/resources/requests/storage"));
    wanted.is_none_or(|wanted| capacity(volume).is_some_and(|size| size >= wanted))
}

fn capacity(volume: &Value) -> Option<Quantity> {
    Quantity::parse(text(volume, "/spec/capacity/storage"))
}

fn has_modes(volume: &Value, claim: &Value) -> bool {
    let offered = items(volume, "/spec/accessModes");
    items(claim, "/spec/accessModes").iter().all(|mode| offered.contains(mode))
}
