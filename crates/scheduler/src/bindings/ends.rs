//! The ends of an attempt that found a node. The pod is bound, goes back to the queue, or was deleted or bound by
//! another scheduler in the meantime.
//!
//! Each end takes the binding, settles what the cache assumed, and ends the cycle for the plugins.

use std::sync::Arc;

use berth_framework::{Code, run};
use berth_model::Pod;

use super::{
    binding::{Binding, Choice},
    binding_failure::BindingFailure,
    effects,
    peers::Peers,
};
use crate::{
    action::{AttemptOutcome, Level, Notice},
    changes,
    context::{Context, PodEvent},
    metrics::{AttemptResult, Observation},
};

impl Binding {
    /// Ends the attempt of a pod that was bound: PostBind, event, metrics.
    pub(super) fn finish(mut self, context: &mut Context) {
        self.enter(None, context);
        self.call(context, run::post_bind);
        let Choice { n_evaluated, n_feasible, .. } = self.choice;
        let outcome = AttemptOutcome::Bound { node: context.shared_text(self.node), n_evaluated, n_feasible };
        self.trace_end(Some(&outcome), context);
        let Binding { record, choice, node, assumed, .. } = self;
        assumed.settled();
        let pod = &record.pod;
        context.notice(Notice::Attempted { cycle: choice.cycle, pod: context.pod_ref(pod), outcome });
        let (namespace, node) = (context.text(pod.namespace), context.text(node));
        // Every pod has this note, and `format!` would grow it piece by piece.
        let note = ["Successfully assigned ", namespace, "/", &pod.name, " to ", node].concat();
        context.pod_event(pod, PodEvent::SCHEDULED, note);
        context.end_cycle(pod.scheduler_name, choice.cycle);
        context.count_attempt(pod.scheduler_name, AttemptResult::Scheduled, choice.started);
        let now = context.now();
        context.observe(Observation::Scheduled {
            attempts: record.attempts,
            milliseconds: now.since(record.first_queued_at.unwrap_or(now)),
            after_flush: record.was_flushed,
        });
    }

    /// Ends a failed attempt: everything is released, and the pod returns to the queue.
    pub(super) fn give_back(mut self, failure: BindingFailure, context: &mut Context, peers: &mut Peers<'_>) {
        self.leave(Code::Error, context);
        self.unreserve(context, peers);
        let ending = self.ending();
        let Binding { record, choice, assumed, .. } = self;
        let pod = Arc::clone(&record.pod);
        context.end_cycle(pod.scheduler_name, choice.cycle);
        let freed = match context.cache_mut().forget(assumed) {
            Ok(freed) => freed.map(|pod| changes::pod_deleted(&pod)),
            Err(inconsistency) => {
                context.log(Level::Warn, inconsistency.to_string());
                None
            }
        };
        let not_bound = failure.explained(pod.scheduler_name, context);
        context.record_not_bound(&pod, record.attempts, not_bound);
        let failure = failure.into_attempt_failure();
        // The room that a rejected pod leaves must not wake the pod itself.
        let was_rejected = failure.cause.is_rejection();
        if let Some(freed) = freed.as_ref().filter(|_| !was_rejected) {
            context.move_all(freed);
        }
        context.fail_attempt(record, ending, &failure);
        if let Some(freed) = freed.as_ref().filter(|_| was_rejected) {
            context.move_some(freed, |other| other.uid != pod.uid);
        }
    }

    /// Ends the attempt of a pod that was deleted. Everything is released, and no report is made.
    pub(super) fn abandon(self, context: &mut Context, peers: &mut Peers<'_>) {
        self.unreserve(context, peers);
        let pod = self.leave_in_cache(context);
        context.cache_mut().remove_pod(&pod.uid);
        context.move_all(&changes::pod_deleted(&pod));
    }

    /// Ends the attempt of a pod that another scheduler bound, as the watch shows. The pod may need what the plugins
    /// wrote for it, so the effects of Unreserve are not carried out.
    pub(super) fn release(self, context: &mut Context) {
        drop(self.ask_unreserve(context));
        drop(self.leave_in_cache(context));
    }

    /// Gives back what the plugins reserved for the pod, and carries out the effects that the plugins ask for.
    fn unreserve(&self, context: &mut Context, peers: &mut Peers<'_>) {
        let scheduler_name = self.pod().scheduler_name;
        if self.may_have_written() && context.have_time(scheduler_name) {
            // Unreserve may undo what a plugin's effects wrote, so the plugins first see the changes, if they have
            // time. If a replica cannot be updated, the next call of the plugin reports this.
            let _ = context.sync(scheduler_name);
        }
        let effects = self.ask_unreserve(context);
        effects::undo(context, peers, self.pod(), self.cycle(), effects);
    }

    /// Ends the attempt but leaves the pod in the cache, which has the state that the API server shows.
    fn leave_in_cache(self, context: &mut Context) -> Arc<Pod> {
        self.trace_end(None, context);
        let Binding { record, choice, assumed, .. } = self;
        assumed.settled();
        context.end_cycle(record.pod.scheduler_name, choice.cycle);
        context.queue_mut().done(&record.pod.uid);
        record.pod
    }
}
