//! The data about the cluster that the plugin keeps from cycle to cycle. The cost of keeping it up to date depends on
//! the number of changes, and not on the number of pods.

use berth_model::{ClusterTable, Pod, Sym, Symbols};

use super::{existing_terms::ExistingTerms, namespaces::Namespaces};
use crate::{pod_counts::PodCounts, topology::Topologies};

#[derive(Debug, Default)]
pub(super) struct ClusterView {
    pub(super) counts: PodCounts,
    pub(super) existing: ExistingTerms,
    pub(super) namespaces: Namespaces,
    pub(super) topologies: Topologies,
}

impl ClusterView {
    /// `hard_weight` is the arg `hardPodAffinityWeight`: the weight of a required affinity term of an existing pod in a
    /// score.
    pub(super) fn new(hard_weight: i64) -> Self {
        Self { existing: ExistingTerms::new(hard_weight), ..Self::default() }
    }

    /// Applies the changes in `table` since the last call.
    pub(super) fn follow(&mut self, table: &ClusterTable) {
        self.namespaces.refresh(table);
        self.existing.follow(table.pods(), &mut self.namespaces);
    }

    /// The labels of the pod's namespace. A namespace without an object has no labels.
    pub(super) fn labels_of_namespace(&self, pod: &Pod, symbols: &Symbols) -> Vec<(Sym, Sym)> {
        self.namespaces.labels(pod.namespace, symbols).unwrap_or_default()
    }
}
