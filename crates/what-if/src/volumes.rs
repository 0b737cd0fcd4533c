//! Does the work of the volume controllers after the scheduler has chosen a node: binds a claim to its volume, or
//! creates the volume.
//!
//! The module follows Kubernetes' persistent volume controller, and an external provisioner that always succeeds. A
//! volume with a `claimRef` is bound to that claim. A claim with the annotation of a selected node gets a new volume
//! (`pkg/controller/volume/persistentvolume`).

use std::collections::BTreeMap;

use berth_model::ObjectKey;
use serde_json::{Value, json};

const SELECTED_NODE: &str = "/metadata/annotations/volume.kubernetes.io~1selected-node";

/// Updates `changed`, and returns the other objects that change because of `changed`.
pub(crate) fn followers(changed: &mut Value, objects: &BTreeMap<ObjectKey, Value>) -> Vec<Value> {
    match changed["kind"].as_str() {
        Some("PersistentVolume") => volume_bound(changed, objects).into_iter().collect(),
        Some("PersistentVolumeClaim") if needs_volume(changed) => vec![provision(changed)],
        _ => Vec::new(),
    }
}

fn volume_bound(volume: &mut Value, objects: &BTreeMap<ObjectKey, Value>) -> Option<Value> {
    let reference = volume.pointer("/spec/claimRef")?;
    let text = |field: &str| reference[field].as_str().unwrap_or_default().to_owned();
    let key = ObjectKey {
        api_version: "v1".to_owned(),
        kind: "PersistentVolumeClaim".to_owned(),
        namespace: text("namespace"),
        name: text("name"),
    };
    let mut claim = objects.get(&key).cloned()?;
    let name = volume["metadata"]["name"].clone();
    bind(&mut claim, &name);
    volume["status"]["phase"] = json!("Bound");
    Some(claim)
}

fn needs_volume(claim: &Value) -> bool {
    claim.pointer(SELECTED_NODE).is_some() && claim.pointer("/spec/volumeName").is_none()
}

fn provision(claim: &mut Value) -> Value {
    let name = json!(format!(
        "pvc-{}-{}",
        claim["metadata"]["namespace"].as_str().unwrap_or_default(),
        claim["metadata"]["name"].as_str().unwrap_or_default()
    ));
    let spec = &claim["spec"];
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": spec["resources"]["requests"], "accessModes": spec["accessModes"],
            "storageClassName": spec["storageClassName"],
            "claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": claim["metadata"]["namespace"],
                "name": claim["metadata"]["name"], "uid": claim["metadata"]["uid"]},
        },
        "status": {"phase": "Bound"},
    });
    bind(claim, &name);
    volume
}

fn bind(claim: &mut Value, volume: &Value) {
    claim["spec"]["volumeName"] = volume.clone();
    claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = json!("yes");
    claim["status"]["phase"] = json!("Bound");
}
