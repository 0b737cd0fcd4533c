//! Volumes that are each bound to the claim of one pod, as scheduler_perf makes them.

use berth_testing::PodMaker;
use serde_json::{Value, json};

/// The kind of volume that attaches the disk.
#[derive(Clone, Copy)]
pub(super) enum Disk {
    InTree,
    Csi,
}

/// The volume of pod `PREFIX-INDEX`, and the claim that is bound to it.
pub(super) fn bound_volume(prefix: &str, index: usize, disk: Disk) -> [Value; 2] {
    let name = claim_name(prefix, index);
    let mut spec = json!({"accessModes": ["ReadOnlyMany"], "capacity": {"storage": "1Gi"},
        "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "default", "name": name}});
    match disk {
        Disk::InTree => spec["awsElasticBlockStore"] = json!({"volumeID": name}),
        Disk::Csi => spec["csi"] = json!({"driver": "ebs.csi.aws.com", "volumeHandle": name}),
    }
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "uid": name},
        "spec": spec, "status": {"phase": "Bound"}});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "default", "name": name, "uid": format!("claim-{name}"),
            "annotations": {"pv.kubernetes.io/bind-completed": "true"}},
        "spec": {"accessModes": ["ReadOnlyMany"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": name,
            "storageClassName": ""},
        "status": {"phase": "Bound", "accessModes": ["ReadOnlyMany"], "capacity": {"storage": "1Gi"}}});
    [volume, claim]
}

fn claim_name(prefix: &str, index: usize) -> String {
    format!("vol-{prefix}-{index:05}")
}

pub(super) fn with_claim(pod: PodMaker, prefix: &str, index: usize) -> PodMaker {
    let claim = json!({"claimName": claim_name(prefix, index)});
    pod.spec("volumes", json!([{"name": "vol", "persistentVolumeClaim": claim}]))
}

pub(super) fn with_secret(pod: PodMaker) -> PodMaker {
    pod.spec("volumes", json!([{"name": "secret", "secret": {"secretName": "secret"}}]))
}
