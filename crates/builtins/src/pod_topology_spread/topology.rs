//! Nodes by the value of a topology key, worked out once for each change of node labels.

use std::sync::Arc;

use berth_model::{ClusterTable, NodeIdx, NodeSet, Sym};
use rustc_hash::FxHashMap;

/// Topology keys kept at a time. Clusters use a handful.
const CAPACITY: usize = 64;

/// A value of a topology key, numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Domain(u32);

impl Domain {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The domain of nodes without the key, which is that of an empty value as well.
const UNNAMED: Domain = Domain(0);

/// All nodes under one topology key.
#[derive(Debug, Default)]
pub(super) struct Topology {
    /// Nodes that have the key.
    nodes: NodeSet,
    /// By node; shorter than the table where the rest has no key.
    domains: Vec<Domain>,
    n_domains: usize,
}

impl Topology {
    fn of(table: &ClusterTable, key: Sym) -> Self {
        let mut topology = Self { n_domains: 1, ..Self::default() };
        let Some(column) = table.labels().column(key) else { return topology };
        let mut by_value = FxHashMap::from_iter([(Sym::NONE, UNNAMED)]);
        let mut next = UNNAMED.0 + 1;
        for node in table.nodes().iter() {
            let Some(value) = column.get(node) else { continue };
            let domain = *by_value.entry(value).or_insert(Domain(next));
            next = next.max(domain.0 + 1);
            topology.nodes.insert(node);
            topology.domains.resize(node.index(), UNNAMED);
            topology.domains.push(domain);
        }
        topology.n_domains = by_value.len();
        topology
    }

    /// Nodes that have the key.
    pub(super) fn nodes(&self) -> &NodeSet {
        &self.nodes
    }

    /// Domains are numbered below this; one of them may have no nodes.
    pub(super) fn n_domains(&self) -> usize {
        self.n_domains
    }

    pub(super) fn all_domains(&self) -> impl Iterator<Item = Domain> {
        (0..).map(Domain).take(self.n_domains)
    }

    /// A node without the key counts as one with an empty value.
    pub(super) fn domain(&self, node: NodeIdx) -> Domain {
        self.domains.get(node.index()).copied().unwrap_or(UNNAMED)
    }
}

/// The topologies in use.
#[derive(Debug, Default)]
pub(super) struct Topologies {
    by_key: FxHashMap<Sym, Arc<Topology>>,
    /// Of the labels that they were made from.
    version: u64,
}

impl Topologies {
    pub(super) fn get(&mut self, table: &ClusterTable, key: Sym) -> Arc<Topology> {
        let version = table.labels().version();
        if version != self.version || (self.by_key.len() >= CAPACITY && !self.by_key.contains_key(&key)) {
            self.by_key.clear();
            self.version = version;
        }
        Arc::clone(self.by_key.entry(key).or_insert_with(|| Arc::new(Topology::of(table, key))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Cluster;

    #[test]
    fn nodes_without_the_key_share_the_domain_of_an_empty_value() {
        let mut cluster = Cluster::default();
        let zone = cluster.sym("zone");
        for (name, value) in [("n0", Some("a")), ("n1", None), ("n2", Some("")), ("n3", Some("b")), ("n4", Some("a"))] {
            let labels = cluster.labels(&value.map(|value| ("zone", value)).into_iter().collect::<Vec<_>>());
            cluster.node(name, |node| node.labels = labels);
        }
        let mut topologies = Topologies::default();
        let topology = topologies.get(&cluster.table, zone);
        let domains: Vec<u32> = (0..6).map(|node| topology.domain(NodeIdx(node)).0).collect();
        assert_eq!(domains, [1, 0, 0, 2, 1, 0]);
        assert_eq!(topology.n_domains(), 3);
        assert_eq!(topology.nodes().iter().map(|node| node.0).collect::<Vec<_>>(), [0, 2, 3, 4]);

        let labels = cluster.labels(&[("zone", "c")]);
        cluster.table.set_labels(NodeIdx(1), &labels);
        assert!(topologies.get(&cluster.table, zone).nodes().contains(NodeIdx(1)));
        assert_eq!(topologies.get(&cluster.table, Sym(999)).n_domains(), 1);
    }
}
