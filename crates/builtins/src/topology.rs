//! Topology domains: the nodes that share one value under a topology key, for example under
//! `topology.kubernetes.io/zone`.
//!
//! The domains of a key are numbered, so a sum over domains is an array. The numbers hold until a node's value under
//! the key changes. [`Topologies`] detects such a change. While no label of any node changes, it only compares one
//! version in a call. Otherwise it compares the key's label column, and numbers the domains again only if the column
//! differs.

use std::sync::Arc;

use berth_model::{ClusterTable, NodeIdx, NodeSet, Sym, label_table::LabelColumn};
use rustc_hash::FxHashMap;

/// The number of topology keys that are kept. Clusters use only a few topology keys.
const CAPACITY: usize = 64;

/// The number of a domain among the domains of its topology key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Domain(u32);

impl Domain {
    /// The domain of nodes with an empty value of the label. Every topology has this number, even if no node is in it.
    pub(crate) const EMPTY_VALUE: Self = Self(0);
    /// The mark of a node without the key.
    const NONE: Self = Self(u32::MAX);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The domains of one topology key.
#[derive(Debug)]
pub(crate) struct Topology {
    /// The nodes that have the key.
    nodes: NodeSet,
    /// Domains by node. The list is shorter than the table if the last nodes lack the key.
    domains: Vec<Domain>,
    n_domains: usize,
}

impl Default for Topology {
    /// A topology in which no node has the key.
    fn default() -> Self {
        Self { nodes: NodeSet::default(), domains: Vec::new(), n_domains: 1 }
    }
}

impl Topology {
    fn of(table: &ClusterTable, column: Option<&LabelColumn>) -> Self {
        let mut topology = Self::default();
        let Some(column) = column else { return topology };
        let mut by_value = FxHashMap::from_iter([(Sym::NONE, Domain::EMPTY_VALUE)]);
        let mut next = Domain::EMPTY_VALUE.0 + 1;
        for node in table.nodes().iter() {
            let Some(value) = column.get(node) else { continue };
            let domain = *by_value.entry(value).or_insert(Domain(next));
            next = next.max(domain.0 + 1);
            topology.nodes.insert(node);
            topology.domains.resize(node.index(), Domain::NONE);
            topology.domains.push(domain);
        }
        topology.n_domains = by_value.len();
        topology
    }

    /// Nodes that have the key.
    pub(crate) fn nodes(&self) -> &NodeSet {
        &self.nodes
    }

    /// The number of domains. All domains have lower numbers.
    pub(crate) fn n_domains(&self) -> usize {
        self.n_domains
    }

    pub(crate) fn all_domains(&self) -> impl Iterator<Item = Domain> {
        (0..).map(Domain).take(self.n_domains)
    }

    /// The domain of the node; `None` if the node lacks the key.
    pub(crate) fn domain(&self, node: NodeIdx) -> Option<Domain> {
        self.domains.get(node.index()).copied().filter(|domain| *domain != Domain::NONE)
    }

