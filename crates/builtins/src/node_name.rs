//! NodeName: a pod with `spec.nodeName` runs on that node only.

use berth_framework::{Call, ClusterEvent, ConfigureError, Status};
use berth_model::{Column, NodeIdx, NodeSet};

use crate::{
    args::{self, NoArgs},
    built_in::{BuiltIn, Descriptor, plugin},
    node_check::{NodeRule, filter_by_node, pass_or},
};

/// Compares `spec.nodeName` with the name of the node.
#[derive(Debug, Default)]
pub struct NodeName;

impl BuiltIn for NodeName {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "NodeName",
        columns: &[Column::Name],
        events_to_register: &[("Node", ClusterEvent::ADD)],
        ..Descriptor::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        args::parse::<NoArgs>(Self::NAME, args)?;
        Ok(Self)
    }
}

plugin!(NodeName: Filter, Sign; Reuse);

fn matches(call: &Call<'_>, node: NodeIdx) -> bool {
    call.pod.node_name.is_none() || call.pod.node_name == call.table.name(node)
}

filter_by_node!(NodeName);

impl NodeRule for NodeName {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) {
        if !call.pod.node_name.is_none() {
            candidates.retain(|node| matches(call, node));
        }
    }

    fn check(&mut self, call: &Call<'_>) -> impl FnMut(NodeIdx) -> Status {
        move |node| {
            pass_or(matches(call, node), || Status::unresolvable("node(s) didn't match the requested node name"))
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_model::Pod;

    use super::*;
    use crate::testing::{TestCluster, verdicts};

    #[test]
    fn only_the_named_node_passes() {
        let mut cluster = TestCluster::default();
        cluster.edit_node("a", |_| ());
        cluster.edit_node("b", |_| ());
        let mut pod = Pod::default();
        assert_eq!(verdicts(&mut NodeName, &cluster, &pod), ["", ""]);
        pod.node_name = cluster.sym("b");
        let rejected = "UnschedulableAndUnresolvable: node(s) didn't match the requested node name";
        assert_eq!(verdicts(&mut NodeName, &cluster, &pod), [rejected, ""]);
        pod.node_name = cluster.sym("c");
        assert_eq!(verdicts(&mut NodeName, &cluster, &pod), [rejected, rejected]);
    }
}
