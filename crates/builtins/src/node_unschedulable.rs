//! NodeUnschedulable: a cordoned node takes no new pods, except for pods that tolerate its taint.

use berth_framework::{Call, ClusterEvent, ConfigureError, EventSubject, HintCall, QueueingHint, Status};
use berth_model::{
    Column, NodeIdx, NodeSet, Pod, Sym,
    pod::{Taint, TaintEffect},
};

use crate::{
    args::{self, NoArgs},
    built_in::{BuiltIn, Descriptor, plugin},
    hints,
    node_check::{NodeRule, filter_by_node, pass_or},
};

/// Treats `spec.unschedulable` like the taint `node.kubernetes.io/unschedulable:NoSchedule`.
#[derive(Debug, Default)]
pub struct NodeUnschedulable;

impl BuiltIn for NodeUnschedulable {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "NodeUnschedulable",
        columns: &[Column::Unschedulable],
        events_to_register: &[
            ("Node", ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_TAINT),
            ("Pod", ClusterEvent::UPDATE_POD_TOLERATION),
        ],
        ..Descriptor::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        args::parse::<NoArgs>(Self::NAME, args)?;
        Ok(Self)
    }
}

plugin!(NodeUnschedulable: Filter, QueueingHint, Sign; Reuse);

const TAINT: Taint = Taint { key: Sym::UNSCHEDULABLE_TAINT, value: Sym::NONE, effect: TaintEffect::NoSchedule };

fn tolerates(pod: &Pod) -> bool {
    pod.tolerations.iter().any(|toleration| toleration.tolerates(&TAINT, None))
}

filter_by_node!(NodeUnschedulable);

impl NodeRule for NodeUnschedulable {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) {
        if !tolerates(call.pod) {
            candidates.subtract(call.table.unschedulable());
        }
    }

    fn check(&mut self, call: &Call<'_>) -> impl FnMut(NodeIdx) -> Status {
        let is_tolerated = tolerates(call.pod);
        move |node| {
            let passes = is_tolerated || !call.table.unschedulable().contains(node);
            pass_or(passes, || Status::unresolvable("node(s) were unschedulable"))
        }
    }
}

impl QueueingHint for NodeUnschedulable {
    /// Whether a node became schedulable, or the pod tolerates the taint after the event.
    fn queueing_hint(&mut self, call: &HintCall<'_>) -> bool {
        match call.subject {
            EventSubject::Node { old, new: Some(new) } => !new.unschedulable && old.is_none_or(|old| old.unschedulable),
            EventSubject::Pod { new: Some(new), .. } => hints::is_own_update(call) && tolerates(new),
            EventSubject::Node { .. }
            | EventSubject::Pod { .. }
            | EventSubject::Object { .. }
            | EventSubject::Hidden => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_model::pod::{Toleration, TolerationOperator};

    use super::*;
    use crate::testing::{TestCluster, verdicts};

    #[test]
    fn cordoned_nodes_need_a_toleration() {
        let mut cluster = TestCluster::default();
        cluster.edit_node("open", |_| ());
        cluster.edit_node("cordoned", |node| node.unschedulable = true);
        let mut pod = Pod::default();
        let rejected = "UnschedulableAndUnresolvable: node(s) were unschedulable";
        assert_eq!(verdicts(&mut NodeUnschedulable, &cluster, &pod), ["", rejected]);

        let exists = Toleration {
            key: Sym::UNSCHEDULABLE_TAINT,
            operator: TolerationOperator::Exists,
            value: Sym::NONE,
            effect: None,
        };
        let tolerations = [
            (exists, true),
            (Toleration { key: Sym::NONE, ..exists }, true),
            (Toleration { operator: TolerationOperator::Equal, ..exists }, true),
            (Toleration { operator: TolerationOperator::Equal, value: cluster.sym("true"), ..exists }, false),
            (Toleration { effect: Some(TaintEffect::NoExecute), ..exists }, false),
            (Toleration { operator: TolerationOperator::Never, ..exists }, false),
        ];
        for (toleration, tolerated) in tolerations {
            pod.tolerations = [toleration].into();
            let cordoned = if tolerated { "" } else { rejected };
            assert_eq!(verdicts(&mut NodeUnschedulable, &cluster, &pod), ["", cordoned], "{toleration:?}");
        }
    }
}
