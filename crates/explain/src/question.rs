//! A question about a pod.

use berth_framework::run::NominatedPods;
use berth_model::NodeIdx;

/// The parts of a question about a pod, apart from the pod itself.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// All nodes in the order of the cluster.
    pub order: &'a [NodeIdx],
    /// The pods that are nominated to nodes.
    pub nominated: &'a NominatedPods<'a>,
    /// The node that the caller asks about.
    pub node: Option<NodeIdx>,
    /// The node that the pod has. The node of the question is compared with this node. If the pod has no node, it is
    /// compared with the best node.
    pub chosen: Option<NodeIdx>,
}
