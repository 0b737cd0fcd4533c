//! Sums over topology domains, for each of some topology keys.

use std::sync::Arc;

use berth_model::{NodeIdx, Sym};

use crate::topology::Topology;

/// One sum for each topology key and domain. The buffers are reused from cycle to cycle.
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
    /// The number of counted pods. A domain with the sum 0 may have had pods.
    pub(super) n_pods: i64,
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

    /// Passes an array of sums by domain of `key` to `add`, which adds to these sums. `add` returns the number of pods
    /// that it counted.
    pub(super) fn add(&mut self, key: Sym, topology: &Arc<Topology>, add: impl FnOnce(&mut [i64]) -> i64) {
        let sums = self.slot(key, topology);
        sums.n_pods += add(&mut sums.by_domain);
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
        let mut sums = DomainSums::default();
        let add = |amounts: [i64; 2]| {
            move |by_domain: &mut [i64]| {
                by_domain.iter_mut().skip(1).zip(amounts).for_each(|(sum, amount)| *sum += amount);
                2
            }
        };
        for _ in 0..2 {
            sums.clear();
            sums.add(zone, &topology, add([5, -1]));
            sums.add(zone, &topology, add([2, 1]));
            sums.add(Sym(99), &unknown, |_| 0);
            let seen: Vec<_> =
                sums.iter().map(|it| (it.key, [0, 1, 2].map(|node| it.at(NodeIdx(node))), it.n_pods)).collect();
            assert_eq!(seen, [(zone, [Some(7), Some(0), Some(7)], 4), (Sym(99), [None; 3], 0)]);
        }
    }
}
