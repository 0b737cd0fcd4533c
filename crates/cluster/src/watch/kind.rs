//! The differences between the watched kinds: their paths, and the decoding of their objects.

use std::sync::Arc;

use berth_model::{KindRef, api};
use serde::Deserialize;
use serde_json::Value;

use crate::object::{BadName, collection_path};

use super::{NODES, PODS, WatchEvent};

/// A kind of object under watch.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Pods {
        /// Whether pending pods carry the text from which they were decoded.
        keep_json: bool,
    },
    Nodes,
    Other(Arc<KindRef>),
}

/// The metadata that every object has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Identity {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
}

impl Kind {
    pub(super) fn path(&self) -> Result<String, BadName> {
        match self {
            Self::Pods { .. } => collection_path("", "v1", None, "pods"),
            Self::Nodes => collection_path("", "v1", None, "nodes"),
            Self::Other(kind) => collection_path(&kind.group, &kind.version, None, &kind.plural),
        }
    }

    pub(super) fn field_selector(&self) -> Option<&'static str> {
        match self {
            Self::Pods { .. } => Some("status.phase!=Succeeded,status.phase!=Failed"),
            Self::Nodes | Self::Other(_) => None,
        }
    }

    /// The plural, for the log.
    pub(super) fn plural(&self) -> &str {
        match self {
            Self::Pods { .. } => "pods",
            Self::Nodes => "nodes",
            Self::Other(kind) if kind.plural.is_empty() => &kind.kind,
            Self::Other(kind) => &kind.plural,
        }
    }

    pub(super) fn named(&self) -> &KindRef {
        match self {
            Self::Pods { .. } => &PODS,
            Self::Nodes => &NODES,
            Self::Other(kind) => kind,
        }
    }

    pub(super) fn group(&self) -> &str {
        match self {
            Self::Pods { .. } | Self::Nodes => "",
            Self::Other(kind) => &kind.group,
        }
    }

    pub(super) fn applied(&self, json: &str) -> serde_json::Result<(Identity, WatchEvent)> {
        Ok(match self {
            Self::Pods { keep_json } => {
                let mut pod: Box<api::Pod> = serde_json::from_str(json)?;
                if *keep_json && pod.spec.node_name.is_empty() {
                    pod.json = Some(Arc::from(json.as_bytes()));
                }
                (Identity::of(&pod.metadata), WatchEvent::PodApplied(pod))
            }
            Self::Nodes => {
                let node: Box<api::Node> = serde_json::from_str(json)?;
                (Identity::of(&node.metadata), WatchEvent::NodeApplied(node))
            }
            Self::Other(kind) => {
                let identity = Identity::read(json)?;
                let mut json: Value = serde_json::from_str(json)?;
                if let Some(metadata) = json.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.remove("managedFields");
                }
                let (namespace, name) = (identity.namespace.clone(), identity.name.clone());
                (identity, WatchEvent::ObjectApplied { kind: Arc::clone(kind), namespace, name, json })
            }
        })
    }

    /// The deletion of an object with this last state. An object that cannot be decoded is also reported as deleted.
    pub(super) fn deleted(&self, identity: &Identity, json: &str) -> WatchEvent {
        let mut event = self.vanished(identity);
        match &mut event {
            WatchEvent::PodDeleted(pod) => {
                if let Ok(last) = serde_json::from_str(json) {
                    *pod = last;
                }
            }
            WatchEvent::NodeDeleted(node) => {
                if let Ok(last) = serde_json::from_str(json) {
                    *node = last;
                }
            }
            _ => {}
        }
        event
    }

    /// The deletion of an object of which only the identity is known.
    pub(super) fn vanished(&self, identity: &Identity) -> WatchEvent {
        match self {
            Self::Pods { .. } => {
                WatchEvent::PodDeleted(Box::new(api::Pod { metadata: identity.metadata(), ..api::Pod::default() }))
            }
            Self::Nodes => {
                WatchEvent::NodeDeleted(Box::new(api::Node { metadata: identity.metadata(), ..api::Node::default() }))
            }
            Self::Other(kind) => WatchEvent::ObjectDeleted {
                kind: Arc::clone(kind),
                namespace: identity.namespace.clone(),
                name: identity.name.clone(),
            },
        }
    }

    /// The event for a kind that may not be listed. Pods and nodes have no such event, since scheduling needs both.
    pub(super) fn forbidden(&self, rule: String) -> Option<WatchEvent> {
        match self {
            Self::Pods { .. } | Self::Nodes => None,
            Self::Other(kind) => Some(WatchEvent::Forbidden { kind: Arc::clone(kind), rule }),
        }
    }

    /// The event after the last event of the kind. The watches of pods and nodes do not end before the others.
    pub(super) fn ended(&self) -> Option<WatchEvent> {
        match self {
            Self::Pods { .. } | Self::Nodes => None,
            Self::Other(kind) => Some(WatchEvent::Ended { kind: Arc::clone(kind) }),
        }
    }

    /// `missing` is the answer of a server that does not serve the kind.
    pub(super) fn synced(&self, missing: Option<&str>) -> WatchEvent {
        match self {
            Self::Pods { keep_json } => WatchEvent::PodsSynced { with_json: *keep_json },
            Self::Nodes => WatchEvent::NodesSynced,
            Self::Other(kind) => WatchEvent::Synced { kind: Arc::clone(kind), missing: missing.map(str::to_owned) },
        }
    }
}

impl Identity {
    /// Reads only the identity, which also works for objects that cannot be decoded otherwise.
    pub(super) fn read(json: &str) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Object {
            metadata: Identity,
        }
        serde_json::from_str(json).map(|object: Object| object.metadata)
    }

    fn of(metadata: &api::ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
        }
    }

    fn metadata(&self) -> api::ObjectMeta {
        api::ObjectMeta {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            ..api::ObjectMeta::default()
        }
    }
}
