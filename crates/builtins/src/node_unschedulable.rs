//! NodeUnschedulable: cordoned nodes take no new pods, unless the pod tolerates it.

use berth_framework::{Call, ClusterEvent, ConfigureError, DryRunCase, Explanation, Filter, Point, Status};
use berth_model::{
    Column, NodeIdx, NodeSet, Pod, Sym,
    pod::{Taint, TaintEffect},
};

use crate::{
    args::{self, NoArgs},
    built_in::{BuiltIn, Card, plugin},
    node_check::{dry_run_each, explain_each, pass_or},
};

/// Looks at `spec.unschedulable` as if it were the taint `node.kubernetes.io/unschedulable:NoSchedule`.
#[derive(Debug, Default)]
pub struct NodeUnschedulable;

impl BuiltIn for NodeUnschedulable {
    const CARD: Card = Card {
        name: "NodeUnschedulable",
        points: &[Point::Filter, Point::Sign],
        columns: &[Column::Unschedulable],
        requeue: &[
            ("Node", ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_TAINT),
            ("Pod", ClusterEvent::UPDATE_POD_TOLERATION),
        ],
        ..Card::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        args::parse::<NoArgs>(Self::NAME, args)?;
        Ok(Self)
    }
}

plugin!(NodeUnschedulable { filter: Filter, sign: Sign });

const TAINT: Taint = Taint { key: Sym::UNSCHEDULABLE_TAINT, value: Sym::NONE, effect: TaintEffect::NoSchedule };

fn tolerates(pod: &Pod) -> bool {
    pod.tolerations.iter().any(|toleration| toleration.tolerates(&TAINT))
}

fn check(call: &Call<'_>, node: NodeIdx) -> Status {
    let passes = !call.table.unschedulable().contains(node) || tolerates(call.pod);
    pass_or(passes, || Status::unresolvable("node(s) were unschedulable"))
}

impl Filter for NodeUnschedulable {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        if !tolerates(call.pod) {
            candidates.subtract(call.table.unschedulable());
        }
        Ok(())
    }

    fn explain(&mut self, call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<Explanation>, Status> {
        Ok(explain_each(rejected, |node| check(call, node)))
    }

    fn dry_run(&mut self, call: &Call<'_>, _pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        Ok(dry_run_each(cases, |node| check(call, node)))
    }
}

#[cfg(test)]
mod tests {
    use berth_model::pod::{Toleration, TolerationOperator};

    use super::*;
    use crate::testing::{Cluster, verdicts};

    #[test]
    fn cordoned_nodes_need_a_toleration() {
        let mut cluster = Cluster::default();
        cluster.node("open", |_| ());
        cluster.node("cordoned", |node| node.unschedulable = true);
        let mut pod = cluster.pod();
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
            pod.tolerations = vec![toleration];
            let cordoned = if tolerated { "" } else { rejected };
            assert_eq!(verdicts(&mut NodeUnschedulable, &cluster, &pod), ["", cordoned], "{toleration:?}");
        }
    }
}
