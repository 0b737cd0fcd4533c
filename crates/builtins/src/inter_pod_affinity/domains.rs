//! Topology domains: nodes with one value under a topology key.
//!
//! Values are numbered from 0 for each key, so a sum over domains is an array. The numbers of a key hold as long as no
//! node's label under it changes; finding out is one comparison of the label column in each cycle.

use berth_model::{
    NodeIdx, Sym,
    label_table::{LabelColumn, LabelTable},
};
use rustc_hash::FxHashMap;

use crate::pod_counts::NodeCounts;

/// How many keys are kept beyond their last use; clusters have a handful.
const CAPACITY: usize = 64;

/// Marks a node without the key.
const NO_DOMAIN: u32 = u32::MAX;

/// The domains of each topology key that was asked for.
#[derive(Debug, Default)]
pub(super) struct Domains {
    by_key: FxHashMap<Sym, Domain>,
    /// Counts the calls of [`Self::begin`].
    round: u64,
}

/// The domains of one key.
#[derive(Debug)]
pub(super) struct Domain {
    /// What the numbers were made from.
    column: LabelColumn,
    /// By node.
    numbers: Vec<u32>,
    n_domains: usize,
    checked: u64,
}

impl Domains {
    /// Labels may have changed.
    pub(super) fn begin(&mut self) {
        self.round += 1;
        if self.by_key.len() > CAPACITY {
            let latest = self.round - 1;
            self.by_key.retain(|_, domain| domain.checked == latest);
        }
    }

    /// The domains of `key`; `None` if no node ever had it.
    pub(super) fn follow(&mut self, key: Sym, labels: &LabelTable) -> Option<&Domain> {
        let Some(column) = labels.column(key) else {
            self.by_key.remove(&key);
            return None;
        };
        let round = self.round;
        let domain = self.by_key.entry(key).or_insert_with(|| Domain::number(column));
        if domain.checked != round {
            if !is_same(&domain.column, column) {
                *domain = Domain::number(column);
            }
            domain.checked = round;
        }
        Some(domain)
    }

    /// The domains of `key` as [`Self::follow`] left them.
    pub(super) fn get(&self, key: Sym) -> Option<&Domain> {
        self.by_key.get(&key)
    }
}

fn is_same(ours: &LabelColumn, theirs: &LabelColumn) -> bool {
    match (ours, theirs) {
        (LabelColumn::Dense(ours), LabelColumn::Dense(theirs)) => ours == theirs,
        (LabelColumn::Sparse(ours), LabelColumn::Sparse(theirs)) => ours == theirs,
        (LabelColumn::Dense(_), LabelColumn::Sparse(_)) | (LabelColumn::Sparse(_), LabelColumn::Dense(_)) => false,
    }
}

impl Domain {
    fn number(column: &LabelColumn) -> Self {
        let mut by_value: FxHashMap<Sym, u32> = FxHashMap::default();
        let mut number_of = |value: Sym| {
            let next = u32::try_from(by_value.len()).unwrap_or(NO_DOMAIN);
            *by_value.entry(value).or_insert(next)
        };
        let mut numbers = Vec::new();
        match column {
            LabelColumn::Dense(values) => {
                let number = |value: &Sym| if value.is_none() { NO_DOMAIN } else { number_of(*value) };
                numbers.extend(values.iter().map(number));
            }
            LabelColumn::Sparse(values) => {
                for (node, value) in values {
                    numbers.resize(node.index(), NO_DOMAIN);
                    numbers.push(number_of(*value));
                }
            }
        }
        Self { column: column.clone(), numbers, n_domains: by_value.len(), checked: 0 }
    }

    /// The number of the node's domain; `None` where the node lacks the key.
    pub(super) fn at(&self, node: NodeIdx) -> Option<usize> {
        let number = self.numbers.get(node.index()).copied().filter(|number| *number != NO_DOMAIN)?;
        Some(number as usize)
    }
}

/// Sums over domains, for each of some topology keys. The buffers are reused.
#[derive(Debug, Default)]
pub(super) struct DomainSums {
    slots: Vec<KeySums>,
    n_used: usize,
}

/// Sums over the domains of one key.
#[derive(Debug, Default)]
pub(super) struct KeySums {
    pub(super) key: Sym,
    by_domain: Vec<i64>,
    /// How many pods were counted: a domain whose sum is 0 may have had some.
    pub(super) n_pods: i64,
}

/// What the pods on a node add to the domains of the node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) node: NodeIdx,
    pub(super) n_pods: i64,
    pub(super) amount: i64,
}

