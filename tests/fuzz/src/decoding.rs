//! Objects, quantities and selectors, each decoded from its text.

use std::str;

use berth_model::{
    Features, Release, Symbols,
    api::{self, ResourceList, StringMap},
    intern,
    quantity::Quantity,
    requests::{self, Resizes},
    selector::{LabelMatcher, NodeMatcher, PreferredMatcher},
    toleration::first_untolerated,
};
use serde::Deserialize;

/// One object, read as a pod and as a node.
pub(crate) fn objects(bytes: &[u8]) {
    let mut symbols = Symbols::default();
    if let Ok(pod) = serde_json::from_slice::<api::Pod>(bytes) {
        intern::pod(&pod, Features::default(), &mut symbols);
        let _ = requests::pod_limits(&pod);
        let _ = requests::scoring_requests(&pod);
        let _ = Release::ALL.map(|release| requests::balanced_requests(&pod, Resizes::of(Features::of(release))));
        pod.spec.topology_spread_constraints.iter().for_each(|constraint| {
            intern::spread_constraint(constraint, &StringMap::new(), &mut symbols.of_object());
        });
    }
    if let Ok(node) = serde_json::from_slice::<api::Node>(bytes) {
        intern::node(&node, &mut symbols);
        let _ = first_untolerated(&node.spec.taints, &[api::Toleration::default()], true);
    }
    if let Ok(list) = serde_json::from_slice::<ResourceList>(bytes) {
        let _ = requests::allocatable(&list);
    }
}

/// Two quantities, one per line.
pub(crate) fn quantity(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let mut read = text.splitn(2, '\n').map(str::parse::<Quantity>);
    let Some(Ok(first)) = read.next() else { return };
    look_at(&first);
    let Some(Ok(second)) = read.next() else { return };
    look_at(&second);
    look_at(&(&first + &second));
    look_at(&(&first - &second));
    assert_eq!(first.cmp(&second), second.cmp(&first).reverse());
    assert_eq!(first == second, first.cmp(&second).is_eq());
}

/// Values out of range wrap as in Kubernetes. Texts and comparisons must work with such values.
fn look_at(quantity: &Quantity) {
    let _ = (quantity.value(), quantity.milli_value(), quantity.format());
    assert_eq!(quantity.is_zero(), quantity.signum() == 0, "{quantity}");
    assert!(quantity.widened() == *quantity, "{quantity}");
    assert!(quantity.to_string().parse::<Quantity>().is_ok(), "{quantity} does not read back");
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Selectors {
    label_selector: Option<api::LabelSelector>,
    node_selector: api::NodeSelector,
    preferred: Vec<api::PreferredSchedulingTerm>,
    node_name: String,
    labels: StringMap,
}

/// Selectors of all kinds, matched and printed.
pub(crate) fn selectors(bytes: &[u8]) {
    let Ok(case) = serde_json::from_slice::<Selectors>(bytes) else { return };
    let mut symbols = Symbols::default();
    if let Ok(matcher) = LabelMatcher::compile(case.label_selector.as_ref()) {
        let _ = matcher.matches(&case.labels);
        let _ = matcher.to_string();
    }
    intern::label_selector(case.label_selector.as_ref(), &mut symbols.of_object());
    let matcher = NodeMatcher::compile(&case.node_selector);
    let is_valid = matcher.validate().is_ok();
    let matched = matcher.matches(&case.node_name, &case.labels);
    assert!(!is_valid || matched.is_ok(), "a valid selector that does not match for an error");
    if let Ok(matcher) = PreferredMatcher::compile(&case.preferred) {
        let _ = matcher.score(&case.node_name, &case.labels);
    }
    let affinity = api::NodeAffinity { required: Some(case.node_selector), preferred: Some(case.preferred) };
    intern::node_affinity(Some(&affinity), &mut symbols.of_object());
}
