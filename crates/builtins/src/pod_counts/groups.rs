//! Groups of pods on nodes that no query can distinguish. Groups are found by namespace and label.

use std::{
    collections::hash_map::Entry,
    hash::{Hash, Hasher},
    sync::Arc,
};

use berth_model::{NodeIdx, Pod, PodChange, PodTable, Sym, pod::Operator};
use rustc_hash::{FxHashMap, FxHashSet};
use slab::Slab;

use super::{CountedQuery, NodeCounts, PodMatch, PodQuery, QueryIdx};

/// A namespace with the key and the value of a label. [`ANY_LABELS`] instead of a label stands for all pods of the
/// namespace.
type IndexKey = (Sym, Sym, Sym);

/// The value that stands for any labels. No label has an empty key.
const ANY_LABELS: (Sym, Sym) = (Sym::NONE, Sym::NONE);

/// The parts of a pod that queries compare. The pod may be any pod of the group.
#[derive(Clone, Debug)]
struct GroupKey(Arc<Pod>);

impl GroupKey {
    fn parts(&self) -> (Sym, bool, &[(Sym, Sym)]) {
        (self.0.namespace, self.0.terminating, &self.0.labels)
    }

    fn index_keys(&self) -> impl Iterator<Item = IndexKey> {
        let namespace = self.0.namespace;
        self.0.labels.iter().chain([&ANY_LABELS]).map(move |&(key, value)| (namespace, key, value))
    }
}

impl PartialEq for GroupKey {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for GroupKey {}

impl Hash for GroupKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct GroupIdx(usize);

#[derive(Debug)]
struct Group {
    key: GroupKey,
    counts: NodeCounts,
    /// The queries that the group's pods match.
    queries: Vec<QueryIdx>,
}

/// All groups that have pods.
#[derive(Debug, Default)]
pub(super) struct Groups {
    ids: FxHashMap<GroupKey, GroupIdx>,
    /// Groups by [`GroupIdx`].
    groups: Slab<Group>,
    index: FxHashMap<IndexKey, FxHashSet<GroupIdx>>,
    /// The queries that have index keys, by key. All pods of such a query are found under its keys.
    queries_at: FxHashMap<IndexKey, Vec<QueryIdx>>,
    /// Queries without an index key. Any pod may match such a query.
    queries_everywhere: Vec<QueryIdx>,
}

impl Groups {
    pub(super) fn of(pods: &PodTable) -> Self {
        let mut groups = Self::default();
        let no_queries = Slab::new();
        for (_, pod, node) in pods.iter() {
            groups.add(pod, node, 1, &no_queries);
        }
        groups
    }

    /// Applies one change to the pod table. Returns the queries that the pod matches.
    pub(super) fn change(&mut self, change: &PodChange, queries: &Slab<CountedQuery>) -> Vec<QueryIdx> {
        self.add(&change.pod, change.node, i64::from(change.sign), queries)
    }

    /// Counts the pods that match `query`. For later changes of matching pods, [`Self::change`] returns `idx`.
    pub(super) fn count(&mut self, query: &PodQuery, idx: QueryIdx) -> NodeCounts {
        let candidates: Vec<GroupIdx> = if let Some(keys) = self.narrowest(query) {
            for &key in &keys {
                self.queries_at.entry(key).or_default().push(idx);
            }
            keys.iter().filter_map(|key| self.index.get(key)).flatten().copied().collect()
        } else {
            self.queries_everywhere.push(idx);
            self.ids.values().copied().collect()
        };
        let mut counts = NodeCounts::default();
        for group in candidates {
            if let Some(group) = self.groups.get_mut(group.0)
                && query.matches(&group.key.0)
            {
                counts.add_all(&group.counts);
                group.queries.push(idx);
            }
        }
        counts
    }

