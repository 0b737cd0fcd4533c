//! What the scheduler counts, for the host to publish.

use std::collections::BTreeMap;

use berth_cache::Sizes;
use berth_queue::{PendingPods, QueueMetrics};

use crate::cycle::BatchMetrics;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AttemptResult {
    Scheduled,
    Unschedulable,
    Error,
}

impl AttemptResult {
    /// The value of the `result` label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            AttemptResult::Scheduled => "scheduled",
            AttemptResult::Unschedulable => "unschedulable",
            AttemptResult::Error => "error",
        }
    }
}

/// Counters and gauges as they stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Scheduling cycles that began.
    pub cycles: u64,
    /// By profile and result.
    pub attempts: BTreeMap<(String, AttemptResult), u64>,
    pub batching: BatchMetrics,
    pub queue: QueueMetrics,
    pub pending_pods: PendingPods,
    pub cache: Sizes,
    /// Pods that wait on Permit.
    pub waiting_pods: usize,
    /// Pods between Reserve and PostBind.
    pub bindings: usize,
}

/// A single measurement for a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// A pod was bound. `milliseconds` since it first entered activeQ.
    Scheduled { attempts: u32, milliseconds: u64, after_flush: bool },
    /// A pod waited on Permit; `result` is the name of a status code.
    PermitWait { result: &'static str, milliseconds: u64 },
    /// So many pods were evicted for one.
    Preemption { victims: usize },
}
