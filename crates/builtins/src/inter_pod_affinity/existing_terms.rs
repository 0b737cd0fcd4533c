//! The affinity terms of existing pods, which already run on nodes. Each distinct term is kept once, with the nodes of
//! the pods that have the term.
//!
//! Pods of one workload have equal terms, so a cluster has about as many distinct terms as workloads. An index by
//! namespace and by one label that a term requires finds the terms that may match a pod. The other terms are not
//! visited.

use std::{collections::hash_map::Entry, sync::Arc};

use berth_model::{
    NodeIdx, Pod, PodTable, Sym,
    pod::{LabelSelector, Operator, PodTerm},
};
use rustc_hash::FxHashMap;
use slab::Slab;

use super::namespaces::Namespaces;
use crate::{
    domain_totals::{Contribution, CountedNodes, KeptTotals, WeightedSums},
    topology::Topology,
};

/// The terms of all existing pods that may affect an incoming pod.
#[derive(Debug, Default)]
pub(super) struct ExistingTerms {
    /// Required anti-affinity, for Filter.
    pub(super) anti_affinity: TermTable,
    /// Required and preferred affinity and preferred anti-affinity, for Score.
    pub(super) scored: TermTable,
    /// The weight of a required affinity term. If the weight is 0, required affinity terms are not kept.
    hard_weight: i64,
    /// The position up to which the journal of the pod table has been read.
    position: Option<u64>,
}

/// Distinct terms with the pods that have them.
#[derive(Debug, Default)]
pub(super) struct TermTable {
    terms: Slab<TermPods>,
    by_term: FxHashMap<Arc<PodTerm>, usize>,
    index: FxHashMap<IndexKey, Vec<usize>>,
}

/// The key under which a term is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct IndexKey {
    /// The namespace; `None` for terms with a namespace selector.
    namespace: Option<Sym>,
    /// A label that every matching pod has; `None` if the term requires no label with one value.
    label: Option<(Sym, Sym)>,
}

/// A term and the pods that have it.
#[derive(Debug)]
pub(super) struct TermPods {
    term: Arc<PodTerm>,
    /// The label under which the index has the term.
    label: Option<(Sym, Sym)>,
    /// The pods that have the term, sorted by node.
    on_nodes: Vec<PodsOnNode>,
    n_pods: i64,
    /// The sums of the weights, by topology.
    totals: KeptTotals,
}

/// The pods of one node that have a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PodsOnNode {
    pub(super) node: NodeIdx,
    pub(super) n_pods: i64,
    /// The sum of the weights of the term in these pods. In required anti-affinity, each weight is 1.
    pub(super) weight: i64,
}

impl PodsOnNode {
    fn contribution(&self) -> Contribution {
        Contribution { node: self.node, n_pods: self.n_pods, amount: self.weight }
    }
}

impl ExistingTerms {
    pub(super) fn new(hard_weight: i64) -> Self {
        Self { hard_weight, ..Self::default() }
    }

    /// Applies the changes in `pods`, and adds the namespaces of new pods to `namespaces`.
    pub(super) fn follow(&mut self, pods: &PodTable, namespaces: &mut Namespaces) {
        if let Some(changes) = self.position.and_then(|position| pods.since(position)) {
            for change in changes {
                self.count(&change.pod, change.node, change.sign.into());
                namespaces.add_with_pods(change.pod.namespace);
            }
        } else {
            self.anti_affinity = TermTable::default();
            self.scored = TermTable::default();
            for (_, pod, node) in pods.iter() {
                self.count(pod, node, 1);
                namespaces.add_with_pods(pod.namespace);
            }
        }
        self.position = Some(pods.position());
    }

    /// Whether no existing pod has a term that may affect another pod.
    pub(super) fn is_empty(&self) -> bool {
        self.anti_affinity.terms.is_empty() && self.scored.terms.is_empty()
    }

    /// Counts the terms of a pod. `sign` is 1 for a pod that was placed on the node, and -1 for a pod that left the
    /// node.
    fn count(&mut self, pod: &Pod, node: NodeIdx, sign: i64) {
        let affinity = &pod.affinity;
        for term in &affinity.anti_required {
            self.anti_affinity.count(term, PodsOnNode { node, n_pods: sign, weight: sign });
        }
        let required = affinity.required.iter().map(|term| (term, self.hard_weight));
        let preferred = affinity.preferred.iter().map(|it| (&it.term, it.weight.into()));
        let anti_preferred = affinity.anti_preferred.iter().map(|it| (&it.term, -i64::from(it.weight)));
        let required = required.filter(|(_, weight)| *weight > 0);
        for (term, weight) in required.chain(preferred).chain(anti_preferred) {
            self.scored.count(term, PodsOnNode { node, n_pods: sign, weight: weight * sign });
        }
    }
}

/// Whether `term` of an existing pod matches the incoming pod `pod`. `namespace_labels` are the labels of the incoming
/// pod's namespace.
pub(super) fn matches(term: &PodTerm, pod: &Pod, namespace_labels: &[(Sym, Sym)]) -> bool {
    let matches_namespace = term.namespaces.binary_search(&pod.namespace).is_ok()
        || term.namespace_selector.as_ref().is_some_and(|selector| selector.matches(namespace_labels));
    matches_namespace && term.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
}

