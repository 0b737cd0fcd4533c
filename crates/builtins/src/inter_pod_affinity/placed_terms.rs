//! The terms that placed pods carry: each distinct term once, with the nodes of its carriers.
//!
//! Pods of one workload carry equal terms, so a cluster has about as many distinct ones as workloads. An index by namespace
//! and by one label that a term insists on finds those that may match a pod without looking at the others.

use std::sync::Arc;

use berth_model::{
    NodeIdx, Pod, PodTable, Sym,
    pod::{LabelSelector, Operator, PodTerm},
};
use rustc_hash::FxHashMap;

use super::namespaces::Namespaces;

/// The terms of all placed pods that concern other pods.
#[derive(Debug, Default)]
pub(super) struct PlacedTerms {
    /// Required anti-affinity.
    pub(super) repelling: TermTable,
    /// Required and preferred affinity and preferred anti-affinity, which attract by weight.
    pub(super) attracting: TermTable,
    /// What a required affinity term is worth; nothing is kept of those that are worth nothing.
    required_weight: i64,
    position: Option<u64>,
}

/// Distinct terms with their carriers.
#[derive(Debug, Default)]
pub(super) struct TermTable {
    slots: Vec<Option<Known>>,
    free: Vec<usize>,
    by_term: FxHashMap<Arc<PodTerm>, usize>,
    index: FxHashMap<Place, Vec<usize>>,
}

/// Where in the index a term stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    /// `None` for terms that select namespaces by their labels.
    namespace: Option<Sym>,
    /// A label without which no pod matches; `None` if the term names none.
    label: Option<(Sym, Sym)>,
}

#[derive(Debug)]
struct Known {
    term: Arc<PodTerm>,
    label: Option<(Sym, Sym)>,
    carriers: Vec<Carriers>,
}

/// The pods of one node that carry a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Carriers {
    pub(super) node: NodeIdx,
    pub(super) n_pods: i64,
    /// The sum of the weights with which they carry it.
    pub(super) weight: i64,
}

impl PlacedTerms {
    pub(super) fn new(required_weight: i64) -> Self {
        Self { required_weight, ..Self::default() }
    }

    /// Catches up with `pods`, and tells `namespaces` where pods came.
    pub(super) fn follow(&mut self, pods: &PodTable, namespaces: &mut Namespaces) {
        if let Some(changes) = self.position.and_then(|position| pods.since(position)) {
            for change in changes {
                self.note(&change.pod, change.node, change.sign.into());
                namespaces.inhabit(change.pod.namespace);
            }
        } else {
            self.repelling = TermTable::default();
            self.attracting = TermTable::default();
            for (_, pod, node) in pods.iter() {
                self.note(pod, node, 1);
                namespaces.inhabit(pod.namespace);
            }
        }
        self.position = Some(pods.position());
    }

    fn note(&mut self, pod: &Pod, node: NodeIdx, sign: i64) {
        let affinity = &pod.affinity;
        for term in &affinity.anti_required {
            self.repelling.note(term, Carriers { node, n_pods: sign, weight: 0 });
        }
        let required = affinity.required.iter().map(|term| (term, self.required_weight));
        let preferred = affinity.preferred.iter().map(|it| (&it.term, it.weight.into()));
        let avoided = affinity.anti_preferred.iter().map(|it| (&it.term, -i64::from(it.weight)));
        let required = required.filter(|(_, weight)| *weight > 0);
        for (term, weight) in required.chain(preferred).chain(avoided) {
            self.attracting.note(term, Carriers { node, n_pods: sign, weight: weight * sign });
        }
    }
}

/// Whether `term`, carried by a placed pod, means `pod`, whose namespace has `namespace_labels`.
pub(super) fn means(term: &PodTerm, pod: &Pod, namespace_labels: &[(Sym, Sym)]) -> bool {
    let reaches = term.namespaces.binary_search(&pod.namespace).is_ok()
        || term.namespace_selector.as_ref().is_some_and(|selector| selector.matches(namespace_labels));
    reaches && term.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
}

fn can_match(term: &PodTerm) -> bool {
    let parses = |selector: &Option<LabelSelector>| selector.as_ref().is_some_and(|it| it.error.is_none());
    parses(&term.selector) && (!term.namespaces.is_empty() || parses(&term.namespace_selector))
}

