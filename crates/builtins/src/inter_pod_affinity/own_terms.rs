//! The terms of the pod that is being scheduled, with their namespaces spelt out once a cycle.

use berth_model::{
    Pod, Sym, Symbols,
    pod::{LabelSelector, PodAffinity, PodTerm},
};

use super::namespaces::Namespaces;
use crate::pod_counts::{PodMatch, Question};

/// A term as this cycle understands it.
#[derive(Debug)]
pub(super) struct OwnTerm {
    pub(super) topology_key: Sym,
    /// The pods that it means, in the namespaces where pods have been placed.
    meant: PodMatch,
    /// For pods elsewhere, which only a dry run brings up.
    namespace_selector: Option<LabelSelector>,
}

impl OwnTerm {
    pub(super) fn new(term: &PodTerm, known: &mut Namespaces, symbols: &Symbols) -> Self {
        let mut namespaces = match &term.namespace_selector {
            None => Vec::new(),
            Some(selector) if selects_all(selector) => known.inhabited().to_vec(),
            Some(selector) => known.spell_out(selector, symbols).to_vec(),
        };
        namespaces.extend_from_slice(&term.namespaces);
        namespaces.sort_unstable();
        namespaces.dedup();
        Self {
            topology_key: term.topology_key,
            meant: PodMatch { namespaces, selector: term.selector.clone() },
            namespace_selector: term.namespace_selector.clone(),
        }
    }

    /// The question that counts the pods which this term means.
    pub(super) fn question(&self) -> Question {
        Question { matches: vec![self.meant.clone()], skip_terminating: false }
    }

    pub(super) fn matches(&self, pod: &Pod, known: &Namespaces, symbols: &Symbols) -> bool {
        if known.is_inhabited(pod.namespace) || self.meant.namespaces.binary_search(&pod.namespace).is_ok() {
            return self.meant.matches(pod);
        }
        let selects =
            |namespaces: &LabelSelector| selects_all(namespaces) || known.selects(namespaces, pod.namespace, symbols);
        self.meant.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
            && self.namespace_selector.as_ref().is_some_and(selects)
    }
}

/// Kubernetes lists the namespaces that the selector of an own term matches, and then also compares the selector with no
/// labels at all, whatever the pod's namespace: `env NotIn (prod)` reaches pods in `env=prod`, too.
fn selects_all(namespaces: &LabelSelector) -> bool {
    namespaces.matches(&[])
}

/// The question that counts the pods which all of `terms` mean.
pub(super) fn question_of_all(terms: &[OwnTerm]) -> Question {
    Question { matches: terms.iter().map(|term| term.meant.clone()).collect(), skip_terminating: false }
}

/// What is wrong with selectors that the API server should not have let through.
pub(super) fn parse_error(affinity: &PodAffinity) -> Option<String> {
    let required = first_error("requiredAffinityTerms", affinity.required.iter());
    let anti_required = first_error("requiredAntiAffinityTerms", affinity.anti_required.iter());
    let preferred = first_error("preferredAffinityTerms", affinity.preferred.iter().map(|it| &it.term));
    let anti_preferred = first_error("preferredAntiAffinityTerms", affinity.anti_preferred.iter().map(|it| &it.term));
    let errors: Vec<String> = [required, anti_required, preferred, anti_preferred].into_iter().flatten().collect();
    match errors.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

fn first_error<'a>(kind: &str, terms: impl Iterator<Item = &'a PodTerm>) -> Option<String> {
    let mut selectors = terms.flat_map(|term| [&term.selector, &term.namespace_selector]).flatten();
    let error = selectors.find_map(|selector| selector.error.as_ref())?;
    Some(format!("{kind}: {error}"))
}
