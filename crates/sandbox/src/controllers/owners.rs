//! Objects that belong to another one: the reference to it, and who may use what such a reference names.

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
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
}

/// The pod that controls an object, if a pod does.
pub(super) fn owning_pod(object: &Value) -> Option<OwningPod<'_>> {
    let controller = controller_of(object)?;
    let is_pod = text(controller, "/kind") == "Pod" && text(controller, "/apiVersion") == "v1";
    is_pod.then(|| OwningPod { name: text(controller, "/name"), uid: text(controller, "/uid") })
}

/// The owner reference that says `controller: true`.
pub(super) fn controller_of(object: &Value) -> Option<&Value> {
    items(object, "/metadata/ownerReferences").iter().find(|owner| owner.get("controller") == Some(&Value::Bool(true)))
}

/// Whether the object exists for this very pod.
pub(super) fn is_for(object: &Value, pod: &Object) -> bool {
    owning_pod(object).is_some_and(|owner| owner.uid == pod.uid())
}

/// What goes into `metadata.ownerReferences` of an object that exists for a pod.
pub(super) fn reference(pod: &Object) -> Value {
    reference_to(pod, "v1", "Pod")
}

/// The same for an object of any kind.
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

/// The keys of the controllers of this kind of an object that has changed.
pub(super) fn of_kind(kind: &str, observed: &Observed<'_>) -> Vec<String> {
    let namespace = observed.object.namespace();
    let owners = observed.versions().filter_map(|object| controller_of(&object.value));
    owners.filter(|owner| text(owner, "/kind") == kind).map(|owner| key(namespace, text(owner, "/name"))).collect()
}

/// Deletes this incarnation of an object.
pub(super) fn remove(state: &ClusterState, kind: &Kind, object: &Object) -> ApiResult<()> {
    let uid = object.uid().to_owned();
    delete(state, kind, object.namespace(), object.name(), &DeleteOptions { uid, ..DeleteOptions::default() })?;
    Ok(())
}
