//! From where can a volume be used? Node selectors of storage objects, and the nodes that each of them means.
//!
//! Equal selectors share one [`PlaceId`], and each is matched once against the label columns and again only when nodes
//! or their labels change. Most volumes with a selector can be used from one node (`kubernetes.io/hostname`): those are
//! found through an index of label values instead of a walk over all nodes.

use std::sync::Arc;

use berth_model::{
    ClusterTable, NodeIdx, NodeSet, Sym,
    api::{LabelSelector, NodeSelector, NodeSelectorRequirement},
    pod::Operator,
    selector::{LabelMatcher, node_term_error},
};
use rustc_hash::FxHashMap;

use super::TopologyTerm;
use crate::node_rules::{Rule, Subject};

/// Up to so many nodes are listed rather than kept as a bitmap.
const FEW: usize = 16;

/// A selector that was met before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PlaceId(u32);

/// Terms of which one suffices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    terms: Vec<Vec<Requirement>>,
}

/// On a label of the node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

/// The nodes that a place means.
#[derive(Clone, Debug)]
pub(crate) enum Reach {
    Few(Vec<NodeIdx>),
    Many(NodeSet),
}

/// All places met, with their nodes.
#[derive(Debug, Default)]
pub(crate) struct Places {
    ids: FxHashMap<Arc<Place>, PlaceId>,
    places: Vec<(Arc<Place>, Option<Reach>)>,
    version: Option<u64>,
    /// By label and value, as far as asked for.
    by_value: FxHashMap<Sym, FxHashMap<Sym, Vec<NodeIdx>>>,
}

impl Place {
    pub(crate) fn everywhere() -> Self {
        Self { terms: vec![Vec::new()] }
    }

    /// Volumes are matched with labels alone: what a term says about fields must parse, and counts for nothing
    /// (`nodeSelectorTerm.match` in k8s.io/component-helpers).
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

    /// A selector that does not parse means no node.
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

    /// No terms mean every node, an empty one none.
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

/// `None` if one does not parse.
fn requirements(written: &[NodeSelectorRequirement]) -> Option<Vec<Requirement>> {
    written.iter().map(requirement).collect()
}

fn requirement(written: &NodeSelectorRequirement) -> Option<Requirement> {
    let operator = match written.operator.as_str() {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::Gt,
        "Lt" => Operator::Lt,
        _ => return None,
    };
    Some(Requirement { key: written.key.clone(), operator, values: written.values.clone() })
}

impl Reach {
    pub(crate) fn contains(&self, node: NodeIdx) -> bool {
        match self {
            Self::Few(nodes) => nodes.contains(&node),
            Self::Many(nodes) => nodes.contains(node),
        }
    }

    /// Those of `nodes` from which the volume can be used.
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

    pub(crate) fn take_from(&self, nodes: &mut NodeSet) {
        match self {
            Self::Few(few) => few.iter().for_each(|node| nodes.remove(*node)),
            Self::Many(many) => nodes.subtract(many),
        }
    }

    /// [`Self::take_from`] that says how many there were to take.
    pub(crate) fn count_from(&self, nodes: &mut NodeSet) -> usize {
        match self {
            Self::Few(few) => {
                let taken = few.iter().filter(|node| {
                    let is_there = nodes.contains(**node);
                    nodes.remove(**node);
                    is_there
                });
                taken.count()
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

impl Places {
    pub(crate) fn intern(&mut self, place: Place) -> PlaceId {
        if let Some(id) = self.ids.get(&place) {
            return *id;
        }
        let id = PlaceId(u32::try_from(self.places.len()).unwrap_or(u32::MAX));
        let place = Arc::new(place);
        self.places.push((Arc::clone(&place), None));
        self.ids.insert(place, id);
        id
    }

    /// How many different places were met.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Forgets what nodes answered if they are others by now. Comes before [`Self::reach`] in each cycle.
    pub(crate) fn refresh(&mut self, table: &ClusterTable) {
        if self.version == Some(table.place_version()) {
            return;
        }
        self.version = Some(table.place_version());
        self.by_value.clear();
        self.places.iter_mut().for_each(|(_, reach)| *reach = None);
    }

    pub(crate) fn reach(&mut self, id: PlaceId, table: &ClusterTable) -> &Reach {
        static NOWHERE: Reach = Reach::Few(Vec::new());
        let Some((place, reach)) = self.places.get_mut(id.0 as usize) else { return &NOWHERE };
        reach.get_or_insert_with(|| nodes_of(place, table, &mut self.by_value))
    }
}

type ByValue = FxHashMap<Sym, FxHashMap<Sym, Vec<NodeIdx>>>;

fn nodes_of(place: &Place, table: &ClusterTable, by_value: &mut ByValue) -> Reach {
    match place.terms.as_slice() {
        [term] => nodes_of_term(term, table, by_value),
        terms => {
            let mut nodes = NodeSet::default();
            terms.iter().for_each(|term| nodes_of_term(term, table, by_value).add_to(&mut nodes));
            Reach::of(nodes)
        }
    }
}

/// Strings without a symbol stand nowhere in the node table.
const UNKNOWN: Sym = Sym(u32::MAX);

fn nodes_of_term(term: &[Requirement], table: &ClusterTable, by_value: &mut ByValue) -> Reach {
    let symbols = &table.symbols;
    let lookup = |text: &String| symbols.lookup(text).unwrap_or(UNKNOWN);
    let values: Vec<Vec<Sym>> = term.iter().map(|it| it.values.iter().map(lookup).collect()).collect();
    let rules: Vec<Rule<'_>> = term
        .iter()
        .zip(&values)
        .map(|(it, values)| Rule {
            subject: Subject::Label(lookup(&it.key)),
            operator: it.operator,
            values,
            bound: it.values.first().and_then(|value| value.parse().ok()),
        })
        .collect();
    let listed = rules.iter().find(|rule| rule.operator == Operator::In);
    if let Some(Rule { subject: Subject::Label(key), values, .. }) = listed {
        let index = by_value.entry(*key).or_insert_with(|| index_of(*key, table));
        let mut nodes: Vec<NodeIdx> = values.iter().filter_map(|value| index.get(value)).flatten().copied().collect();
        if nodes.len() <= FEW {
            nodes.sort_unstable();
            nodes.dedup();
            nodes.retain(|node| rules.iter().all(|rule| rule.matches(table, *node)));
            return Reach::Few(nodes);
        }
    }
    let mut nodes = table.nodes().clone();
    rules.iter().for_each(|rule| rule.narrow(table, &mut nodes));
    Reach::of(nodes)
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
