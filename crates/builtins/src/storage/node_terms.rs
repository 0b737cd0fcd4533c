//! The nodes from which a volume can be used: the node selectors of storage objects, and the nodes that match each
//! selector.
//!
//! Equal selectors share one [`NodeTermsId`]. Each selector is matched against the label columns once, and again only
//! when nodes or their labels change. Most volumes with a selector can be used from one node
//! (`kubernetes.io/hostname`). An index of label values finds these nodes without a loop over all nodes.

use std::sync::Arc;

use berth_model::{
    ClusterTable, NodeIdx, NodeSet, Sym,
    api::{LabelSelector, NodeSelector, NodeSelectorRequirement},
    pod::Operator,
    selector::{LabelMatcher, node_term_error},
};
use rustc_hash::FxHashMap;

use super::TopologyTerm;
use crate::node_rules::{Rule, RuleKey};

/// The maximum number of nodes in a list. More nodes are kept as a bitmap.
const FEW: usize = 16;

/// A selector in a [`NodeTermsTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeTermsId(usize);

/// Terms of a node selector. A node matches if it matches one of the terms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct NodeTerms {
    terms: Vec<Vec<Requirement>>,
}

/// A requirement on a label of the node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

/// The nodes that match some [`NodeTerms`].
#[derive(Clone, Debug)]
pub(crate) enum MatchingNodes {
    Few(Vec<NodeIdx>),
    Many(NodeSet),
}

/// All selectors seen so far, with the nodes that match them.
#[derive(Debug, Default)]
pub(crate) struct NodeTermsTable {
    ids: FxHashMap<Arc<NodeTerms>, NodeTermsId>,
    /// Terms and their nodes by id. The nodes are looked up when they are first needed.
    entries: Vec<(Arc<NodeTerms>, Option<MatchingNodes>)>,
    /// The version of nodes and labels for which the matching nodes hold.
    version: Option<u64>,
    /// Nodes by label and value, for the labels that were used.
    by_value: NodesByValue,
}

impl NodeTerms {
    /// Terms that every node matches.
    fn everywhere() -> Self {
        Self { terms: vec![Vec::new()] }
    }

    /// The `nodeAffinity.required` of a volume. Only labels are matched: the fields of a term must parse, but are ignored
    /// otherwise (`CheckNodeAffinity` in `k8s.io/component-helpers/storage/volume/helpers.go`).
    pub(crate) fn of_volume(selector: Option<&NodeSelector>) -> Self {
        let Some(selector) = selector else { return Self::everywhere() };
        let mut terms = Vec::new();
        for term in &selector.node_selector_terms {
            let is_empty = term.match_expressions.is_empty() && term.match_fields.is_empty();
            if !is_empty && node_term_error(term).is_none() {
                terms.extend(requirements(&term.match_expressions));
            }
        }
        Self { terms }
    }

    /// The `nodeTopology` of a `CSIStorageCapacity`. A selector that does not parse matches no node.
    pub(crate) fn of_labels(selector: &LabelSelector) -> Self {
        if LabelMatcher::compile(Some(selector)).is_err() {
            return Self::default();
        }
        let equalities = selector.match_labels.iter().map(|(key, value)| Requirement {
            key: key.clone(),
            operator: Operator::In,
            values: vec![value.clone()],
        });
        let term = requirements(&selector.match_expressions).map(|written| equalities.chain(written).collect());
        Self { terms: term.into_iter().collect() }
    }

    /// The `allowedTopologies` of a `StorageClass`. Every node matches an empty list of terms, but no node matches an
    /// empty term.
    pub(crate) fn of_topologies(terms: &[TopologyTerm]) -> Self {
        if terms.is_empty() {
            return Self::everywhere();
        }
        let terms = terms.iter().filter(|term| !term.match_label_expressions.is_empty());
        let terms = terms.map(|term| {
            let written = term.match_label_expressions.iter();
            let requirement = |it: &super::TopologyRequirement| Requirement {
                key: it.key.clone(),
                operator: Operator::In,
                values: it.values.clone(),
            };
            written.map(requirement).collect()
        });
        Self { terms: terms.collect() }
    }
}

/// The requirements; `None` if one of them does not parse.
fn requirements(written: &[NodeSelectorRequirement]) -> Option<Vec<Requirement>> {
    written.iter().map(requirement).collect()
}

fn requirement(written: &NodeSelectorRequirement) -> Option<Requirement> {
    let operator = Operator::parse(&written.operator)?;
    Some(Requirement { key: written.key.clone(), operator, values: written.values.clone() })
}

impl MatchingNodes {
    pub(crate) fn contains(&self, node: NodeIdx) -> bool {
        match self {
            Self::Few(nodes) => nodes.contains(&node),
            Self::Many(nodes) => nodes.contains(node),
        }
    }

    /// The matching nodes that are also in `nodes`.
    pub(crate) fn within(&self, nodes: &NodeSet) -> Self {
        match self {
            Self::Few(few) => Self::Few(few.iter().copied().filter(|node| nodes.contains(*node)).collect()),
            Self::Many(many) => {
                let mut both = many.clone();
                both.intersect(nodes);
                Self::Many(both)
            }
        }
    }

