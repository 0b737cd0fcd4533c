//! Kubernetes objects in files of cases: the keys of `metadata`, the top-level keys and the form of pods and nodes, and
//! the node of a pod that is on a node.
//!
//! Decoding alone would ignore a misspelt key without a message. Deeper keys are not checked: `spec` and `status` hold
//! much that no plugin sees, and more with each release of Kubernetes.

use berth_model::api;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    case_decoding::{self, WrongForm},
    case_file::{CaseFile, PluginCase},
    nearest::nearest,
};

/// The top-level keys of a pod and a node.
const OBJECT: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// The keys of `ObjectMeta` in `k8s.io/apimachinery/pkg/apis/meta/v1/types.go`.
const METADATA: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// The mistake in an object of a file of cases.
#[derive(Debug, thiserror::Error)]
pub enum CaseObjectError {
    /// An object has a key that is unknown for its kind. `place` is the place of the key, such as
    /// `cases[0].steps[1].nodes[0].metadata`.
    #[error("{place}: unknown field `{key}`{}, expected one of {}", meant(.key, .known), .known.join(", "))]
    UnknownKey { place: String, key: String, known: &'static [&'static str] },
    /// A pod under `pods` is on no node. `written` is a key of its `spec` that is nearly `nodeName`.
    #[error(
        "{place}: pod {pod} has no spec.nodeName{}: write the node that the pod is on, or write the pod under `pod`",
        .written.as_ref().map(|key| format!(" (did you mean `nodeName` by `{key}`?)")).unwrap_or_default()
    )]
    NoNode { place: String, pod: String, written: Option<String> },
    /// A pod or a node does not have the form of its kind.
    #[error(transparent)]
    Form(WrongForm),
}

impl CaseObjectError {
    /// The number of the line with the mistake, if only one line of the text can have it.
    pub(crate) fn line(&self, text: &str) -> Option<usize> {
        let key = match self {
            Self::UnknownKey { key, .. } | Self::NoNode { written: Some(key), .. } => key.as_str(),
            Self::NoNode { written: None, .. } => return None,
            Self::Form(wrong) => wrong.key()?,
        };
        let mut with_key = (1..).zip(text.lines()).filter(|(_, line)| has_key(line, key)).map(|(number, _)| number);
        let first = with_key.next()?;
        with_key.next().is_none().then_some(first)
    }
}

/// Whether the line of YAML or JSON has this key.
fn has_key(line: &str, key: &str) -> bool {
    line.match_indices(key).any(|(at, _)| {
        let (before, rest) = line.split_at(at);
        let after = rest.split_at(key.len()).1.trim_start_matches(['"', '\'']).trim_start();
        let is_start = before.chars().next_back().is_none_or(|last| " {,\"'".contains(last));
        is_start && after.starts_with(':')
    })
}

/// ` (did you mean `labels`?)` if a known key is close.
fn meant(key: &str, known: &[&'static str]) -> String {
    nearest(key, known.iter().copied()).map(|known| format!(" (did you mean `{known}`?)")).unwrap_or_default()
}

/// # Errors
/// The first mistake is the error.
pub(crate) fn check(file: &CaseFile) -> Result<(), CaseObjectError> {
    file.cases.iter().enumerate().try_for_each(|(at, case)| check_case(case, &format!("cases[{at}]")))
}

fn check_case(case: &PluginCase, place: &str) -> Result<(), CaseObjectError> {
    pod(&case.pod, &format!("{place}.pod"))?;
    for (at, step) in case.steps.iter().enumerate() {
        let place = format!("{place}.steps[{at}]");
        pod(&step.pod, &format!("{place}.pod"))?;
        for (at, object) in step.nodes.iter().enumerate() {
            node(object, &format!("{place}.nodes[{at}]"))?;
        }
        for (at, object) in step.pods.iter().enumerate() {
            pod(object, &format!("{place}.pods[{at}]"))?;
            on_a_node(object, &format!("{place}.pods[{at}]"))?;
        }
        for (field, objects) in [("objects", &step.objects), ("goneObjects", &step.gone_objects)] {
            for (at, object) in objects.iter().enumerate() {
                metadata(object, &format!("{place}.{field}[{at}]"))?;
            }
        }
        for (at, queued) in step.queue.iter().enumerate() {
            pod(&queued.pod, &format!("{place}.queue[{at}].pod"))?;
        }
        let Some(event) = &step.event else { continue };
        let check = match event.resource.as_str() {
            "Pod" => pod,
            "Node" => node,
            _ => metadata,
        };
        check(&event.old, &format!("{place}.event.old"))?;
        check(&event.new, &format!("{place}.event.new"))?;
    }
    Ok(())
}

fn pod(object: &Value, place: &str) -> Result<(), CaseObjectError> {
    has_form_of::<api::Pod>(object, place)
}

fn node(object: &Value, place: &str) -> Result<(), CaseObjectError> {
    has_form_of::<api::Node>(object, place)
}

/// Checks the keys of a pod or a node, and then its form. A missing object has no mistake.
fn has_form_of<T: DeserializeOwned>(object: &Value, place: &str) -> Result<(), CaseObjectError> {
    keys(object, place, &OBJECT)?;
    metadata(object, place)?;
    if object.is_null() {
        return Ok(());
    }
    case_decoding::object::<T>(object, place).map(drop).map_err(CaseObjectError::Form)
}

/// Checks that a pod names its node. An empty name is not a node.
fn on_a_node(pod: &Value, place: &str) -> Result<(), CaseObjectError> {
    let spec = &pod["spec"];
    // The form of the pod is checked before.
    if !(spec["nodeName"].is_null() || spec["nodeName"] == "") {
        return Ok(());
    }
    let mut keys = spec.as_object().into_iter().flat_map(serde_json::Map::keys);
    let written = keys.find(|key| *key != "nodeName" && nearest(key, ["nodeName"]).is_some()).cloned();
    let pod = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    Err(CaseObjectError::NoNode { place: place.to_owned(), pod, written })
}

fn metadata(object: &Value, place: &str) -> Result<(), CaseObjectError> {
    keys(&object["metadata"], &format!("{place}.metadata"), &METADATA)
}

/// Checks the keys of an object. A value that is not an object is reported when the object is read.
fn keys(value: &Value, place: &str, known: &'static [&'static str]) -> Result<(), CaseObjectError> {
    let unknown = value.as_object().and_then(|fields| fields.keys().find(|key| !known.contains(&key.as_str())));
    unknown.map_or(Ok(()), |key| Err(CaseObjectError::UnknownKey { place: place.to_owned(), key: key.clone(), known }))
}
