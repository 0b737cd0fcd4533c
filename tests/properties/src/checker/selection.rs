//! The nodes that a pod asks for, and the nodes that reject the pod.
//!
//! <https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/>,
//! <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/>.

use serde_json::Value;

use super::{items, text};

/// The value of a label.
pub(super) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"].get(key).and_then(Value::as_str)
}

fn meets(value: Option<&str>, requirement: &Value) -> bool {
    let values: Vec<&str> = items(requirement, "/values").iter().filter_map(Value::as_str).collect();
    let number = |text: &str| text.parse::<i64>().ok();
    let compare = |is_right: fn(i64, i64) -> bool| {
        let (have, want) = (value.and_then(number), values.first().copied().and_then(number));
        have.zip(want).is_some_and(|(have, want)| is_right(have, want))
    };
    match text(requirement, "/operator") {
        "In" => value.is_some_and(|value| values.contains(&value)),
        "NotIn" => value.is_none_or(|value| !values.contains(&value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(|have, want| have > want),
        "Lt" => compare(|have, want| have < want),
        other => panic!("no operator: {other}"),
    }
}

/// A label selector on labels. An absent selector selects nothing, and an empty selector selects everything.
pub(super) fn selects(selector: &Value, object: &Value) -> bool {
    if selector.is_null() {
        return false;
    }
    let equal = |(key, value): (&String, &Value)| label(object, key) == value.as_str();
    let expressions = items(selector, "/matchExpressions");
    // A requirement with an empty list of values is invalid, and so is the whole selector.
    let parses = |it: &Value| !["In", "NotIn"].contains(&text(it, "/operator")) || !items(it, "/values").is_empty();
    expressions.iter().all(parses)
        && selector["matchLabels"].as_object().into_iter().flatten().all(equal)
        && expressions.iter().all(|it| meets(label(object, text(it, "/key")), it))
}

/// Whether one of the terms of a node selector holds.
pub(super) fn selects_node(selector: &Value, node: &Value) -> bool {
    items(selector, "/nodeSelectorTerms").iter().any(|term| {
        let (labels, fields) = (items(term, "/matchExpressions"), items(term, "/matchFields"));
        !(labels.is_empty() && fields.is_empty())
            && labels.iter().all(|it| meets(label(node, text(it, "/key")), it))
            && fields.iter().all(|it| meets(Some(text(node, "/metadata/name")), it))
    })
}

/// `nodeSelector` and required node affinity.
pub(super) fn is_wanted(pod: &Value, node: &Value) -> bool {
    let equal = |(key, value): (&String, &Value)| label(node, key) == value.as_str();
    let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    pod["spec"]["nodeSelector"].as_object().into_iter().flatten().all(equal)
        && (required.is_null() || selects_node(required, node))
}

fn tolerates(pod: &Value, key: &str, value: &str, effect: &str) -> bool {
    items(pod, "/spec/tolerations").iter().any(|toleration| {
        let of_key = ["", key].contains(&text(toleration, "/key"));
        let of_effect = ["", effect].contains(&text(toleration, "/effect"));
        let of_value = text(toleration, "/operator") == "Exists" || text(toleration, "/value") == value;
        of_key && of_effect && of_value
    })
}

/// The taints that reject the pod. A cordoned node counts as tainted.
pub(super) fn repellent_taints(pod: &Value, node: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    for taint in items(node, "/spec/taints") {
        let (key, value, effect) = (text(taint, "/key"), text(taint, "/value"), text(taint, "/effect"));
        if effect != "PreferNoSchedule" && !tolerates(pod, key, value, effect) {
            broken.push(format!("taint {key}={value}:{effect} is not tolerated"));
        }
    }
    let is_cordoned = node["spec"]["unschedulable"] == true;
    if is_cordoned && !tolerates(pod, "node.kubernetes.io/unschedulable", "", "NoSchedule") {
        broken.push("the node is cordoned".to_owned());
    }
    broken
}
