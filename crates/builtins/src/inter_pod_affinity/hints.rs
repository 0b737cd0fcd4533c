//! Queueing hints: the events that may help a pod with unmet required terms
//! (`pkg/scheduler/framework/plugins/interpodaffinity/plugin.go` in kube-scheduler).
//!
//! As in kube-scheduler, a namespace selector is compared with an empty set of labels. Therefore, if terms match a
//! pod's namespace only by the namespace's labels, a change of the pod does not retry the pods with these terms.

use berth_framework::{EventSubject, HintCall};
use berth_model::{Feature, Features, Node, Pod, Sym, pod::PodTerm};

use crate::hints::{has_place, is_own_update};

pub(super) fn may_help(call: &HintCall<'_>, features: Features) -> bool {
    match call.subject {
        EventSubject::Pod { old, new } => is_own_update(call) || pod_may_help(call.pod, old, new, features),
        EventSubject::Node { old, new: Some(new) } => node_may_help(call.pod, old, new),
        EventSubject::Node { .. } | EventSubject::Object { .. } | EventSubject::Hidden => true,
    }
}

fn pod_may_help(pod: &Pod, old: Option<&Pod>, new: Option<&Pod>, features: Features) -> bool {
    let match_anti = if features.has(Feature::AnyAntiAffinityTermWakesPods) { match_any } else { match_all };
    if !old.into_iter().chain(new).all(has_place) {
        return false;
    }
    let (terms, anti_terms) = (&pod.affinity.required, &pod.affinity.anti_required);
    match (old, new) {
        (Some(old), Some(new)) => {
            (!match_all(terms, old) && match_all(terms, new))
                || (match_anti(anti_terms, old) && !match_anti(anti_terms, new))
        }
        (None, Some(new)) => match_all(terms, new),
        (Some(old), None) => match_anti(anti_terms, old) || match_anti(&old.affinity.anti_required, pod),
        (None, None) => true,
    }
}

/// Whether the pod matches all of the terms. No pod matches an empty list.
fn match_all(terms: &[PodTerm], pod: &Pod) -> bool {
    !terms.is_empty() && terms.iter().all(|term| matches(term, pod))
}

/// Whether the pod matches at least one of the terms.
fn match_any(terms: &[PodTerm], pod: &Pod) -> bool {
    terms.iter().any(|term| matches(term, pod))
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

#[cfg(test)]
mod tests {
    use berth_model::{Release, api};
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::TestCluster;

    /// Whether a pod with these terms is tried again after an event about another pod, which has a node. The first
    /// answer is for release 1.36, and the second for release 1.37.
    fn may_help_pod(terms: &Value, old: Option<&Value>, new: Option<&Value>) -> [bool; 2] {
        let mut cluster = TestCluster::default();
        let mut pod = |labels: &Value, terms: &Value, node: &str| {
            let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
            let metadata = json!({"name": "p", "namespace": "default", "labels": labels});
            let pod = json!({"metadata": metadata, "spec": {"affinity": affinity, "nodeName": node}});
            cluster.intern(&serde_json::from_value::<api::Pod>(pod).unwrap())
        };
        let target = pod(&json!({"app": "target"}), terms, "");
        let [old, new] = [old, new].map(|labels| labels.map(|labels| pod(labels, &json!([]), "n")));
        Release::ALL.map(|release| pod_may_help(&target, old.as_ref(), new.as_ref(), Features::of(release)))
    }

    /// A term about pods with this value of a label.
    fn term(key: &str, value: &str) -> Value {
        json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {key: value}}})
    }

    #[test]
    fn a_pod_that_leaves_helps_if_it_matched_any_anti_affinity_term_from_1_37_on() {
        let two_terms = json!([term("app", "web"), term("tier", "db")]);
        let (both, one, none) = (json!({"app": "web", "tier": "db"}), json!({"app": "web"}), json!({"app": "other"}));
        assert_eq!(may_help_pod(&two_terms, Some(&one), None), [false, true]);
        assert_eq!(may_help_pod(&two_terms, Some(&both), None), [true, true]);
        assert_eq!(may_help_pod(&two_terms, Some(&none), None), [false, false]);
        // In 1.37, a change of labels helps if the pod then matches no term. In 1.36, the pod must stop matching only
        // one term.
        assert_eq!(may_help_pod(&two_terms, Some(&one), Some(&none)), [false, true]);
        assert_eq!(may_help_pod(&two_terms, Some(&both), Some(&one)), [true, false]);
    }
}
