//! Effects as files of cases write them: the effect's name, with its fields.
//!
//! The type is not [`Effect`]: patches and bodies are YAML in files of cases, names are Kubernetes' names, and an
//! unknown key is refused with a list of the known keys.

use berth_framework::{Effect, PatchType};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An effect that the plugin asks for: `bind`, or an effect's name with its fields.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum CaseEffect {
    /// Bind the pod of this cycle to the node chosen for it.
    Bind,
    /// Patch an object.
    Patch {
        /// `apiVersion/kind`, such as `v1/PersistentVolumeClaim`.
        kind: String,
        /// The namespace of the object; left out for kinds without namespaces.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        namespace: String,
        /// `metadata.name`.
        name: String,
        /// The subresource, such as `status`; left out for the object itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subresource: Option<String>,
        /// The patch.
        patch: Value,
        /// The format of the patch; left out for a JSON merge patch.
        #[serde(default, skip_serializing_if = "CasePatchType::is_merge")]
        patch_type: CasePatchType,
    },
    /// Create an object.
    Create {
        /// `apiVersion/kind`, such as `v1/PersistentVolumeClaim`.
        kind: String,
        /// The namespace of the object; left out for kinds without namespaces.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        namespace: String,
        /// The object.
        body: Value,
    },
    /// Delete an object.
    Delete {
        /// `apiVersion/kind`, such as `v1/PersistentVolumeClaim`.
        kind: String,
        /// The namespace of the object; left out for kinds without namespaces.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        namespace: String,
        /// `metadata.name`.
        name: String,
    },
    /// Evict a pod to make room.
    Evict {
        /// The pod's `metadata.namespace`.
        namespace: String,
        /// The pod's `metadata.name`.
        name: String,
        /// The pod's `metadata.uid`: `namespace/name` where the case gives a pod on a node none.
        uid: String,
        /// The text of the pod's condition `DisruptionTarget`.
        message: String,
    },
    /// Let the pod of this uid go on, which waits on Permit.
    Allow(String),
    /// Send back a pod that waits on Permit.
    Reject {
        /// The pod's `metadata.uid`.
        uid: String,
        /// Why, for people.
        reason: String,
    },
    /// Move the pods of these uids to activeQ.
    Activate(Vec<String>),
    /// Set a pod's `nominatedNodeName`.
    Nominate {
        /// The pod's `metadata.uid`.
        uid: String,
        /// The node's name; null clears the nomination.
        node: Option<String>,
    },
    /// Write an event about the pod of this cycle.
    Event {
        /// Whether the event's type is `Warning`, not `Normal`.
        #[serde(default)]
        warning: bool,
        /// Why, as one word.
        reason: String,
        /// The action that was done or tried.
        action: String,
        /// The text for people.
        note: String,
    },
    /// Wait until one of these objects changes; the plugin is then asked again.
    Wait {
        /// The objects to wait for.
        objects: Vec<AwaitedObject>,
        /// Milliseconds from the first wait of the attempt on.
        timeout_milliseconds: u64,
        /// The message for the pod when the time ends.
        message: String,
    },
}

/// The format of a patch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum CasePatchType {
    /// A JSON merge patch.
    #[default]
    Merge,
    /// A strategic merge patch.
    StrategicMerge,
}

impl CasePatchType {
    fn is_merge(&self) -> bool {
        *self == Self::Merge
    }
}

impl From<PatchType> for CasePatchType {
    fn from(patch_type: PatchType) -> Self {
        match patch_type {
            PatchType::Merge => Self::Merge,
            PatchType::StrategicMerge => Self::StrategicMerge,
        }
    }
}

/// One of the objects that a plugin waits for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AwaitedObject {
    /// `apiVersion/kind`, such as `v1/Pod`.
    pub kind: String,
    /// The namespace of the object; left out for kinds without namespaces.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl CaseEffect {
    /// The objects of the effect `wait`, and its time in milliseconds; `None` for other effects.
    pub(crate) fn wait(&self) -> Option<(&[AwaitedObject], u64)> {
        match self {
            Self::Wait { objects, timeout_milliseconds, .. } => Some((objects, *timeout_milliseconds)),
            Self::Bind
            | Self::Patch { .. }
            | Self::Create { .. }
            | Self::Delete { .. }
            | Self::Evict { .. }
            | Self::Allow(_)
            | Self::Reject { .. }
            | Self::Activate(_)
            | Self::Nominate { .. }
            | Self::Event { .. } => None,
        }
    }
}

impl From<&Effect> for CaseEffect {
    fn from(effect: &Effect) -> Self {
        match effect.clone() {
            Effect::Bind => Self::Bind,
            Effect::Patch { kind, namespace, name, subresource, patch, patch_type } => {
                let (patch, patch_type) = (json(&patch), patch_type.into());
                Self::Patch { kind, namespace, name, subresource, patch, patch_type }
            }
            Effect::Create { kind, namespace, body } => Self::Create { kind, namespace, body: json(&body) },
            Effect::Delete { kind, namespace, name } => Self::Delete { kind, namespace, name },
            Effect::Evict { namespace, name, uid, message } => Self::Evict { namespace, name, uid, message },
            Effect::Allow { uid } => Self::Allow(uid),
            Effect::Reject { uid, reason } => Self::Reject { uid, reason },
            Effect::Activate { uids } => Self::Activate(uids),
            Effect::Nominate { uid, node } => Self::Nominate { uid, node },
            Effect::Event { warning, reason, action, note } => Self::Event { warning, reason, action, note },
            Effect::Wait { objects, timeout_ms, timeout_message } => {
                let awaited = objects.into_iter().map(|it| AwaitedObject {
                    kind: it.kind,
                    namespace: it.namespace,
                    name: it.name,
                });
                Self::Wait { objects: awaited.collect(), timeout_milliseconds: timeout_ms, message: timeout_message }
            }
        }
    }
}

/// The JSON value, or a text if the bytes are not JSON.
fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|_| Value::from(String::from_utf8_lossy(bytes)))
}
