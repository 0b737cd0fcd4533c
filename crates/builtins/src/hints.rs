//! Questions about an event that several queueing hints ask.
//!
//! A hint that cannot decide returns true. One attempt too many costs less than a pod that waits although it could run.

use berth_framework::{EventSubject, HintCall};
use berth_model::{ObjectKey, Pod, Symbols};

use crate::storage;

/// Whether the event is a change of the waiting pod itself.
pub(crate) fn is_own_update(call: &HintCall<'_>) -> bool {
    matches!(call.subject, EventSubject::Pod { new: Some(new), .. } if new.uid == call.pod.uid)
}

/// Whether the pod has a node, or is nominated to a node. Such a pod uses resources for which other pods wait.
pub(crate) fn has_place(pod: &Pod) -> bool {
    !pod.node_name.is_none() || !pod.nominated_node_name.is_none()
}

/// Whether a volume of the pod names the claim.
pub(crate) fn names_claim(pod: &Pod, claim: &ObjectKey, symbols: &Symbols) -> bool {
    symbols.text(pod.namespace) == claim.namespace && storage::named_claims(pod).any(|name| name == claim.name)
}

/// Whether a volume of the pod uses the claim. Claims that are made for its ephemeral volumes count too.
pub(crate) fn uses_claim(pod: &Pod, claim: &ObjectKey, symbols: &Symbols) -> bool {
    let mut claims = pod.volumes.iter().filter_map(|volume| storage::claim_name(pod, volume));
    symbols.text(pod.namespace) == claim.namespace && claims.any(|it| it.name == claim.name)
}

/// An object of an event, decoded. `None` if the object does not exist or cannot be decoded.
pub(crate) fn decoded<T: serde::de::DeserializeOwned>(json: Option<&[u8]>) -> Option<T> {
    serde_json::from_slice(json?).ok()
}
