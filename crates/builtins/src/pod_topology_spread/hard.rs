//! Constraints with `whenUnsatisfiable: DoNotSchedule`: the number of matching pods in each domain, and whether one
//! more matching pod would exceed `maxSkew`.
//!
//! kube-scheduler: `pkg/scheduler/framework/plugins/podtopologyspread/filtering.go`.

use std::sync::Arc;

use berth_framework::{Call, DryRunCase, Status};
use berth_model::{NodeIdx, NodeSet, Pod, Sym, pod::SpreadConstraint};

use super::{
    counters::{Counters, pod_query},
    eligible_domains::EligibleDomains,
};
use crate::{
    case_walk::CaseWalk,
    domain_totals::{CountedNodes, WeightedSums},
    topology::{Domain, Topology},
};

const MISSING_LABEL: &str = "node(s) didn't match pod topology spread constraints (missing required label)";
const TOO_SKEWED: &str = "node(s) didn't match pod topology spread constraints";

/// The lowest count if there is no domain, as in kube-scheduler.
const NO_DOMAIN: i64 = i32::MAX as i64;

/// One constraint of the incoming pod.
#[derive(Debug)]
struct HardConstraint {
    constraint: SpreadConstraint,
    namespace: Sym,
    topology: Arc<Topology>,
    /// Nodes with pods that count. These nodes have the topology keys of all hard constraints, and the node inclusion
    /// policies include them.
    eligible: NodeSet,
    /// The domains with eligible nodes.
    domains: Arc<EligibleDomains>,
    /// Matching pods by domain.
    counts: Vec<i64>,
    /// The domain with the fewest matching pods, and the number of its matching pods.
    lowest: Option<(Domain, i64)>,
    /// The fewest matching pods in any domain except the domain in `lowest`.
    second_lowest: i64,
    /// The most matching pods in any domain; 0 if there is no domain.
    highest: i64,
    /// 1 if the incoming pod matches the constraint's selector, else 0.
    self_match: i64,
}

/// The hard constraints of the incoming pod, with the counts for checking nodes.
#[derive(Debug, Default)]
pub(super) struct HardConstraints(Vec<HardConstraint>);

impl HardConstraints {
    /// Counts the matching pods of each domain.
    ///
    /// # Errors
    /// The search for a node must end.
    pub(super) fn prepare(
        &mut self,
        call: &Call<'_>,
        constraints: Vec<SpreadConstraint>,
        counters: &mut Counters,
    ) -> Result<(), Status> {
        let Counters { topologies, inclusion, pod_counts, eligible_domains } = counters;
        let mut buffers: Vec<Vec<i64>> = self.0.drain(..).map(|it| it.counts).collect();
        let mut with_all_keys = call.table.nodes().clone();
        for (position, constraint) in constraints.iter().enumerate() {
            call.deadline.check_at(position)?;
            with_all_keys.intersect(topologies.get(call.table, constraint.topology_key).nodes());
        }
        inclusion.begin();
        for (position, constraint) in constraints.into_iter().enumerate() {
            call.deadline.check_at(position)?;
            let mut eligible = with_all_keys.clone();
            inclusion.narrow(call, &constraint, &mut eligible);
            let topology = topologies.get(call.table, constraint.topology_key);
            let mut prepared = HardConstraint {
                self_match: i64::from(constraint.selector.as_ref().is_some_and(|it| it.matches(&call.pod.labels))),
                namespace: call.pod.namespace,
                domains: eligible_domains.get(&topology, &eligible),
                topology,
                eligible,
                counts: buffers.pop().unwrap_or_default(),
                lowest: None,
                second_lowest: NO_DOMAIN,
                highest: 0,
                constraint,
            };
            let query = pod_query(call.pod, prepared.constraint.selector.as_ref());
            prepared.count(|counted, sums| {
                let sums = WeightedSums::unweighted(sums);
                query.map_or(0, |query| pod_counts.add_by_domain(call.table.pods(), &query, counted, sums))
            });
            self.0.push(prepared);
        }
        Ok(())
    }

