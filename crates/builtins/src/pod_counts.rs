//! The number of pods that match a query, by node.
//!
//! Pods are counted once for each query. The counts then follow the journal of the pod table, so the cost of the same
//! query depends on the number of changes, and not on the number of pods.
//!
//! Pods that no query can distinguish form a group. These are usually the pods of one workload. A new query checks only
//! groups with a label that the query requires. A pod that comes or goes changes only the counts of the queries that
//! its group matches.

mod groups;
mod node_counts;

use berth_model::{NodeIdx, Pod, PodTable, Sym, pod::LabelSelector};
use rustc_hash::FxHashMap;
use slab::Slab;

use self::groups::Groups;
pub(crate) use self::node_counts::NodeCounts;
use crate::domain_totals::{Contribution, CountedNodes, KeptTotals, WeightedSums};

/// The number of queries that are kept at a time. Pods of one workload have the same queries, so this many workloads
/// may alternate.
const CAPACITY: usize = 4096;

/// The pods to count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PodQuery {
    /// The conditions. A pod counts if it matches all of them.
    pub(crate) matches: Vec<PodMatch>,
    /// Whether pods that are being deleted do not count.
    pub(crate) skip_terminating: bool,
}

/// Pods of these namespaces with these labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PodMatch {
    /// The namespaces, sorted.
    pub(crate) namespaces: Vec<Sym>,
    /// The selector; `None` matches nothing.
    pub(crate) selector: Option<LabelSelector>,
}

/// The counts of recent queries.
#[derive(Debug, Default)]
pub(crate) struct PodCounts {
    /// The position up to which the journal of the pod table has been read.
    position: Option<u64>,
    groups: Groups,
    ids: FxHashMap<PodQuery, QueryIdx>,
    /// Queries by [`QueryIdx`].
    queries: Slab<CountedQuery>,
    /// The number of calls of [`Self::count`]. It serves as a clock for finding the queries whose last use is the
    /// longest ago.
    n_calls: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct QueryIdx(usize);

#[derive(Debug)]
struct CountedQuery {
    query: PodQuery,
    counts: NodeCounts,
    totals: KeptTotals,
    /// [`PodCounts::n_calls`] at the last use.
    last_used: u64,
}

impl CountedQuery {
    fn add(&mut self, node: NodeIdx, n_pods: i64) {
        self.counts.add(node, n_pods);
        self.totals.change(Contribution::of_pods(node, n_pods));
    }
}

impl PodMatch {
    pub(crate) fn matches(&self, pod: &Pod) -> bool {
        self.namespaces.binary_search(&pod.namespace).is_ok()
            && self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
    }
}

impl PodQuery {
    pub(crate) fn matches(&self, pod: &Pod) -> bool {
        !(self.skip_terminating && pod.terminating) && self.matches.iter().all(|it| it.matches(pod))
    }
}

impl PodCounts {
    /// The number of `pods` that match the query, by node.
    pub(crate) fn count(&mut self, pods: &PodTable, query: &PodQuery) -> &NodeCounts {
        match self.find(pods, query) {
            Some(counted) => &counted.counts,
            None => NodeCounts::none(),
        }
    }

    /// Adds the number of `pods` that match the query to `sums`. Returns the number of these pods.
    pub(crate) fn add_by_domain(
        &mut self,
        pods: &PodTable,
        query: &PodQuery,
        counted_nodes: CountedNodes<'_>,
        sums: WeightedSums<'_>,
    ) -> i64 {
        let Some(CountedQuery { counts, totals, .. }) = self.find(pods, query) else { return 0 };
        let contributions = counts.iter().map(|(node, n_pods)| Contribution::of_pods(node, n_pods));
        totals.add_to(counted_nodes, counts.total(), contributions, sums)
    }

    fn find(&mut self, pods: &PodTable, query: &PodQuery) -> Option<&mut CountedQuery> {
        self.follow(pods);
        self.n_calls += 1;
        let idx = match self.ids.get(query) {
            Some(&idx) => idx,
            None => self.insert(query),
        };
        let counted = self.queries.get_mut(idx.0);
        debug_assert!(counted.is_some(), "`ids` refers to queries that are kept");
        let counted = counted?;
        counted.last_used = self.n_calls;
        Some(counted)
    }

    /// Applies the changes in `pods` since the last call.
    fn follow(&mut self, pods: &PodTable) {
        if let Some(changes) = self.position.and_then(|position| pods.since(position)) {
            for change in changes {
                for idx in self.groups.change(change, &self.queries) {
                    let counted = self.queries.get_mut(idx.0);
                    debug_assert!(counted.is_some(), "groups forget queries that are dropped");
                    if let Some(counted) = counted {
                        counted.add(change.node, i64::from(change.sign));
                    }
                }
            }
        } else {
            self.ids.clear();
            self.queries.clear();
            self.groups = Groups::of(pods);
        }
        self.position = Some(pods.position());
    }

