//! What the scheduler counts, for the host to publish.

use std::collections::BTreeMap;

use berth_cache::Sizes;
use berth_queue::{PendingPods, QueueMetrics};

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AttemptResult {
    /// A node was found and the pod was bound.
    Scheduled,
    /// No node will do for now.
    Unschedulable,
    /// Something failed.
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

/// How batching went, for the host to publish.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchMetrics {
    /// Signed pods that were placed, by profile and by whether the hint named their node.
    pub attempts: BTreeMap<(String, &'static str), u64>,
    /// Batches that ended, by profile and reason.
    pub flushes: BTreeMap<(String, &'static str), u64>,
}

/// Counters and gauges as they stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Scheduling cycles that began.
    pub cycles: u64,
    /// By profile and result.
    pub attempts: BTreeMap<(String, AttemptResult), u64>,
    /// How opportunistic batching went.
    pub batching: BatchMetrics,
    /// Counters of the queue.
    pub queue: QueueMetrics,
    /// Pods in each part of the queue.
    pub pending_pods: PendingPods,
    /// Entries in the cache.
    pub cache: Sizes,
    /// Pods that wait on Permit.
    pub waiting_pods: usize,
    /// Pods between Reserve and PostBind.
    pub bindings: usize,
}

/// A single measurement for a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// A pod was bound.
    Scheduled {
        /// How many attempts it took.
        attempts: u32,
        /// Since the pod first entered activeQ.
        milliseconds: u64,
        /// Whether it was last moved because it had stayed too long in the unschedulable pool.
        after_flush: bool,
    },
    /// A pod waited on Permit.
    PermitWait {
        /// The name of a status code.
        result: &'static str,
        /// How long it waited.
        milliseconds: u64,
    },
    /// A PostFilter plugin asked for evictions.
    Preemption {
        /// How many pods are to be evicted for one.
        victims: usize,
    },
}
