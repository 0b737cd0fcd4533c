//! Admission of new objects: the rules that depend on other objects, such as namespaces and classes.

mod pods;

use std::sync::Arc;

use serde_json::Value;

use crate::fields::json::{as_map, child_mut, default_to, text};
use crate::kinds::Kind;
use crate::state::ClusterState;
use crate::status::{ApiResult, StatusError};
use crate::storage::Object;

/// Checks that the namespace exists and is not being deleted.
pub(crate) fn namespace_exists(state: &ClusterState, kind: &Kind, namespace: &str, name: &str) -> ApiResult<()> {
    if namespace.is_empty() {
        return Ok(());
    }
    let namespaces = state.collection("namespaces");
    let Some(object) = namespaces.get(namespace) else {
        return Err(StatusError::not_found(&*state.built_in_kind("", "namespaces")?, namespace));
    };
    if object.value.pointer("/metadata/deletionTimestamp").is_none() {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let message = format!("namespace {namespace} is being terminated");
    let error = StatusError::forbidden(kind, name, &why);
    Err(error.cause("NamespaceTerminating", &message, Some("metadata.namespace")))
}

/// Runs the admission of a new object.
pub(crate) fn create(state: &ClusterState, kind: &Kind, namespace: &str, value: &mut Value) -> ApiResult<()> {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => pods::admit(state, kind, namespace, value),
        ("", "persistentvolumeclaims") => {
            admit_volume_claim(state, value);
            Ok(())
        }
        ("scheduling.k8s.io", "priorityclasses") => admit_priority_class(state, kind, value),
        _ => Ok(()),
    }
}

/// Gives the default storage class to a claim without a class name. An empty name asks for no class.
fn admit_volume_claim(state: &ClusterState, claim: &mut Value) {
    let annotations = claim.pointer("/metadata/annotations");
    let is_old_form = annotations.is_some_and(|all| all.get("volume.beta.kubernetes.io/storage-class").is_some());
    if is_old_form || claim.pointer("/spec/storageClassName").is_some() {
        return;
    }
    if let Some(class) = default_storage_class(state) {
        child_mut(claim, "spec").insert("storageClassName".to_owned(), class.name().into());
    }
}

/// The newest of the storage classes that are marked as default.
pub(crate) fn default_storage_class(state: &ClusterState) -> Option<Arc<Object>> {
    let (classes, _) = state.collection("storageclasses.storage.k8s.io").list("");
    let is_default = |class: &Arc<Object>| {
        let annotations = class.value.pointer("/metadata/annotations");
        let marked = |name: &str| annotations.and_then(|all| all.get(name)) == Some(&Value::from("true"));
        marked("storageclass.kubernetes.io/is-default-class")
            || marked("storageclass.beta.kubernetes.io/is-default-class")
    };
    let created = |class: &Arc<Object>| text(&class.value, "/metadata/creationTimestamp").to_owned();
    // If several were created in the same second, the first by name counts.
    classes.into_iter().filter(is_default).rev().max_by_key(created)
}

fn admit_priority_class(state: &ClusterState, kind: &Kind, class: &mut Value) -> ApiResult<()> {
    if class.get("globalDefault") == Some(&Value::Bool(true)) {
        let name = text(class, "/metadata/name");
        let (classes, _) = state.collection("priorityclasses.scheduling.k8s.io").list("");
        let is_default = |object: &&Arc<Object>| object.value.get("globalDefault") == Some(&Value::Bool(true));
        if let Some(other) = classes.iter().find(is_default) {
            let other = other.name();
            let why = format!("PriorityClass {other} is already marked as default. Only one default can exist");
            return Err(StatusError::forbidden(kind, name, &why));
        }
    } else {
        as_map(class).remove("globalDefault");
    }
    default_to(as_map(class), "preemptionPolicy", "PreemptLowerPriority");
    Ok(())
}
