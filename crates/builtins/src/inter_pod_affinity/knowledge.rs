//! What the plugin remembers from cycle to cycle, kept in step with the cluster at the cost of what changed.

use berth_model::{ClusterTable, Pod, Sym, Symbols};

use super::{domains::Domains, namespaces::Namespaces, placed_terms::PlacedTerms};
use crate::pod_counts::PodCounts;

#[derive(Debug, Default)]
pub(super) struct Knowledge {
    pub(super) counts: PodCounts,
    pub(super) placed: PlacedTerms,
    pub(super) namespaces: Namespaces,
    pub(super) domains: Domains,
}

impl Knowledge {
    /// `required_weight` is what a required affinity term of a placed pod is worth in a score.
    pub(super) fn new(required_weight: i64) -> Self {
        Self { placed: PlacedTerms::new(required_weight), ..Self::default() }
    }

    pub(super) fn follow(&mut self, table: &ClusterTable) {
        self.namespaces.refresh(table.objects());
        self.placed.follow(table.pods(), &mut self.namespaces);
    }

    pub(super) fn catch_up(&mut self, table: &ClusterTable) {
        self.follow(table);
        self.domains.begin();
    }

    /// A namespace that does not exist has no labels.
    pub(super) fn labels_of_namespace(&self, pod: &Pod, symbols: &Symbols) -> Vec<(Sym, Sym)> {
        self.namespaces.labels(pod.namespace, symbols).unwrap_or_default()
    }
}