impl TermTable {
    /// What the table holds, in an order that does not depend on history.
    #[cfg(test)]
    pub(super) fn picture(&self) -> String {
        let known = self.slots.iter().flatten();
        let mut terms: Vec<String> = known.map(|it| format!("{:?} {:?}", it.term, it.carriers)).collect();
        terms.sort_unstable();
        let n_indexed: usize = self.index.values().map(Vec::len).sum();
        format!("{terms:#?} {} {n_indexed} {}", self.by_term.len(), self.slots.len() - self.free.len())
    }

    fn note(&mut self, term: &PodTerm, change: Carriers) {
        if !can_match(term) {
            return;
        }
        let slot = match self.by_term.get(term) {
            Some(&slot) => slot,
            None => self.enter(term),
        };
        let Some(known) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return };
        known.count(change);
        if known.carriers.is_empty() {
            self.leave(slot);
        }
    }

    fn enter(&mut self, term: &PodTerm) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let label = self.rarest_label(term);
        for place in places(term, label) {
            self.index.entry(place).or_default().push(slot);
        }
        let term = Arc::new(term.clone());
        self.by_term.insert(Arc::clone(&term), slot);
        if let Some(entry) = self.slots.get_mut(slot) {
            *entry = Some(Known { term, label, carriers: Vec::new() });
        }
        slot
    }

    fn leave(&mut self, slot: usize) {
        let Some(known) = self.slots.get_mut(slot).and_then(Option::take) else { return };
        self.by_term.remove(&known.term);
        self.free.push(slot);
        for place in places(&known.term, known.label) {
            let Some(slots) = self.index.get_mut(&place) else { continue };
            slots.retain(|other| *other != slot);
            if slots.is_empty() {
                self.index.remove(&place);
            }
        }
    }

    /// Of the labels that the term insists on, the one by which it shares its place with the fewest others.
    fn rarest_label(&self, term: &PodTerm) -> Option<(Sym, Sym)> {
        let requirements = term.selector.as_ref().map_or(&[][..], |selector| &selector.requirements);
        let labels =
            requirements.iter().filter_map(|requirement| match (requirement.operator, &requirement.values[..]) {
                (Operator::In, [value]) => Some((requirement.key, *value)),
                _ => None,
            });
        let n_neighbours = |label: &(Sym, Sym)| -> usize {
            places(term, Some(*label)).filter_map(|place| self.index.get(&place)).map(Vec::len).sum()
        };
        labels.min_by_key(n_neighbours)
    }

    /// Calls `visit` with the topology key and the carriers of each term that means `pod`, whose namespace has
    /// `namespace_labels`.
    pub(super) fn visit(&self, pod: &Pod, namespace_labels: &[(Sym, Sym)], mut visit: impl FnMut(Sym, &[Carriers])) {
        if self.by_term.is_empty() {
            return;
        }
        for namespace in [Some(pod.namespace), None] {
            for label in pod.labels.iter().copied().map(Some).chain([None]) {
                let slots = self.index.get(&Place { namespace, label });
                let known = slots.into_iter().flatten().filter_map(|&slot| self.slots.get(slot)?.as_ref());
                for Known { term, carriers, .. } in known {
                    if means(term, pod, namespace_labels) {
                        visit(term.topology_key, carriers);
                    }
                }
            }
        }
    }
}

fn places(term: &PodTerm, label: Option<(Sym, Sym)>) -> impl Iterator<Item = Place> {
    let by_label = term.namespace_selector.is_some();
    let named = if by_label { &[][..] } else { &term.namespaces };
    let anywhere = by_label.then_some(Place { namespace: None, label });
    named.iter().map(move |namespace| Place { namespace: Some(*namespace), label }).chain(anywhere)
}

impl Known {
    fn count(&mut self, change: Carriers) {
        match self.carriers.binary_search_by_key(&change.node, |carriers| carriers.node) {
            Ok(at) => {
                let Some(carriers) = self.carriers.get_mut(at) else { return };
                carriers.n_pods += change.n_pods;
                carriers.weight += change.weight;
                if carriers.n_pods == 0 {
                    self.carriers.remove(at);
                }
            }
            Err(at) => self.carriers.insert(at, change),
        }
    }
}