    pub(crate) fn without(self, nodes: &NodeSet) -> Self {
        match self {
            Self::Few(few) => Self::Few(few.into_iter().filter(|node| !nodes.contains(*node)).collect()),
            Self::Many(mut many) => {
                many.subtract(nodes);
                Self::Many(many)
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Few(nodes) => nodes.is_empty(),
            Self::Many(nodes) => nodes.is_empty(),
        }
    }

    /// Removes the matching nodes from `nodes`.
    pub(crate) fn remove_from(&self, nodes: &mut NodeSet) {
        match self {
            Self::Few(few) => few.iter().for_each(|node| nodes.remove(*node)),
            Self::Many(many) => nodes.subtract(many),
        }
    }

    /// Removes the nodes as [`Self::remove_from`] does, and returns their number.
    pub(crate) fn count_removed_from(&self, nodes: &mut NodeSet) -> usize {
        match self {
            Self::Few(few) => {
                let removed = few.iter().filter(|node| {
                    let is_there = nodes.contains(**node);
                    nodes.remove(**node);
                    is_there
                });
                removed.count()
            }
            Self::Many(many) => {
                let n_before = nodes.len();
                nodes.subtract(many);
                n_before - nodes.len()
            }
        }
    }

    pub(crate) fn add_to(&self, nodes: &mut NodeSet) {
        match self {
            Self::Few(few) => few.iter().for_each(|node| nodes.insert(*node)),
            Self::Many(many) => nodes.union(many),
        }
    }

    fn of(nodes: NodeSet) -> Self {
        if nodes.len() <= FEW { Self::Few(nodes.iter().collect()) } else { Self::Many(nodes) }
    }
}

impl NodeTermsTable {
    /// The id of these terms. Equal terms have the same id.
    pub(crate) fn intern(&mut self, terms: NodeTerms) -> NodeTermsId {
        if let Some(id) = self.ids.get(&terms) {
            return *id;
        }
        let id = NodeTermsId(self.entries.len());
        let terms = Arc::new(terms);
        self.entries.push((Arc::clone(&terms), None));
        self.ids.insert(terms, id);
        id
    }

    /// The number of different selectors.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Forgets the matching nodes if nodes or labels have changed. The caller must call this method before
    /// [`Self::matching`] in each cycle.
    pub(crate) fn refresh(&mut self, table: &ClusterTable) {
        if self.version == Some(table.place_version()) {
            return;
        }
        self.version = Some(table.place_version());
        self.by_value.clear();
        self.entries.iter_mut().for_each(|(_, matching)| *matching = None);
    }

    /// The nodes that match the selector. An id is valid only in the table that made it.
    pub(crate) fn matching(&mut self, id: NodeTermsId, table: &ClusterTable) -> &MatchingNodes {
        static NO_NODES: MatchingNodes = MatchingNodes::Few(Vec::new());
        let Some((terms, matching)) = self.entries.get_mut(id.0) else {
            debug_assert!(false, "node terms of another table");
            return &NO_NODES;
        };
        matching.get_or_insert_with(|| nodes_of(terms, table, &mut self.by_value))
    }
}

/// Nodes by label, then value.
type NodesByValue = FxHashMap<Sym, FxHashMap<Sym, Vec<NodeIdx>>>;

fn nodes_of(terms: &NodeTerms, table: &ClusterTable, by_value: &mut NodesByValue) -> MatchingNodes {
    match terms.terms.as_slice() {
        [term] => nodes_of_term(term, table, by_value),
        terms => {
            let mut nodes = NodeSet::default();
            terms.iter().for_each(|term| nodes_of_term(term, table, by_value).add_to(&mut nodes));
            MatchingNodes::of(nodes)
        }
    }
}

/// The symbol that stands for a string without a symbol. No node has this string.
const UNKNOWN: Sym = Sym(u32::MAX);

fn nodes_of_term(term: &[Requirement], table: &ClusterTable, by_value: &mut NodesByValue) -> MatchingNodes {
    let symbols = &table.symbols;
    let lookup = |text: &String| symbols.lookup(text).unwrap_or(UNKNOWN);
    let values: Vec<Vec<Sym>> = term.iter().map(|it| it.values.iter().map(lookup).collect()).collect();
    let rules: Vec<Rule<'_>> = term
        .iter()
        .zip(&values)
        .map(|(it, values)| Rule {
            subject: RuleKey::Label(lookup(&it.key)),
            operator: it.operator,
            values,
            bound: it.values.first().and_then(|value| value.parse().ok()),
        })
        .collect();
    let listed = rules.iter().find(|rule| rule.operator == Operator::In);
    if let Some(Rule { subject: RuleKey::Label(key), values, .. }) = listed {
        let index = by_value.entry(*key).or_insert_with(|| index_of(*key, table));
        let mut nodes: Vec<NodeIdx> = values.iter().filter_map(|value| index.get(value)).flatten().copied().collect();
        if nodes.len() <= FEW {
            nodes.sort_unstable();
            nodes.dedup();
            nodes.retain(|node| rules.iter().all(|rule| rule.matches(table, *node)));
            return MatchingNodes::Few(nodes);
        }
    }
    let mut nodes = table.nodes().clone();
    rules.iter().for_each(|rule| rule.narrow(table, &mut nodes));
    MatchingNodes::of(nodes)
}

fn index_of(key: Sym, table: &ClusterTable) -> FxHashMap<Sym, Vec<NodeIdx>> {
    let mut index: FxHashMap<Sym, Vec<NodeIdx>> = FxHashMap::default();
    let Some(column) = table.labels().column(key) else { return index };
    for node in table.nodes().iter() {
        if let Some(value) = column.get(node) {
            index.entry(value).or_default().push(node);
        }
    }
    index
}
