//! Does the work of the volumes' controllers and of the drivers. Volumes become available, claims and volumes that
//! belong together are bound, and a volume is created where the scheduler chose.

use anyhow::Result;
use berth_test_control_plane::Objects;
use serde_json::{Value, json};

use crate::{
    outcomes::name,
    step::{NODES, namespace},
    volumes::{CLAIMS, VOLUMES, provisioner, volume},
};

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Checks all volumes and claims once. Returns whether the check changed a volume or a claim.
pub(crate) async fn reconcile(objects: &Objects) -> Result<bool> {
    let (volumes, claims) = (objects.list(VOLUMES).await?, objects.list(CLAIMS).await?);
    let mut has_changed = false;
    for volume in &volumes {
        if volume["spec"]["claimRef"].is_null() {
            has_changed |= set_phase(objects, volume, "Available").await?;
        } else if let Some(claim) = claims.iter().find(|claim| is_for(volume, claim)) {
            has_changed |= bind(objects, volume, claim).await?;
        }
    }
    for claim in &claims {
        if !volumes.iter().any(|volume| is_for(volume, claim))
            && let Some(node) = claim["metadata"]["annotations"][SELECTED_NODE].as_str()
        {
            has_changed |= provision(objects, claim, node).await?;
        }
    }
    Ok(has_changed)
}

fn is_for(volume: &Value, claim: &Value) -> bool {
    let wanted = &volume["spec"]["claimRef"];
    wanted["name"] == name(claim) && wanted["namespace"] == namespace(claim)
}

/// Creates the volume that the claim asks for, for use on the node.
async fn provision(objects: &Objects, claim: &Value, node: &str) -> Result<bool> {
    let class = claim["spec"]["storageClassName"].as_str().unwrap_or_default();
    let (Some(driver), Some(node)) = (provisioner(class), objects.get(&format!("{NODES}/{node}")).await?) else {
        return Ok(false);
    };
    let labels = &node["metadata"]["labels"];
    let reach = ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
        .into_iter()
        .find_map(|label| Some((label, labels[label].as_str()?)));
    let volume_name = format!("{}-{}", namespace(claim), name(claim));
    let (label, value) = reach.unwrap_or_default();
    let mut made = volume(&volume_name, class, label, value);
    if reach.is_none() {
        made["spec"]["nodeAffinity"] = Value::Null;
    }
    made["spec"]["accessModes"] = claim["spec"]["accessModes"].clone();
    made["spec"]["csi"] = json!({"driver": driver, "volumeHandle": volume_name});
    made["spec"]["claimRef"] = reference(claim);
    objects.create(VOLUMES, &made).await?;
    Ok(true)
}

fn reference(claim: &Value) -> Value {
    let metadata = &claim["metadata"];
    json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": namespace(claim), "name": name(claim), "uid": metadata["uid"]})
}

/// Makes the claim and the volume name each other.
async fn bind(objects: &Objects, volume: &Value, claim: &Value) -> Result<bool> {
    if claim["status"]["phase"] == "Bound" {
        return Ok(false);
    }
    objects.merge(&format!("{VOLUMES}/{}", name(volume)), &json!({"spec": {"claimRef": reference(claim)}})).await?;
    set_phase(objects, volume, "Bound").await?;
    let path = format!("/api/v1/namespaces/{}/persistentvolumeclaims/{}", namespace(claim), name(claim));
    let complete = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": name(volume)}});
    objects.merge(&path, &complete).await?;
    let status = json!({
        "phase": "Bound", "capacity": volume["spec"]["capacity"], "accessModes": volume["spec"]["accessModes"],
    });
    objects.merge(&format!("{path}/status"), &json!({ "status": status })).await?;
    Ok(true)
}

async fn set_phase(objects: &Objects, volume: &Value, phase: &str) -> Result<bool> {
    if volume["status"]["phase"] == phase {
        return Ok(false);
    }
    let path = format!("{VOLUMES}/{}/status", name(volume));
    objects.merge(&path, &json!({"status": {"phase": phase}})).await?;
    Ok(true)
}
