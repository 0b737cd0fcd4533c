//! Rules that an object must satisfy before it is stored: metadata for every kind, and the rules for pods, nodes,
//! priority classes and definitions that matter to users of a scheduler. Other kinds are only checked for the types of
//! their fields.

mod pods;

use serde_json::{Value, json};

use crate::fields::FieldError;
use crate::fields::json::{items, text};
use crate::fields::names::{check_labels, config_key_errors, label_errors, qualified_name_errors, subdomain_errors};
use crate::kinds::{Decoding, Kind};

/// The highest priority that users may set.
const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;

/// Checks a new object.
pub(crate) fn create(kind: &Kind, value: &Value) -> Vec<FieldError> {
    let mut errors = metadata(kind, value);
    if kind.is("scheduling.k8s.io", "priorityclasses") {
        new_priority_class(value, &mut errors);
    }
    if kind.is("events.k8s.io", "events") && text(value, "/eventTime").is_empty() {
        errors.push(FieldError::required("eventTime", ""));
    }
    errors.extend(content(kind, value));
    errors
}

/// Checks a changed object against its previous state.
pub(crate) fn update(kind: &Kind, subresource: &str, value: &Value, current: &Value) -> Vec<FieldError> {
    if subresource == "binding" {
        return Vec::new();
    }
    let mut errors = metadata(kind, value);
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") if subresource.is_empty() => errors.extend(pods::update(value, current)),
        ("", "pods") => {}
        ("", "nodes") => {
            errors.extend(content(kind, value));
            node_update(value, current, &mut errors);
        }
        ("scheduling.k8s.io", "priorityclasses") => {
            let changed = value.get("value") != current.get("value");
            if changed {
                errors.push(FieldError::forbidden("value", "may not be changed in an update."));
            }
            if value.get("preemptionPolicy") != current.get("preemptionPolicy") {
                let field = value.get("preemptionPolicy").unwrap_or(&Value::Null);
                errors.push(FieldError::invalid("preemptionPolicy", field, "field is immutable"));
            }
        }
        ("apiextensions.k8s.io", _) => {
            errors.extend(content(kind, value));
            if value.pointer("/spec/scope") != current.pointer("/spec/scope") {
                let scope = value.pointer("/spec/scope").unwrap_or(&Value::Null);
                errors.push(FieldError::invalid("spec.scope", scope, "field is immutable"));
            }
        }
        _ => errors.extend(content(kind, value)),
    }
    errors
}

fn metadata(kind: &Kind, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = text(value, "/metadata/name");
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        let complaints = match (kind.group.as_str(), kind.plural.as_str()) {
            ("", "namespaces" | "services") => label_errors(name),
            ("rbac.authorization.k8s.io", _) => Vec::new(),
            ("coordination.k8s.io", "leasecandidates") => config_key_errors(name),
            _ => subdomain_errors(name),
        };
        errors.extend(complaints.iter().map(|why| FieldError::invalid("metadata.name", &name.into(), why)));
    }
    check_labels(value.pointer("/metadata/labels"), "metadata.labels", &mut errors);
    let annotations = value.pointer("/metadata/annotations").and_then(Value::as_object);
    for key in annotations.into_iter().flatten().map(|(key, _)| key) {
        let complaints = qualified_name_errors(&key.to_lowercase());
        let complaint = |why: &String| FieldError::invalid("metadata.annotations", &key.as_str().into(), why);
        errors.extend(complaints.iter().map(complaint));
    }
    errors
}

fn content(kind: &Kind, value: &Value) -> Vec<FieldError> {
    if let Decoding::Custom(schema) = &kind.decoding {
        let mut errors = schema.check(value);
        if errors.iter().any(|error| !error.is_duplicate()) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            errors.push(FieldError::invalid("<nil>", &Value::Null, detail));
        }
        return errors;
    }
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => pods::create(value),
        ("", "nodes") => taints(value),
        ("apiextensions.k8s.io", _) => definition(value),
        ("coordination.k8s.io", "leasecandidates") => lease_candidate(value),
        _ => Vec::new(),
    }
}

fn lease_candidate(value: &Value) -> Vec<FieldError> {
    let required = ["leaseName", "binaryVersion", "strategy"];
    let missing = required.into_iter().filter(|field| text(value, &format!("/spec/{field}")).is_empty());
    missing.map(|field| FieldError::required(format!("spec.{field}"), "")).collect()
}

fn taints(node: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let taints = items(node, "/spec/taints");
    for (position, taint) in taints.iter().enumerate() {
        let field = format!("metadata.taints[{position}]");
        let key = text(taint, "/key");
        let complaints = qualified_name_errors(key);
        errors.extend(complaints.iter().map(|why| FieldError::invalid(format!("{field}.key"), &key.into(), why)));
        let effect = text(taint, "/effect");
        if !matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            let supported = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            errors.push(FieldError::not_supported(format!("{field}.effect"), &effect.into(), &supported));
        }
        let same = |other: &&Value| text(other, "/key") == key && text(other, "/effect") == effect;
        if taints.iter().take(position).any(|other| same(&other)) {
            let (key, value, effect) = (json!(key), json!(text(taint, "/value")), json!(effect));
            let shown = format!(
                "{{\"Key\":{key},\"Value\":{value},\"Effect\":{effect},\"TimeAdded\":null}}: taints must be unique by key and effect pair"
            );
            errors.push(FieldError::duplicate(field, &shown));
        }
    }
    errors
}

fn node_update(value: &Value, current: &Value, errors: &mut Vec<FieldError>) {
    let before = items(current, "/spec/podCIDRs");
    if !before.is_empty() && before != items(value, "/spec/podCIDRs") {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(FieldError::forbidden("spec.podCIDRs", detail));
    }
}

fn new_priority_class(value: &Value, errors: &mut Vec<FieldError>) {
    let name = text(value, "/metadata/name");
    if name.starts_with("system-") {
        let detail = format!(
            "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known system priority class"
        );
        errors.push(FieldError::forbidden("metadata.name", &detail));
    } else if value.get("value").and_then(Value::as_i64).is_some_and(|priority| priority > HIGHEST_USER_PRIORITY) {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}");
        errors.push(FieldError::forbidden("value", &detail));
    }
}

fn definition(value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = text(value, "/metadata/name");
    let wanted = format!("{}.{}", text(value, "/spec/names/plural"), text(value, "/spec/group"));
    if name != wanted {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", &name.into(), detail));
    }
    for (position, version) in items(value, "/spec/versions").iter().enumerate() {
        if version.pointer("/schema/openAPIV3Schema").is_none() {
            let field = format!("spec.versions[{position}].schema.openAPIV3Schema");
            errors.push(FieldError::required(field, ""));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{Registry, Resource};
    use crate::release::KubernetesRelease;

    #[test]
    fn a_lease_candidate_may_have_the_name_of_a_process() {
        let registry = Registry::new(KubernetesRelease::V1_37);
        let found = registry.find("coordination.k8s.io", "v1beta1", "leasecandidates");
        let Some(Resource::Stored(kind)) = found else { panic!("1.37 has it") };
        let candidate = |name: &str, strategy: &str| {
            let spec = json!({"leaseName": "kube-scheduler", "binaryVersion": "1.37.0", "strategy": strategy});
            create(&kind, &json!({"metadata": {"name": name}, "spec": spec})).len()
        };
        assert_eq!(candidate("vm-1_3c2d", "OldestEmulationVersion"), 0);
        assert_eq!((candidate("vm 1", "OldestEmulationVersion"), candidate("vm-1_3c2d", "")), (1, 1));
    }
}
