//! Failed attempts: the pod returns to the queue, and its status and an event give the reason.

use std::{borrow::Cow, sync::Arc};

use berth_framework::{
    CycleId, Effect, Permission, Status,
    run::{Diagnosis, PluginBits},
};
use berth_model::{ConditionReason, Pod, Sym, api};
use berth_queue::{QueuedPod, RejectedBy};

use crate::{
    action::{AttemptOutcome, Level, Notice, TracedPreemption},
    context::{Context, EndingCycle, PodEvent},
    metrics::AttemptResult,
    profiles::EXTENDER,
    unasked_gates::GateMessage,
};

/// A failed attempt.
#[derive(Debug)]
pub(crate) struct AttemptFailure<'a> {
    pub(crate) cause: FailureCause<'a>,
    pub(crate) nomination: Nomination,
}

/// The cause of a failed attempt. Unless plugins rejected the pod, any event makes the scheduler try the pod again.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one value at a time, and it stays where it is made")]
pub(crate) enum FailureCause<'a> {
    /// The cluster has no nodes.
    EmptyCluster,
    /// Plugins rejected the pod.
    Rejected(Cow<'a, Diagnosis>),
    /// The attempt broke, or a PreEnqueue plugin could not be asked.
    Unable(Status),
}

impl FailureCause<'_> {
    pub(crate) fn is_rejection(&self) -> bool {
        match self {
            Self::EmptyCluster | Self::Rejected(_) => true,
            Self::Unable(status) => status.code.is_rejected(),
        }
    }

    /// The message for users.
    fn message(&self) -> String {
        match self {
            Self::EmptyCluster => "no nodes available to schedule pods".to_owned(),
            Self::Rejected(diagnosis) => diagnosis.message(),
            Self::Unable(status) => status.message(),
        }
    }
}

/// The change to the pod's `status.nominatedNodeName`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nomination {
    Keep,
    Clear,
    Set(Sym),
}

impl Nomination {
    /// The node to write, or [`Sym::NONE`] to clear the field; `None` leaves the field unchanged.
    fn node(self) -> Option<Sym> {
        match self {
            Nomination::Keep => None,
            Nomination::Clear => Some(Sym::NONE),
            Nomination::Set(node) => Some(node),
        }
    }
}

impl AttemptFailure<'static> {
    /// The failure of an attempt that broke. No plugin rejected the pod.
    pub(crate) fn error(status: &Status) -> Self {
        let status = Status::error(status.message());
        Self { cause: FailureCause::Unable(status), nomination: Nomination::Clear }
    }

    /// The failure of a PreEnqueue plugin that could not be asked.
    pub(crate) fn at_gate(status: Status) -> Self {
        Self { cause: FailureCause::Unable(status), nomination: Nomination::Keep }
    }
}

impl Context {
    /// Returns the pod to the queue, unless the pod is gone, and reports the failure of the attempt.
    pub(crate) fn fail_attempt(&mut self, record: QueuedPod, ending: EndingCycle, failure: &AttemptFailure<'_>) {
        let pod = Arc::clone(&record.pod);
        let is_rejected = failure.cause.is_rejection();
        self.count_attempt(
            pod.scheduler_name,
            if is_rejected { AttemptResult::Unschedulable } else { AttemptResult::Error },
            ending.started,
        );
        let end = self.traced_instant(ending.cycle);
        let Some(newest) = self.pending_pod(&pod.uid).map(|pending| Arc::clone(&pending.pod)) else {
            // The pod was deleted, or bound by another scheduler, during the attempt.
            self.trace_end(ending, end, &pod, None, None);
            return self.queue_mut().done(&pod.uid);
        };
        self.requeue(record, &newest, &failure.cause);
        match failure.nomination.node() {
            Some(node) => self.queue_mut().nominator_mut().set(&newest, node),
            None if newest.nominated_node_name.is_none() => {}
            None => self.queue_mut().nominator_mut().set(&newest, newest.nominated_node_name),
        }
        let message = failure.cause.message();
        let outcome = self.outcome(pod.scheduler_name, &failure.cause, &message);
        if end.is_some() {
            let preemption = self.preemption(pod.scheduler_name, failure);
            self.trace_end(ending, end, &newest, Some(&outcome), preemption);
        }
        self.notice(Notice::Attempted { cycle: ending.cycle, pod: self.pod_ref(&newest), outcome });
        self.pod_event(&newest, PodEvent::FAILED_SCHEDULING, message.clone());
        self.patch_failure(&newest, Some(ending.cycle), failure, message);
    }

