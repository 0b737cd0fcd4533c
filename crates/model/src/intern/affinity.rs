//! Spread constraints and inter-pod terms, with defaults filled in and with selectors merged and sorted.

use thin_vec::ThinVec;

use crate::{
    api,
    features::{Feature, Features},
    pod::{LabelSelector, Operator, PodAffinity, PodTerm, Requirement, SpreadConstraint, WeightedPodTerm},
    selector::LabelMatcher,
    symbols::{Interning, Sym},
};

/// Converts a label selector of the API. An absent selector stays absent.
pub fn label_selector(selector: Option<&api::LabelSelector>, symbols: &mut Interning<'_>) -> Option<LabelSelector> {
    let selector = selector?;
    if let Err(error) = LabelMatcher::compile(Some(selector)) {
        return Some(LabelSelector { requirements: Vec::new(), error: Some(error.to_string()) });
    }
    let mut requirements: Vec<Requirement> =
        selector.match_labels.iter().map(|(key, value)| equals(symbols.intern(key), symbols.intern(value))).collect();
    for written in &selector.match_expressions {
        let operator = match written.operator.as_str() {
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            _ => Operator::In,
        };
        let mut values: Vec<Sym> = written.values.iter().map(|value| symbols.intern(value)).collect();
        values.sort_unstable();
        requirements.push(Requirement { key: symbols.intern(&written.key), operator, values });
    }
    requirements.sort_unstable();
    requirements.dedup();
    Some(LabelSelector { requirements, error: None })
}

fn equals(key: Sym, value: Sym) -> Requirement {
    Requirement { key, operator: Operator::In, values: vec![value] }
}

/// Converts `spec.topologySpreadConstraints`. With the gate MatchLabelKeysInPodTopologySpread, the pod's own values for
/// `matchLabelKeys` become part of the selector.
pub(super) fn spread_constraints(
    pod: &api::Pod,
    features: Features,
    symbols: &mut Interning<'_>,
) -> ThinVec<SpreadConstraint> {
    let (constraints, no_labels) = (pod.spec.topology_spread_constraints.iter(), api::StringMap::new());
    let has_keys = features.has(Feature::MatchLabelKeysInPodTopologySpread);
    let labels = if has_keys { &pod.metadata.labels } else { &no_labels };
    constraints.map(|constraint| spread_constraint(constraint, labels, symbols)).collect()
}

/// Converts one constraint of a pod with these labels. For the constraints of a profile, `labels` is empty.
pub fn spread_constraint(
    constraint: &api::TopologySpreadConstraint,
    labels: &api::StringMap,
    symbols: &mut Interning<'_>,
) -> SpreadConstraint {
    let mut selector = label_selector(constraint.label_selector.as_ref(), symbols);
    for key in &constraint.match_label_keys {
        let Some(value) = labels.get(key) else { continue };
        let requirement = equals(symbols.intern(key), symbols.intern(value));
        let requirements = &mut selector.get_or_insert_default().requirements;
        if let Err(at) = requirements.binary_search(&requirement) {
            requirements.insert(at, requirement);
        }
    }
    SpreadConstraint {
        max_skew: constraint.max_skew,
        topology_key: symbols.intern(&constraint.topology_key),
        is_hard: constraint.when_unsatisfiable == "DoNotSchedule",
        selector,
        min_domains: constraint.min_domains.unwrap_or(1),
        honor_node_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
        honor_node_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
    }
}

pub(super) fn pod_affinity(pod: &api::Pod, symbols: &mut Interning<'_>) -> PodAffinity {
    let Some(affinity) = &pod.spec.affinity else { return PodAffinity::default() };
    let namespace = symbols.intern(&pod.metadata.namespace);
    let (required, preferred) = terms(affinity.pod_affinity.as_ref(), namespace, symbols);
    let (anti_required, anti_preferred) = terms(affinity.pod_anti_affinity.as_ref(), namespace, symbols);
    PodAffinity { required, preferred, anti_required, anti_preferred }
}

fn terms(
    affinity: Option<&api::PodAffinity>,
    namespace: Sym,
    symbols: &mut Interning<'_>,
) -> (ThinVec<PodTerm>, ThinVec<WeightedPodTerm>) {
    let Some(affinity) = affinity else { return Default::default() };
    let required = affinity.required.iter().map(|it| term(it, namespace, symbols)).collect();
    let preferred = affinity.preferred.iter();
    let preferred = preferred
        .map(|it| WeightedPodTerm { weight: it.weight, term: term(&it.pod_affinity_term, namespace, symbols) })
        .collect();
    (required, preferred)
}

fn term(term: &api::PodAffinityTerm, own_namespace: Sym, symbols: &mut Interning<'_>) -> PodTerm {
    let mut namespaces: Vec<Sym> = term.namespaces.iter().map(|name| symbols.intern(name)).collect();
    if namespaces.is_empty() && term.namespace_selector.is_none() {
        namespaces.push(own_namespace);
    }
    namespaces.sort_unstable();
    namespaces.dedup();
    PodTerm {
        namespaces,
        namespace_selector: label_selector(term.namespace_selector.as_ref(), symbols),
        selector: label_selector(term.label_selector.as_ref(), symbols),
        topology_key: symbols.intern(&term.topology_key),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::symbols::Symbols;

    #[test]
    fn label_keys_narrow_selectors_with_their_gate() {
        let constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {}, "matchLabelKeys": ["hash", "absent"]});
        let pod = json!({"metadata": {"labels": {"hash": "1"}}, "spec": {"topologySpreadConstraints": [constraint]}});
        let pod: api::Pod = serde_json::from_value(pod).unwrap();
        let n_requirements = |is_on| {
            let features = Features::default().with(Feature::MatchLabelKeysInPodTopologySpread, is_on);
            let pod = crate::intern::pod(&pod, features, &mut Symbols::default());
            let selectors = pod.topology_spread.iter().filter_map(|constraint| constraint.selector.as_ref());
            selectors.map(|selector| selector.requirements.len()).collect::<Vec<_>>()
        };
        assert_eq!((n_requirements(true), n_requirements(false)), (vec![1], vec![0]));
    }
}
