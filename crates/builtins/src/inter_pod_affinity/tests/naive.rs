//! The rules of inter-pod affinity as the Kubernetes documentation states them, pod by pod and node by node, on strings
//! (<https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/>).

use std::collections::BTreeMap;

use berth_model::api::{LabelSelector, NodeSelectorRequirement, Pod, PodAffinity, PodAffinityTerm, StringMap};

use super::two_form_cluster::ApiObjects;

pub(super) const AFFINITY: &str = "UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules";
pub(super) const OWN_ANTI: &str = "Unschedulable: node(s) didn't match pod anti-affinity rules";
pub(super) const OTHERS_ANTI: &str = "Unschedulable: node(s) didn't satisfy existing pods anti-affinity rules";

fn meets(requirement: &NodeSelectorRequirement, labels: &StringMap) -> bool {
    let value = labels.get(&requirement.key);
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|value| requirement.values.contains(value)),
        "NotIn" => !value.is_some_and(|value| requirement.values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        other => panic!("operator {other}"),
    }
}

fn selects(selector: Option<&LabelSelector>, labels: &StringMap) -> bool {
    selector.is_some_and(|selector| {
        selector.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && selector.match_expressions.iter().all(|requirement| meets(requirement, labels))
    })
}

/// Whether `term` of `owner` lists the namespace of `pod`, or covers it by default.
fn names_namespace(term: &PodAffinityTerm, owner: &Pod, pod: &Pod) -> bool {
    let namespace = &pod.metadata.namespace;
    let is_default = term.namespaces.is_empty() && term.namespace_selector.is_none();
    term.namespaces.contains(namespace) || (is_default && *namespace == owner.metadata.namespace)
}

/// Whether a term of the existing pod `owner` matches the incoming pod `pod`.
fn existing_term_matches(cluster: &ApiObjects, term: &PodAffinityTerm, owner: &Pod, pod: &Pod) -> bool {
    let namespace_labels = cluster.namespaces.get(&pod.metadata.namespace).cloned().unwrap_or_default();
    (names_namespace(term, owner, pod) || selects(term.namespace_selector.as_ref(), &namespace_labels))
        && selects(term.label_selector.as_ref(), &pod.metadata.labels)
}

/// Whether a term of the incoming pod `owner` matches `pod`. The namespace selector is applied to namespaces that
/// exist. Recorded answers of kube-scheduler show that the selector is also applied to an empty set of labels, although
/// the documentation does not mention it.
fn incoming_term_matches(cluster: &ApiObjects, term: &PodAffinityTerm, owner: &Pod, pod: &Pod) -> bool {
    let selector = term.namespace_selector.as_ref();
    let listed = cluster.namespaces.get(&pod.metadata.namespace).is_some_and(|labels| selects(selector, labels));
    (names_namespace(term, owner, pod) || listed || selects(selector, &StringMap::new()))
        && selects(term.label_selector.as_ref(), &pod.metadata.labels)
}

fn affinity(pod: &Pod) -> Option<&PodAffinity> {
    pod.spec.affinity.as_ref()?.pod_affinity.as_ref()
}

fn anti_affinity(pod: &Pod) -> Option<&PodAffinity> {
    pod.spec.affinity.as_ref()?.pod_anti_affinity.as_ref()
}

fn required(affinity: Option<&PodAffinity>) -> &[PodAffinityTerm] {
    affinity.map_or(&[], |affinity| &affinity.required)
}

/// Terms with their weights.
fn preferred(affinity: Option<&PodAffinity>) -> impl Iterator<Item = (&PodAffinityTerm, i64)> {
    affinity.into_iter().flat_map(|it| &it.preferred).map(|it| (&it.pod_affinity_term, it.weight.into()))
}

/// The value of `key` if both nodes have the same value.
fn together(cluster: &ApiObjects, key: &str, one: u32, other: u32) -> bool {
    let value = |node| cluster.nodes.get(&node).and_then(|labels| labels.get(key));
    value(one).is_some() && value(one) == value(other)
}

