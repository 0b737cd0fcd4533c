//! A cluster for storms: nodes, pods on them, and pods that fit nowhere.

use serde_json::{Value, json};

use super::{SCHEDULER_NAME, nodes, pods, scene::Pods};

/// Pods that wait, for each node.
const UNSCHEDULABLE_PER_NODE: usize = 2;

/// What there is before a storm.
#[derive(Debug)]
pub struct Cluster {
    /// Alike but for their names.
    pub nodes: Vec<Value>,
    /// Pods on the nodes, in one namespace.
    pub placed: Vec<Value>,
    /// Pods that were tried, and fit on no node.
    pub unschedulable: Vec<Value>,
}

impl Cluster {
    /// A cluster with so many nodes, and so many pods on them.
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
