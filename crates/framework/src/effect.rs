//! The actions that a plugin asks for. The host checks each action against the operator's grants before it acts.

use berth_model::serde_with::text_or_bytes;
use serde::{Deserialize, Serialize};

/// A request to act on the cluster or on the scheduler, returned as data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// Bind the pod of this cycle to the node chosen for it.
    Bind,
    /// Patch an object.
    Patch {
        /// `apiVersion/kind`, such as `v1/PersistentVolumeClaim`.
        kind: String,
        /// The namespace; empty for kinds without namespaces.
        namespace: String,
        /// `metadata.name`.
        name: String,
        /// A subresource, such as `status`; `None` for the object itself.
        subresource: Option<String>,
        /// The patch as JSON.
        #[serde(with = "text_or_bytes")]
        patch: Vec<u8>,
        /// The format of `patch`.
        #[serde(default)]
        patch_type: PatchType,
    },
    /// Create an object; `body` is JSON.
    Create {
        /// `apiVersion/kind`, such as `v1/PersistentVolumeClaim`.
        kind: String,
        /// The namespace; empty for kinds without namespaces.
        namespace: String,
        /// The object as JSON.
        #[serde(with = "text_or_bytes")]
        body: Vec<u8>,
    },
    /// Delete an object.
    Delete {
        /// `apiVersion/kind`, such as `v1/PersistentVolumeClaim`.
        kind: String,
        /// The namespace; empty for kinds without namespaces.
        namespace: String,
        /// `metadata.name`.
        name: String,
    },
    /// Evict a pod: set the condition `DisruptionTarget` with this message, delete the pod, and write an event.
    Evict {
        /// The namespace; empty for kinds without namespaces.
        namespace: String,
        /// `metadata.name`.
        name: String,
        /// `metadata.uid` of the pod.
        uid: String,
        /// The text of the condition.
        message: String,
    },
    /// Let a pod that waits on Permit proceed.
    Allow {
        /// `metadata.uid` of the pod.
        uid: String,
    },
    /// Turn down a pod that waits on Permit.
    Reject {
        /// `metadata.uid` of the pod.
        uid: String,
        /// The reason, for people.
        reason: String,
    },
    /// Move pods to activeQ.
    Activate {
        /// `metadata.uid` of the pods.
        uids: Vec<String>,
    },
    /// Set or, with `None`, clear a pod's `nominatedNodeName`.
    Nominate {
        /// `metadata.uid` of the pod.
        uid: String,
        /// The name of the node.
        node: Option<String>,
    },
    /// Write an event about the pod of this cycle.
    Event {
        /// Whether the type is `Warning`; otherwise it is `Normal`.
        warning: bool,
        /// The reason, for people.
        reason: String,
        /// The action that was done or tried.
        action: String,
        /// The text for people.
        note: String,
    },
    /// Ask PreBind again, or the Permit plugin that holds the pod, whenever one of these objects has changed. When the
    /// wait times out, the attempt fails with the message. `objects` may name the cycle's own pod, with the kind
    /// `v1/Pod`. The plugin is then asked with the changed pod. The manifest of a component must name all other kinds
    /// among its objects.
    Wait {
        /// The objects to wait for.
        objects: Vec<ObjectRef>,
        /// The longest wait in milliseconds, counted from the first wait of the attempt.
        timeout_ms: u64,
        /// The message that the pod gets when the wait times out.
        timeout_message: String,
    },
}

/// The format of a patch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PatchType {
    /// A JSON merge patch (RFC 7396). It replaces lists as a whole.
    #[default]
    Merge,
    /// A strategic merge patch. It can change or remove single elements of a list. The API server accepts it only for
    /// kinds that are built into Kubernetes.
    StrategicMerge,
}

