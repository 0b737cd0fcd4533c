//! What becomes of a pod after an attempt that failed.

use std::sync::Arc;

use berth_model::{Pod, Time};

use crate::{
    occurrence::{Occurrence, Subject},
    policy::Policy,
    queue::{Queue, QueuedPod},
};

/// Who turned the pod down. Nobody: the attempt itself broke.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    pub rejectors: Vec<Arc<str>>,
    /// Plugins that wait for something outside the scheduler; their event skips the backoff.
    pub pending: Vec<Arc<str>>,
}

/// What an event means for a pod that was turned down; the strongest wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Worth {
    Nothing,
    AfterBackoff,
    Immediately,
}

impl Queue {
    /// Takes a pod back whose attempt failed. `pod` is its newest object. What happened during the attempt decides
    /// whether it waits for an event or only for its backoff.
    ///
    /// # Errors
    /// A pod of this uid waits here already; the record is handed back and nothing changed.
    pub fn requeue(
        &mut self,
        mut record: QueuedPod,
        pod: Arc<Pod>,
        failure: Failure,
        now: Time,
        policy: &mut dyn Policy,
    ) -> Result<(), Box<QueuedPod>> {
        if self.contains(&pod.uid) {
            return Err(Box::new(record));
        }
        record.pod = pod;
        record.queued_at = now;
        record.was_flushed = false;
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
        let events = self.in_flight.events_since(&uid);
        let worth = if record.is_rejected() {
            events.iter().map(|event| self.worth(&record, event, policy)).max().unwrap_or(Worth::Nothing)
        } else {
            Worth::AfterBackoff
        };
        self.place(record, worth, &Arc::from("ScheduleAttemptFailure"), now, policy);
        self.in_flight.end(&uid);
        Ok(())
    }

    pub(crate) fn place(
        &mut self,
        record: QueuedPod,
        worth: Worth,
        label: &Arc<str>,
        now: Time,
        policy: &mut dyn Policy,
    ) {
        match worth {
            Worth::Nothing => self.enter_pool(record, label),
            Worth::AfterBackoff => self.enter_backoff(record, label, now, policy),
            Worth::Immediately => self.enter_active(record, label, now, policy),
        }
    }

    /// Is the event a reason to try the pod again?
    pub(crate) fn worth(&self, record: &QueuedPod, occurrence: &Occurrence, policy: &mut dyn Policy) -> Worth {
        if !record.is_rejected() {
            return Worth::AfterBackoff;
        }
        if occurrence.is_wildcard() {
            return if concerns(&occurrence.subject, &record.pod) { Worth::AfterBackoff } else { Worth::Nothing };
        }
        let Some(plugins) = self.registrations.of(record.pod.scheduler_name) else { return Worth::AfterBackoff };
        let mut worth = Worth::Nothing;
        for plugin in plugins {
            let is_pending = record.pending.contains(&plugin.plugin);
            if !is_pending && (worth != Worth::Nothing || !record.rejectors.contains(&plugin.plugin)) {
                continue;
            }
            let name = &plugin.plugin;
            let hears = self.registrations.hears(record.pod.scheduler_name, name, &occurrence.event);
            if hears && policy.hint(name, &record.pod, occurrence) {
                worth = worth.max(if is_pending { Worth::Immediately } else { Worth::AfterBackoff });
                if is_pending || record.pending.is_empty() {
                    break;
                }
            }
        }
        worth
    }
}

/// Whether a wildcard event is about every pod, or about this one.
fn concerns(subject: &Subject, pod: &Pod) -> bool {
    match subject {
        Subject::Cluster => true,
        Subject::Pod { new, .. } => new.as_ref().is_none_or(|new| new.uid == pod.uid),
        Subject::Node { .. } | Subject::Object { .. } => false,
    }
}
