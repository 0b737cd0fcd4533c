//! The affinity terms of the incoming pod, which is being scheduled. Each cycle turns their namespace selectors into
//! lists of namespaces.

use berth_model::{
    Pod, Sym, Symbols,
    pod::{LabelSelector, PodAffinity, PodTerm},
};

use super::namespaces::Namespaces;
use crate::pod_counts::{PodMatch, PodQuery};

/// A term of the incoming pod.
#[derive(Debug)]
pub(super) struct IncomingTerm {
    pub(super) topology_key: Sym,
    /// The pods that match, in the namespaces where pods have been placed.
    pods: PodMatch,
    /// The selector for pods in namespaces that have had no pods. Only a dry run adds such pods.
    namespace_selector: Option<LabelSelector>,
}

impl IncomingTerm {
    pub(super) fn new(term: &PodTerm, known: &mut Namespaces, symbols: &Symbols) -> Self {
        let mut namespaces = match &term.namespace_selector {
            None => Vec::new(),
            Some(selector) if matches_all(selector) => known.with_pods().to_vec(),
            Some(selector) => known.matching(selector, symbols).to_vec(),
        };
        namespaces.extend_from_slice(&term.namespaces);
        namespaces.sort_unstable();
        namespaces.dedup();
        Self {
            topology_key: term.topology_key,
            pods: PodMatch { namespaces, selector: term.selector.clone() },
            namespace_selector: term.namespace_selector.clone(),
        }
    }

    /// The query that counts the pods that match this term.
    pub(super) fn query(&self) -> PodQuery {
        PodQuery { matches: vec![self.pods.clone()], skip_terminating: false }
    }

    pub(super) fn matches(&self, pod: &Pod, known: &Namespaces, symbols: &Symbols) -> bool {
        if known.has_pods(pod.namespace) || self.pods.namespaces.binary_search(&pod.namespace).is_ok() {
            return self.pods.matches(pod);
        }
        let matches_namespace =
            |selector: &LabelSelector| matches_all(selector) || known.matches(selector, pod.namespace, symbols);
        self.pods.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
            && self.namespace_selector.as_ref().is_some_and(matches_namespace)
    }
}

/// Whether a namespace selector of the incoming pod matches every namespace. A selector that matches an empty set of
/// labels matches every namespace. For example, `env NotIn (prod)` also matches namespaces with `env=prod`.
///
/// kube-scheduler lists the namespaces that match a namespace selector. It then compares the selector with the labels
/// of each pod's namespace, but passes no labels (`getIncomingAffinityAntiAffinityCounts` in
/// `pkg/scheduler/framework/plugins/interpodaffinity/filtering.go`).
fn matches_all(namespace_selector: &LabelSelector) -> bool {
    namespace_selector.matches(&[])
}

/// The query that counts the pods that match all of `terms`.
pub(super) fn query_for_all(terms: &[IncomingTerm]) -> PodQuery {
    PodQuery { matches: terms.iter().map(|term| term.pods.clone()).collect(), skip_terminating: false }
}

/// The error if some selectors of the pod do not parse. The API server refuses such pods.
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
