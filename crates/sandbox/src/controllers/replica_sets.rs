//! Makes the pods of replica sets, and counts them.

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::owners::{self, is_done};
use super::{Controller, Observed, PODS, REPLICA_SETS, change, is_leaving, kind};
use crate::api::Api;
use crate::eviction::is_ready;
use crate::object::{Object, as_map, carry, child_mut, metadata_mut, text};
use crate::status::Answer;
use crate::write::create_object;

/// Keeps replica sets; its keys are replica sets.
pub(super) struct ReplicaSets;

impl Controller for ReplicaSets {
    fn concerned(&self, _api: &Api, observed: &Observed<'_>) -> Vec<String> {
        match observed.collection {
            REPLICA_SETS if !observed.gone => vec![observed.key()],
            PODS => owners::of_kind("ReplicaSet", observed),
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, api: &Api, set_key: &str) -> Answer<()> {
        let sets = api.store.collection(REPLICA_SETS);
        let Some(set) = sets.get(set_key).filter(|set| !is_leaving(&set.value)) else { return Ok(()) };
        let pods = pods_of(api, &set);
        let wanted = usize::try_from(replicas(&set.value)).unwrap_or(0);
        let pod_kind = kind(api, "", "pods")?;
        for _ in pods.len()..wanted {
            let mut pod = pod_from(&set.value["spec"]["template"]);
            let metadata = metadata_mut(&mut pod);
            metadata.insert("generateName".to_owned(), format!("{}-", set.name()).into());
            metadata.insert("ownerReferences".to_owned(), owners::reference_to(&set, "apps/v1", "ReplicaSet"));
            create_object(api, &pod_kind, set.namespace(), pod, false)?;
        }
        for pod in least_useful(pods).iter().skip(wanted) {
            owners::remove(api, &pod_kind, pod)?;
        }
        let pods = pods_of(api, &set);
        change(&sets, set_key, |value| {
            count(value, &pods);
            set_count(child_mut(value, "status"), "fullyLabeledReplicas", pods.len());
        });
        Ok(())
    }
}

/// The pods that an object controls and that may still run.
pub(super) fn pods_of(api: &Api, owner: &Object) -> Vec<Arc<Object>> {
    let (pods, _) = api.store.collection(PODS).list(owner.namespace());
    let is_its = |pod: &Arc<Object>| owners::controls(owner, &pod.value);
    pods.into_iter().filter(|pod| is_its(pod) && !is_done(&pod.value) && !is_leaving(&pod.value)).collect()
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
    let ready = pods.iter().filter(|pod| is_ready(pod)).count();
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

/// Those that go last come first: bound ones before pending ones, ready ones before others, old ones before new ones.
fn least_useful(mut pods: Vec<Arc<Object>>) -> Vec<Arc<Object>> {
    pods.sort_by_cached_key(|pod| {
        let is_bound = !text(&pod.value, "/spec/nodeName").is_empty();
        let created = text(&pod.value, "/metadata/creationTimestamp").to_owned();
        (Reverse(is_bound), Reverse(is_ready(pod)), created, pod.name().to_owned())
    });
    pods
}

/// Adds a label to an object's, a template's or a selector's.
pub(super) fn label(labels: &mut Value, key: &str, value: &str) {
    as_map(labels).insert(key.to_owned(), value.into());
}
