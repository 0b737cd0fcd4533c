//! The common work of workloads on pods: find them, create them from a template, count them.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::controllers::collections::PODS;
use crate::controllers::owners;
use crate::controllers::templates::from_template;
use crate::fields::json::{as_map, child_mut, is_being_deleted};
use crate::fields::pods::{is_done, is_ready};
use crate::state::ClusterState;
use crate::storage::Object;

/// The pods that an object controls, without pods that are finished or being deleted.
pub(super) fn pods_of(state: &ClusterState, owner: &Object) -> Vec<Arc<Object>> {
    let (pods, _) = state.collection(PODS).list(owner.namespace());
    let is_controlled = |pod: &Arc<Object>| owners::controls(owner, &pod.value);
    pods.into_iter().filter(|pod| is_controlled(pod) && !is_done(&pod.value) && !is_being_deleted(&pod.value)).collect()
}

/// `spec.replicas`.
pub(super) fn replicas(workload: &Value) -> i64 {
    workload.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0)
}

/// A pod as described by its template, without a name.
pub(super) fn pod_from(template: &Value) -> Value {
    from_template(template, &["labels", "annotations", "finalizers"])
}

/// Writes the number of pods, and the number of ready pods, into the status.
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

/// Writes a number. Zero is left out.
pub(super) fn set_count(status: &mut Map<String, Value>, field: &str, number: usize) {
    if number == 0 {
        status.remove(field);
    } else {
        status.insert(field.to_owned(), number.into());
    }
}

/// Adds a label to a map of labels.
pub(super) fn label(labels: &mut Value, key: &str, value: &str) {
    as_map(labels).insert(key.to_owned(), value.into());
}
