//! Constraints with `DoNotSchedule`: how many matching pods each domain has, and what one more would do.

use std::sync::Arc;

use berth_framework::{Call, DryRunCase, Status};
use berth_model::{NodeIdx, NodeSet, Pod, Sym, pod::SpreadConstraint};

use super::{
    inclusion::Inclusion,
    matching_pods,
    topology::{Domain, Topologies, Topology},
};
use crate::{
    case_walk::CaseWalk,
    pod_counts::{NodeCounts, PodCounts},
};

const MISSING_LABEL: &str = "node(s) didn't match pod topology spread constraints (missing required label)";
const TOO_SKEWED: &str = "node(s) didn't match pod topology spread constraints";

/// What a constraint counts where no node is eligible and no number of domains is asked for.
const NO_DOMAIN: i64 = i32::MAX as i64;

/// One constraint of the pod of this cycle.
#[derive(Debug)]
pub(super) struct HardConstraint {
    constraint: SpreadConstraint,
    namespace: Sym,
    topology: Arc<Topology>,
    /// Nodes that count: they have the keys of all hard constraints, and the policies leave them.
    eligible: NodeSet,
    /// By domain; `None` where no node counts.
    counts: Vec<Option<i64>>,
    n_eligible: usize,
    /// The domain with the fewest pods, and its count.
    lowest: Option<(Domain, i64)>,
    /// The fewest pods of any other domain.
    second_lowest: i64,
    /// The most pods of any domain, 0 where no node counts.
    highest: i64,
    /// 1 if the pod counts itself.
    own: i64,
}

/// A pod's hard constraints, ready to judge nodes.
#[derive(Debug, Default)]
pub(super) struct HardConstraints(Vec<HardConstraint>);

impl HardConstraints {
    /// Counts what the pod's constraints are about.
    pub(super) fn prepare(
        &mut self,
        call: &Call<'_>,
        constraints: Vec<SpreadConstraint>,
        topologies: &mut Topologies,
        (inclusion, pod_counts): (&mut Inclusion, &mut PodCounts),
    ) {
        let mut buffers: Vec<Vec<Option<i64>>> = self.0.drain(..).map(|it| it.counts).collect();
        let mut with_all_keys = call.table.nodes().clone();
        for constraint in &constraints {
            with_all_keys.intersect(topologies.get(call.table, constraint.topology_key).nodes());
        }
        inclusion.begin();
        for constraint in constraints {
            let mut eligible = with_all_keys.clone();
            inclusion.narrow(call, &constraint, &mut eligible);
            let topology = topologies.get(call.table, constraint.topology_key);
            let mut prepared = HardConstraint {
                own: i64::from(constraint.selector.as_ref().is_some_and(|it| it.matches(&call.pod.labels))),
                namespace: call.pod.namespace,
                topology,
                eligible,
                counts: buffers.pop().unwrap_or_default(),
                n_eligible: 0,
                lowest: None,
                second_lowest: NO_DOMAIN,
                highest: 0,
                constraint,
            };
            let question = matching_pods(call.pod, prepared.constraint.selector.as_ref());
            prepared.count(question.map(|question| pod_counts.ask(call.table.pods(), &question)));
            self.0.push(prepared);
        }
    }

    pub(super) fn filter(&self, candidates: &mut NodeSet) {
        for it in &self.0 {
            candidates.intersect(it.topology.nodes());
            let most = it.most();
            if it.highest > most {
                candidates.retain(|node| it.count_at(node) <= most);
            }
        }
    }

    pub(super) fn check(&self, node: NodeIdx) -> Status {
        self.judge(node, |_| 0)
    }

    /// The verdicts on nodes some of whose pods have gone and to which others have come. Unlike pods that were counted,
    /// these count though they are being deleted, and though the selector is empty.
    pub(super) fn try_out(&self, pods: &[&Pod], cases: &[DryRunCase]) -> Vec<Status> {
        let (mut walk, mut changes) = (CaseWalk::new(pods), vec![0; self.0.len()]);
        let judge = |case| {
            walk.step(case, |pod, sign| {
                for (change, it) in changes.iter_mut().zip(&self.0) {
                    *change += if it.means(pod) { sign } else { 0 };
                }
            });
            self.judge(case.node, |position| changes.get(position).copied().unwrap_or(0))
        };
        cases.iter().map(judge).collect()
    }

    /// `change` tells how many pods more the constraint at a position counts on the node.
    fn judge(&self, node: NodeIdx, change: impl Fn(usize) -> i64) -> Status {
        for (position, it) in self.0.iter().enumerate() {
            if !it.topology.nodes().contains(node) {
                return Status::unresolvable(MISSING_LABEL);
            }
            let change = if it.eligible.contains(node) { change(position) } else { 0 };
            if it.count_at(node) + change > it.most_after(node, change) {
                return Status::unschedulable(TOO_SKEWED);
            }
        }
        Status::success()
    }
}

impl HardConstraint {
    fn count(&mut self, pods: Option<&NodeCounts>) {
        let Self { counts, topology, eligible, .. } = self;
        counts.clear();
        counts.resize(topology.n_domains(), None);
        for node in eligible.iter() {
            if let Some(count) = counts.get_mut(topology.domain(node).index()) {
                *count = Some(0);
            }
        }
        for (node, n_pods) in pods.into_iter().flat_map(NodeCounts::iter) {
            if eligible.contains(node)
                && let Some(Some(count)) = counts.get_mut(topology.domain(node).index())
            {
                *count += n_pods;
            }
        }
        for (domain, count) in topology.all_domains().zip(&self.counts) {
            let Some(count) = *count else { continue };
            self.n_eligible += 1;
            self.highest = self.highest.max(count);
            match self.lowest {
                Some((_, lowest)) if lowest <= count => self.second_lowest = self.second_lowest.min(count),
                Some((_, lowest)) => (self.lowest, self.second_lowest) = (Some((domain, count)), lowest),
                None => self.lowest = Some((domain, count)),
            }
        }
    }

    /// Matching pods in the domain of `node`.
    fn count_at(&self, node: NodeIdx) -> i64 {
        self.counts.get(self.topology.domain(node).index()).copied().flatten().unwrap_or(0)
    }

    /// The most matching pods that the domain of a node may have for the pod to go there.
    fn most(&self) -> i64 {
        self.most_above(self.lowest.map_or(NO_DOMAIN, |(_, count)| count))
    }

    /// The same once the domain of `node`, an eligible one, has `change` more.
    fn most_after(&self, node: NodeIdx, change: i64) -> i64 {
        let others = match self.lowest {
            Some((domain, _)) if domain == self.topology.domain(node) => self.second_lowest,
            Some((_, lowest)) => lowest,
            None => NO_DOMAIN,
        };
        if change == 0 { self.most() } else { self.most_above(others.min(self.count_at(node) + change)) }
    }

    fn most_above(&self, lowest: i64) -> i64 {
        let has_enough_domains =
            i64::try_from(self.n_eligible).is_ok_and(|n| n >= i64::from(self.constraint.min_domains));
        let lowest = if has_enough_domains { lowest } else { 0 };
        i64::from(self.constraint.max_skew) + lowest - self.own
    }

    fn means(&self, pod: &Pod) -> bool {
        let selector = self.constraint.selector.as_ref();
        pod.namespace == self.namespace && selector.is_some_and(|selector| selector.matches(&pod.labels))
    }
}
