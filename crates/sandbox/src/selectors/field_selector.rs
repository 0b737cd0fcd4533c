//! Field selectors: the fields that select objects of a kind, and whether an object has the required values.

use serde_json::Value;

use crate::kinds::{Decoding, Kind};

/// A parsed field selector. All requirements must hold.
#[derive(Debug, Default, Clone)]
pub(crate) struct FieldSelector(Vec<Requirement>);

#[derive(Debug, Clone)]
struct Requirement {
    field: String,
    pointer: String,
    value: String,
    equal: bool,
}

/// The reason why a field selector is refused, in the API server's words.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FieldSelectorError {
    /// A term has no operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Malformed {
        /// The whole selector.
        selector: String,
        /// The term.
        term: String,
    },
    /// The field cannot be used to select this kind.
    #[error("field label not supported: {field}")]
    NotSelectable {
        /// The field.
        field: String,
    },
}

impl FieldSelector {
    /// Reads a selector for the fields of `kind`.
    pub(crate) fn parse(kind: &Kind, text: &str) -> Result<Self, FieldSelectorError> {
        let mut requirements = Vec::new();
        for term in split_unescaped(text) {
            if term.is_empty() {
                continue;
            }
            let Some((field, equal, value)) = split_operator(&term) else {
                return Err(FieldSelectorError::Malformed { selector: text.to_owned(), term });
            };
            let Some(pointer) = pointer(kind, field) else {
                return Err(FieldSelectorError::NotSelectable { field: field.to_owned() });
            };
            let requirement = Requirement { field: field.to_owned(), pointer, value: unescape(value), equal };
            requirements.push(requirement);
        }
        Ok(Self(requirements))
    }

    /// Whether the selector matches everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a stored object has the required values.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|requirement| {
            let shown = match object.pointer(&requirement.pointer) {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Null) | None => absent(&requirement.field).to_owned(),
                Some(other) => other.to_string(),
            };
            (shown == requirement.value) == requirement.equal
        })
    }
}

/// The value that stands for a missing field.
fn absent(field: &str) -> &'static str {
    match field {
        "spec.unschedulable" | "spec.hostNetwork" => "false",
        "status.successful" | "status.replicas" => "0",
        _ => "",
    }
}

/// The place of a selectable field in a stored object; `None` for other fields.
fn pointer(kind: &Kind, field: &str) -> Option<String> {
    let generic = field == "metadata.name" || (field == "metadata.namespace" && kind.namespaced);
    let selectable = match &kind.decoding {
        Decoding::Custom(schema) => schema.selectable_fields.iter().any(|path| path == field),
        Decoding::Typed(_) => built_in_fields(kind).contains(&field),
    };
    if !generic && !selectable {
        return None;
    }
    Some(match (kind.plural.as_str(), field) {
        ("events", "source") => "/source/component".to_owned(),
        ("events", "reportingController") => "/reportingComponent".to_owned(),
        ("events", regarding) if regarding.starts_with("regarding.") => {
            format!("/{}", regarding.replacen("regarding", "involvedObject", 1).replace('.', "/"))
        }
        ("jobs", "status.successful") => "/status/succeeded".to_owned(),
        _ => format!("/{}", field.replace('.', "/")),
    })
}

fn built_in_fields(kind: &Kind) -> &'static [&'static str] {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "namespaces") => &["status.phase"],
        ("", "secrets") => &["type"],
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "events") => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        ("batch", "jobs") => &["status.successful"],
        ("", "replicationcontrollers") | ("apps", "replicasets") => &["status.replicas"],
        ("resource.k8s.io", "resourceslices") => &["spec.nodeName", "spec.driver"],
        _ => &[],
    }
}

fn split_operator(term: &str) -> Option<(&str, bool, &str)> {
    let position = term.find(['=', '!'])?;
    let (field, rest) = term.split_at(position);
    if let Some(value) = rest.strip_prefix("!=") {
        return Some((field, false, value));
    }
    let value = rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?;
    Some((field, true, value))
}

/// Splits the text at commas without a backslash in front.
fn split_unescaped(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            terms.push(String::new());
            continue;
        }
        escaped = c == '\\' && !escaped;
        if let Some(term) = terms.last_mut() {
            term.push(c);
        }
    }
    terms
}

fn unescape(value: &str) -> String {
    let mut result = String::with_capacity(value.len());
    let mut escaped = false;
    for c in value.chars() {
        if c == '\\' && !escaped {
            escaped = true;
        } else {
            escaped = false;
            result.push(c);
        }
    }
    result
}
