//! NodeAffinity: `spec.nodeSelector`, `spec.affinity.nodeAffinity`, and the arg `addedAffinity`, which a profile adds
//! to all its pods.

mod added;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use berth_framework::{
    Call, ClusterEvent, ConfigureError, EventSubject, HintCall, Normalize, PreFilter, PreScore, QueueingHint, Score,
    Status,
};
use berth_model::{
    Column, Node, NodeIdx, NodeSet, Pod, Sym, Symbols,
    pod::{NodeTerm, Operator, WeightedNodeTerm},
};

use self::added::AddedAffinity;
use crate::{
    built_in::{BuiltIn, Descriptor, plugin},
    node_check::{NodeRule, filter_by_node},
    node_rules::{Scratch, Term, matches_any, selector},
    normalize::normalize,
};

/// Rejects nodes that a pod does not select, and scores nodes by the preferred terms of a pod.
#[derive(Debug, Default)]
pub struct NodeAffinity {
    added: AddedAffinity,
    scratch: Scratch,
}

impl BuiltIn for NodeAffinity {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "NodeAffinity",
        columns: &[Column::Name, Column::Labels],
        events_to_register: &[("Node", ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_LABEL)],
        ..Descriptor::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        let added = AddedAffinity::parse(Self::NAME, args).map_err(ConfigureError::new)?;
        Ok(Self { added, scratch: Scratch::default() })
    }
}

plugin!(NodeAffinity: PreFilter, Filter, PreScore, Score, Normalize, QueueingHint, Sign; Reuse);

/// The names of the only nodes that can match the terms; `None` if a term has no `In` requirement on `metadata.name`.
fn named_nodes(terms: &[NodeTerm]) -> Option<BTreeSet<Sym>> {
    let mut names = BTreeSet::new();
    for term in terms {
        let mut lists = term.fields.iter().filter(|field| field.operator == Operator::In).map(|field| &field.values);
        let first = lists.next()?;
        let rest: Vec<_> = lists.collect();
        names.extend(first.iter().filter(|name| rest.iter().all(|list| list.contains(name))));
    }
    Some(names)
}

/// The preferred terms that add to scores, with their positions.
fn preferred(pod: &Pod) -> impl Iterator<Item = (usize, &WeightedNodeTerm)> {
    let terms = pod.node_rules.preferred.iter().flatten().enumerate();
    terms.filter(|(_, preference)| preference.weight != 0 && !preference.term.is_empty())
}

impl NodeAffinity {
    /// Whether the pod or the plugin's arguments select or prefer nodes.
    pub(crate) fn concerns(&self, pod: &Pod) -> bool {
        let rules = &pod.node_rules;
        let of_pod = rules.required.is_some() || rules.selector.is_some() || rules.preferred.is_some();
        of_pod || self.added.required().is_some() || self.added.has_preferred()
    }

    fn status(&self, call: &Call<'_>, node: NodeIdx) -> Status {
        let table = call.table;
        if self.added.required().is_some_and(|terms| !matches_any(terms, table, node)) {
            return Status::unresolvable("node(s) didn't match scheduler-enforced node affinity");
        }
        let required = call.pod.node_rules.required.as_deref();
        let is_selected = selector(call.pod).all(|rule| rule.matches(table, node));
        if is_selected && required.is_none_or(|terms| matches_any(terms, table, node)) {
            return Status::success();
        }
        Status::unresolvable("node(s) didn't match Pod's node affinity/selector")
    }
}

impl PreFilter for NodeAffinity {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        let rules = &call.pod.node_rules;
        if rules.required.is_none() && rules.selector.is_none() && self.added.required().is_none() {
            return Err(Status::skip());
        }
        let Some(names) = rules.required.as_deref().filter(|terms| !terms.is_empty()).and_then(named_nodes) else {
            return Ok(None);
        };
        if names.is_empty() {
            return Err(Status::unresolvable("pod affinity terms conflict"));
        }
        Ok(Some(names.into_iter().map(|name| call.table.symbols.text(name).to_owned()).collect()))
    }
}

