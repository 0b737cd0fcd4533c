//! The place where a pod goes after a failed attempt.

use std::sync::Arc;

use berth_model::{Pod, Time};

use super::Queue;
use crate::{
    in_flight::Meanwhile,
    movement::{MoveCause, MoveReason, QueueingStrategy},
    object_event::ObjectEvent,
    policy::Policy,
    record::QueuedPod,
};

/// The plugins that rejected the pod. If both lists are empty, the attempt failed with an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RejectedBy {
    /// Plugins that answered `Unschedulable` or `UnschedulableAndUnresolvable`.
    pub rejectors: Vec<Arc<str>>,
    /// Plugins that wait for something outside the scheduler. An event that they accept lets the pod skip its backoff.
    pub pending: Vec<Arc<str>>,
}

impl Queue {
    /// Takes back a pod after a failed attempt. `pod` is the pod's newest object. Events during the attempt decide
    /// whether the pod waits for an event or only for its backoff.
    ///
    /// # Errors
    /// A pod with this uid already waits in the queue. The error contains the record, and the queue did not change.
    pub fn requeue(
        &mut self,
        mut record: QueuedPod,
        pod: Arc<Pod>,
        failure: RejectedBy,
        now: Time,
        policy: &mut dyn Policy,
    ) -> Result<(), Box<QueuedPod>> {
        if self.contains(&pod.uid) {
            return Err(Box::new(record));
        }
        record.pod = pod;
        record.queued_at = now;
        (record.was_flushed, record.flushed_at) = (false, Time(0));
        record.gated_by = None;
        record.rejectors = failure.rejectors;
        record.pending = failure.pending;
        if record.is_rejected() {
            record.unschedulable_count += 1;
            record.consecutive_errors = 0;
        } else {
            record.consecutive_errors += 1;
        }
        let uid = record.pod.uid.clone();
        let Meanwhile { events, tries_again, changed_plugins } = self.in_flight.meanwhile(&uid);
        record.brought_by = None;
        let strategy = if record.is_rejected() {
            let tries_again = tries_again || record.rejected_by().any(|plugin| changed_plugins.contains(plugin));
            let mut strategy = if tries_again { QueueingStrategy::AfterBackoff } else { QueueingStrategy::Skip };
            for event in &events {
                let of_event = self.strategy(&record, event, policy);
                if of_event > strategy {
                    strategy = of_event;
                    record.brought_by = Some(Arc::clone(&event.label));
                }
            }
            strategy
        } else {
            QueueingStrategy::AfterBackoff
        };
        let label: Arc<str> = Arc::from("ScheduleAttemptFailure");
        let reason = MoveReason { label: &label, cause: MoveCause::AttemptFailed(strategy) };
        self.place(record, strategy, reason, now, policy);
        self.in_flight.end(&uid);
        Ok(())
    }

    pub(super) fn place(
        &mut self,
        record: QueuedPod,
        strategy: QueueingStrategy,
        reason: MoveReason<'_>,
        now: Time,
        policy: &mut dyn Policy,
    ) {
        let record = match reason.cause {
            MoveCause::Event | MoveCause::Updated => record.after(reason.label),
            MoveCause::AttemptFailed(_) => record,
        };
        match strategy {
            QueueingStrategy::Skip => self.enter_pool(record, reason, false, policy),
            QueueingStrategy::AfterBackoff => self.enter_backoff(record, reason, now, policy),
            QueueingStrategy::Immediately => self.enter_active(record, reason, now, policy),
        }
    }

    /// The place where the event sends the pod. The plugins that rejected the pod decide by their queueing hints.
    pub(super) fn strategy(
        &self,
        record: &QueuedPod,
        object_event: &ObjectEvent,
        policy: &mut dyn Policy,
    ) -> QueueingStrategy {
        if !record.is_rejected() {
            return QueueingStrategy::AfterBackoff;
        }
        if object_event.is_wildcard() {
            return QueueingStrategy::AfterBackoff;
        }
        let Some(plugins) = self.registrations.of(record.pod.scheduler_name) else {
            return QueueingStrategy::AfterBackoff;
        };
        let mut strategy = QueueingStrategy::Skip;
        for plugin in plugins {
            let is_pending = record.pending.contains(&plugin.plugin);
            if !is_pending && (strategy != QueueingStrategy::Skip || !record.rejectors.contains(&plugin.plugin)) {
                continue;
            }
            if plugin.hears(&object_event.event) && policy.hint(&plugin.plugin, &record.pod, object_event) {
                strategy = strategy.max(if is_pending {
                    QueueingStrategy::Immediately
                } else {
                    QueueingStrategy::AfterBackoff
                });
                if is_pending || record.pending.is_empty() {
                    break;
                }
            }
        }
        strategy
    }
}