impl Share {
    /// The shares of counted pods that are worth `weight` each.
    pub(super) fn of_each(counts: &NodeCounts, weight: i64) -> impl Iterator<Item = Self> {
        // Looking at every node is not worth it where no pod is counted, which is common.
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

    pub(super) fn of(&self, key: Sym) -> Option<&KeySums> {
        self.iter().find(|sums| sums.key == key)
    }

    /// Whether no pod was counted anywhere.
    pub(super) fn is_empty(&self) -> bool {
        self.iter().all(|sums| sums.n_pods == 0)
    }

    /// Adds to the domains of `key`. A key with which nothing could be added is there nevertheless.
    pub(super) fn add(&mut self, key: Sym, domain: Option<&Domain>, shares: impl Iterator<Item = Share>) {
        let sums = self.slot(key, domain.map_or(0, |domain| domain.n_domains));
        let Some(domain) = domain else { return };
        for Share { node, n_pods, amount } in shares {
            if let Some(sum) = domain.at(node).and_then(|number| sums.by_domain.get_mut(number)) {
                *sum += amount;
                sums.n_pods += n_pods;
            }
        }
    }

    fn slot(&mut self, key: Sym, n_domains: usize) -> &mut KeySums {
        let known = self.iter().position(|sums| sums.key == key);
        let at = known.unwrap_or_else(|| {
            let at = self.n_used;
            self.n_used += 1;
            if at == self.slots.len() {
                self.slots.push(KeySums::default());
            }
            self.slots[at].reset(key, n_domains);
            at
        });
        &mut self.slots[at]
    }
}

impl KeySums {
    fn reset(&mut self, key: Sym, n_domains: usize) {
        self.key = key;
        self.n_pods = 0;
        self.by_domain.clear();
        self.by_domain.resize(n_domains, 0);
    }

    /// The sum of the domain with this number.
    pub(super) fn at(&self, number: usize) -> i64 {
        self.by_domain.get(number).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Cluster;

    #[test]
    fn numbers_follow_the_labels() {
        let mut cluster = Cluster::default();
        let (zone, other) = (cluster.sym("zone"), cluster.sym("other"));
        let values = [Some("a"), Some("b"), None, Some("a"), Some("")];
        for (index, value) in values.iter().enumerate() {
            let labels: Vec<_> = value.iter().map(|value| ("zone", *value)).collect();
            let labels = cluster.labels(&labels);
            cluster.node(&format!("n{index}"), |node| node.labels = labels);
        }
        let mut domains = Domains::default();
        let numbers = |domains: &mut Domains, cluster: &Cluster| {
            domains.begin();
            let domain = domains.follow(zone, cluster.table.labels()).unwrap();
            (0..5).map(|node| domain.at(NodeIdx(node))).collect::<Vec<_>>()
        };
        assert_eq!(numbers(&mut domains, &cluster), [Some(0), Some(1), None, Some(0), Some(2)]);
        assert!(domains.follow(other, cluster.table.labels()).is_none());
        cluster.table.set_labels(NodeIdx(0), &[]);
        assert_eq!(numbers(&mut domains, &cluster), [None, Some(0), None, Some(1), Some(2)]);
    }

    #[test]
    fn keys_out_of_use_make_room() {
        let mut cluster = Cluster::default();
        let names: Vec<String> = (0..200).map(|index| format!("key{index}")).collect();
        let pairs: Vec<_> = names.iter().map(|name| (name.as_str(), "value")).collect();
        let labels = cluster.labels(&pairs);
        cluster.node("n", |node| node.labels.clone_from(&labels));
        let mut domains = Domains::default();
        for (key, _) in &labels {
            domains.begin();
            domains.follow(*key, cluster.table.labels());
        }
        assert!(domains.by_key.len() <= CAPACITY + 1);
        let (last, _) = labels.last().unwrap();
        domains.begin();
        assert_eq!(domains.get(*last).and_then(|domain| domain.at(NodeIdx(0))), Some(0));
    }

    #[test]
    fn sums_are_by_domain() {
        let mut cluster = Cluster::default();
        let zone = cluster.sym("zone");
        for (index, value) in ["a", "b", "a"].iter().enumerate() {
            let labels = cluster.labels(&[("zone", value)]);
            cluster.node(&format!("n{index}"), |node| node.labels = labels);
        }
        let mut domains = Domains::default();
        domains.begin();
        let domain = domains.follow(zone, cluster.table.labels());
        let share = |node, amount| Share { node: NodeIdx(node), n_pods: 1, amount };
        let mut sums = DomainSums::default();
        for _ in 0..2 {
            sums.clear();
            sums.add(zone, domain, [share(0, 5), share(1, -1), share(7, 9)].into_iter());
            sums.add(zone, domain, [share(2, 2), share(1, 1)].into_iter());
            sums.add(Sym(99), None, [share(0, 1)].into_iter());
            let seen: Vec<_> = sums.iter().map(|it| (it.key, it.at(0), it.at(1), it.n_pods)).collect();
            assert_eq!(seen, [(zone, 7, 0, 4), (Sym(99), 0, 0, 0)]);
        }
    }
}
