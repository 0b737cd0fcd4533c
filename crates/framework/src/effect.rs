//! What a plugin wants done. The host checks each effect against the operator's grants before it acts.

/// A request to act on the cluster or on the scheduler, returned as data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Bind the pod of this cycle to the node chosen for it.
    Bind,
    /// Patch an object; `patch` is a JSON merge patch.
    Patch { kind: String, namespace: String, name: String, subresource: Option<String>, patch: Vec<u8> },
    /// Evict a pod.
    Evict { namespace: String, name: String, uid: String },
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
    /// Go on with this pod only when `pointer` (RFC 6901) in the object holds `value` (JSON).
    WaitFor { kind: String, namespace: String, name: String, pointer: String, value: Vec<u8>, timeout_ms: u64 },
}

impl Effect {
    /// What the operator must have granted for it.
    #[must_use]
    pub fn permission(&self) -> Permission {
        match self {
            Effect::Bind => Permission::Bind,
            Effect::Patch { .. } => Permission::Patch,
            Effect::Evict { .. } => Permission::Evict,
            Effect::Allow { .. } | Effect::Reject { .. } => Permission::WaitingPods,
            Effect::Activate { .. } => Permission::Activate,
            Effect::Nominate { .. } => Permission::Nominate,
            Effect::Event { .. } => Permission::Event,
            Effect::WaitFor { .. } => Permission::WaitFor,
        }
    }
}

/// A kind of effect that an operator grants or withholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permission {
    Bind,
    Patch,
    Evict,
    WaitingPods,
    Activate,
    Nominate,
    Event,
    WaitFor,
}
