//! What a plugin says about a pod, or about a pod on a node.

/// Kubernetes' status codes, in their order (`Code` in `staging/src/k8s.io/kube-scheduler/framework/interface.go`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// The pod passes, or the step is done.
    Success,
    /// An internal failure: the attempt ends and is retried after backoff.
    Error,
    /// Rejected; evicting pods may help.
    Unschedulable,
    /// Rejected; evicting pods cannot help.
    UnschedulableAndUnresolvable,
    /// Permit only: hold the pod.
    Wait,
    /// The plugin has nothing to say in this cycle.
    Skip,
    /// Rejected until something outside the scheduler happens; that event skips the backoff.
    Pending,
}

impl Code {
    /// The name that metrics, logs and golden cases use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Code::Success => "Success",
            Code::Error => "Error",
            Code::Unschedulable => "Unschedulable",
            Code::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
            Code::Wait => "Wait",
            Code::Skip => "Skip",
            Code::Pending => "Pending",
        }
    }

    /// Whether the pod was turned down, as opposed to an attempt that broke.
    #[must_use]
    pub fn is_rejected(self) -> bool {
        matches!(self, Code::Unschedulable | Code::UnschedulableAndUnresolvable | Code::Pending)
    }
}

/// A code with its reasons, in the order in which users read them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Status {
    /// What kind of answer.
    pub code: Code,
    /// What users read in events and conditions.
    pub reasons: Vec<String>,
}

impl Status {
    /// A status with these reasons.
    #[must_use]
    pub fn new(code: Code, reasons: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { code, reasons: reasons.into_iter().map(Into::into).collect() }
    }

    /// No objection.
    #[must_use]
    pub fn success() -> Self {
        Self { code: Code::Success, reasons: Vec::new() }
    }

    /// The plugin has nothing to say.
    #[must_use]
    pub fn skip() -> Self {
        Self { code: Code::Skip, reasons: Vec::new() }
    }

    /// Something broke.
    #[must_use]
    pub fn error(reason: impl Into<String>) -> Self {
        Self::new(Code::Error, [reason])
    }

    /// Rejected; evicting pods may help.
    #[must_use]
    pub fn unschedulable(reason: impl Into<String>) -> Self {
        Self::new(Code::Unschedulable, [reason])
    }

    /// Rejected; evicting pods cannot help.
    #[must_use]
    pub fn unresolvable(reason: impl Into<String>) -> Self {
        Self::new(Code::UnschedulableAndUnresolvable, [reason])
    }

    /// Whether the code is [`Code::Success`].
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.code == Code::Success
    }

    /// All reasons in one line, as events and conditions show them.
    #[must_use]
    pub fn message(&self) -> String {
        self.reasons.join(", ")
    }
}
