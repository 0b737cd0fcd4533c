//! The conditions that the scheduler writes into the status of pods, by their reasons.

/// The reason of a condition that the scheduler writes. The names are those of `k8s.io/api/core/v1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionReason {
    /// The pod fits on no node at the moment, or a plugin holds the pod back.
    Unschedulable,
    /// The attempt ended with an error.
    SchedulerError,
    /// The pod is being evicted for a pod of higher priority.
    PreemptionByScheduler,
}

impl ConditionReason {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::Unschedulable, Self::SchedulerError, Self::PreemptionByScheduler];

    /// The text of the reason in the condition.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unschedulable => "Unschedulable",
            Self::SchedulerError => "SchedulerError",
            Self::PreemptionByScheduler => "PreemptionByScheduler",
        }
    }

    /// The type of the condition.
    #[must_use]
    pub fn condition_type(self) -> &'static str {
        match self {
            Self::Unschedulable | Self::SchedulerError => "PodScheduled",
            Self::PreemptionByScheduler => "DisruptionTarget",
        }
    }

    /// The status of the condition, which is `True` or `False`.
    #[must_use]
    pub fn condition_status(self) -> &'static str {
        match self {
            Self::Unschedulable | Self::SchedulerError => "False",
            Self::PreemptionByScheduler => "True",
        }
    }
}
