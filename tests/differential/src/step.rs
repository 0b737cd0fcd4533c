//! One change to the cluster, and the places of its objects in the API.

use serde_json::Value;

use crate::outcomes::name;

pub(crate) const NODES: &str = "/api/v1/nodes";

/// One change. Paths are paths of the API.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    CreatePod(Value),
    Create { collection: String, object: Value },
    Change { path: String, patch: Value },
    Delete { path: String },
}

impl Step {
    /// The step in one line.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::CreatePod(pod) => format!("create pod {}/{} {}", namespace(pod), name(pod), pod["spec"]),
            Self::Create { collection, object } => format!("create in {collection} {object}"),
            Self::Change { path, patch } => format!("change {path} {patch}"),
            Self::Delete { path } => format!("delete {path}"),
        }
    }
}

/// A step that creates a node.
pub(crate) fn create_node(node: Value) -> Step {
    Step::Create { collection: NODES.to_owned(), object: node }
}

pub(crate) fn namespace(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap_or("default")
}

/// The collection in which a pod is created.
pub(crate) fn pods_of(pod: &Value) -> String {
    format!("/api/v1/namespaces/{}/pods", namespace(pod))
}

/// A pod's path.
pub(crate) fn path_of(pod: &Value) -> String {
    format!("{}/{}", pods_of(pod), name(pod))
}
