//! Storage objects for tests, in namespace `default`.

use berth_model::{Delta, NodeIdx, ObjectKey, Pod, PodIdx, api, intern};
use serde_json::{Value, json};

use crate::testing::Cluster;

/// A node with the label `kubernetes.io/hostname` and others.
pub(crate) fn node(cluster: &mut Cluster, name: &str, labels: &[(&str, &str)]) -> NodeIdx {
    let mut labels = labels.to_vec();
    labels.push(("kubernetes.io/hostname", name));
    let labels = cluster.labels(&labels);
    cluster.node(name, |node| node.labels = labels)
}

pub(crate) fn put(cluster: &mut Cluster, object: &Value) {
    apply(cluster, object, true);
}

pub(crate) fn remove(cluster: &mut Cluster, object: &Value) {
    apply(cluster, object, false);
}

fn apply(cluster: &mut Cluster, object: &Value, exists: bool) {
    let change = ObjectKey::of(object).change(exists.then(|| object.to_string().into_bytes().into()));
    cluster.table.apply(&Delta { objects: vec![change], ..Delta::default() });
}

/// `object` with what `changes` says, as a JSON merge patch does it.
pub(crate) fn merged(mut object: Value, changes: &Value) -> Value {
    merge(&mut object, changes);
    object
}

fn merge(target: &mut Value, changes: &Value) {
    let Some(changes) = changes.as_object() else {
        *target = changes.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, change) in changes {
        if change.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key], change);
        }
    }
}

pub(crate) fn volume(name: &str, class: &str, size: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "resourceVersion": "1"},
        "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "csi": {"driver": "disk", "volumeHandle": name}},
        "status": {"phase": "Available"},
    })
}

/// That can be used from these hosts only.
pub(crate) fn on_hosts(volume: Value, hosts: &[&str]) -> Value {
    let requirement = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": hosts});
    let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}});
    merged(volume, &json!({"spec": {"nodeAffinity": affinity}}))
}

pub(crate) fn claim(name: &str, class: &str, size: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-of-{name}"), "resourceVersion": "1"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": size}}},
        "status": {"phase": "Pending"},
    })
}

pub(crate) fn bound(claim: Value, volume: &str) -> Value {
    let annotations = json!({"pv.kubernetes.io/bind-completed": "yes"});
    let changes = json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": volume}});
    merged(claim, &merged(changes, &json!({"status": {"phase": "Bound"}})))
}

pub(crate) fn class(name: &str, provisioner: &str, mode: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner, "volumeBindingMode": mode})
}

/// A pod with these entries in `spec.volumes`; those without a name get one.
pub(crate) fn pod_with(cluster: &mut Cluster, name: &str, volumes: &[Value]) -> Pod {
    let volumes = volumes.iter().enumerate();
    let volumes: Vec<Value> = volumes.map(|(at, volume)| merged(json!({"name": format!("v{at}")}), volume)).collect();
    let pod: api::Pod = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-of-{name}")},
        "spec": {"volumes": volumes},
    }))
    .unwrap();
    intern::pod(&pod, &mut cluster.table.symbols)
}

pub(crate) fn pod(cluster: &mut Cluster, name: &str, claims: &[&str]) -> Pod {
    let volumes = claims.iter().map(|claim| json!({"persistentVolumeClaim": {"claimName": claim}}));
    pod_with(cluster, name, &volumes.collect::<Vec<_>>())
}

pub(crate) fn place(cluster: &mut Cluster, slot: u32, pod: Pod, node: NodeIdx) {
    cluster.table.pods_mut().place(PodIdx(slot), pod.into(), node);
}
