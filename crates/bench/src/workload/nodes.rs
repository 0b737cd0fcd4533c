//! scheduler_perf's nodes.

use berth_testing::{NodeMaker, node};
use serde_json::{Value, json};

pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";

/// The name of the only node, which pods name.
pub(super) const NAMED: &str = "scheduler-perf-node";

/// Nodes with 4 CPUs, 32 GiB and room for 110 pods, spread over these zones.
pub(super) fn nodes(n: usize, zones: &'static [&'static str]) -> Vec<Value> {
    let zone = |index: usize| zones.get(index.checked_rem(zones.len())?);
    (0..n)
        .map(|index| {
            let node = default_node(&name(index));
            zone(index).map_or(node.clone(), |zone| node.label(ZONE, zone)).json()
        })
        .collect()
}

pub(super) fn name(index: usize) -> String {
    format!("node-{index:05}")
}

/// A node with room for 90,000 pods.
pub(super) fn named_node() -> Value {
    default_node(NAMED).allocatable("pods", "90000").json()
}

/// The node that is repeatedly created and deleted.
pub(super) fn churning_node(number: usize) -> Value {
    default_node(&format!("churning-node-{number}")).json()
}

/// Nodes that offer this amount of the resource.
pub(super) fn with_resource(n: usize, resource: &str, amount: &str) -> Vec<Value> {
    (0..n).map(|index| default_node(&name(index)).allocatable(resource, amount).json()).collect()
}

fn default_node(name: &str) -> NodeMaker {
    let node = node(name).label(HOSTNAME, name);
    node.allocatable("cpu", "4").allocatable("memory", "32Gi").allocatable("pods", "110")
}

/// The number of volumes of its driver that a node can attach.
pub(super) fn csi_node(index: usize, migrates: bool) -> Value {
    let name = name(index);
    let annotations = if migrates {
        json!({"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"})
    } else {
        json!({})
    };
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name, "annotations": annotations},
        "spec": {"drivers": [{"name": "ebs.csi.aws.com", "nodeID": name, "allocatable": {"count": 39}}]}})
}
