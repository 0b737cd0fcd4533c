//! Rules about other pods: required affinity both ways, and spreading.
//!
//! <https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity>,
//! <https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/>.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    Facts, items,
    selection::{is_wanted, label, repellent_taints, selects},
    text,
};
use crate::generate::objects::Kind;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

fn terms<'a>(pod: &'a Value, kind: &str) -> &'a [Value] {
    items(pod, &format!("/spec/affinity/{kind}/{REQUIRED}"))
}

/// Whether a term of `owner` matches `pod`, by its namespace and its labels.
fn means(facts: &Facts<'_>, term: &Value, owner: &Value, pod: &Value) -> bool {
    let namespace = text(pod, "/metadata/namespace");
    let (names, selector) = (items(term, "/namespaces"), &term["namespaceSelector"]);
    let listed = names.iter().any(|name| name == namespace);
    let of_owner = names.is_empty() && selector.is_null() && text(owner, "/metadata/namespace") == namespace;
    let key = (Kind::Namespace, String::new(), namespace.to_owned());
    // An unknown namespace counts as a namespace without labels.
    let selected = selects(selector, facts.objects.get(&key).unwrap_or(&Value::Null));
    (listed || of_owner || selected) && selects(&term["labelSelector"], pod)
}

fn domain<'a>(node: &'a Value, term: &Value) -> Option<&'a str> {
    label(node, text(term, "/topologyKey"))
}

/// The other pods and their nodes. A deleted node has no domain.
fn neighbours<'a>(facts: &Facts<'a>) -> impl Iterator<Item = (&'a Value, &'a Value)> {
    let nodes = facts.nodes;
    facts.placed.iter().filter_map(|(pod, node)| Some((*pod, nodes.get(*node)?)))
}

pub(super) fn affinity(facts: &Facts<'_>, pod: &Value, node: &Value) -> Vec<String> {
    let terms = terms(pod, "podAffinity");
    // The first pod of a group with affinity to its own kind may go to any domain. In kube-scheduler, this holds if no
    // pod that matches all terms is in any domain of the terms, and the pod itself matches all terms.
    let meets_all = |other: &Value| terms.iter().all(|term| means(facts, term, pod, other));
    let has_company = neighbours(facts)
        .any(|(other, place)| meets_all(other) && terms.iter().any(|term| domain(place, term).is_some()));
    let is_first = !has_company && meets_all(pod);
    let mut broken = Vec::new();
    for term in terms {
        let Some(here) = domain(node, term) else {
            broken.push(format!("the node is in no {}", text(term, "/topologyKey")));
            continue;
        };
        let near =
            |(other, place): (&Value, &Value)| domain(place, term) == Some(here) && means(facts, term, pod, other);
        if !is_first && !neighbours(facts).any(near) {
            broken.push(format!("no pod to be near to: {term}"));
        }
    }
    broken
}

pub(super) fn anti_affinity(facts: &Facts<'_>, pod: &Value, node: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    for term in terms(pod, "podAntiAffinity") {
        let Some(here) = domain(node, term) else { continue };
        let near =
            |(other, place): &(&Value, &Value)| domain(place, term) == Some(here) && means(facts, term, pod, other);
        broken.extend(
            neighbours(facts).filter(near).map(|(other, _)| format!("too near to {}: {term}", other["metadata"])),
        );
    }
    broken
}

/// The anti-affinity of existing pods against the incoming pod.
pub(super) fn anti_affinity_of_others(facts: &Facts<'_>, pod: &Value, node: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    for (other, place) in neighbours(facts) {
        for term in terms(other, "podAntiAffinity") {
            let here = domain(node, term);
            if here.is_some() && here == domain(place, term) && means(facts, term, other, pod) {
                broken.push(format!("{} does not want it near: {term}", other["metadata"]));
            }
        }
    }
    broken
}

/// The pod's own selector, with its values for `matchLabelKeys`.
fn counts(constraint: &Value, pod: &Value, other: &Value) -> bool {
    let keys = items(constraint, "/matchLabelKeys").iter().filter_map(Value::as_str);
    text(pod, "/metadata/namespace") == text(other, "/metadata/namespace")
        && selects(&constraint["labelSelector"], other)
        && keys.into_iter().all(|key| label(pod, key).is_none() || label(pod, key) == label(other, key))
}

/// A selector without requirements counts no pods in kube-scheduler.
fn asks_for_nothing(constraint: &Value, pod: &Value) -> bool {
    let selector = &constraint["labelSelector"];
    let keys = items(constraint, "/matchLabelKeys").iter().filter_map(Value::as_str);
    selector["matchLabels"].as_object().is_none_or(serde_json::Map::is_empty)
        && items(selector, "/matchExpressions").is_empty()
        && keys.into_iter().all(|key| label(pod, key).is_none())
}

pub(super) fn skew(facts: &Facts<'_>, pod: &Value, node: &Value) -> Vec<String> {
    let all = items(pod, "/spec/topologySpreadConstraints").iter();
    let hard: Vec<&Value> = all.filter(|it| text(it, "/whenUnsatisfiable") == "DoNotSchedule").collect();
    let mut broken = Vec::new();
    for constraint in &hard {
        let Some(here) = domain(node, constraint) else {
            broken.push(format!("the node is in no {}", text(constraint, "/topologyKey")));
            continue;
        };
        let is_eligible = |place: &Value| {
            hard.iter().all(|it| domain(place, it).is_some())
                && (text(constraint, "/nodeAffinityPolicy") == "Ignore" || is_wanted(pod, place))
                && (text(constraint, "/nodeTaintsPolicy") != "Honor" || is_untainted(pod, place))
        };
        let mut domains: BTreeMap<&str, i64> = BTreeMap::new();
        for place in facts.nodes.values().filter(|place| is_eligible(place)) {
            domains.entry(domain(place, constraint).unwrap_or_default()).or_default();
        }
        for (other, place) in neighbours(facts).filter(|(_, place)| is_eligible(place)) {
            if !asks_for_nothing(constraint, pod) && counts(constraint, pod, other) {
                *domains.entry(domain(place, constraint).unwrap_or_default()).or_default() += 1;
            }
        }
        let few = (domains.len() as u64) < constraint["minDomains"].as_u64().unwrap_or(1);
        let least = if few { 0 } else { domains.values().copied().min().unwrap_or(0) };
        let mine = domains.get(here).copied().unwrap_or(0) + i64::from(counts(constraint, pod, pod));
        if mine - least > constraint["maxSkew"].as_i64().unwrap_or(1) {
            broken.push(format!("{mine} pods in {here}, {least} elsewhere: {constraint}"));
        }
    }
    broken
}

/// A cordoned node does not count as tainted in the checker.
fn is_untainted(pod: &Value, node: &Value) -> bool {
    let mut open = node.clone();
    open["spec"]["unschedulable"] = Value::Bool(false);
    repellent_taints(pod, &open).is_empty()
}
