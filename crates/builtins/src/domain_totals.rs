//! Totals of the pods on nodes by topology domain, kept up to date while pods come and go.
//!
//! A sum over all nodes costs a cycle microseconds for each thousand nodes, and only one node changes between two
//! cycles. A rule that counts pods by node therefore keeps the totals of the most recently used topologies
//! ([`KeptTotals`]), as long as the totals are worth their memory.

use std::sync::Arc;

use berth_model::{NodeIdx, NodeSet};

use crate::topology::Topology;

/// The amount that the counted pods on one node add to the total of the node's domain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contribution {
    pub(crate) node: NodeIdx,
    pub(crate) n_pods: i64,
    pub(crate) amount: i64,
}

impl Contribution {
    /// A contribution in which each pod adds 1.
    pub(crate) fn of_pods(node: NodeIdx, n_pods: i64) -> Self {
        Self { node, n_pods, amount: n_pods }
    }
}

/// The nodes with pods that count, by domain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedNodes<'a> {
    pub(crate) topology: &'a Arc<Topology>,
    /// A node that lacks the key counts in the domain of an empty value.
    pub(crate) nodes: &'a NodeSet,
}

impl<'a> CountedNodes<'a> {
    /// Every node that has the key.
    pub(crate) fn with_key(topology: &'a Arc<Topology>) -> Self {
        Self { topology, nodes: topology.nodes() }
    }

    /// Adds each amount to `sums`. Returns the number of pods.
    fn add_each(self, contributions: impl Iterator<Item = Contribution>, sums: WeightedSums<'_>) -> i64 {
        let WeightedSums { factor, by_domain } = sums;
        let mut n_pods = 0;
        for it in contributions.filter(|it| self.nodes.contains(it.node)) {
            if let Some(sum) = by_domain.get_mut(self.topology.domain_or_empty(it.node).index()) {
                *sum += it.amount * factor;
                n_pods += it.n_pods;
            }
        }
        n_pods
    }
}

/// Sums by domain. Amounts are added `factor` times.
#[derive(Debug)]
pub(crate) struct WeightedSums<'a> {
    pub(crate) factor: i64,
    pub(crate) by_domain: &'a mut [i64],
}

impl<'a> WeightedSums<'a> {
    /// Sums to which each amount is added once.
    pub(crate) fn unweighted(by_domain: &'a mut [i64]) -> Self {
        Self { factor: 1, by_domain }
    }
}

/// The number of topologies whose totals are kept at a time, for one query or one affinity term.
const CAPACITY: usize = 4;

/// The maximum number of domains for each pod in a topology for which totals are kept. The limit avoids totals over all
/// hosts for each workload of a few pods.
const MAX_DOMAINS_PER_POD: i64 = 8;

/// The totals of one kind of pods, by topology.
#[derive(Debug, Default)]
pub(crate) struct KeptTotals(Vec<DomainTotals>);

#[derive(Debug)]
struct DomainTotals {
    topology: Arc<Topology>,
    counted: NodeSet,
    n_pods: i64,
    by_domain: Vec<i64>,
}

impl KeptTotals {
    /// Applies a change of a node's contribution to all kept totals. `contribution` is the difference.
    pub(crate) fn change(&mut self, contribution: Contribution) {
        for totals in &mut self.0 {
            let DomainTotals { topology, counted, n_pods, by_domain } = totals;
            *n_pods += CountedNodes { topology, nodes: counted }
                .add_each([contribution].into_iter(), WeightedSums::unweighted(by_domain));
        }
    }

    /// Adds the totals of `counted` to `sums`. Returns the number of pods. `n_pods` is the number of these pods on all
    /// nodes. If the totals are not kept, they are computed from `contributions`.
    pub(crate) fn add_to(
        &mut self,
        counted: CountedNodes<'_>,
        n_pods: i64,
        contributions: impl Iterator<Item = Contribution>,
        sums: WeightedSums<'_>,
    ) -> i64 {
        if n_pods == 0 {
            return 0;
        }
        let CountedNodes { topology, nodes } = counted;
        let is_kept = |totals: &DomainTotals| Arc::ptr_eq(&totals.topology, topology) && totals.counted == *nodes;
        let at = self.0.iter().position(is_kept);
        if at.is_none() && i64::try_from(topology.n_domains()).is_ok_and(|n| n > n_pods * MAX_DOMAINS_PER_POD) {
            return counted.add_each(contributions, sums);
        }
        let at = at.unwrap_or_else(|| self.keep(counted, contributions));
        let Some(totals) = self.0.get(at) else { return 0 };
        let WeightedSums { factor, by_domain } = sums;
        by_domain.iter_mut().zip(&totals.by_domain).for_each(|(sum, total)| *sum += total * factor);
        totals.n_pods
    }

    fn keep(&mut self, counted: CountedNodes<'_>, contributions: impl Iterator<Item = Contribution>) -> usize {
        if self.0.len() >= CAPACITY {
            self.0.remove(0);
        }
        let mut by_domain = vec![0; counted.topology.n_domains()];
        let n_pods = counted.add_each(contributions, WeightedSums::unweighted(&mut by_domain));
        let CountedNodes { topology, nodes } = counted;
        self.0.push(DomainTotals { topology: Arc::clone(topology), counted: nodes.clone(), n_pods, by_domain });
        self.0.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{testing::TestCluster, topology::Topologies};

    proptest! {
        #[test]
        fn kept_totals_are_those_of_a_recount(changes in prop::collection::vec((0..12u32, 1..4i64, 0..3usize), 1..60)) {
            let mut cluster = TestCluster::default();
            for index in 0..12 {
                let zone = ["", "a", "b"][index % 3];
                let labels = if index == 5 { berth_model::ThinVec::new() } else { cluster.labels(&[("zone", zone), ("rack", "r")]) };
                cluster.edit_node(&format!("n{index}"), |node| node.labels = labels);
            }
            let mut topologies = Topologies::default();
            let [zone, rack] = ["zone", "rack"].map(|key| cluster.sym(key));
            let [zone, rack] = [zone, rack].map(|key| topologies.get(cluster.table(), key));
            let all = cluster.table().nodes().clone();
            let some: NodeSet = [1, 2, 5, 8].map(NodeIdx).into_iter().collect();
            let (mut kept, mut on_nodes) = (KeptTotals::default(), vec![0; 12]);
            for (node, n_pods, which) in changes {
                on_nodes[node as usize] += n_pods;
                kept.change(Contribution::of_pods(NodeIdx(node), n_pods));
                let counted = [
                    CountedNodes { topology: &zone, nodes: &all },
                    CountedNodes { topology: &zone, nodes: &some },
                    CountedNodes::with_key(&rack),
                ][which];
                let of_pods = |(node, n_pods)| Contribution::of_pods(NodeIdx(node), n_pods);
                let contributions = || (0..).zip(on_nodes.iter().copied()).map(of_pods);
                let (mut sums, mut recount) = (vec![1; 4], vec![1; 4]);
                let twice = |by_domain| WeightedSums { factor: 2, by_domain };
                let n_kept = kept.add_to(counted, on_nodes.iter().sum(), contributions(), twice(&mut sums));
                prop_assert_eq!(n_kept, counted.add_each(contributions(), twice(&mut recount)));
                prop_assert_eq!(sums, recount);
            }
        }
    }
}