    fn outcome(&mut self, scheduler_name: Sym, cause: &FailureCause<'_>, message: &str) -> AttemptOutcome {
        let message = message.to_owned();
        match cause {
            FailureCause::EmptyCluster => AttemptOutcome::EmptyCluster,
            FailureCause::Rejected(_) => AttemptOutcome::Unschedulable { message },
            FailureCause::Unable(_) => {
                let profile = self.profile_mut(scheduler_name);
                let is_fault = profile.is_some_and(|profile| profile.out_of_service().is_some());
                AttemptOutcome::Failed { message, is_fault }
            }
        }
    }

    /// The evictions that PostFilter asked for and that are granted.
    fn preemption(&self, scheduler_name: Sym, failure: &AttemptFailure<'_>) -> Option<TracedPreemption> {
        let FailureCause::Rejected(diagnosis) = &failure.cause else { return None };
        let profile = self.profile(scheduler_name)?;
        let mut victims = Vec::new();
        for (plugin, effect) in &diagnosis.post_filter.effects {
            if let Effect::Evict { namespace, name, .. } = effect
                && profile.may(*plugin, Permission::Evict)
            {
                victims.push(format!("{namespace}/{name}"));
            }
        }
        let node = failure.nomination.node().filter(|node| !node.is_none()).map(|node| self.text(node).to_owned());
        (!victims.is_empty()).then_some(TracedPreemption { node, victims })
    }

    /// Reports pods that stay out of activeQ although no plugin rejected them. A message is reported again only after a
    /// change.
    pub(crate) fn tell_gate_failures(&mut self) {
        let mut is_first = true;
        for GateMessage { uid, status, is_failure } in self.take_gate_failures() {
            let Some(pod) = self.pending_pod(&uid).map(|pending| Arc::clone(&pending.pod)) else { continue };
            let message = status.message();
            if self.patch_failure(&pod, None, &AttemptFailure::at_gate(status), message.clone()) {
                if is_first {
                    let name = self.full_name(&pod);
                    if is_failure {
                        self.log(Level::Error, format!("pod {name} stays out of the queue: {message}"));
                    } else {
                        self.log(Level::Warn, format!("pod {name} waits: {message}"));
                    }
                    is_first = false;
                }
                self.pod_event(&pod, PodEvent::FAILED_SCHEDULING, message);
            }
        }
    }

    fn requeue(&mut self, record: QueuedPod, newest: &Arc<Pod>, cause: &FailureCause<'_>) {
        let now = self.now();
        let rejections = self.rejections(record.pod.scheduler_name, cause);
        let requeued =
            self.with_queue(|queue, policy| queue.requeue(record, Arc::clone(newest), rejections, now, policy));
        self.leave_gate_failure_unreported(&newest.uid);
        if requeued.is_err() {
            let message = format!("pod {} is already present in the queue", self.full_name(newest));
            self.log(Level::Error, message);
            self.queue_mut().done(&newest.uid);
        }
    }

    /// The names of the plugins that rejected the pod.
    fn rejections(&self, scheduler_name: Sym, cause: &FailureCause<'_>) -> RejectedBy {
        let (Some(profile), FailureCause::Rejected(diagnosis)) = (self.profile(scheduler_name), cause) else {
            return RejectedBy::default();
        };
        let names = |plugins: &PluginBits| plugins.iter().map(|plugin| Arc::clone(profile.name(plugin))).collect();
        let mut rejectors: Vec<Arc<str>> = names(&diagnosis.rejectors);
        rejectors.extend(diagnosis.rejected_by_extender.then(|| Arc::from(EXTENDER)));
        RejectedBy { rejectors, pending: names(&diagnosis.pending) }
    }

    /// Patches the pod's condition. Returns whether the condition changes.
    fn patch_failure(
        &mut self,
        pod: &Pod,
        cycle: Option<CycleId>,
        failure: &AttemptFailure<'_>,
        message: String,
    ) -> bool {
        let Some(pending) = self.pending_pod(&pod.uid) else {
            debug_assert!(false, "pod {} was requeued and is not pending", pod.uid);
            return false;
        };
        let is_rejection = failure.cause.is_rejection();
        let reason = if is_rejection { ConditionReason::Unschedulable } else { ConditionReason::SchedulerError };
        let old = pending.scheduled();
        let condition = api::Condition {
            type_: reason.condition_type().to_owned(),
            status: reason.condition_status().to_owned(),
            reason: reason.as_str().to_owned(),
            message,
            observed_generation: pending.generation,
            last_transition_time: old
                .filter(|old| old.status == "False")
                .and_then(|old| old.last_transition_time.clone()),
        };
        let is_changed = pending.asked.as_ref().or(old) != Some(&condition);
        let nominated = failure.nomination.node().map(|node| self.text(node).to_owned());
        self.patch_status(pod, cycle, is_changed.then_some(condition), nominated);
        is_changed
    }
}
