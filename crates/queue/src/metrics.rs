//! The counters and gauges of the queue, which the host publishes.

use std::{collections::BTreeMap, sync::Arc};

use berth_model::Sym;

/// The number of pods that wait in each part of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingPods {
    /// Pods in activeQ.
    pub active: usize,
    /// Pods in backoffQ.
    pub backoff: usize,
    /// Unschedulable pods. Gated pods are not included.
    pub unschedulable: usize,
    /// Pods that a PreEnqueue plugin keeps out of activeQ.
    pub gated: usize,
}

/// A part of the queue, as the label `queue` of `scheduler_queue_incoming_pods_total` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SubQueue {
    /// activeQ.
    Active,
    /// backoffQ.
    Backoff,
    /// The pool of unschedulable pods.
    Unschedulable,
}

impl SubQueue {
    /// The value of the label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            SubQueue::Active => "active",
            SubQueue::Backoff => "backoff",
            SubQueue::Unschedulable => "unschedulable",
        }
    }
}

/// The current counters and gauges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueMetrics {
    /// Pods that entered a queue, by queue and event label.
    pub incoming: BTreeMap<(SubQueue, Arc<str>), u64>,
    /// The number of waiting pods, by the plugin that rejected the pods and by the pods' `schedulerName`.
    pub unschedulable: BTreeMap<(Arc<str>, Sym), i64>,
    /// The number of events that are kept for running attempts, by label.
    pub in_flight_events: BTreeMap<Arc<str>, usize>,
    /// Pods in the middle of an attempt.
    pub in_flight_pods: usize,
}

impl QueueMetrics {
    pub(crate) fn count_incoming(&mut self, queue: SubQueue, label: &Arc<str>) {
        *self.incoming.entry((queue, Arc::clone(label))).or_default() += 1;
    }

    pub(crate) fn count_rejectors<'a>(
        &mut self,
        plugins: impl Iterator<Item = &'a Arc<str>>,
        scheduler_name: Sym,
        by: i64,
    ) {
        for plugin in plugins {
            *self.unschedulable.entry((Arc::clone(plugin), scheduler_name)).or_default() += by;
        }
    }
}