/// Whether the term can match any pod at all.
fn can_match(term: &PodTerm) -> bool {
    let parses = |selector: &Option<LabelSelector>| selector.as_ref().is_some_and(|it| it.error.is_none());
    parses(&term.selector) && (!term.namespaces.is_empty() || parses(&term.namespace_selector))
}

impl TermTable {
    /// The content of the table, in an order that does not depend on the order of the changes.
    #[cfg(test)]
    pub(super) fn describe(&self) -> String {
        let mut terms: Vec<String> =
            self.terms.iter().map(|(_, it)| format!("{:?} {:?}", it.term, it.on_nodes)).collect();
        terms.sort_unstable();
        let n_indexed: usize = self.index.values().map(Vec::len).sum();
        format!("{terms:#?} {} {n_indexed}", self.by_term.len())
    }

    fn count(&mut self, term: &PodTerm, change: PodsOnNode) {
        if !can_match(term) {
            return;
        }
        let idx = match self.by_term.get(term) {
            Some(&idx) => idx,
            None => self.insert(term),
        };
        let Some(known) = self.terms.get_mut(idx) else {
            debug_assert!(false, "`by_term` refers to terms of the table");
            return;
        };
        known.count(change);
        if known.on_nodes.is_empty() {
            self.remove(idx);
        }
    }

    fn insert(&mut self, term: &PodTerm) -> usize {
        let label = self.rarest_label(term);
        let keys = index_keys(term, label);
        let term = Arc::new(term.clone());
        let (on_nodes, totals) = (Vec::new(), KeptTotals::default());
        let idx = self.terms.insert(TermPods { term: Arc::clone(&term), label, on_nodes, n_pods: 0, totals });
        for key in keys {
            self.index.entry(key).or_default().push(idx);
        }
        self.by_term.insert(term, idx);
        idx
    }

    fn remove(&mut self, idx: usize) {
        let known = self.terms.remove(idx);
        self.by_term.remove(&known.term);
        for key in index_keys(&known.term, known.label) {
            if let Entry::Occupied(mut terms) = self.index.entry(key) {
                terms.get_mut().retain(|other| *other != idx);
                if terms.get().is_empty() {
                    terms.remove();
                }
            }
        }
    }

    /// The required label of the term under which the index has the fewest other terms.
    fn rarest_label(&self, term: &PodTerm) -> Option<(Sym, Sym)> {
        let requirements = term.selector.as_ref().map_or(&[][..], |selector| &selector.requirements);
        let labels =
            requirements.iter().filter_map(|requirement| match (requirement.operator, &requirement.values[..]) {
                (Operator::In, [value]) => Some((requirement.key, *value)),
                _ => None,
            });
        let n_others = |label: &(Sym, Sym)| -> usize {
            index_keys(term, Some(*label)).filter_map(|key| self.index.get(&key)).map(Vec::len).sum()
        };
        labels.min_by_key(n_others)
    }

    /// Calls `visit` with the topology key of each term that matches `pod` and the pods that have the term. The
    /// namespace of `pod` has `namespace_labels`.
    pub(super) fn visit(
        &mut self,
        pod: &Pod,
        namespace_labels: &[(Sym, Sym)],
        mut visit: impl FnMut(Sym, &mut TermPods),
    ) {
        let Self { terms, by_term, index } = self;
        if by_term.is_empty() {
            return;
        }
        for namespace in [Some(pod.namespace), None] {
            for label in pod.labels.iter().copied().map(Some).chain([None]) {
                for &idx in index.get(&IndexKey { namespace, label }).into_iter().flatten() {
                    if let Some(pods) = terms.get_mut(idx).filter(|it| matches(&it.term, pod, namespace_labels)) {
                        visit(pods.term.topology_key, pods);
                    }
                }
            }
        }
    }
}

/// The keys under which the index has the term: one for each namespace of the term, or one for all namespaces.
fn index_keys(term: &PodTerm, label: Option<(Sym, Sym)>) -> impl Iterator<Item = IndexKey> {
    let has_selector = term.namespace_selector.is_some();
    let named = if has_selector { &[][..] } else { &term.namespaces };
    let any_namespace = has_selector.then_some(IndexKey { namespace: None, label });
    named.iter().map(move |namespace| IndexKey { namespace: Some(*namespace), label }).chain(any_namespace)
}

impl TermPods {
    /// Adds the weights of the term in its pods to `sums`, which are by domain. Returns the number of pods.
    pub(super) fn add_by_domain(&mut self, topology: &Arc<Topology>, sums: &mut [i64]) -> i64 {
        let contributions = self.on_nodes.iter().map(PodsOnNode::contribution);
        self.totals.add_to(CountedNodes::with_key(topology), self.n_pods, contributions, WeightedSums::unweighted(sums))
    }

    fn count(&mut self, change: PodsOnNode) {
        self.n_pods += change.n_pods;
        self.totals.change(change.contribution());
        match self.on_nodes.binary_search_by_key(&change.node, |pods| pods.node) {
            Ok(at) => {
                let pods = &mut self.on_nodes[at];
                pods.n_pods += change.n_pods;
                pods.weight += change.weight;
                if pods.n_pods == 0 {
                    self.on_nodes.remove(at);
                }
            }
            Err(at) => self.on_nodes.insert(at, change),
        }
    }
}