    pub(super) fn filter(&self, candidates: &mut NodeSet) {
        for it in &self.0 {
            candidates.intersect(it.topology.nodes());
            let limit = it.limit();
            if it.highest > limit {
                candidates.retain(|node| it.count_at(node) <= limit);
            }
        }
    }

    pub(super) fn check(&self, node: NodeIdx) -> Status {
        self.check_changed(node, |_| 0)
    }

    /// The verdict on the node of each case, with the pods of the case removed and added. `pods` count even if they are
    /// being deleted, and even if the selector is empty, as in kube-scheduler's `updateWithPod`. Pods on nodes do not
    /// count in these cases.
    pub(super) fn dry_run(&self, pods: &[&Pod], cases: &[DryRunCase]) -> Vec<Status> {
        let (mut walk, mut changes) = (CaseWalk::new(pods), vec![0; self.0.len()]);
        let check = |case| {
            walk.step(case, |pod, sign| {
                for (change, it) in changes.iter_mut().zip(&self.0) {
                    *change += if it.matches(pod) { sign } else { 0 };
                }
            });
            self.check_changed(case.node, |position| changes.get(position).copied().unwrap_or(0))
        };
        cases.iter().map(check).collect()
    }

    /// Checks the node after a change. `change` returns the number of additional pods on the node that match the
    /// constraint at a position.
    fn check_changed(&self, node: NodeIdx, change: impl Fn(usize) -> i64) -> Status {
        for (position, it) in self.0.iter().enumerate() {
            if !it.topology.nodes().contains(node) {
                return Status::unresolvable(MISSING_LABEL);
            }
            let change = if it.eligible.contains(node) { change(position) } else { 0 };
            if it.count_at(node) + change > it.limit_after(node, change) {
                return Status::unschedulable(TOO_SKEWED);
            }
        }
        Status::success()
    }
}

impl HardConstraint {
    /// Counts the matching pods. `add` adds the matching pods on some nodes to an array by domain.
    fn count(&mut self, add: impl FnOnce(CountedNodes<'_>, &mut [i64]) -> i64) {
        let Self { counts, topology, eligible, domains, .. } = self;
        counts.clear();
        counts.resize(topology.n_domains(), 0);
        add(CountedNodes { topology, nodes: eligible }, counts);
        let counted = topology.all_domains().zip(counts.iter()).zip(domains.has_nodes());
        for ((domain, &count), _) in counted.filter(|(_, has_nodes)| **has_nodes) {
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
        self.counts.get(self.topology.domain_or_empty(node).index()).copied().unwrap_or(0)
    }

    /// The maximum number of matching pods in a domain to which the incoming pod may go.
    fn limit(&self) -> i64 {
        self.limit_above(self.lowest.map_or(NO_DOMAIN, |(_, count)| count))
    }

    /// [`Self::limit`] if the domain of `node`, which is eligible, has `change` more matching pods.
    fn limit_after(&self, node: NodeIdx, change: i64) -> i64 {
        let lowest_of_others = match self.lowest {
            Some((domain, _)) if Some(domain) == self.topology.domain(node) => self.second_lowest,
            Some((_, lowest)) => lowest,
            None => NO_DOMAIN,
        };
        if change == 0 { self.limit() } else { self.limit_above(lowest_of_others.min(self.count_at(node) + change)) }
    }

    /// The limit if the emptiest domain has `lowest` matching pods. The emptiest domain counts as empty if there are
    /// fewer domains than `minDomains`.
    fn limit_above(&self, lowest: i64) -> i64 {
        let has_enough_domains =
            i64::try_from(self.domains.n_domains()).is_ok_and(|n| n >= i64::from(self.constraint.min_domains));
        let lowest = if has_enough_domains { lowest } else { 0 };
        i64::from(self.constraint.max_skew) + lowest - self.self_match
    }

    fn matches(&self, pod: &Pod) -> bool {
        let selector = self.constraint.selector.as_ref();
        pod.namespace == self.namespace && selector.is_some_and(|selector| selector.matches(&pod.labels))
    }
}