filter_by_node!(NodeAffinity);

impl NodeRule for NodeAffinity {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) {
        self.added.resolve(&call.table.symbols);
        if let Some(terms) = self.added.required() {
            self.scratch.narrow_to_any(terms, call.table, candidates);
        }
        self.scratch.narrow_to_required(call.pod, call.table, candidates);
    }

    fn check(&mut self, call: &Call<'_>) -> impl FnMut(NodeIdx) -> Status {
        self.added.resolve(&call.table.symbols);
        move |node| self.status(call, node)
    }
}

impl PreScore for NodeAffinity {
    fn pre_score(&mut self, call: &Call<'_>, _nodes: &NodeSet) -> Result<(), Status> {
        if call.pod.node_rules.preferred.is_none() && !self.added.has_preferred() {
            return Err(Status::skip());
        }
        let broken = preferred(call.pod).filter_map(|(at, it)| Some((at, it.term.error.as_ref()?)));
        let mut errors: Vec<String> = Vec::new();
        for (at, error) in broken.flat_map(|(at, error)| error.lines().map(move |line| (at, line))) {
            let error = format!("[{at}]{error}");
            if !errors.contains(&error) {
                errors.push(error);
            }
        }
        match errors.as_slice() {
            [] => Ok(()),
            [only] => Err(Status::error(only)),
            several => Err(Status::error(format!("[{}]", several.join(", ")))),
        }
    }
}

impl Score for NodeAffinity {
    fn score(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        self.added.resolve(&call.table.symbols);
        let start = scores.len();
        scores.resize(start + nodes.len(), 0);
        let scores = scores.get_mut(start..).unwrap_or_default();
        for (weight, term) in self.added.preferred() {
            self.scratch.add_weight(term, *weight, call.table, nodes, scores);
        }
        for (_, preference) in preferred(call.pod) {
            let weight = i64::from(preference.weight);
            self.scratch.add_weight(&preference.term, weight, call.table, nodes, scores);
        }
        Ok(())
    }
}

impl Normalize for NodeAffinity {
    fn normalize(&mut self, _call: &Call<'_>, _nodes: &NodeSet, scores: &mut [i64]) -> Result<(), Status> {
        normalize(scores, false);
        Ok(())
    }
}

impl NodeAffinity {
    /// Whether a node that is in no table matches the required terms of the plugin's arguments.
    fn matches_added(&self, node: &Node, symbols: &Symbols) -> bool {
        self.added.required().is_none_or(|terms| terms.iter().any(|term| term.matches_node(node, symbols)))
    }
}

/// Whether a node that is in no table matches the rules of the pod. `None` if no term matches and a term does not
/// parse.
fn selects(pod: &Pod, node: &Node, symbols: &Symbols) -> Option<bool> {
    if !selector(pod).all(|rule| rule.matches_node(node, symbols)) {
        return Some(false);
    }
    let Some(terms) = pod.node_rules.required.as_deref() else { return Some(true) };
    if terms.iter().any(|term| term.matches_node(node, symbols)) {
        return Some(true);
    }
    terms.iter().all(|term| term.error.is_none()).then_some(false)
}

impl QueueingHint for NodeAffinity {
    /// Whether a node that did not match before the event matches after it. If a term of the pod does not parse and no
    /// other term matches, the pod is tried again, as in kube-scheduler.
    fn queueing_hint(&mut self, call: &HintCall<'_>) -> bool {
        let EventSubject::Node { old, new: Some(new) } = call.subject else { return true };
        let symbols = &call.table.symbols;
        self.added.resolve(symbols);
        let admits = |node| self.matches_added(node, symbols) && selects(call.pod, node, symbols) == Some(true);
        self.matches_added(new, symbols)
            && selects(call.pod, new, symbols).is_none_or(|matches| matches && old.is_none_or(|old| !admits(old)))
    }
}
