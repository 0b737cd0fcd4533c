//! Storage objects for tests, in namespace `default`.

use berth_model::{NodeIdx, Pod, api};
use serde_json::{Value, json};

use crate::testing::{TestCluster, merge};

/// A node with the label `kubernetes.io/hostname` and with `labels`.
pub(crate) fn node(cluster: &mut TestCluster, name: &str, labels: &[(&str, &str)]) -> NodeIdx {
    let mut labels = labels.to_vec();
    labels.push(("kubernetes.io/hostname", name));
    let labels = cluster.labels(&labels);
    cluster.edit_node(name, |node| node.labels = labels)
}

/// `object` with the changes of a JSON merge patch.
pub(crate) fn merged(mut object: Value, changes: &Value) -> Value {
    merge(&mut object, changes);
    object
}

pub(crate) fn volume(name: &str, class: &str, size: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "resourceVersion": "1"},
        "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "csi": {"driver": "disk", "volumeHandle": name}},
        "status": {"phase": "Available"},
    })
}

/// The volume, restricted to these hosts.
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

/// A pod with these entries in `spec.volumes`. An entry without a name gets a name.
pub(crate) fn pod_with(cluster: &mut TestCluster, name: &str, volumes: &[Value]) -> Pod {
    let volumes = volumes.iter().enumerate();
    let volumes: Vec<Value> = volumes.map(|(at, volume)| merged(json!({"name": format!("v{at}")}), volume)).collect();
    let pod: api::Pod = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-of-{name}")},
        "spec": {"volumes": volumes},
    }))
    .unwrap();
    cluster.intern(&pod)
}

pub(crate) fn pod(cluster: &mut TestCluster, name: &str, claims: &[&str]) -> Pod {
    let volumes = claims.iter().map(|claim| json!({"persistentVolumeClaim": {"claimName": claim}}));
    pod_with(cluster, name, &volumes.collect::<Vec<_>>())
}