/// The reason why `node` does not pass; empty if the node passes.
pub(super) fn verdict(cluster: &ApiObjects, pod: &Pod, node: u32) -> &'static str {
    let terms = required(affinity(pod));
    let matches_all = |other: &Pod| terms.iter().all(|term| incoming_term_matches(cluster, term, pod, other));
    let has_key = |node: u32, key: &str| cluster.nodes.get(&node).is_some_and(|labels| labels.contains_key(key));
    let matching: Vec<u32> = cluster.pods.values().filter(|(other, _)| matches_all(other)).map(|(_, on)| *on).collect();
    let is_near = |term: &PodAffinityTerm| matching.iter().any(|on| together(cluster, &term.topology_key, *on, node));
    let is_first =
        matches_all(pod) && !matching.iter().any(|on| terms.iter().any(|term| has_key(*on, &term.topology_key)));
    let has_keys = terms.iter().all(|term| has_key(node, &term.topology_key));
    if !has_keys || !(terms.iter().all(is_near) || is_first) {
        return AFFINITY;
    }
    for (other, on) in cluster.pods.values() {
        let hits = |term: &PodAffinityTerm| {
            together(cluster, &term.topology_key, *on, node) && incoming_term_matches(cluster, term, pod, other)
        };
        if required(anti_affinity(pod)).iter().any(hits) {
            return OWN_ANTI;
        }
    }
    if cluster.pods.values().any(|(other, on)| repels(cluster, (other, *on), (pod, node))) {
        return OTHERS_ANTI;
    }
    ""
}

/// Whether required anti-affinity of an existing pod keeps the incoming pod off the node.
pub(super) fn repels(cluster: &ApiObjects, (placed, on): (&Pod, u32), (pod, node): (&Pod, u32)) -> bool {
    required(anti_affinity(placed)).iter().any(|term| {
        together(cluster, &term.topology_key, on, node) && existing_term_matches(cluster, term, placed, pod)
    })
}

/// Whether PreFilter returns Skip.
pub(super) fn skips(cluster: &ApiObjects, pod: &Pod) -> bool {
    let repelled =
        |(other, on): &(Pod, u32)| cluster.nodes.keys().any(|node| repels(cluster, (other, *on), (pod, *node)));
    required(affinity(pod)).is_empty()
        && required(anti_affinity(pod)).is_empty()
        && !cluster.pods.values().any(repelled)
}

/// The raw score of every node; `None` if no term matches a pod.
pub(super) fn scores(cluster: &ApiObjects, pod: &Pod, required_weight: i64, ignores_others: bool) -> Option<Vec<i64>> {
    let own: Vec<(&PodAffinityTerm, i64)> =
        preferred(affinity(pod)).chain(preferred(anti_affinity(pod)).map(|(term, weight)| (term, -weight))).collect();
    if ignores_others && own.is_empty() {
        return None;
    }
    let mut sums: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for (other, on) in cluster.pods.values() {
        let Some(labels) = cluster.nodes.get(on) else { continue };
        let mut add = |term: &'_ PodAffinityTerm, weight: i64| {
            if let Some((key, value)) = labels.get_key_value(&term.topology_key) {
                *sums.entry((key, value)).or_default() += weight;
            }
        };
        for (term, weight) in own.iter().filter(|(term, _)| incoming_term_matches(cluster, term, pod, other)) {
            add(term, *weight);
        }
        let existing = required(affinity(other)).iter().map(|term| (term, required_weight));
        let existing = existing.filter(|_| required_weight > 0);
        let existing = existing.chain(preferred(affinity(other)));
        let existing = existing.chain(preferred(anti_affinity(other)).map(|(term, weight)| (term, -weight)));
        for (term, weight) in existing.filter(|(term, _)| existing_term_matches(cluster, term, other, pod)) {
            add(term, weight);
        }
    }
    let score = |labels: &StringMap| -> i64 {
        let here = sums.iter().filter(|((key, value), _)| labels.get(*key).is_some_and(|it| it == value));
        here.map(|(_, sum)| sum).sum()
    };
    (!sums.is_empty()).then(|| cluster.nodes.values().map(score).collect())
}
