//! Scores: the preferred terms of the incoming pod, and the terms of existing pods that match the pod.

use berth_framework::{Call, Status};
use berth_model::{NodeSet, pod::WeightedPodTerm};

use super::{cluster_view::ClusterView, domain_sums::DomainSums, incoming_terms::IncomingTerm};
use crate::{
    domain_totals::{CountedNodes, WeightedSums},
    normalize::MAX_SCORE,
};

/// The results of PreScore for one cycle.
#[derive(Debug, Default)]
pub(super) struct Preferred {
    /// The sum of weights in each domain. It is positive where affinity prevails, and negative where anti-affinity
    /// prevails.
    sums: DomainSums,
}

impl Preferred {
    /// Computes the sums for the pod. Returns whether any term matches a pod on a node.
    ///
    /// # Errors
    /// The search for a node must end.
    pub(super) fn prepare(&mut self, call: &Call<'_>, view: &mut ClusterView) -> Result<bool, Status> {
        let Call { pod, table, deadline, .. } = *call;
        view.follow(table);
        self.sums.clear();
        for (position, it) in pod.affinity.preferred.iter().enumerate() {
            deadline.check_at(position)?;
            self.add_incoming(it, it.weight.into(), call, view);
        }
        for (position, it) in pod.affinity.anti_preferred.iter().enumerate() {
            deadline.check_at(position)?;
            self.add_incoming(it, -i64::from(it.weight), call, view);
        }
        let namespace_labels = view.labels_of_namespace(pod, &table.symbols);
        let ClusterView { topologies, existing, .. } = view;
        existing.scored.visit(pod, &namespace_labels, |key, term| {
            let topology = topologies.get(table, key);
            self.sums.add(key, &topology, |sums| term.add_by_domain(&topology, sums));
        });
        Ok(!self.sums.is_empty())
    }

    fn add_incoming(&mut self, preference: &WeightedPodTerm, weight: i64, call: &Call<'_>, view: &mut ClusterView) {
        let table = call.table;
        let ClusterView { counts, namespaces, topologies, .. } = view;
        let term = IncomingTerm::new(&preference.term, namespaces, &table.symbols);
        let topology = topologies.get(table, term.topology_key);
        let counted = CountedNodes::with_key(&topology);
        let count = |sums: &mut [i64]| {
            counts.add_by_domain(table.pods(), &term.query(), counted, WeightedSums { factor: weight, by_domain: sums })
        };
        self.sums.add(term.topology_key, &topology, count);
    }

    /// Appends the score of each node.
    pub(super) fn score(&self, nodes: &NodeSet, scores: &mut Vec<i64>) {
        let start = scores.len();
        scores.resize(start + nodes.len(), 0);
        let scores = scores.get_mut(start..).unwrap_or_default();
        for sums in self.sums.iter().filter(|sums| sums.n_pods > 0) {
            for (score, node) in scores.iter_mut().zip(nodes.iter()) {
                *score += sums.at(node).unwrap_or(0);
            }
        }
    }
}

/// Scales scores so that the lowest score becomes 0 and the highest score 100. If all scores are equal, they become 0.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "Kubernetes computes in float64 and truncates"
)]
pub(super) fn normalize(scores: &mut [i64]) {
    let (Some(&min), Some(&max)) = (scores.iter().min(), scores.iter().max()) else { return };
    let range = max.saturating_sub(min) as f64;
    for score in scores {
        let share = if max > min { score.saturating_sub(min) as f64 / range } else { 0.0 };
        *score = (MAX_SCORE as f64 * share) as i64;
    }
}