    /// The domain of the node. A node that lacks the key belongs to the domain of an empty value.
    pub(crate) fn domain_or_empty(&self, node: NodeIdx) -> Domain {
        self.domain(node).unwrap_or(Domain::EMPTY_VALUE)
    }
}

/// The topologies of the keys that pods used last.
#[derive(Debug, Default)]
pub(crate) struct Topologies {
    by_key: FxHashMap<Sym, CachedTopology>,
}

#[derive(Debug)]
struct CachedTopology {
    topology: Arc<Topology>,
    /// The column from which the topology was made; `None` if no node ever had the key.
    column: Option<LabelColumn>,
    /// The newest version of the label table for which the topology is valid.
    version: u64,
}

impl Topologies {
    /// The topology of `key` for the labels in `table`.
    pub(crate) fn get(&mut self, table: &ClusterTable, key: Sym) -> Arc<Topology> {
        let version = table.labels().version();
        if self.by_key.len() >= CAPACITY && !self.by_key.contains_key(&key) {
            self.by_key.clear();
        }
        let column = table.labels().column(key);
        let make =
            || CachedTopology { topology: Arc::new(Topology::of(table, column)), column: column.cloned(), version };
        let cached = self.by_key.entry(key).or_insert_with(make);
        if cached.version != version {
            if is_same(cached.column.as_ref(), column) {
                cached.version = version;
            } else {
                *cached = make();
            }
        }
        Arc::clone(&cached.topology)
    }
}

fn is_same(left: Option<&LabelColumn>, right: Option<&LabelColumn>) -> bool {
    match (left, right) {
        (Some(LabelColumn::Dense(left)), Some(LabelColumn::Dense(right))) => left == right,
        (Some(LabelColumn::Sparse(left)), Some(LabelColumn::Sparse(right))) => left == right,
        (None, None) => true,
        (Some(_) | None, Some(_) | None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestCluster;

    fn domains(topology: &Topology) -> Vec<Option<u32>> {
        (0..6).map(|node| topology.domain(NodeIdx(node)).map(|domain| domain.0)).collect()
    }

    fn cluster_with_zones() -> (TestCluster, Sym) {
        let mut cluster = TestCluster::default();
        let zone = cluster.sym("zone");
        for (name, value) in [("n0", Some("a")), ("n1", None), ("n2", Some("")), ("n3", Some("b")), ("n4", Some("a"))] {
            let labels = cluster.labels(&value.map(|value| ("zone", value)).into_iter().collect::<Vec<_>>());
            cluster.edit_node(name, |node| node.labels = labels);
        }
        (cluster, zone)
    }

    #[test]
    fn nodes_with_one_value_share_a_domain() {
        let (mut cluster, zone) = cluster_with_zones();
        let mut topologies = Topologies::default();
        let topology = topologies.get(cluster.table(), zone);
        assert_eq!(domains(&topology), [Some(1), None, Some(0), Some(2), Some(1), None]);
        assert_eq!(topology.domain_or_empty(NodeIdx(1)), Domain::EMPTY_VALUE);
        assert_eq!(topology.n_domains(), 3);
        assert_eq!(topology.nodes().iter().map(|node| node.0).collect::<Vec<_>>(), [0, 2, 3, 4]);
        assert_eq!(topologies.get(cluster.table(), Sym(999)).n_domains(), 1);

        let labels = cluster.labels(&[("zone", "c")]);
        cluster.edit_node("n1", |node| node.labels = labels);
        assert!(topologies.get(cluster.table(), zone).nodes().contains(NodeIdx(1)));
        cluster.edit_node("n0", |_| ());
        assert_eq!(domains(&topologies.get(cluster.table(), zone))[0], None);
    }

    #[test]
    fn labels_under_other_keys_change_nothing() {
        let (mut cluster, zone) = cluster_with_zones();
        let mut topologies = Topologies::default();
        let before = topologies.get(cluster.table(), zone);
        let labels = cluster.labels(&[("zone", "a"), ("rack", "r1")]);
        cluster.edit_node("n0", |node| node.labels = labels);
        assert!(Arc::ptr_eq(&before, &topologies.get(cluster.table(), zone)));
    }

    #[test]
    fn keys_out_of_use_make_room() {
        let mut cluster = TestCluster::default();
        let names: Vec<String> = (0..200).map(|index| format!("key{index}")).collect();
        let pairs: Vec<_> = names.iter().map(|name| (name.as_str(), "value")).collect();
        let labels = cluster.labels(&pairs);
        cluster.edit_node("n", |node| node.labels.clone_from(&labels));
        let mut topologies = Topologies::default();
        for (key, _) in labels {
            assert_eq!(topologies.get(cluster.table(), key).domain(NodeIdx(0)), Some(Domain(1)));
            assert!(topologies.by_key.len() <= CAPACITY);
        }
    }
}
