//! Queueing hints: which events may help a pod whose required terms were not met
//! (`pkg/scheduler/framework/plugins/interpodaffinity/plugin.go` in kube-scheduler).
//!
//! As there, a namespace selector is compared with no labels at all. So a change of a pod does not retry pods whose terms
//! match its namespace only by the namespace's labels.

use berth_framework::{EventSubject, HintCall};
use berth_model::{Node, Pod, Sym, pod::PodTerm};

use crate::hints::{has_place, is_own_update};

pub(super) fn may_help(call: &HintCall<'_>) -> bool {
    match call.subject {
        EventSubject::Pod { old, new } => is_own_update(call) || pod_may_help(call.pod, old, new),
        EventSubject::Node { old, new: Some(new) } => node_may_help(call.pod, old, new),
        EventSubject::Node { .. } | EventSubject::Object { .. } | EventSubject::Hidden => true,
    }
}

fn pod_may_help(pod: &Pod, old: Option<&Pod>, new: Option<&Pod>) -> bool {
    if !old.into_iter().chain(new).all(has_place) {
        return false;
    }
    let (terms, anti_terms) = (&pod.affinity.required, &pod.affinity.anti_required);
    match (old, new) {
        (Some(old), Some(new)) => {
            (!match_all(terms, old) && match_all(terms, new))
                || (match_all(anti_terms, old) && !match_all(anti_terms, new))
        }
        (None, Some(new)) => match_all(terms, new),
        (Some(old), None) => match_all(anti_terms, old) || match_all(&old.affinity.anti_required, pod),
        (None, None) => true,
    }
}

/// Whether the pod matches all of the terms; it matches none if there are none.
fn match_all(terms: &[PodTerm], pod: &Pod) -> bool {
    !terms.is_empty() && terms.iter().all(|term| matches(term, pod))
}

fn matches(term: &PodTerm, pod: &Pod) -> bool {
    let in_namespace = term.namespaces.contains(&pod.namespace)
        || term.namespace_selector.as_ref().is_some_and(|selector| selector.matches(&[]));
    in_namespace && term.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
}

fn node_may_help(pod: &Pod, old: Option<&Node>, new: &Node) -> bool {
    let Some(old) = old else {
        let has_key = |term: &PodTerm| new.label(term.topology_key).is_some();
        return !pod.affinity.anti_required.is_empty() || pod.affinity.required.iter().any(has_key);
    };
    let changed = |key: Sym| (old.label(key), new.label(key));
    let gained = |term: &PodTerm| match changed(term.topology_key) {
        (None, now) => now.is_some(),
        (Some(before), Some(now)) => before != now,
        (Some(_), None) => false,
    };
    let lost = |term: &PodTerm| match changed(term.topology_key) {
        (Some(before), now) => now != Some(before),
        (None, _) => false,
    };
    pod.affinity.required.iter().any(gained) || pod.affinity.anti_required.iter().any(lost)
}
