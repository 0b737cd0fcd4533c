//! Nodes with the same reasons. They are found by operations on sets, because a pod that fits nowhere has as many
//! rejections as there are nodes.

use berth_framework::{Code, RejectedNodes, Status};
use berth_model::NodeSet;

/// Rejected nodes in groups of the same status.
#[derive(Debug)]
pub(super) struct Rejections(Vec<RejectedNodes>);

impl Rejections {
    /// Starts with these nodes, without reasons.
    pub(super) fn of(nodes: &NodeSet) -> Self {
        let status = Status { code: Code::Unschedulable, reasons: Vec::new() };
        Self(vec![RejectedNodes { status, nodes: nodes.clone() }])
    }

    /// Adds a reason to `nodes`.
    pub(super) fn add_reason(&mut self, nodes: &NodeSet, reason: &str) {
        self.change(nodes, |status| status.reasons.push(reason.to_owned()));
    }

    /// Records that the removal of pods cannot help on `nodes`.
    pub(super) fn set_unresolvable(&mut self, nodes: &NodeSet) {
        self.change(nodes, |status| status.code = Code::UnschedulableAndUnresolvable);
    }

    fn change(&mut self, nodes: &NodeSet, change: impl Fn(&mut Status)) {
        for at in 0..self.0.len() {
            let group = &mut self.0[at];
            if group.nodes.is_disjoint(nodes) {
                continue;
            }
            let mut others = group.clone();
            others.nodes.subtract(nodes);
            group.nodes.intersect(nodes);
            change(&mut group.status);
            if !others.nodes.is_empty() {
                self.0.push(others);
            }
        }
    }

    /// The groups that have reasons, in the order of their first nodes.
    pub(super) fn into_groups(mut self) -> Vec<RejectedNodes> {
        self.0.retain(|group| !group.nodes.is_empty() && !group.status.reasons.is_empty());
        self.0.sort_by_key(|group| group.nodes.iter().next());
        self.0
    }
}
