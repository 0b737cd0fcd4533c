//! Scores: the pod's own preferred terms, and the affinity of placed pods to it.

use berth_framework::Call;
use berth_model::{NodeSet, pod::WeightedPodTerm};

use super::{
    domains::{DomainSums, Share},
    knowledge::Knowledge,
    own_terms::OwnTerm,
};
use crate::normalize::MAX_SCORE;

/// What PreScore found out for one cycle.
#[derive(Debug, Default)]
pub(super) struct Preferred {
    /// Weights of all that speaks for a domain, and against it.
    sums: DomainSums,
}

impl Preferred {
    /// Whether anything speaks for or against any domain.
    pub(super) fn prepare(&mut self, call: &Call<'_>, known: &mut Knowledge) -> bool {
        let Call { pod, table, .. } = *call;
        known.catch_up(table);
        self.sums.clear();
        for it in &pod.affinity.preferred {
            self.add_own(it, it.weight.into(), call, known);
        }
        for it in &pod.affinity.anti_preferred {
            self.add_own(it, -i64::from(it.weight), call, known);
        }
        let namespace_labels = known.labels_of_namespace(pod, &table.symbols);
        let Knowledge { domains, placed, .. } = known;
        placed.attracting.visit(pod, &namespace_labels, |key, carriers| {
            let shares = carriers.iter().map(|it| Share { node: it.node, n_pods: it.n_pods, amount: it.weight });
            self.sums.add(key, domains.follow(key, table.labels()), shares);
        });
        !self.sums.is_empty()
    }

    fn add_own(&mut self, preference: &WeightedPodTerm, weight: i64, call: &Call<'_>, known: &mut Knowledge) {
        let table = call.table;
        let Knowledge { counts, namespaces, domains, .. } = known;
        let term = OwnTerm::new(&preference.term, namespaces, &table.symbols);
        let counts = counts.ask(table.pods(), &term.question());
        let domain = domains.follow(term.topology_key, table.labels());
        self.sums.add(term.topology_key, domain, Share::of_each(counts, weight));
    }

    /// Appends the score of each node.
    pub(super) fn score(&self, known: &Knowledge, nodes: &NodeSet, scores: &mut Vec<i64>) {
        let start = scores.len();
        scores.resize(start + nodes.len(), 0);
        let scores = scores.get_mut(start..).unwrap_or_default();
        for sums in self.sums.iter().filter(|sums| sums.n_pods > 0) {
            let Some(domain) = known.domains.get(sums.key) else { continue };
            for (score, node) in scores.iter_mut().zip(nodes.iter()) {
                *score += domain.at(node).map_or(0, |number| sums.at(number));
            }
        }
    }
}

/// The lowest score becomes 0 and the highest 100; where all are equal, 0.
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
