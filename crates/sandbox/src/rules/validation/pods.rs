//! Rules for pods: the required parts of a new pod, and the parts that may change later.

use std::collections::HashSet;

use berth_model::quantity::Quantity;
use serde_json::Value;

use crate::fields::FieldError;
use crate::fields::json::{as_map, child_mut, items, text};
use crate::fields::names::{check_labels, label_errors, qualified_name_errors};
use crate::fields::pods::containers;

const CLOSED: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Checks a new pod.
pub(super) fn create(pod: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if items(pod, "/spec/containers").is_empty() {
        errors.push(FieldError::required("spec.containers", ""));
    }
    check_containers(pod, &mut errors);
    let policy = text(pod, "/spec/restartPolicy");
    if !matches!(policy, "Always" | "OnFailure" | "Never") {
        let supported = ["Always", "OnFailure", "Never"];
        errors.push(FieldError::not_supported("spec.restartPolicy", &policy.into(), &supported));
    }
    check_labels(pod.pointer("/spec/nodeSelector"), "spec.nodeSelector", &mut errors);
    check_affinity(pod, &mut errors);
    if !text(pod, "/spec/nodeName").is_empty() && !items(pod, "/spec/schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden("spec.nodeName", detail));
    }
    check_tolerations(pod, &mut errors);
    check_spread(pod, &mut errors);
    errors
}

/// Checks a changed pod. Only a few fields of its spec may change.
pub(super) fn update(pod: &Value, current: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_gates(pod, current, &mut errors);
    if !errors.is_empty() {
        return errors;
    }
    let gated = !items(current, "/spec/schedulingGates").is_empty();
    if gated {
        check_node_selector(pod, current, &mut errors);
        if !errors.is_empty() {
            return errors;
        }
    }
    if comparable(pod, gated) != comparable(current, gated) || !keeps_tolerations(pod, current) {
        errors.push(FieldError::forbidden("spec", CLOSED));
    }
    check_containers(pod, &mut errors);
    errors
}

/// The spec without the fields that may change.
fn comparable(pod: &Value, gated: bool) -> Value {
    let mut spec = pod.get("spec").cloned().unwrap_or_default();
    let members = as_map(&mut spec);
    for field in ["tolerations", "schedulingGates", "activeDeadlineSeconds"] {
        members.remove(field);
    }
    if gated {
        members.remove("nodeSelector");
        members.remove("affinity");
    }
    for list in ["containers", "initContainers"] {
        for container in members.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            as_map(container).remove("image");
            let _ = child_mut(container, "resources");
        }
    }
    spec
}

fn keeps_tolerations(pod: &Value, current: &Value) -> bool {
    let kept = items(pod, "/spec/tolerations");
    items(current, "/spec/tolerations").iter().all(|toleration| kept.contains(toleration))
}

fn check_gates(pod: &Value, current: &Value, errors: &mut Vec<FieldError>) {
    let before = items(current, "/spec/schedulingGates");
    for (position, gate) in items(pod, "/spec/schedulingGates").iter().enumerate() {
        if !before.contains(gate) {
            let name = text(gate, "/name");
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.push(FieldError::forbidden(format!("spec.schedulingGates[{position}].name"), &detail));
        }
    }
}

fn check_node_selector(pod: &Value, current: &Value, errors: &mut Vec<FieldError>) {
    let selector = pod.pointer("/spec/nodeSelector");
    let before = current.pointer("/spec/nodeSelector").and_then(Value::as_object);
    let kept = |(key, value): (&String, &Value)| selector.and_then(|selector| selector.get(key)) == Some(value);
    if !before.into_iter().flatten().all(kept) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.push(FieldError::invalid("spec.nodeSelector", selector.unwrap_or(&Value::Null), detail));
    }
}

fn check_containers(pod: &Value, errors: &mut Vec<FieldError>) {
    let mut names = HashSet::new();
    for (path, container) in containers(pod, &["containers", "initContainers"]) {
        let name = text(container, "/name");
        if name.is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        } else {
            let complaints = label_errors(name);
            errors.extend(complaints.iter().map(|why| FieldError::invalid(format!("{path}.name"), &name.into(), why)));
            if !names.insert(name) {
                errors.push(FieldError::duplicate(format!("{path}.name"), &format!("\"{name}\"")));
            }
        }
        if text(container, "/image").is_empty() {
            errors.push(FieldError::required(format!("{path}.image"), ""));
        }
        check_resources(&path, container, errors);
    }
}

