//! TaintToleration: keeps pods off nodes with taints that they do not tolerate, and prefers nodes without
//! `PreferNoSchedule` taints.
//!
//! Nodes share few distinct sets of taints. In a call, each set is therefore compared with the pod's tolerations once,
//! and the result is looked up by the id of a node's set.

use berth_framework::{
    Call, ClusterEvent, ConfigureError, EventSubject, HintCall, Normalize, PreScore, QueueingHint, Score, Status,
};
use berth_model::{
    ClusterTable, Column, Feature, Features, NodeIdx, NodeSet, Pod, Symbols,
    node_set::RowBlock,
    pod::{Taint, TaintEffect},
};

use crate::{
    args::{self, NoArgs},
    built_in::{BuiltIn, Descriptor, plugin},
    hints,
    node_check::{NodeRule, filter_by_node, pass_or},
    normalize::normalize,
};

/// Compares `spec.taints` of nodes with `spec.tolerations` of the pod.
#[derive(Debug, Default)]
pub struct TaintToleration {
    /// Whether the pod tolerates each taint set. This buffer and `counts` are reused from call to call.
    verdicts: Vec<Option<bool>>,
    /// The number of `PreferNoSchedule` taints in each taint set that the pod does not tolerate.
    counts: Vec<Option<i64>>,
    features: Features,
}

impl BuiltIn for TaintToleration {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "TaintToleration",
        columns: &[Column::Taints],
        events_to_register: &[
            ("Node", ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_TAINT),
            ("Pod", ClusterEvent::UPDATE_POD_TOLERATION),
        ],
        ..Descriptor::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        let (NoArgs {}, features) = args::parse_with_features(Self::NAME, args)?;
        Ok(Self { features, ..Self::default() })
    }
}

plugin!(TaintToleration: Filter, PreScore, Score, Normalize, QueueingHint, Sign; Reuse);

fn is_tolerated(pod: &Pod, taint: &Taint, numbers: Option<&Symbols>) -> bool {
    pod.tolerations.iter().any(|toleration| toleration.tolerates(taint, numbers))
}

/// Whether the pod tolerates every `NoSchedule` and `NoExecute` taint. If `numbers` is given, numbers are compared.
fn admits(pod: &Pod, taints: &[Taint], numbers: Option<&Symbols>) -> bool {
    taints.iter().all(|taint| taint.effect == TaintEffect::PreferNoSchedule || is_tolerated(pod, taint, numbers))
}

/// The symbols that contain the texts of numbers; `None` if tolerations may not compare numbers.
fn numbers(features: Features, table: &ClusterTable) -> Option<&Symbols> {
    features.has(Feature::TaintTolerationComparisonOperators).then_some(&table.symbols)
}

/// The number of `PreferNoSchedule` taints that the pod does not tolerate.
fn n_intolerable_prefer_no_schedule(pod: &Pod, taints: &[Taint], numbers: Option<&Symbols>) -> i64 {
    let prefer_no_schedule = taints.iter().filter(|taint| taint.effect == TaintEffect::PreferNoSchedule);
    prefer_no_schedule.map(|taint| i64::from(!is_tolerated(pod, taint, numbers))).sum()
}

/// Returns a function that gives the result of `evaluate` for the taints of a node. `evaluate` is called once for each
/// distinct set of taints. `known` is a buffer for the results by set.
fn once_per_set<T: Copy>(
    call: &Call<'_>,
    features: Features,
    known: &mut Vec<Option<T>>,
    evaluate: impl Fn(&Pod, &[Taint], Option<&Symbols>) -> T,
) -> impl FnMut(NodeIdx) -> T {
    let numbers = numbers(features, call.table);
    let sets = call.table.taint_sets();
    known.clear();
    known.resize(sets.len(), None);
    move |node| {
        let id = call.table.taint_set_id(node) as usize;
        let taints = sets.get(id).map_or(&[][..], |set| set);
        match known.get_mut(id) {
            Some(result) => *result.get_or_insert_with(|| evaluate(call.pod, taints, numbers)),
            None => evaluate(call.pod, taints, numbers),
        }
    }
}

/// Keeps the nodes on which the pod tolerates all `NoSchedule` and `NoExecute` taints.
pub(crate) fn narrow_to_tolerated(
    call: &Call<'_>,
    features: Features,
    verdicts: &mut Vec<Option<bool>>,
    nodes: &mut NodeSet,
) {
    let mut admits = once_per_set(call, features, verdicts, admits);
    nodes.retain_in_blocks(|block| {
        let tainted = RowBlock { members: block.members & call.table.tainted().block(block.first), ..block };
        let rejected = tainted.rows().filter(|node| !admits(*node));
        rejected.fold(block.members, |passing, node| passing & !(1 << (node.0 % 64)))
    });
}

filter_by_node!(TaintToleration);

