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
    /// The node that the caller wants to know about.
    pub node: Option<NodeIdx>,
    /// The node that the pod has. The node of the question is compared with this node, or with the best node if there
    /// is none.
    pub chosen: Option<NodeIdx>,
}
