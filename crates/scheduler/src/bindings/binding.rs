//! A pod between Reserve and PostBind, and its inputs.

use std::{sync::Arc, time::Duration};

use berth_cache::Assumed;
use berth_framework::{
    Call, Code, CycleId, Effect, ExtenderIdx, PluginIdx, Point, Profile, Start, run, run::PreFlights,
};
use berth_model::{NodeIdx, ObjectKey, Pod, PodUid, Sym, Time};
use berth_queue::QueuedPod;

use super::{
    binding_failure::BindingFailure, object_wait::ObjectWait, permit::PermitWaits, pre_bind::PreBindGroup,
    questions::Question,
};
use crate::{
    action::{AttemptOutcome, RequestError},
    context::{Context, EndingCycle, PodPlugins},
};

/// The node that a cycle chose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub(crate) cycle: CycleId,
    /// The time at which the cycle began.
    pub(crate) started: Option<Duration>,
    /// The node's row at the time of the choice. Plugins get this row if the node no longer exists.
    pub(crate) row: NodeIdx,
    /// The number of nodes that were looked at, and the number of nodes that passed.
    pub(crate) n_evaluated: usize,
    pub(crate) n_feasible: usize,
}

/// A pod between Reserve and PostBind.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(super) record: QueuedPod,
    pub(super) choice: Choice,
    pub(super) node: Sym,
    pub(super) assumed: Assumed,
    pub(super) stage: Stage,
    /// The answers of PreBind plugins about their work; empty before the plugins were asked.
    pub(super) pre_flights: PreFlights,
    /// Whether Permit held the pod.
    pub(super) was_held: bool,
    /// The time at which users are informed about the wait of the pod, if the pod still waits.
    pub(super) tell_at: Option<Time>,
    /// The question for plugins about the pod. It is asked as soon as the plugins have time.
    pub(super) question: Option<Question>,
    /// The extension point that is being timed, including the requests that its plugins asked for.
    pub(super) timed: Option<(Point, Start)>,
    /// The beginning of the wait for Permit, if the attempt is traced.
    pub(super) held: Option<Start>,
}

/// The answer or event that the pod waits for.
#[derive(Debug)]
pub(super) enum Stage {
    /// The pod waits for Permit plugins. The list is empty once all of them released the pod.
    Permit(PermitWaits),
    /// The pod waits for PreBind plugins.
    PreBind(PreBindGroup),
    /// The pod waits for the effects of a Bind plugin. If the plugin asked for the binding as well, the binding comes
    /// last.
    BindEffects { plugin: PluginIdx, then_bind: bool },
    /// The pod waits until the API server has bound it.
    BindRequest { plugin: PluginIdx },
    /// The pod waits until an extender has bound it.
    ExtenderBind { extender: ExtenderIdx },
    /// The pod waits for the end of the process. The next scheduler finds the pod pending.
    Shutdown,
}

/// An input for a pod between Reserve and PostBind.
#[derive(Debug)]
pub(crate) enum Input {
    /// A Permit plugin releases the pod.
    Allowed { plugin: Arc<str> },
    /// A Permit plugin rejects the pod.
    Rejected { plugin: Arc<str>, reason: String },
    /// A Permit plugin was not granted to release or reject the pod.
    Refused { plugin: Arc<str>, message: String },
    /// A pod of higher priority preempts the pod.
    Preempted { preemptor: Arc<Pod>, plugin: Arc<str> },
    /// The pod has a `deletionTimestamp`.
    Terminating,
    /// The pod is gone from the API server.
    Deleted,
    /// The API server shows the pod on this node.
    SeenOnNode(Sym),
    /// One of the pod's deadlines has passed.
    DeadlinePassed(Time),
    /// An object changed that the pod waits for.
    ObjectChanged(ObjectKey),
    /// The answer to [`crate::Request::AwaitedEffects`] of this plugin.
    EffectsFinished { plugin: Arc<str>, result: Result<(), RequestError> },
    /// The answer to [`crate::Request::Bind`] or [`crate::Request::BindByExtender`].
    BindFinished(Result<(), RequestError>),
}

/// The state of the pod after a step.
pub(super) enum Step {
    /// The pod waits for the next input.
    Waiting(Binding),
    /// The pod continues once plugins have been asked this question.
    Asks(Binding, Question),
    /// The API server has bound the pod.
    Bound(Binding),
    /// The attempt failed, and the pod returns to the queue.
    Failed(Binding, BindingFailure),
    /// The pod was deleted.
    Deleted(Binding),
    /// Another scheduler bound the pod.
    BoundByOther(Binding),
}

/// One attempt of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PodAttempt {
    pub(super) uid: PodUid,
    pub(super) cycle: CycleId,
}

impl Choice {
    /// The end of the cycle. `number` is the number of the pod's attempt.
    pub(super) fn ending(&self, number: u32, node: Sym) -> EndingCycle {
        EndingCycle { cycle: self.cycle, started: self.started, number, node: Some(node) }
    }
}

impl Binding {
    pub(super) fn attempt(&self) -> PodAttempt {
        PodAttempt { uid: self.uid().clone(), cycle: self.cycle() }
    }

    pub(super) fn cycle(&self) -> CycleId {
        self.choice.cycle
    }

    pub(super) fn ending(&self) -> EndingCycle {
        self.choice.ending(self.record.attempts, self.node)
    }

    /// Reports the end of a traced attempt that did not fail.
    pub(super) fn trace_end(&self, outcome: Option<&AttemptOutcome>, context: &mut Context) {
        let end = context.traced_instant(self.cycle());
        context.trace_end(self.ending(), end, self.pod(), outcome, None);
    }

