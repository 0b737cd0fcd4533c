//! The parts of an object that a write may change, generations, and the time when a deleted object can be removed.

use serde_json::{Value, json};

use crate::fields::json::{as_map, carry, child_mut, default_to, items, metadata_mut, text};
use crate::kinds::Kind;

/// Gives a new object the status that its kind starts with.
pub(crate) fn prepare_create(kind: &Kind, value: &mut Value) {
    let initial = match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => json!({"phase": "Pending"}),
        ("", "namespaces") => json!({"phase": "Active"}),
        ("", "persistentvolumeclaims") => json!({"phase": "Pending"}),
        ("", "persistentvolumes") => json!({"phase": "Pending"}),
        ("", "replicationcontrollers") | ("apps", "replicasets" | "statefulsets") => json!({"replicas": 0}),
        ("apps", "daemonsets") => json!({
            "currentNumberScheduled": 0,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 0,
            "numberReady": 0,
        }),
        ("policy", "poddisruptionbudgets") => json!({
            "disruptionsAllowed": 0,
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "expectedPods": 0,
        }),
        ("", "services") => json!({"loadBalancer": {}}),
        ("", "nodes") | ("apiextensions.k8s.io", _) => return,
        _ if kind.is_custom() && kind.has_status => {
            as_map(value).remove("status");
            return;
        }
        _ if kind.has_status => json!({}),
        _ => return,
    };
    as_map(value).insert("status".to_owned(), initial);
}

/// Takes from `value` only the parts that a write to `subresource` may change.
pub(crate) fn prepare_update(kind: &Kind, subresource: &str, current: &Value, value: &mut Value) {
    match subresource {
        "binding" => return,
        "status" => {
            let status = value.get("status").cloned();
            let metadata = value.get("metadata").cloned();
            *value = current.clone();
            let members = as_map(value);
            members.insert("metadata".to_owned(), metadata.unwrap_or_default());
            match status {
                Some(status) => members.insert("status".to_owned(), status),
                None => members.remove("status"),
            };
            let metadata = metadata_mut(value);
            carry(current.get("metadata").unwrap_or(&Value::Null), metadata, "finalizers");
            carry(current.get("metadata").unwrap_or(&Value::Null), metadata, "ownerReferences");
        }
        _ if kind.has_status => carry(current, as_map(value), "status"),
        _ => {}
    }
    if kind.is("", "pods") {
        keep_pod_defaults(subresource, current, value);
    }
    if kind.is("", "namespaces") && subresource != "finalize" {
        carry(current, as_map(value), "spec");
    }
}

/// Keeps the fields that the server set when the pod was created.
fn keep_pod_defaults(subresource: &str, current: &Value, value: &mut Value) {
    if let Some(class) = current.pointer("/status/qosClass") {
        default_to(child_mut(value, "status"), "qosClass", class.clone());
    }
    for field in ["serviceAccountName", "serviceAccount"] {
        if let Some(account) = current.get("spec").and_then(|spec| spec.get(field)) {
            default_to(child_mut(value, "spec"), field, account.clone());
        }
    }
    if subresource == "resize" {
        let status = child_mut(value, "status");
        status.insert("phase".to_owned(), text(current, "/status/phase").into());
    }
}

/// Increases the generation if anything except metadata and status has changed.
pub(crate) fn update_generation(kind: &Kind, subresource: &str, current: &Value, value: &mut Value) {
    if !kind.has_generation() || subresource == "binding" {
        return;
    }
    let changed = {
        let relevant = |object: &Value| -> Vec<(String, Value)> {
            let skip = |key: &str| key == "metadata" || (key == "status" && kind.has_status);
            let members = object.as_object().into_iter().flatten();
            members.filter(|(key, _)| !skip(key)).map(|(key, member)| (key.clone(), member.clone())).collect()
        };
        relevant(current) != relevant(value)
    };
    if changed {
        increase_generation(value);
    }
}

/// Increases the generation of an object with a generation.
pub(crate) fn increase_generation(value: &mut Value) {
    if let Some(generation) = value.pointer("/metadata/generation").and_then(Value::as_i64) {
        metadata_mut(value).insert("generation".to_owned(), (generation + 1).into());
    }
}

/// Whether an object is being deleted and no grace period or finalizer delays its removal.
pub(crate) fn is_removable(value: &Value) -> bool {
    let grace = value.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
    value.pointer("/metadata/deletionTimestamp").is_some()
        && grace == 0
        && items(value, "/metadata/finalizers").is_empty()
        && items(value, "/spec/finalizers").iter().all(|finalizer| finalizer != "kubernetes")
}