fn check_resources(path: &str, container: &Value, errors: &mut Vec<FieldError>) {
    let requests = container.pointer("/resources/requests").and_then(Value::as_object);
    for (resource, request) in requests.into_iter().flatten() {
        let limit = container.pointer("/resources/limits").and_then(|limits| limits.get(resource));
        let amount = |value: Option<&Value>| value.and_then(Value::as_str)?.parse::<Quantity>().ok();
        if let (Some(requested), Some(allowed)) = (amount(Some(request)), amount(limit))
            && requested > allowed
        {
            let limit = limit.and_then(Value::as_str).unwrap_or_default();
            let detail = format!("must be less than or equal to {resource} limit of {limit}");
            errors.push(FieldError::invalid(format!("{path}.resources.requests"), request, &detail));
        }
    }
}

fn check_affinity(pod: &Value, errors: &mut Vec<FieldError>) {
    const OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = items(pod, &format!("/spec/affinity/nodeAffinity/{REQUIRED}/nodeSelectorTerms"));
    for (term_position, term) in terms.iter().enumerate() {
        for (position, requirement) in items(term, "/matchExpressions").iter().enumerate() {
            let operator = text(requirement, "/operator");
            if !OPERATORS.contains(&operator) {
                let field = format!(
                    "spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[{term_position}].matchExpressions[{position}].operator"
                );
                errors.push(FieldError::invalid(field, &operator.into(), "not a valid selector operator"));
            }
        }
    }
    for side in ["podAffinity", "podAntiAffinity"] {
        for (position, term) in items(pod, &format!("/spec/affinity/{side}/{REQUIRED}")).iter().enumerate() {
            let key = text(term, "/topologyKey");
            let field = format!("spec.affinity.{side}.{REQUIRED}[{position}].topologyKey");
            if key.is_empty() {
                errors.push(FieldError::required(field.clone(), "can not be empty"));
            }
            let complaints = qualified_name_errors(key);
            errors.extend(complaints.iter().map(|why| FieldError::invalid(field.clone(), &key.into(), why)));
        }
    }
}

fn check_tolerations(pod: &Value, errors: &mut Vec<FieldError>) {
    for (position, toleration) in items(pod, "/spec/tolerations").iter().enumerate() {
        let field = format!("spec.tolerations[{position}]");
        let (key, operator) = (text(toleration, "/key"), text(toleration, "/operator"));
        let value = text(toleration, "/value");
        if key.is_empty() && operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(format!("{field}.operator"), &operator.into(), detail));
        }
        if operator == "Exists" && !value.is_empty() {
            let detail = "value must be empty when `operator` is 'Exists'";
            errors.push(FieldError::invalid(format!("{field}.operator"), &value.into(), detail));
        }
        if !matches!(operator, "" | "Equal" | "Exists" | "Lt" | "Gt") {
            let supported = ["Equal", "Exists"];
            errors.push(FieldError::not_supported(format!("{field}.operator"), &operator.into(), &supported));
        }
    }
}

fn check_spread(pod: &Value, errors: &mut Vec<FieldError>) {
    for (position, constraint) in items(pod, "/spec/topologySpreadConstraints").iter().enumerate() {
        let field = format!("spec.topologySpreadConstraints[{position}]");
        let skew = constraint.get("maxSkew").and_then(Value::as_i64).unwrap_or(0);
        if skew <= 0 {
            errors.push(FieldError::invalid(format!("{field}.maxSkew"), &skew.into(), "must be greater than zero"));
        }
        if text(constraint, "/topologyKey").is_empty() {
            errors.push(FieldError::required(format!("{field}.topologyKey"), "can not be empty"));
        }
        let action = text(constraint, "/whenUnsatisfiable");
        if !matches!(action, "DoNotSchedule" | "ScheduleAnyway") {
            let supported = ["DoNotSchedule", "ScheduleAnyway"];
            errors.push(FieldError::not_supported(format!("{field}.whenUnsatisfiable"), &action.into(), &supported));
        }
    }
}
