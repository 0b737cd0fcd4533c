//! The counters and measurements of the scheduler, which the host publishes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use berth_cache::Sizes;
use berth_model::{Sym, Time};
use berth_queue::{PendingPods, QueueMetrics};

/// The outcome of an attempt, for the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AttemptResult {
    /// A node was found and the pod was bound.
    Scheduled,
    /// No node can run the pod at present.
    Unschedulable,
    /// The attempt ended with an error.
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

/// The answer to the question whether an event makes another attempt worthwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintAnswer {
    /// The pod is tried again.
    Queue,
    /// The event does not move the pod.
    QueueSkip,
    /// The plugin could not be asked, so the pod is tried again.
    Error,
}

impl HintAnswer {
    /// The value of the `hint` label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            HintAnswer::Queue => "Queue",
            HintAnswer::QueueSkip => "QueueSkip",
            HintAnswer::Error => "Error",
        }
    }

    /// The answer of a plugin that was asked.
    pub(crate) fn of(queues: bool) -> Self {
        if queues { Self::Queue } else { Self::QueueSkip }
    }

    /// Whether the pod is tried again.
    pub(crate) fn queues(self) -> bool {
        match self {
            HintAnswer::Queue | HintAnswer::Error => true,
            HintAnswer::QueueSkip => false,
        }
    }
}

/// The end of a PreBind plugin's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitResult {
    /// The plugin is done.
    Success,
    /// The plugin failed when it was asked again.
    Failure,
    /// The time that the plugin named was over.
    Timeout,
    /// A request that the plugin asked for failed.
    Error,
}

impl WaitResult {
    /// The value of the `status` label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            WaitResult::Success => "success",
            WaitResult::Failure => "failure",
            WaitResult::Timeout => "timeout",
            WaitResult::Error => "error",
        }
    }
}

/// The counters of batching, which the host publishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchMetrics {
    /// Placed pods, by profile and by whether the hint named their node.
    pub attempts: BTreeMap<(String, &'static str), u64>,
    /// Batches that ended or did not begin, by profile and reason.
    pub flushes: BTreeMap<(String, &'static str), u64>,
}

/// Counters by profile and by the counted thing. A counter takes memory only after its first count.
#[derive(Clone, Debug)]
pub(crate) struct ByProfile<What>(BTreeMap<String, BTreeMap<What, u64>>);

impl<What> Default for ByProfile<What> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<What: Copy + Ord> ByProfile<What> {
    pub(crate) fn count(&mut self, profile: &str, what: What) {
        match self.0.get_mut(profile) {
            Some(counters) => *counters.entry(what).or_default() += 1,
            None => drop(self.0.insert(profile.to_owned(), BTreeMap::from([(what, 1)]))),
        }
    }

    pub(crate) fn totals(&self) -> BTreeMap<(String, What), u64> {
        let of_profile = |(profile, counters): (&String, &BTreeMap<What, u64>)| {
            let profile = profile.clone();
            counters.clone().into_iter().map(move |(what, total)| ((profile.clone(), what), total))
        };
        self.0.iter().flat_map(of_profile).collect()
    }
}

/// The current counters and gauges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Scheduling cycles that began.
    pub cycles: u64,
    /// Scheduling cycles that could reuse answers about equivalent pods.
    pub cycles_with_earlier_answers: u64,
    /// Attempts by profile and result.
    pub attempts: BTreeMap<(String, AttemptResult), u64>,
    /// The counters of opportunistic batching.
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
    /// Owners whose pods are held back because a plugin faulted over them, by plugin.
    pub held_owners: BTreeMap<String, usize>,
}

/// The state of a scheduler in a few numbers. The scheduler always has these numbers, so they need no copy that
/// follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The time of the numbers, by the scheduler's clock.
    pub as_of: Time,
    /// Nodes that exist.
    pub nodes: usize,
    /// Pods between Reserve and PostBind.
    pub bindings: usize,
    /// The longest time in milliseconds since a waiting pod was added or last tried.
    pub longest_wait: u64,
}

/// A single measurement for a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// A pod was bound.
    Scheduled {
        /// The number of attempts.
        attempts: u32,
        /// The time since the pod first entered activeQ.
        milliseconds: u64,
        /// Whether the pod was last moved because it had stayed too long in the unschedulable pool.
        after_flush: bool,
    },
    /// A pod waited on Permit.
    PermitWait {
        /// The name of a status code.
        result: &'static str,
        /// The length of the wait.
        milliseconds: u64,
    },
    /// The wait of a PreBind plugin for objects ended.
    ObjectWait {
        /// The `schedulerName` of the pod.
        scheduler_name: Sym,
        /// The plugin.
        plugin: Arc<str>,
        /// The objects for which the plugin waited, in their current state, without objects that are gone.
        objects: Vec<Arc<[u8]>>,
        /// The end of the wait.
        result: WaitResult,
        /// The length of the wait.
        milliseconds: u64,
    },
    /// An attempt ended. This is observed only with a clock, as everything that contains a [`Duration`].
    Attempt {
        /// The `schedulerName` of the pod.
        scheduler_name: Sym,
        /// The result of the attempt.
        result: AttemptResult,
        /// The time from the beginning of the cycle, including the binding.
        duration: Duration,
    },
    /// A node was searched for, and PostFilter ran if none was found.
    Algorithm {
        /// The time from the beginning of the cycle.
        duration: Duration,
    },
    /// The pod was signed, and the batch was asked for its next node.
    NodeHint {
        /// The `schedulerName` of the pod.
        scheduler_name: Sym,
        /// Whether the batch had a hint.
        hinted: bool,
        /// The time of both steps together.
        duration: Duration,
    },
    /// The ranking of a placed pod was kept for the next pod.
    ResultsStored {
        /// The `schedulerName` of the pod.
        scheduler_name: Sym,
        /// The duration.
        duration: Duration,
    },
    /// An event about an object was handled.
    EventHandled {
        /// The label of the event, such as `NodeAdd` or `UnschedulablePodUpdate`.
        event: Arc<str>,
        /// The time that the event took, including the moves of pods that it caused.
        duration: Duration,
    },
    /// A plugin was asked whether an event makes another attempt worthwhile.
    QueueingHint {
        /// The plugin.
        plugin: Arc<str>,
        /// The label of the event.
        event: Arc<str>,
        /// The answer.
        answer: HintAnswer,
        /// The time until the answer.
        duration: Duration,
    },
    /// The evictions of a preemption were requested, or one request failed.
    Evictions {
        /// Whether all requests succeeded.
        succeeded: bool,
        /// The time from the request to the last victim's answer.
        duration: Duration,
    },
    /// A PostFilter plugin asked for evictions.
    Preemption {
        /// The number of pods that are to be evicted for one pod.
        victims: usize,
    },
}