    pub(super) fn pod(&self) -> &Arc<Pod> {
        &self.record.pod
    }

    pub(super) fn uid(&self) -> &PodUid {
        &self.record.pod.uid
    }

    pub(super) fn is_held_by_permit(&self) -> bool {
        matches!(&self.stage, Stage::Permit(waits) if !waits.is_empty())
    }

    /// Whether a request that may bind the pod is being carried out.
    pub(super) fn is_sent(&self) -> bool {
        matches!(self.stage, Stage::BindEffects { .. } | Stage::BindRequest { .. } | Stage::ExtenderBind { .. })
    }

    /// Ends the timing of the previous point as a success, and begins to time `point`. Nothing is timed if `point` is
    /// `None`, or if no profile serves the pod any more.
    pub(super) fn enter(&mut self, point: Option<Point>, context: &mut Context) {
        self.leave(Code::Success, context);
        let profile = context.profile_mut(self.pod().scheduler_name);
        self.timed = point.zip(profile).map(|(point, profile)| (point, profile.meter().start(self.choice.cycle)));
    }

    /// Ends the timing of the current extension point, if the pod is at an extension point.
    pub(super) fn leave(&mut self, code: Code, context: &mut Context) {
        let profile = context.profile_mut(self.pod().scheduler_name);
        if let Some(((point, start), profile)) = self.timed.take().zip(profile) {
            profile.meter().end(start, point.as_str(), code);
        }
    }

    /// The times at which the pod's waits end if no input comes, and the time at which users are informed about the
    /// wait.
    pub(super) fn deadlines(&self) -> Vec<Time> {
        let mut deadlines: Vec<Time> = match &self.stage {
            Stage::Permit(waits) => waits.deadlines().collect(),
            Stage::PreBind(group) => group.waits().map(|wait| wait.deadline).collect(),
            Stage::BindEffects { .. } | Stage::BindRequest { .. } | Stage::ExtenderBind { .. } | Stage::Shutdown => {
                return Vec::new();
            }
        };
        deadlines.extend(self.tell_at);
        deadlines
    }

    /// The waits of Permit plugins or of PreBind plugins for objects. They include the waits of plugins whose effects
    /// are being carried out.
    pub(super) fn object_waits(&self) -> impl Iterator<Item = &ObjectWait> {
        let (permit, group) = match &self.stage {
            Stage::Permit(waits) => (Some(waits), None),
            Stage::PreBind(group) => (None, Some(group)),
            Stage::BindEffects { .. } | Stage::BindRequest { .. } | Stage::ExtenderBind { .. } | Stage::Shutdown => {
                (None, None)
            }
        };
        let of_permit = permit.into_iter().flat_map(PermitWaits::object_waits);
        of_permit.chain(group.into_iter().flat_map(PreBindGroup::waits))
    }

    /// Calls into the pod's profile, with the node's present row. `None` if the profiles were replaced and no profile
    /// serves the pod any more.
    pub(super) fn call<R>(
        &self,
        context: &mut Context,
        work: impl FnOnce(&mut Profile, &Call<'_>, NodeIdx) -> R,
    ) -> Option<R> {
        self.call_about(self.pod(), context, work)
    }

    /// Calls like [`Self::call`]. Other plugins then know what the profile's plugins reserved.
    pub(super) fn call_and_share<R>(
        &self,
        context: &mut Context,
        work: impl FnOnce(&mut Profile, &Call<'_>, NodeIdx) -> R,
    ) -> Option<R> {
        let answer = self.call(context, work);
        context.share_facts(self.pod().scheduler_name, self.cycle());
        answer
    }

    /// Lets the plugins give back what they reserved for the pod. Returns the effects that the plugins ask for.
    pub(super) fn ask_unreserve(&self, context: &mut Context) -> Vec<(PluginIdx, Effect)> {
        let effects = self.call(context, run::unreserve).unwrap_or_default();
        context.unshare_facts(self.pod().scheduler_name, self.cycle());
        effects
    }

    /// Whether effects of PreBind or Bind may have been carried out.
    pub(super) fn may_have_written(&self) -> bool {
        match self.stage {
            Stage::Permit(_) => false,
            Stage::PreBind(_)
            | Stage::BindEffects { .. }
            | Stage::BindRequest { .. }
            | Stage::ExtenderBind { .. }
            | Stage::Shutdown => true,
        }
    }

    /// Calls like [`Self::call_and_share`], but with the pod as the API server shows it now, for a plugin that waited for
    /// changes. `work` gets `true` if this pod differs from the pod at the beginning of the cycle.
    pub(super) fn call_again<R>(
        &self,
        context: &mut Context,
        work: impl FnOnce(&mut Profile, &Call<'_>, NodeIdx, bool) -> R,
    ) -> Option<R> {
        let newest = context.pending_pod(self.uid()).map_or(self.pod(), |pending| &pending.pod);
        let newest = Arc::clone(newest);
        let is_changed = !Arc::ptr_eq(&newest, self.pod());
        let answer = self.call_about(&newest, context, |profile, call, row| work(profile, call, row, is_changed));
        context.share_facts(self.pod().scheduler_name, self.cycle());
        answer
    }

    fn call_about<R>(
        &self,
        pod: &Pod,
        context: &mut Context,
        work: impl FnOnce(&mut Profile, &Call<'_>, NodeIdx) -> R,
    ) -> Option<R> {
        let PodPlugins { profile, cache, outbox, .. } = context.plugins_of(self.pod().scheduler_name)?;
        let table = cache.table();
        let row = table.find(self.node).unwrap_or(self.choice.row);
        let call = Call::new(self.choice.cycle, outbox.now(), pod, table);
        Some(work(profile, &call, row))
    }
}
