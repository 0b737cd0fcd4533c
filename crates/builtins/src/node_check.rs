//! Explaining and trying out, for rules whose verdict on a node is one status.

use berth_framework::{DryRunCase, Explanation, Status};
use berth_model::{NodeIdx, NodeSet};

/// Groups the nodes of `rejected` by what `check` says about each; nodes that pass are left out.
pub(crate) fn explain_each(rejected: &NodeSet, mut check: impl FnMut(NodeIdx) -> Status) -> Vec<Explanation> {
    let mut explanations: Vec<Explanation> = Vec::new();
    for node in rejected.iter() {
        let status = check(node);
        if status.is_success() {
            continue;
        }
        match explanations.iter_mut().find(|known| known.status == status) {
            Some(known) => known.nodes.insert(node),
            None => explanations.push(Explanation { status, nodes: [node].into_iter().collect() }),
        }
    }
    explanations
}

/// One status a case, for a rule that does not look at the pods of a node.
pub(crate) fn dry_run_each(cases: &[DryRunCase], mut check: impl FnMut(NodeIdx) -> Status) -> Vec<Status> {
    cases.iter().map(|case| check(case.node)).collect()
}

/// Success, or what `rejection` says.
pub(crate) fn pass_or(passes: bool, rejection: impl FnOnce() -> Status) -> Status {
    if passes { Status::success() } else { rejection() }
}
