//! Constraints with `whenUnsatisfiable: ScheduleAnyway`. A node with fewer matching pods in its domains gets a higher
//! score.
//!
//! kube-scheduler: `pkg/scheduler/framework/plugins/podtopologyspread/scoring.go`.

use berth_framework::{Call, Status};
use berth_model::{NodeIdx, NodeSet, Sym, pod::SpreadConstraint};

use super::counters::{Counters, pod_query};
use crate::{
    domain_totals::{CountedNodes, WeightedSums},
    normalize::MAX_SCORE,
    topology::Topology,
};

/// The penalty of the soft constraints of the incoming pod on each node.
#[derive(Debug, Default)]
pub(super) struct SoftConstraints {
    /// The sum over all constraints, by node. A sum grows with the matching pods in the node's domains.
    penalties: Vec<f64>,
    /// Nodes that lack a topology key although all keys are required. The score of these nodes is 0.
    ignored: NodeSet,
    /// The matching pods by domain, and whether the domain has a node to score. Both are buffers.
    n_pods: Vec<i64>,
    is_scored: Vec<bool>,
}

/// The nodes for which PreScore is called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidates<'a> {
    pub(super) nodes: &'a NodeSet,
    /// Whether nodes that lack a topology key are ignored.
    pub(super) requires_all_keys: bool,
}

/// The spread of matching pods under one constraint.
struct Spread<F> {
    n_domains: usize,
    /// Matching pods in the domain of a node.
    n_pods: F,
}

impl SoftConstraints {
    /// Computes the penalties of the candidates.
    ///
    /// # Errors
    /// The search for a node must end.
    pub(super) fn prepare(
        &mut self,
        call: &Call<'_>,
        candidates: Candidates<'_>,
        constraints: &[SpreadConstraint],
        counters: &mut Counters,
    ) -> Result<(), Status> {
        let Candidates { nodes, requires_all_keys } = candidates;
        let Counters { topologies, inclusion, pod_counts, .. } = counters;
        let mut relevant = call.table.nodes().clone();
        if requires_all_keys {
            for (position, constraint) in constraints.iter().enumerate() {
                call.deadline.check_at(position)?;
                relevant.intersect(topologies.get(call.table, constraint.topology_key).nodes());
            }
        }
        let mut scored = nodes.clone();
        scored.intersect(&relevant);
        self.ignored.clear();
        self.ignored.union(nodes);
        self.ignored.subtract(&scored);
        self.penalties.clear();
        self.penalties.resize(relevant.words().len() * 64, 0.0);
        inclusion.begin();
        for (position, constraint) in constraints.iter().enumerate() {
            call.deadline.check_at(position)?;
            let topology = topologies.get(call.table, constraint.topology_key);
            let query = pod_query(call.pod, constraint.selector.as_ref());
            // Under this key, every node is a separate domain, even if labels are equal.
            if constraint.topology_key == Sym::HOSTNAME_LABEL {
                let pods = query.map(|query| pod_counts.count(call.table.pods(), &query));
                let n_pods = |node| pods.map_or(0, |pods| pods.at(node));
                self.penalize(&scored, constraint, &topology, Spread { n_domains: scored.len(), n_pods });
                continue;
            }
            let mut eligible = relevant.clone();
            inclusion.narrow(call, constraint, &mut eligible);
            let n_domains = self.count_scored_domains(&topology, &scored);
            let mut n_pods = std::mem::take(&mut self.n_pods);
            n_pods.clear();
            n_pods.resize(topology.n_domains(), 0);
            if let Some(query) = query {
                let counted = CountedNodes { topology: &topology, nodes: &eligible };
                pod_counts.add_by_domain(call.table.pods(), &query, counted, WeightedSums::unweighted(&mut n_pods));
            }
            let n_pods_at = |node| n_pods.get(topology.domain_or_empty(node).index()).copied().unwrap_or(0);
            self.penalize(&scored, constraint, &topology, Spread { n_domains, n_pods: n_pods_at });
            self.n_pods = n_pods;
        }
        Ok(())
    }

    /// The number of domains that have nodes to score.
    fn count_scored_domains(&mut self, topology: &Topology, scored: &NodeSet) -> usize {
        let is_scored = &mut self.is_scored;
        is_scored.clear();
        is_scored.resize(topology.n_domains(), false);
        for node in scored.iter() {
            if let Some(is_scored) = is_scored.get_mut(topology.domain_or_empty(node).index()) {
                *is_scored = true;
            }
        }
        is_scored.iter().filter(|is_scored| **is_scored).count()
    }

    /// Adds to the penalty of each scored node the number of matching pods in its domain, times `ln(n_domains + 2)`.
    ///
    /// If there are many domains, the counts of each domain are small. Because of the logarithm, a spread over many
    /// domains, such as host names, counts as much as a spread over few domains, such as zones
    /// (`topologyNormalizingWeight` and `scoreForCount` in kube-scheduler's `scoring.go`).
    fn penalize(
        &mut self,
        scored: &NodeSet,
        constraint: &SpreadConstraint,
        topology: &Topology,
        spread: Spread<impl Fn(NodeIdx) -> i64>,
    ) {
        let Spread { n_domains, n_pods } = spread;
        let weight = (n_domains as f64 + 2.0).ln();
        let base = f64::from(constraint.max_skew) - 1.0;
        for node in scored.iter().filter(|node| topology.nodes().contains(*node)) {
            if let Some(penalty) = self.penalties.get_mut(node.index()) {
                *penalty += n_pods(node) as f64 * weight + base;
            }
        }
    }

    pub(super) fn score(&self, nodes: &NodeSet, scores: &mut Vec<i64>) {
        #[expect(clippy::cast_possible_truncation, reason = "counts of pods are far below 2^53")]
        let rounded = |node: NodeIdx| self.penalties.get(node.index()).map_or(0, |penalty| penalty.round() as i64);
        scores.extend(nodes.iter().map(rounded));
    }

    /// Turns penalties into scores: the lowest penalty becomes 100.
    pub(super) fn normalize(&self, nodes: &NodeSet, scores: &mut [i64]) {
        if self.ignored.is_empty() {
            let range = ScoreRange::of(scores.iter().copied());
            scores.iter_mut().for_each(|score| *score = range.reversed(*score));
            return;
        }
        let is_ignored = |node| self.ignored.contains(node);
        let kept = nodes.iter().zip(scores.iter()).filter(|(node, _)| !is_ignored(*node));
        let range = ScoreRange::of(kept.map(|(_, score)| *score));
        for (node, score) in nodes.iter().zip(scores) {
            *score = if is_ignored(node) { 0 } else { range.reversed(*score) };
        }
    }
}

struct ScoreRange {
    min: i64,
    max: i64,
}

impl ScoreRange {
    fn of(scores: impl Iterator<Item = i64>) -> Self {
        let none = Self { min: i64::MAX, max: 0 };
        scores.fold(none, |Self { min, max }, score| Self { min: min.min(score), max: max.max(score) })
    }

    fn reversed(&self, score: i64) -> i64 {
        if self.max == 0 { MAX_SCORE } else { MAX_SCORE * (self.max + self.min - score) / self.max }
    }
}
