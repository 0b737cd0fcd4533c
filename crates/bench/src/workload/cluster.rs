//! A cluster for storms: nodes, pods on them, and pods that fit nowhere.

use serde_json::{Value, json};

use super::{SCHEDULER_NAME, nodes, pods, scene::Pods};

/// The number of waiting pods for each node.
const UNSCHEDULABLE_PER_NODE: usize = 2;

/// The objects that exist before a storm.
#[derive(Debug)]
pub struct Cluster {
    /// Nodes that differ only in their names.
    pub nodes: Vec<Value>,
    /// Pods on the nodes, in one namespace.
    pub placed: Vec<Value>,
    /// Pods that the scheduler has tried and that fit on no node.
    pub unschedulable: Vec<Value>,
}

impl Cluster {
    /// A cluster with this many nodes and placed pods.
    #[must_use]
    pub fn new(n_nodes: usize, n_placed: usize) -> Self {
        Self {
            nodes: nodes::nodes(n_nodes, &[]),
            placed: Pods::placed(n_placed, n_nodes).iter().collect(),
            unschedulable: Pods::unschedulable(n_nodes * UNSCHEDULABLE_PER_NODE).iter().collect(),
        }
    }

    /// A pod of high priority that fits on every node.
    pub(crate) fn urgent(index: usize) -> Value {
        let mut pod = pods::default_pod("urgent", index).priority(1000).json();
        pod["spec"]["schedulerName"] = json!(SCHEDULER_NAME);
        pod
    }
}
