//! Counters and gauges of the queue, for the host to publish.

use std::{collections::BTreeMap, sync::Arc};

use berth_model::Sym;

/// How many pods wait where; backoff sums both heaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingPods {
    pub active: usize,
    pub backoff: usize,
    /// Gated ones not among them.
    pub unschedulable: usize,
    pub gated: usize,
}

/// Where a pod went, as `queue_incoming_pods_total` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SubQueue {
    Active,
    Backoff,
    Unschedulable,
}

impl SubQueue {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            SubQueue::Active => "active",
            SubQueue::Backoff => "backoff",
            SubQueue::Unschedulable => "unschedulable",
        }
    }
}

/// Numbers that only this crate can know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueMetrics {
    /// Pods that entered a queue, by queue and event label.
    pub incoming: BTreeMap<(SubQueue, Arc<str>), u64>,
    /// Waiting pods by the plugin that rejected them and their `schedulerName`.
    pub unschedulable: BTreeMap<(Arc<str>, Sym), i64>,
    /// Entries of the in-flight log by event label.
    pub in_flight_events: usize,
    /// Pods popped and not done.
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
