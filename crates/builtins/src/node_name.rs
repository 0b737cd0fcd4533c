//! NodeName: a pod that names its node runs nowhere else.

use berth_framework::{Call, ClusterEvent, ConfigureError, DryRunCase, Explanation, Filter, Point, Status};
use berth_model::{Column, NodeIdx, NodeSet};

use crate::{
    args::{self, NoArgs},
    built_in::{BuiltIn, Card, plugin},
    node_check::{dry_run_each, explain_each, pass_or},
};

/// Compares `spec.nodeName` with the name of the node.
#[derive(Debug, Default)]
pub struct NodeName;

impl BuiltIn for NodeName {
    const CARD: Card = Card {
        name: "NodeName",
        points: &[Point::Filter, Point::Sign],
        columns: &[Column::Name],
        requeue: &[("Node", ClusterEvent::ADD), ("Node", ClusterEvent::UPDATE_NODE_TAINT)],
        ..Card::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        args::parse::<NoArgs>(Self::NAME, args)?;
        Ok(Self)
    }
}

plugin!(NodeName { filter: Filter, sign: Sign });

fn matches(call: &Call<'_>, node: NodeIdx) -> bool {
    call.pod.node_name.is_none() || call.pod.node_name == call.table.name(node)
}

fn check(call: &Call<'_>, node: NodeIdx) -> Status {
    pass_or(matches(call, node), || Status::unresolvable("node(s) didn't match the requested node name"))
}

impl Filter for NodeName {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        if !call.pod.node_name.is_none() {
            candidates.retain(|node| matches(call, node));
        }
        Ok(())
    }

    fn explain(&mut self, call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<Explanation>, Status> {
        Ok(explain_each(rejected, |node| check(call, node)))
    }

    fn dry_run(
        &mut self,
        call: &Call<'_>,
        _pods: &[&berth_model::Pod],
        cases: &[DryRunCase],
    ) -> Result<Vec<Status>, Status> {
        Ok(dry_run_each(cases, |node| check(call, node)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Cluster, verdicts};

    #[test]
    fn only_the_named_node_passes() {
        let mut cluster = Cluster::default();
        cluster.node("a", |_| ());
        cluster.node("b", |_| ());
        let mut pod = cluster.pod();
        assert_eq!(verdicts(&mut NodeName, &cluster, &pod), ["", ""]);
        pod.node_name = cluster.sym("b");
        let rejected = "UnschedulableAndUnresolvable: node(s) didn't match the requested node name";
        assert_eq!(verdicts(&mut NodeName, &cluster, &pod), [rejected, ""]);
        pod.node_name = cluster.sym("c");
        assert_eq!(verdicts(&mut NodeName, &cluster, &pod), [rejected, rejected]);
    }
}
