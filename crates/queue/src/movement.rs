//! The move of a pod into a part of the queue, as the log reports it.

use std::sync::Arc;

use crate::{metrics::SubQueue, record::QueuedPod};

/// A pod that enters a part of the queue.
#[derive(Clone, Copy, Debug)]
pub struct Movement<'a> {
    /// The pod with its state after the move.
    pub record: &'a QueuedPod,
    /// The part of the queue.
    pub queue: SubQueue,
    /// The reason.
    pub reason: MoveReason<'a>,
    /// Whether a PreEnqueue plugin kept the pod out of activeQ.
    pub is_gated: bool,
}

/// The reason for which a pod enters a part of the queue.
#[derive(Clone, Copy, Debug)]
pub struct MoveReason<'a> {
    /// The label of the event, as in metrics.
    pub label: &'a Arc<str>,
    /// The cause of the move.
    pub cause: MoveCause,
}

/// The causes of moves. kube-scheduler writes a different log line for each cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveCause {
    /// The pod appeared, an event of another object moved it, or time passed.
    Event,
    /// The pod itself changed while it was unschedulable.
    Updated,
    /// The pod's attempt failed. Events during the attempt decided on this strategy.
    AttemptFailed(QueueingStrategy),
}

/// The place where an event sends a rejected pod. If several events apply, the strategy that is last in this list wins
/// (`queueingStrategy` in kube-scheduler's `scheduling_queue.go`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueingStrategy {
    /// The pod stays where it is.
    Skip,
    /// The pod goes to backoffQ, or to activeQ if its backoff is over.
    AfterBackoff,
    /// The pod goes to activeQ.
    Immediately,
}

impl QueueingStrategy {
    /// The number under the key `hint` of kube-scheduler's log lines.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            QueueingStrategy::Skip => 0,
            QueueingStrategy::AfterBackoff => 1,
            QueueingStrategy::Immediately => 2,
        }
    }
}

impl<'a> MoveReason<'a> {
    /// An event with this label.
    pub(crate) fn event(label: &'a Arc<str>) -> Self {
        Self { label, cause: MoveCause::Event }
    }
}
