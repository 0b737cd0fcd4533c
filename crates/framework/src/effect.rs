//! What a plugin wants done. The host checks each effect against the operator's grants before it acts.

/// A request to act on the cluster or on the scheduler, returned as data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Bind the pod of this cycle to the node chosen for it.
    Bind,
    /// Patch an object; `patch` is a JSON merge patch.
    Patch {
        /// `apiVersion/kind`, such as `v1/PersistentVolumeClaim`.
        kind: String,
        /// Empty for kinds without namespaces.
        namespace: String,
        /// `metadata.name`.
        name: String,
        /// Such as `status`; none for the object itself.
        subresource: Option<String>,
        /// A JSON merge patch.
        patch: Vec<u8>,
    },
    /// Create an object; `body` is JSON.
    Create {
        /// `apiVersion/kind`, such as `v1/PersistentVolumeClaim`.
        kind: String,
        /// Empty for kinds without namespaces.
        namespace: String,
        /// The object as JSON.
        body: Vec<u8>,
    },
    /// Delete an object.
    Delete {
        /// `apiVersion/kind`, such as `v1/PersistentVolumeClaim`.
        kind: String,
        /// Empty for kinds without namespaces.
        namespace: String,
        /// `metadata.name`.
        name: String,
    },
    /// Make room: condition `DisruptionTarget` with this message, deletion, event.
    Evict {
        /// Empty for kinds without namespaces.
        namespace: String,
        /// `metadata.name`.
        name: String,
        /// `metadata.uid` of the pod.
        uid: String,
        /// The text of the condition.
        message: String,
    },
    /// Let a pod that waits on Permit go on.
    Allow {
        /// `metadata.uid` of the pod.
        uid: String,
    },
    /// Turn down a pod that waits on Permit.
    Reject {
        /// `metadata.uid` of the pod.
        uid: String,
        /// Why, for people.
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
        /// `Warning`; else `Normal`.
        warning: bool,
        /// Why, for people.
        reason: String,
        /// What was done or tried.
        action: String,
        /// The text for people.
        note: String,
    },
    /// Ask PreBind again whenever one of these objects has changed; fail with the message when the time is out.
    Wait {
        /// What to wait for.
        objects: Vec<ObjectRef>,
        /// Milliseconds from the first wait of the attempt on.
        timeout_ms: u64,
        /// What the pod is told when the time is out.
        timeout_message: String,
    },
}

/// An object of any kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectRef {
    /// `v1/PersistentVolumeClaim`, `scheduling.example.com/v1/PodGroup`.
    pub kind: String,
    /// Empty for kinds without namespaces.
    pub namespace: String,
    /// `metadata.name`.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// [`Effect::Bind`].
    Bind,
    /// [`Effect::Patch`].
    Patch,
    /// [`Effect::Create`].
    Create,
    /// [`Effect::Delete`].
    Delete,
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

impl Permission {
    /// Every permission.
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
