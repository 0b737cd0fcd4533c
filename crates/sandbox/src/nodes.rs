//! Simulated nodes. The nodes are ready and have the labels of real nodes, but run nothing.

use serde_json::{Value, json};

use crate::fields::clock;

/// Describes `n` nodes with names from `node-00000` on, spread evenly over `zones` zones (at least one).
///
/// Each node has 16 CPUs, 64 GiB of memory and room for 110 pods. The values are bodies for a POST to `/api/v1/nodes`.
pub fn nodes(n: usize, zones: usize) -> impl Iterator<Item = Value> {
    (0..n).map(move |position| node(position, position % zones.max(1)))
}

fn node(position: usize, zone: usize) -> Value {
    let name = format!("node-{position:05}");
    let resources = json!({"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"});
    let now = clock::now();
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({
            "type": kind,
            "status": status,
            "reason": reason,
            "message": "made up by the sandbox",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        })
    };
    let address = format!("10.{}.{}.{}", position / 65_536 % 64, position / 256 % 256, position % 256);
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "sandbox",
                "topology.kubernetes.io/region": "sandbox",
                "topology.kubernetes.io/zone": format!("zone-{zone}"),
            },
        },
        "spec": {},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID"),
                condition("Ready", "True", "KubeletReady"),
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "none://0",
                "kernelVersion": "none",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.36.2",
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "sandbox",
                "systemUUID": "",
            },
        },
    })
}