    /// Forgets queries that are no longer kept.
    pub(super) fn forget(&mut self, is_dropped: impl Fn(QueryIdx) -> bool) {
        for (_, group) in &mut self.groups {
            group.queries.retain(|&idx| !is_dropped(idx));
        }
        self.queries_at.retain(|_, queries| {
            queries.retain(|&idx| !is_dropped(idx));
            !queries.is_empty()
        });
        self.queries_everywhere.retain(|&idx| !is_dropped(idx));
    }

    /// Counts a change. `amount` is 1 for a pod that was placed, and -1 for a pod that left.
    fn add(&mut self, pod: &Arc<Pod>, node: NodeIdx, amount: i64, queries: &Slab<CountedQuery>) -> Vec<QueryIdx> {
        let key = GroupKey(Arc::clone(pod));
        let idx = match self.ids.get(&key) {
            Some(&idx) => idx,
            None => self.insert(key, queries),
        };
        let Some(group) = self.groups.get_mut(idx.0) else {
            debug_assert!(false, "`ids` refers to groups that have pods");
            return Vec::new();
        };
        group.counts.add(node, amount);
        if group.counts.total() == 0 { self.remove(idx) } else { group.queries.clone() }
    }

    /// Adds a group without pods.
    fn insert(&mut self, key: GroupKey, queries: &Slab<CountedQuery>) -> GroupIdx {
        let here = key.index_keys().filter_map(|key| self.queries_at.get(&key)).flatten();
        let candidates = here.chain(&self.queries_everywhere).copied();
        let matches = |counted: &CountedQuery| counted.query.matches(&key.0);
        let matching = candidates.filter(|idx| queries.get(idx.0).is_some_and(matches)).collect();
        let group = Group { key: key.clone(), counts: NodeCounts::default(), queries: matching };
        let idx = GroupIdx(self.groups.insert(group));
        for key in key.index_keys() {
            self.index.entry(key).or_default().insert(idx);
        }
        self.ids.insert(key, idx);
        idx
    }

    /// Removes a group without pods. Returns the queries that its pods matched.
    fn remove(&mut self, idx: GroupIdx) -> Vec<QueryIdx> {
        let group = self.groups.remove(idx.0);
        self.ids.remove(&group.key);
        for key in group.key.index_keys() {
            if let Entry::Occupied(mut groups) = self.index.entry(key) {
                groups.get_mut().remove(&idx);
                if groups.get().is_empty() {
                    groups.remove();
                }
            }
        }
        group.queries
    }

    /// Index keys under which all pods that match `query` are found, with as few groups as possible. `None` if any pod
    /// may match.
    fn narrowest(&self, query: &PodQuery) -> Option<Vec<IndexKey>> {
        let n_groups = |keys: &Vec<IndexKey>| -> usize {
            keys.iter().filter_map(|key| self.index.get(key)).map(FxHashSet::len).sum()
        };
        query.matches.iter().flat_map(covering_keys).min_by_key(n_groups)
    }
}

/// Sets of index keys. The keys of each set find all matching pods, each pod once.
fn covering_keys(pods: &PodMatch) -> Vec<Vec<IndexKey>> {
    let mut namespaces = pods.namespaces.clone();
    namespaces.dedup();
    let requirements = pods.selector.iter().flat_map(|selector| &selector.requirements);
    let in_values = requirements.filter(|requirement| requirement.operator == Operator::In);
    let mut alternatives: Vec<Vec<(Sym, Sym)>> = in_values
        .map(|requirement| requirement.values.iter().map(|&value| (requirement.key, value)).collect())
        .collect();
    alternatives.push(vec![ANY_LABELS]);
    let in_namespaces = |mut labels: Vec<(Sym, Sym)>| {
        labels.sort_unstable();
        labels.dedup();
        let in_each = |&namespace: &Sym| labels.iter().map(move |&(key, value)| (namespace, key, value));
        namespaces.iter().flat_map(in_each).collect()
    };
    alternatives.into_iter().map(in_namespaces).collect()
}
