//! What a plugin wants done. The host checks each effect against the operator's grants before it acts.

/// A request to act on the cluster or on the scheduler, returned as data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Bind the pod of this cycle to the node chosen for it.
    Bind,
    /// Patch an object; `patch` is a JSON merge patch.
    Patch { kind: String, namespace: String, name: String, subresource: Option<String>, patch: Vec<u8> },
    /// Create an object; `body` is JSON.
    Create { kind: String, namespace: String, body: Vec<u8> },
    /// Delete an object.
    Delete { kind: String, namespace: String, name: String },
    /// Make room: condition `DisruptionTarget` with this message, deletion, event.
    Evict { namespace: String, name: String, uid: String, message: String },
    /// Let a pod that waits on Permit go on.
    Allow { uid: String },
    /// Turn down a pod that waits on Permit.
    Reject { uid: String, reason: String },
    /// Move pods to activeQ.
    Activate { uids: Vec<String> },
    /// Set or, with `None`, clear a pod's `nominatedNodeName`.
    Nominate { uid: String, node: Option<String> },
    /// Write an event about the pod of this cycle.
    Event { warning: bool, reason: String, action: String, note: String },
    /// Ask PreBind again whenever one of these objects has changed; fail with the message when the time is out.
    Wait { objects: Vec<ObjectRef>, timeout_ms: u64, timeout_message: String },
}

/// An object of any kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectRef {
    /// `v1/PersistentVolumeClaim`, `scheduling.example.com/v1/PodGroup`.
    pub kind: String,
    /// Empty for kinds without namespaces.
    pub namespace: String,
    pub name: String,
}

impl Effect {
    /// What the operator must have granted for it.
    #[must_use]
    pub fn permission(&self) -> Permission {
        match self {
            Effect::Bind => Permission::Bind,
            Effect::Patch { .. } => Permission::Patch,
            Effect::Create { .. } => Permission::Create,
            Effect::Delete { .. } => Permission::Delete,
            Effect::Evict { .. } => Permission::Evict,
            Effect::Allow { .. } | Effect::Reject { .. } => Permission::WaitingPods,
            Effect::Activate { .. } => Permission::Activate,
            Effect::Nominate { .. } => Permission::Nominate,
            Effect::Event { .. } => Permission::Event,
            Effect::Wait { .. } => Permission::Wait,
        }
    }
}

/// A kind of effect that an operator grants or withholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permission {
    Bind,
    Patch,
    Create,
    Delete,
    Evict,
    WaitingPods,
    Activate,
    Nominate,
    Event,
    Wait,
}

impl Permission {
    pub const ALL: [Permission; 10] = [
        Permission::Bind,
        Permission::Patch,
        Permission::Create,
        Permission::Delete,
        Permission::Evict,
        Permission::WaitingPods,
        Permission::Activate,
        Permission::Nominate,
        Permission::Event,
        Permission::Wait,
    ];

    /// The word for it in configuration files, metrics and messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Permission::Bind => "bind",
            Permission::Patch => "patch",
            Permission::Create => "create",
            Permission::Delete => "delete",
            Permission::Evict => "evict",
            Permission::WaitingPods => "waitingPods",
            Permission::Activate => "activate",
            Permission::Nominate => "nominate",
            Permission::Event => "event",
            Permission::Wait => "wait",
        }
    }
}
