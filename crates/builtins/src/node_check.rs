//! Statuses and dry runs of Filter, for rules that give each node one status.

use berth_framework::{Call, DryRunCase, RejectedNodes, Status};
use berth_model::{NodeIdx, NodeSet};

/// A rule of Filter that checks each node separately, regardless of the pods on the node. [`filter_by_node`] makes a
/// Filter of the rule.
pub(crate) trait NodeRule {
    /// Keeps the nodes for which [`Self::check`] returns success.
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet);

    /// Returns a function that gives the status of a node.
    fn check(&mut self, call: &Call<'_>) -> impl FnMut(NodeIdx) -> Status;
}

/// Implements Filter for a [`NodeRule`].
macro_rules! filter_by_node {
    ($plugin:ty) => {
        impl berth_framework::Filter for $plugin {
            fn filter(
                &mut self,
                call: &berth_framework::Call<'_>,
                candidates: &mut berth_model::NodeSet,
            ) -> Result<(), berth_framework::Status> {
                $crate::node_check::NodeRule::filter(self, call, candidates);
                Ok(())
            }

            fn node_to_status(
                &mut self,
                call: &berth_framework::Call<'_>,
                rejected: &berth_model::NodeSet,
            ) -> Result<Vec<berth_framework::RejectedNodes>, berth_framework::Status> {
                Ok($crate::node_check::check_each(rejected, $crate::node_check::NodeRule::check(self, call)))
            }

            fn dry_run(
                &mut self,
                call: &berth_framework::Call<'_>,
                _pods: &[&berth_model::Pod],
                cases: &[berth_framework::DryRunCase],
            ) -> Result<Vec<berth_framework::Status>, berth_framework::Status> {
                Ok($crate::node_check::dry_run_each(cases, $crate::node_check::NodeRule::check(self, call)))
            }
        }
    };
}
pub(crate) use filter_by_node;

/// Groups the nodes of `rejected` by the status that `check` returns for them. Nodes that pass are left out.
pub(crate) fn check_each(rejected: &NodeSet, mut check: impl FnMut(NodeIdx) -> Status) -> Vec<RejectedNodes> {
    let mut groups: Vec<RejectedNodes> = Vec::new();
    for node in rejected.iter() {
        let status = check(node);
        if status.is_success() {
            continue;
        }
        match groups.iter_mut().find(|known| known.status == status) {
            Some(known) => known.nodes.insert(node),
            None => groups.push(RejectedNodes { status, nodes: [node].into_iter().collect() }),
        }
    }
    groups
}

/// Returns one status per case, for a rule that does not depend on the pods on a node.
pub(crate) fn dry_run_each(cases: &[DryRunCase], mut check: impl FnMut(NodeIdx) -> Status) -> Vec<Status> {
    cases.iter().map(|case| check(case.node)).collect()
}

/// Success if the node passes, otherwise `rejection`.
pub(crate) fn pass_or(passes: bool, rejection: impl FnOnce() -> Status) -> Status {
    if passes { Status::success() } else { rejection() }
}
