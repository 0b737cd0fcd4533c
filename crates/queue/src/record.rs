//! A pod in the queue.

use std::sync::Arc;

use berth_model::{Pod, Time};

use crate::backoff::Backoff;

/// A pod with the history of its attempts.
#[must_use]
#[derive(Clone, Debug)]
pub struct QueuedPod {
    /// The newest object of the pod.
    pub pod: Arc<Pod>,
    /// The time when the pod was added, or when its last attempt failed.
    pub queued_at: Time,
    /// The time when the pod first passed PreEnqueue.
    pub first_queued_at: Option<Time>,
    /// The number of attempts that the pod has had, including the current attempt.
    pub attempts: u32,
    /// The plugins that rejected the pod in the last attempt, or that keep it out of activeQ.
    pub rejectors: Vec<Arc<str>>,
    /// The plugins that wait for something outside the scheduler.
    pub pending: Vec<Arc<str>>,
    /// The plugin that keeps the pod out of activeQ.
    pub gated_by: Option<Arc<str>>,
    /// Whether the pod was last moved because it had stayed too long in the pool. Such a move is a sign that a hint
    /// missed an event.
    pub was_flushed: bool,
    /// The time when the pod was last flushed. 0 if the pod was never flushed, or if an attempt came after the flush.
    pub(crate) flushed_at: Time,
    /// Whether the search for the pod's node took long in the last attempt, with or without success.
    pub had_long_search: bool,
    /// The plugins that took long for the pod in the last attempt.
    pub slow_plugins: Vec<Arc<str>>,
    /// The label of the event that brought the pod since its last attempt, as in metrics. The event is the pod's
    /// creation, or the event that moved the pod out of the pool. `None` if the pod only waited for the end of its
    /// backoff.
    pub brought_by: Option<Arc<str>>,
    pub(crate) unschedulable_count: u32,
    pub(crate) consecutive_errors: u32,
}

impl QueuedPod {
    pub(crate) fn new(pod: Arc<Pod>, now: Time) -> Self {
        Self {
            pod,
            queued_at: now,
            first_queued_at: None,
            attempts: 0,
            rejectors: Vec::new(),
            pending: Vec::new(),
            gated_by: None,
            was_flushed: false,
            flushed_at: Time(0),
            had_long_search: false,
            slow_plugins: Vec::new(),
            brought_by: None,
            unschedulable_count: 0,
            consecutive_errors: 0,
        }
    }

    /// The pod after an event with this label.
    pub(crate) fn after(self, label: &Arc<str>) -> Self {
        Self { brought_by: Some(Arc::clone(label)), ..self }
    }

    /// The plugins of [`Self::rejectors`] and [`Self::pending`].
    pub(crate) fn rejected_by(&self) -> impl Iterator<Item = &Arc<str>> {
        self.rejectors.iter().chain(&self.pending)
    }

    pub(crate) fn is_rejected(&self) -> bool {
        !self.rejectors.is_empty() || !self.pending.is_empty()
    }

    /// The time until which the pod backs off; `None` if the pod need not wait.
    pub(crate) fn backoff_end(&self, backoff: Backoff) -> Option<Time> {
        let count = if self.consecutive_errors > 0 { self.consecutive_errors } else { self.unschedulable_count };
        backoff.end(self.queued_at, count)
    }
}
