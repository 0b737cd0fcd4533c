//! What all workloads do with pods: find them, make them from a template, count them.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::controllers::collections::PODS;
use crate::controllers::owners;
use crate::fields::json::{as_map, carry, child_mut, is_being_deleted, metadata_mut};
use crate::fields::pods::{is_done, is_ready};
use crate::state::ClusterState;
use crate::storage::Object;

/// The pods that an object controls and that may still run.
pub(super) fn pods_of(state: &ClusterState, owner: &Object) -> Vec<Arc<Object>> {
    let (pods, _) = state.collection(PODS).list(owner.namespace());
    let is_its = |pod: &Arc<Object>| owners::controls(owner, &pod.value);
    pods.into_iter().filter(|pod| is_its(pod) && !is_done(&pod.value) && !is_being_deleted(&pod.value)).collect()
}

/// `spec.replicas`.
pub(super) fn replicas(workload: &Value) -> i64 {
    workload.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0)
}

/// A pod as its template describes it, without a name.
pub(super) fn pod_from(template: &Value) -> Value {
    let mut pod = json!({"spec": template.get("spec")});
    let given = template.get("metadata").unwrap_or(&Value::Null);
    for member in ["labels", "annotations", "finalizers"] {
        carry(given, metadata_mut(&mut pod), member);
    }
    pod
}

/// Writes how many pods there are, and how many of them are ready.
pub(super) fn count(workload: &mut Value, pods: &[Arc<Object>]) {
    let generation = workload.pointer("/metadata/generation").cloned().unwrap_or_else(|| 1.into());
    let ready = pods.iter().filter(|pod| is_ready(&pod.value)).count();
    let status = child_mut(workload, "status");
    status.insert("replicas".to_owned(), pods.len().into());
    status.insert("observedGeneration".to_owned(), generation);
    for field in ["readyReplicas", "availableReplicas"] {
        set_count(status, field, ready);
    }
}

/// A number that is absent when it is zero.
pub(super) fn set_count(status: &mut Map<String, Value>, field: &str, number: usize) {
    if number == 0 {
        status.remove(field);
    } else {
        status.insert(field.to_owned(), number.into());
    }
}

/// Adds a label to an object's, a template's or a selector's.
pub(super) fn label(labels: &mut Value, key: &str, value: &str) {
    as_map(labels).insert(key.to_owned(), value.into());
}