impl NodeRule for TaintToleration {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) {
        narrow_to_tolerated(call, self.features, &mut self.verdicts, candidates);
    }

    fn check(&mut self, call: &Call<'_>) -> impl FnMut(NodeIdx) -> Status {
        let mut passes = once_per_set(call, self.features, &mut self.verdicts, admits);
        move |node| pass_or(passes(node), || Status::unresolvable("node(s) had untolerated taint(s)"))
    }
}

impl PreScore for TaintToleration {
    fn pre_score(&mut self, _call: &Call<'_>, _nodes: &NodeSet) -> Result<(), Status> {
        Ok(())
    }
}

impl Score for TaintToleration {
    fn score(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        let count = n_intolerable_prefer_no_schedule;
        scores.extend(nodes.iter().map(once_per_set(call, self.features, &mut self.counts, count)));
        Ok(())
    }

    fn common_score(&mut self, call: &Call<'_>, nodes: &NodeSet) -> Option<i64> {
        nodes.is_disjoint(call.table.tainted()).then_some(0)
    }
}

impl Normalize for TaintToleration {
    fn normalize(&mut self, _call: &Call<'_>, _nodes: &NodeSet, scores: &mut [i64]) -> Result<(), Status> {
        normalize(scores, true);
        Ok(())
    }
}

impl QueueingHint for TaintToleration {
    /// Whether a node has only taints that the pod tolerates after the event, or the pod's own tolerations changed.
    fn queueing_hint(&mut self, call: &HintCall<'_>) -> bool {
        match call.subject {
            EventSubject::Node { old, new: Some(new) } => {
                let numbers = numbers(self.features, call.table);
                admits(call.pod, &new.taints, numbers) && old.is_none_or(|old| !admits(call.pod, &old.taints, numbers))
            }
            EventSubject::Pod { .. } => hints::is_own_update(call),
            EventSubject::Node { .. } | EventSubject::Object { .. } | EventSubject::Hidden => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_model::pod::{Toleration, TolerationOperator};

    use super::*;
    use crate::testing::{TestCluster, scores, verdicts};

    const REJECTED: &str = "UnschedulableAndUnresolvable: node(s) had untolerated taint(s)";

    fn taint(cluster: &mut TestCluster, key: &str, value: &str, effect: TaintEffect) -> Taint {
        Taint { key: cluster.sym(key), value: cluster.sym(value), effect }
    }

    #[test]
    fn every_no_schedule_and_no_execute_taint_needs_a_toleration() {
        let mut cluster = TestCluster::default();
        let gpu = taint(&mut cluster, "gpu", "yes", TaintEffect::NoSchedule);
        let down = taint(&mut cluster, "down", "", TaintEffect::NoExecute);
        let soft = taint(&mut cluster, "soft", "", TaintEffect::PreferNoSchedule);
        for (name, taints) in [("n0", vec![]), ("n1", vec![gpu]), ("n2", vec![soft]), ("n3", vec![soft, gpu, down])] {
            cluster.edit_node(name, |node| node.taints = taints);
        }
        let mut pod = Pod::default();
        let mut plugin = TaintToleration::default();
        assert_eq!(verdicts(&mut plugin, &cluster, &pod), ["", REJECTED, "", REJECTED]);
        let equal = Toleration { key: gpu.key, operator: TolerationOperator::Equal, value: gpu.value, effect: None };
        pod.tolerations = [equal].into();
        assert_eq!(verdicts(&mut plugin, &cluster, &pod), ["", "", "", REJECTED]);
        pod.tolerations.push(Toleration { key: down.key, operator: TolerationOperator::Exists, ..equal });
        assert_eq!(verdicts(&mut plugin, &cluster, &pod), ["", "", "", ""]);
        pod.tolerations = [Toleration { operator: TolerationOperator::Never, ..equal }].into();
        assert_eq!(verdicts(&mut plugin, &cluster, &pod), ["", REJECTED, "", REJECTED]);
    }

    #[test]
    fn fewer_prefer_no_schedule_taints_score_higher() {
        let mut cluster = TestCluster::default();
        let soft: Vec<Taint> = ["a", "b", "c", "tolerated"]
            .map(|key| taint(&mut cluster, key, "", TaintEffect::PreferNoSchedule))
            .to_vec();
        let tolerated = soft[3];
        cluster.edit_node("n0", |node| node.taints = vec![tolerated]);
        cluster.edit_node("n1", |node| node.taints = vec![soft[0], tolerated]);
        cluster.edit_node("n2", |node| node.taints = soft);
        let tolerations = [Toleration {
            key: tolerated.key,
            operator: TolerationOperator::Exists,
            value: tolerated.value,
            effect: Some(TaintEffect::PreferNoSchedule),
        }];
        let pod = Pod { tolerations: tolerations.into(), ..Pod::default() };
        let result = scores(&mut TaintToleration::default(), &cluster, &pod);
        assert_eq!(result, Ok((vec![0, 1, 3], vec![100, 67, 0])));
    }
}
