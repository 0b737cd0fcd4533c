//! The domains that have nodes with pods that count. The domains depend only on nodes, and not on pods, so they are
//! computed once for many cycles.

use std::sync::Arc;

use berth_model::NodeSet;

use crate::topology::Topology;

/// The number of entries that are kept: one entry for each topology key and set of nodes to which pods restrict
/// themselves.
const CAPACITY: usize = 32;

/// The domains of a topology that have eligible nodes.
#[derive(Debug, Default)]
pub(super) struct EligibleDomains {
    topology: Arc<Topology>,
    eligible: NodeSet,
    /// Whether each domain has eligible nodes, by domain.
    has_nodes: Vec<bool>,
    n_domains: usize,
}

impl EligibleDomains {
    fn of(topology: &Arc<Topology>, eligible: &NodeSet) -> Self {
        let mut has_nodes = vec![false; topology.n_domains()];
        for node in eligible.iter() {
            if let Some(has_nodes) = topology.domain(node).and_then(|domain| has_nodes.get_mut(domain.index())) {
                *has_nodes = true;
            }
        }
        let n_domains = has_nodes.iter().filter(|has_nodes| **has_nodes).count();
        Self { topology: Arc::clone(topology), eligible: eligible.clone(), has_nodes, n_domains }
    }

    /// Whether each domain has eligible nodes, by domain.
    pub(super) fn has_nodes(&self) -> &[bool] {
        &self.has_nodes
    }

    /// The number of domains that have eligible nodes.
    pub(super) fn n_domains(&self) -> usize {
        self.n_domains
    }
}

/// The entries that were used last.
#[derive(Debug, Default)]
pub(super) struct EligibleDomainsCache(Vec<Arc<EligibleDomains>>);

impl EligibleDomainsCache {
    /// The domains of nodes in `eligible`, which all have the topology key.
    pub(super) fn get(&mut self, topology: &Arc<Topology>, eligible: &NodeSet) -> Arc<EligibleDomains> {
        let is_it = |it: &Arc<EligibleDomains>| Arc::ptr_eq(&it.topology, topology) && it.eligible == *eligible;
        if let Some(known) = self.0.iter().find(|it| is_it(it)) {
            return Arc::clone(known);
        }
        if self.0.len() >= CAPACITY {
            self.0.remove(0);
        }
        let domains = Arc::new(EligibleDomains::of(topology, eligible));
        self.0.push(Arc::clone(&domains));
        domains
    }
}
