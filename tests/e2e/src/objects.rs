//! Nodes and pods in a short form.

use serde_json::{Value, json};

/// A node with 4 CPUs, 8 GiB and room for 20 pods. The host name label also has the node's name.
pub(crate) fn node(name: &str, labels: Value) -> Value {
    let mut labels = labels;
    labels["kubernetes.io/hostname"] = json!(name);
    let resources = json!({"cpu": "4", "memory": "8Gi", "pods": "20"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

/// A pod with a request for this amount of CPU, and with fields of its spec.
pub(crate) fn pod(name: &str, cpu: &str, spec: Value) -> Value {
    let container = json!({
        "name": "main",
        "image": "registry.example/main:1",
        "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
    });
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container]},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    pod
}

/// The node of a pod; `None` for a pod without a node.
pub(crate) fn node_of(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeName"].as_str()
}

/// The condition of this type; `null` if there is none.
pub(crate) fn condition<'a>(pod: &'a Value, kind: &str) -> &'a Value {
    let conditions = pod["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}
