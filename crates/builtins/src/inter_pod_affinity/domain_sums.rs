//! Sums over topology domains, for each of some topology keys.

use std::sync::Arc;

use berth_model::{NodeIdx, Sym};

use crate::{pod_counts::NodeCounts, topology::Topology};

/// One sum per topology key and domain. The buffers are reused from cycle to cycle.
#[derive(Debug, Default)]
pub(super) struct DomainSums {
    slots: Vec<KeySums>,
    n_used: usize,
}

/// Sums over the domains of one topology key.
#[derive(Debug, Default)]
pub(super) struct KeySums {
    pub(super) key: Sym,
    topology: Arc<Topology>,
    by_domain: Vec<i64>,
    /// How many pods were counted: a domain whose sum is 0 may have had some.
    pub(super) n_pods: i64,
}

/// What the counted pods on one node add to the sums of the node's domains.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contribution {
    pub(super) node: NodeIdx,
    pub(super) n_pods: i64,
    pub(super) amount: i64,
}

impl Contribution {
    /// Each counted pod adds `weight`.
    pub(super) fn of_each(counts: &NodeCounts, weight: i64) -> impl Iterator<Item = Self> {
        // Often no pod is counted; then there is no need to look at every node.
        let limit = if counts.total() == 0 { 0 } else { usize::MAX };
        counts.iter().take(limit).map(move |(node, n_pods)| Self { node, n_pods, amount: n_pods * weight })
    }
}

impl DomainSums {
    pub(super) fn clear(&mut self) {
        self.n_used = 0;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &KeySums> {
        self.slots.iter().take(self.n_used)
    }

    pub(super) fn has_key(&self, key: Sym) -> bool {
        self.iter().any(|sums| sums.key == key)
    }

    /// Whether no pod was counted anywhere.
    pub(super) fn is_empty(&self) -> bool {
        self.iter().all(|sums| sums.n_pods == 0)
    }

    /// Adds to the domains of `key`. Without contributions the key gets sums of 0.
    pub(super) fn add(
        &mut self,
        key: Sym,
        topology: &Arc<Topology>,
        contributions: impl IntoIterator<Item = Contribution>,
    ) {
        let sums = self.slot(key, topology);
        for Contribution { node, n_pods, amount } in contributions {
            if let Some(sum) = topology.domain(node).and_then(|domain| sums.by_domain.get_mut(domain.index())) {
                *sum += amount;
                sums.n_pods += n_pods;
            }
        }
    }

    fn slot(&mut self, key: Sym, topology: &Arc<Topology>) -> &mut KeySums {
        let known = self.iter().position(|sums| sums.key == key);
        let at = known.unwrap_or_else(|| {
            let at = self.n_used;
            self.n_used += 1;
            if at == self.slots.len() {
                self.slots.push(KeySums::default());
            }
            self.slots[at].reset(key, topology);
            at
        });
        &mut self.slots[at]
    }
}

impl KeySums {
    fn reset(&mut self, key: Sym, topology: &Arc<Topology>) {
        self.key = key;
        self.topology = Arc::clone(topology);
        self.n_pods = 0;
        self.by_domain.clear();
        self.by_domain.resize(topology.n_domains(), 0);
    }

    /// The sum of the node's domain; `None` if the node lacks the key.
    pub(super) fn at(&self, node: NodeIdx) -> Option<i64> {
        let domain = self.topology.domain(node)?;
        Some(self.by_domain.get(domain.index()).copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{testing::TestCluster, topology::Topologies};

    #[test]
    fn sums_are_by_domain() {
        let mut cluster = TestCluster::default();
        let zone = cluster.sym("zone");
        for (index, value) in ["a", "b", "a"].iter().enumerate() {
            let labels = cluster.labels(&[("zone", value)]);
            cluster.edit_node(&format!("n{index}"), |node| node.labels = labels);
        }
        let mut topologies = Topologies::default();
        let topology = topologies.get(cluster.table(), zone);
        let unknown = topologies.get(cluster.table(), Sym(99));
        let from_node = |node, amount| Contribution { node: NodeIdx(node), n_pods: 1, amount };
        let mut sums = DomainSums::default();
        for _ in 0..2 {
            sums.clear();
            sums.add(zone, &topology, [from_node(0, 5), from_node(1, -1), from_node(7, 9)]);
            sums.add(zone, &topology, [from_node(2, 2), from_node(1, 1)]);
            sums.add(Sym(99), &unknown, [from_node(0, 1)]);
            let seen: Vec<_> =
                sums.iter().map(|it| (it.key, [0, 1, 2].map(|node| it.at(NodeIdx(node))), it.n_pods)).collect();
            assert_eq!(seen, [(zone, [Some(7), Some(0), Some(7)], 4), (Sym(99), [None; 3], 0)]);
        }
    }
}
