//! scheduler_perf's pods. Pods with terms about other pods are in `affinity`, pods with volumes in `volumes`, and pods
//! with devices in `devices`.

use berth_testing::{PodMaker, pod};
use serde_json::{Value, json};

use super::nodes::{NAMED, ZONE};

pub(super) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// The PriorityClass of pods with priority 10.
const HIGH: &str = "berth-bench-high";

/// A container with these requests.
fn with_requests(pod: PodMaker, requests: Value) -> PodMaker {
    let container = json!({"name": "pause", "image": "registry.k8s.io/pause:3.10", "ports": [{"containerPort": 80}],
        "resources": {"requests": requests}});
    pod.spec("containers", json!([container]))
}

fn named(prefix: &str, index: usize) -> PodMaker {
    let name = format!("{prefix}-{index:05}");
    let container = json!({"name": "pause", "image": "registry.k8s.io/pause:3.10"});
    // A grace period would not end, because there is no kubelet.
    let pod = pod(&name).uid(&format!("uid-{name}")).spec("terminationGracePeriodSeconds", json!(0));
    pod.spec("containers", json!([container]))
}

/// A pod that requests 100m and 500Mi.
pub(super) fn default_pod(prefix: &str, index: usize) -> PodMaker {
    with_requests(named(prefix, index), json!({"cpu": "100m", "memory": "500Mi"}))
}

/// A pod that requests nothing.
pub(super) fn light_pod(prefix: &str, index: usize) -> PodMaker {
    named(prefix, index)
}

/// A pod of which four fill a node.
pub(super) fn low_priority(prefix: &str, index: usize) -> PodMaker {
    with_requests(named(prefix, index), json!({"cpu": "900m", "memory": "500Mi"}))
}

/// A pod that needs the room of three pods of low priority.
pub(super) fn high_priority(prefix: &str, index: usize) -> PodMaker {
    high(with_requests(named(prefix, index), json!({"cpu": "3000m", "memory": "500Mi"})))
}

/// A pod that does not even fit on an empty node.
pub(super) fn too_large(prefix: &str, index: usize) -> PodMaker {
    high(with_requests(named(prefix, index), json!({"cpu": "9", "memory": "500Mi"})))
}

/// A pod of ordinary priority that does not even fit on an empty node.
pub(super) fn too_large_of_low_priority(prefix: &str, index: usize) -> PodMaker {
    with_requests(named(prefix, index), json!({"cpu": "9", "memory": "500Mi"}))
}

fn high(pod: PodMaker) -> PodMaker {
    pod.priority(10).spec("priorityClassName", json!(HIGH))
}

/// The PriorityClass that an API server needs before it accepts pods of high priority.
pub(super) fn priority_class() -> Value {
    json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": HIGH}, "value": 10})
}

/// A pod that requests nothing and waits until its gate is removed.
pub(super) fn gated(prefix: &str, index: usize) -> PodMaker {
    named(prefix, index).spec("schedulingGates", json!([{"name": "scheduling-gate-1"}]))
}

/// A pod that fits only one node, like a pod of a DaemonSet.
pub(super) fn daemon(prefix: &str, index: usize) -> PodMaker {
    let field = json!({"key": "metadata.name", "operator": "In", "values": [NAMED]});
    let terms = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
    named(prefix, index).spec("affinity", json!({"nodeAffinity": {REQUIRED: terms}}))
}

pub(super) fn with_node_affinity(pod: PodMaker) -> PodMaker {
    let expression = json!({"key": ZONE, "operator": "In", "values": ["zone1", "zone2"]});
    let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]});
    pod.spec("affinity", json!({"nodeAffinity": {REQUIRED: terms}}))
}

pub(super) fn spreading(pod: PodMaker, action: &str) -> PodMaker {
    let constraint = json!({"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": action,
        "labelSelector": {"matchLabels": {"color": "blue"}}});
    pod.label("color", "blue").spec("topologySpreadConstraints", json!([constraint]))
}

/// Requests one unit of an extended resource.
pub(super) fn with_resource(pod: PodMaker, resource: &str) -> PodMaker {
    let amounts = json!({"cpu": "100m", "memory": "500Mi", resource: "1"});
    let container = json!({"name": "pause", "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": amounts, "limits": {resource: "1"}}});
    pod.spec("containers", json!([container]))
}

pub(super) fn service(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"app": "scheduler-perf"}, "ports": [{"port": 80}]}})
}

/// A namespace with the label `team: devops`, which scheduler_perf's selectors of namespaces match.
pub(super) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": "devops"}}})
}
