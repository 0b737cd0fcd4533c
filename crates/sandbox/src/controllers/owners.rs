//! Owner references: the object that controls another object.

use serde_json::{Value, json};

use super::controller::Observed;
use crate::fields::json::{items, text};
use crate::kinds::Kind;
use crate::objects::delete::{DeleteOptions, delete};
use crate::state::ClusterState;
use crate::status::ApiResult;
use crate::storage::{Object, key};

/// The owner of an object that exists for one pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OwningPod<'a> {
    /// The pod's name.
    pub(super) name: &'a str,
    /// The pod's uid.
    pub(super) uid: &'a str,
}

/// The pod that controls an object; `None` if no pod does.
pub(super) fn owning_pod(object: &Value) -> Option<OwningPod<'_>> {
    let controller = controller_of(object)?;
    let is_pod = text(controller, "/kind") == "Pod" && text(controller, "/apiVersion") == "v1";
    is_pod.then(|| OwningPod { name: text(controller, "/name"), uid: text(controller, "/uid") })
}

/// The owner reference with `controller: true`.
pub(super) fn controller_of(object: &Value) -> Option<&Value> {
    items(object, "/metadata/ownerReferences").iter().find(|owner| owner.get("controller") == Some(&Value::Bool(true)))
}

/// Whether the pod controls the object. An earlier pod of the same name does not count.
pub(super) fn is_owned_by_pod(object: &Value, pod: &Object) -> bool {
    owning_pod(object).is_some_and(|owner| owner.uid == pod.uid())
}

/// The `metadata.ownerReferences` of an object that a pod controls.
pub(super) fn reference(pod: &Object) -> Value {
    reference_to(pod, "v1", "Pod")
}

/// The `metadata.ownerReferences` of an object that `owner` controls. The owner may be of any kind.
pub(super) fn reference_to(owner: &Object, api_version: &str, kind: &str) -> Value {
    json!([{
        "apiVersion": api_version,
        "kind": kind,
        "name": owner.name(),
        "uid": owner.uid(),
        "controller": true,
        "blockOwnerDeletion": true,
    }])
}

/// Whether `owner` is the controller of an object.
pub(super) fn controls(owner: &Object, object: &Value) -> bool {
    controller_of(object).is_some_and(|reference| text(reference, "/uid") == owner.uid())
}

/// The keys of the objects of this kind that control a changed object, before or after the change.
fn controllers_of_kind(kind: &str, observed: &Observed<'_>) -> Vec<String> {
    let namespace = observed.object.namespace();
    let owners = observed.versions().filter_map(|object| controller_of(&object.value));
    owners.filter(|owner| text(owner, "/kind") == kind).map(|owner| key(namespace, text(owner, "/name"))).collect()
}

/// Deletes the object, but not a later object of the same name.
pub(super) fn remove(state: &ClusterState, kind: &Kind, object: &Object) -> ApiResult<()> {
    let uid = object.uid().to_owned();
    delete(state, kind, object.namespace(), object.name(), &DeleteOptions { uid, ..DeleteOptions::default() })?;
    Ok(())
}

/// The keys for a controller of `kind`. An object in the controller's own collection has its own key, unless it was
/// removed. An object in the collection of its dependents has the keys of its owners.
pub(super) fn affected(observed: &Observed<'_>, own: &str, dependents: &str, kind: &str) -> Vec<String> {
    if observed.collection == own && !observed.gone {
        return vec![observed.key()];
    }
    if observed.collection == dependents { controllers_of_kind(kind, observed) } else { Vec::new() }
}