    /// Counts a query that is not kept yet.
    fn insert(&mut self, query: &PodQuery) -> QueryIdx {
        self.make_room();
        let vacant = self.queries.vacant_entry();
        let idx = QueryIdx(vacant.key());
        let counts = self.groups.count(query, idx);
        let (query_copy, totals) = (query.clone(), KeptTotals::default());
        vacant.insert(CountedQuery { query: query_copy, counts, totals, last_used: self.n_calls });
        self.ids.insert(query.clone(), idx);
        idx
    }

    /// Drops the queries that were not used in the last `CAPACITY / 2` calls, if the cache is full.
    fn make_room(&mut self) {
        if self.ids.len() < CAPACITY {
            return;
        }
        let oldest_to_keep = self.n_calls.saturating_sub(CAPACITY as u64 / 2) + 1;
        self.queries.retain(|_, counted| counted.last_used >= oldest_to_keep);
        let queries = &self.queries;
        self.ids.retain(|_, idx| queries.contains(idx.0));
        self.groups.forget(|idx| !queries.contains(idx.0));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_model::{
        PodIdx,
        pod::{Operator, Requirement},
    };
    use proptest::prelude::*;

    use super::*;

    fn query(namespace: u32, value: Option<u32>, skip_terminating: bool) -> PodQuery {
        let requirement = |value| Requirement { key: Sym(20), operator: Operator::In, values: vec![Sym(value)] };
        let requirements = value.map(requirement).into_iter().collect();
        let selector = Some(LabelSelector { requirements, error: None });
        PodQuery { matches: vec![PodMatch { namespaces: vec![Sym(namespace)], selector }], skip_terminating }
    }

    fn queries() -> Vec<PodQuery> {
        let values = [None, Some(0), Some(1), Some(2)];
        let both = values.into_iter().flat_map(|value| [false, true].map(|skip| query(30, value, skip)));
        let selector = |operator, values: &[u32]| {
            let values = values.iter().copied().map(Sym).collect();
            let requirements = vec![Requirement { key: Sym(20), operator, values }];
            Some(LabelSelector { requirements, error: None })
        };
        let in_both = |selector| PodMatch { namespaces: vec![Sym(30), Sym(31)], selector };
        let all = |matches| PodQuery { matches, skip_terminating: false };
        let some = || in_both(selector(Operator::In, &[0, 2]));
        both.chain([
            query(31, Some(1), false),
            all(vec![some()]),
            all(vec![some(), in_both(selector(Operator::NotIn, &[0]))]),
            all(vec![in_both(selector(Operator::Exists, &[]))]),
            all(vec![in_both(None)]),
            all(vec![]),
        ])
        .collect()
    }

    proptest! {
        #[test]
        fn counts_equal_a_recount(steps in prop::collection::vec((0..12u32, 0..5u32, 0..24u32, 0..14usize), 1..200)) {
            let mut table = PodTable::default();
            let mut counts = PodCounts::default();
            for (slot, node, variant, at) in steps {
                if variant % 4 == 3 {
                    table.remove(PodIdx(slot));
                } else {
                    let pod = Pod {
                        namespace: Sym(30 + variant % 2),
                        labels: [(Sym(20), Sym(variant % 3))].into(),
                        terminating: variant > 15,
                        ..Pod::default()
                    };
                    table.place(PodIdx(slot), Arc::new(pod), NodeIdx(node));
                }
                let query = &queries()[at];
                let fresh = PodCounts::default().count(&table, query).clone();
                let kept = counts.count(&table, query);
                prop_assert_eq!(kept.total(), fresh.total());
                prop_assert_eq!(kept.iter().collect::<Vec<_>>(), fresh.iter().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn dropped_queries_are_counted_anew() {
        let mut table = PodTable::default();
        let in_namespace = |namespace| Arc::new(Pod { namespace: Sym(namespace), ..Pod::default() });
        table.place(PodIdx(0), in_namespace(30), NodeIdx(1));
        let mut counts = PodCounts::default();
        for namespace in 0..10_000 {
            counts.count(&table, &query(namespace + 100, None, false));
        }
        assert!(counts.ids.len() <= CAPACITY && counts.queries.len() <= CAPACITY);
        assert_eq!(counts.count(&table, &query(30, None, false)).at(NodeIdx(1)), 1);
        for (slot, namespace) in (1..).zip([30, 100, 5_000, 10_000, 10_099]) {
            table.place(PodIdx(slot), in_namespace(namespace), NodeIdx(2));
        }
        for namespace in [30, 100, 5_000, 10_000, 10_099] {
            assert_eq!(counts.count(&table, &query(namespace, None, false)).at(NodeIdx(2)), 1, "{namespace}");
        }
    }
}