/// An object of any kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ObjectRef {
    /// The kind, such as `v1/PersistentVolumeClaim` or `scheduling.example.com/v1/PodGroup`.
    pub kind: String,
    /// The namespace; empty for kinds without namespaces.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl Effect {
    /// The grant that the effect needs from the operator.
    #[must_use]
    pub fn demand(&self) -> Demand<'_> {
        let object = |verb, kind, namespace, name| {
            Demand::Object(ObjectAccess { verb, kind, subresource: None, namespace, name })
        };
        match self {
            Effect::Patch { kind, namespace, name, subresource, .. } => {
                let (verb, subresource, name) = (Verb::Patch, subresource.as_deref(), Some(name.as_str()));
                Demand::Object(ObjectAccess { verb, kind, subresource, namespace, name })
            }
            Effect::Create { kind, namespace, .. } => object(Verb::Create, kind, namespace, None),
            Effect::Delete { kind, namespace, name } => object(Verb::Delete, kind, namespace, Some(name)),
            Effect::Bind => Demand::Named(Permission::Bind),
            Effect::Evict { .. } => Demand::Named(Permission::Evict),
            Effect::Allow { .. } | Effect::Reject { .. } => Demand::Named(Permission::WaitingPods),
            Effect::Activate { .. } => Demand::Named(Permission::Activate),
            Effect::Nominate { .. } => Demand::Named(Permission::Nominate),
            Effect::Event { .. } => Demand::Named(Permission::Event),
            Effect::Wait { .. } => Demand::Named(Permission::Wait),
        }
    }
}

/// The grant that an effect requires: a permission by name, or a rule that covers the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand<'a> {
    /// The effect concerns pods or the scheduler.
    Named(Permission),
    /// The effect changes an object.
    Object(ObjectAccess<'a>),
}

/// A change that a plugin asks to make to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectAccess<'a> {
    /// The action.
    pub verb: Verb,
    /// `apiVersion/kind`, such as `v1/PersistentVolumeClaim`.
    pub kind: &'a str,
    /// A subresource, such as `status`; `None` for the object itself.
    pub subresource: Option<&'a str>,
    /// The namespace; empty for kinds without namespaces.
    pub namespace: &'a str,
    /// `metadata.name`; `None` for an object that is to be created.
    pub name: Option<&'a str>,
}

/// A kind of effect, under which refused effects are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EffectKind {
    /// An effect on pods or on the scheduler.
    Named(Permission),
    /// A change to an object.
    Object(Verb),
}

/// A kind of effect on pods or on the scheduler, which an operator grants or withholds by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Permission {
    /// [`Effect::Bind`].
    Bind,
    /// [`Effect::Evict`].
    Evict,
    /// [`Effect::Allow`] and [`Effect::Reject`].
    WaitingPods,
    /// [`Effect::Activate`].
    Activate,
    /// [`Effect::Nominate`].
    Nominate,
    /// [`Effect::Event`].
    Event,
    /// [`Effect::Wait`].
    Wait,
}

/// A kind of effect on objects, which an operator grants by rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Verb {
    /// [`Effect::Patch`].
    Patch,
    /// [`Effect::Create`].
    Create,
    /// [`Effect::Delete`].
    Delete,
}

impl Demand<'_> {
    /// The kind of effect under which the demand is counted.
    #[must_use]
    pub fn kind(&self) -> EffectKind {
        match self {
            Demand::Named(permission) => EffectKind::Named(*permission),
            Demand::Object(access) => EffectKind::Object(access.verb),
        }
    }
}

impl<'a> ObjectAccess<'a> {
    /// The API group, which is empty for the core group, and the kind without its version.
    #[must_use]
    pub fn group_and_kind(&self) -> (&'a str, &'a str) {
        let (api_version, kind) = self.kind.rsplit_once('/').unwrap_or(("", self.kind));
        (api_version.split_once('/').map_or("", |(group, _)| group), kind)
    }
}

impl EffectKind {
    /// The word that configuration files, metrics and messages use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            EffectKind::Named(permission) => permission.as_str(),
            EffectKind::Object(verb) => verb.as_str(),
        }
    }
}

impl Permission {
    /// Every permission.
    pub const ALL: [Permission; 7] = [
        Permission::Bind,
        Permission::Evict,
        Permission::WaitingPods,
        Permission::Activate,
        Permission::Nominate,
        Permission::Event,
        Permission::Wait,
    ];

    /// The word that configuration files, metrics and messages use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Permission::Bind => "bind",
            Permission::Evict => "evict",
            Permission::WaitingPods => "waitingPods",
            Permission::Activate => "activate",
            Permission::Nominate => "nominate",
            Permission::Event => "event",
            Permission::Wait => "wait",
        }
    }
}

impl Verb {
    /// Every verb.
    pub const ALL: [Verb; 3] = [Verb::Patch, Verb::Create, Verb::Delete];

    /// The word that configuration files, metrics and messages use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Patch => "patch",
            Verb::Create => "create",
            Verb::Delete => "delete",
        }
    }
}
