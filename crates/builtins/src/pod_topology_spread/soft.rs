//! Constraints with `ScheduleAnyway`: the fewer matching pods a node's domains have, the better the node.

use berth_framework::Call;
use berth_model::{NodeIdx, NodeSet, Sym, pod::SpreadConstraint};

use super::{
    inclusion::Inclusion,
    matching_pods,
    topology::{Topologies, Topology},
};
use crate::{
    normalize::MAX_SCORE,
    pod_counts::{NodeCounts, PodCounts},
};

/// What a pod's soft constraints say about nodes.
#[derive(Debug, Default)]
pub(super) struct SoftConstraints {
    /// By node: the more matching pods around, the higher.
    penalties: Vec<f64>,
    /// Nodes that lack a key where all keys are required.
    ignored: NodeSet,
    domains: Vec<DomainPods>,
}

#[derive(Clone, Debug, Default)]
struct DomainPods {
    n_pods: i64,
    /// Whether some node to be scored is in it.
    is_scored: bool,
}

impl SoftConstraints {
    /// Counts what the pod's constraints are about. `requires_all_keys` leaves nodes out that lack some key.
    pub(super) fn prepare(
        &mut self,
        call: &Call<'_>,
        (nodes, requires_all_keys): (&NodeSet, bool),
        constraints: &[SpreadConstraint],
        topologies: &mut Topologies,
        (inclusion, pod_counts): (&mut Inclusion, &mut PodCounts),
    ) {
        let mut relevant = call.table.nodes().clone();
        if requires_all_keys {
            for constraint in constraints {
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
        for constraint in constraints {
            let topology = topologies.get(call.table, constraint.topology_key);
            let question = matching_pods(call.pod, constraint.selector.as_ref());
            let pods = question.map(|question| pod_counts.ask(call.table.pods(), &question));
            // On the host name every node is taken for a domain of its own, whatever its label says.
            if constraint.topology_key == Sym::HOSTNAME_LABEL {
                let n_pods = |node| pods.map_or(0, |pods| pods.at(node));
                self.penalize(&scored, constraint, &topology, (scored.len(), n_pods));
                continue;
            }
            let mut eligible = relevant.clone();
            inclusion.narrow(call, constraint, &mut eligible);
            let n_domains = self.count_domains(&topology, &scored, &eligible, pods);
            let domains = std::mem::take(&mut self.domains);
            let n_pods = |node| domains.get(topology.domain(node).index()).map_or(0, |domain| domain.n_pods);
            self.penalize(&scored, constraint, &topology, (n_domains, n_pods));
            self.domains = domains;
        }
    }

    /// Fills [`Self::domains`]; answers how many of them nodes to be scored are in.
    fn count_domains(
        &mut self,
        topology: &Topology,
        scored: &NodeSet,
        eligible: &NodeSet,
        pods: Option<&NodeCounts>,
    ) -> usize {
        let domains = &mut self.domains;
        domains.clear();
        domains.resize(topology.n_domains(), DomainPods::default());
        for node in scored.iter() {
            if let Some(domain) = domains.get_mut(topology.domain(node).index()) {
                domain.is_scored = true;
            }
        }
        for (node, n_pods) in pods.into_iter().flat_map(NodeCounts::iter).filter(|(node, _)| eligible.contains(*node)) {
            if let Some(domain) = domains.get_mut(topology.domain(node).index()) {
                domain.n_pods += n_pods;
            }
        }
        domains.iter().filter(|domain| domain.is_scored).count()
    }

    /// A pod more weighs the more, the more domains there are (`reference`: plugins, section 14.4).
    fn penalize(
        &mut self,
        scored: &NodeSet,
        constraint: &SpreadConstraint,
        topology: &Topology,
        (n_domains, n_pods): (usize, impl Fn(NodeIdx) -> i64),
    ) {
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

    /// The lowest penalty becomes the highest score.
    pub(super) fn normalize(&self, nodes: &NodeSet, scores: &mut [i64]) {
        if self.ignored.is_empty() {
            let range = scores.iter().fold((i64::MAX, 0), |(min, max), &score| (min.min(score), max.max(score)));
            scores.iter_mut().for_each(|score| *score = reversed(*score, range));
            return;
        }
        let is_ignored = |node| self.ignored.contains(node);
        let kept = nodes.iter().zip(scores.iter()).filter(|(node, _)| !is_ignored(*node));
        let range = kept.fold((i64::MAX, 0), |(min, max), (_, &score)| (min.min(score), max.max(score)));
        for (node, score) in nodes.iter().zip(scores) {
            *score = if is_ignored(node) { 0 } else { reversed(*score, range) };
        }
    }
}

fn reversed(score: i64, (min, max): (i64, i64)) -> i64 {
    if max == 0 { MAX_SCORE } else { MAX_SCORE * (max + min - score) / max }
}
