//! A pod between Reserve and PostBind, and what can happen to it.

use std::{sync::Arc, time::Duration};

use berth_cache::Assumed;
use berth_framework::{
    Call, Code, CycleId, ExtenderIdx, PluginIdx, Point, Profile, Start, Status,
    run::{PreFlights, Refusal},
};
use berth_model::{NodeIdx, ObjectKey, Pod, PodUid, Sym, Time};
use berth_queue::QueuedPod;

use super::{object_wait::ObjectWait, permit::PermitWaits, pre_bind::PreBindGroup, questions::Question};
use crate::{
    action::RequestError,
    context::{Context, PodPlugins},
};

/// The node that a cycle chose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub(crate) cycle: CycleId,
    /// When the cycle began.
    pub(crate) started: Option<Duration>,
    /// The node's row when it was chosen: what plugins are told if the node is gone meanwhile.
    pub(crate) row: NodeIdx,
    /// Nodes that were looked at, and those of them that passed.
    pub(crate) n_evaluated: usize,
    pub(crate) n_feasible: usize,
}

/// A pod on its way to a node.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(super) record: QueuedPod,
    pub(super) choice: Choice,
    pub(super) node: Sym,
    pub(super) assumed: Assumed,
    pub(super) stage: Stage,
    /// What PreBind plugins said of their work; nothing before they were asked.
    pub(super) pre_flights: PreFlights,
    /// Whether Permit held it.
    pub(super) was_held: bool,
    /// When users are told what it waits for, if it still waits then.
    pub(super) tell_at: Option<Time>,
    /// What plugins are asked about the pod as soon as they have time.
    pub(super) question: Option<Question>,
    /// The extension point that is being timed, with the requests that its plugins asked for.
    pub(super) timed: Option<(Point, Start)>,
}

/// What the pod waits for.
#[derive(Debug)]
pub(super) enum Stage {
    /// For Permit plugins; empty once all of them let the pod go on.
    Permit(PermitWaits),
    /// For PreBind plugins.
    PreBind(PreBindGroup),
    /// For the effects of a Bind plugin. If it asked for the binding as well, that comes last.
    BindEffects { plugin: PluginIdx, then_bind: bool },
    /// For the API server to bind the pod.
    BindRequest { plugin: PluginIdx },
    /// For an extender to bind the pod.
    ExtenderBind { extender: ExtenderIdx },
    /// For the end of the process: the next scheduler finds the pod pending.
    Shutdown,
}

/// What happens to a pod on its way.
#[derive(Debug)]
pub(crate) enum Input {
    /// A Permit plugin lets the pod go on.
    Allowed { plugin: Arc<str> },
    /// A Permit plugin turns the pod down.
    Rejected { plugin: Arc<str>, reason: String },
    /// A higher-priority pod takes the place of this one.
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

/// Where a step leaves the pod.
pub(super) enum Step {
    /// The pod waits for the next input.
    Waiting(Binding),
    /// The pod goes on once plugins have been asked this.
    Asks(Binding, Question),
    /// The API server has bound it.
    Bound(Binding),
    /// The attempt failed; the pod goes back to the queue.
    Failed(Binding, BindingFailure),
    /// The pod was deleted.
    Deleted(Binding),
    /// Another scheduler bound the pod.
    BoundByOther(Binding),
}

/// Why a pod does not reach the node that was chosen for it.
#[derive(Debug)]
pub(super) enum BindingFailure {
    /// A plugin rejected the pod before PreBind: the events that it registered for bring the pod back.
    Rejected(Refusal),
    /// A plugin or a request failed: the pod is tried again after backoff.
    Error(Status),
}

/// One attempt of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PodAttempt {
    pub(super) uid: PodUid,
    pub(super) cycle: CycleId,
}

impl Binding {
    pub(super) fn attempt(&self) -> PodAttempt {
        PodAttempt { uid: self.uid().clone(), cycle: self.cycle() }
    }

    pub(super) fn cycle(&self) -> CycleId {
        self.choice.cycle
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

    /// Whether a request is under way that may bind the pod.
    pub(super) fn is_sent(&self) -> bool {
        matches!(self.stage, Stage::BindEffects { .. } | Stage::BindRequest { .. } | Stage::ExtenderBind { .. })
    }

    /// PreBind or Bind begins, or with `None` neither; what was there before has succeeded. Nothing is timed once the
    /// profiles were replaced and none serves the pod any more.
    pub(super) fn enter(&mut self, point: Option<Point>, context: &mut Context) {
        self.leave(Code::Success, context);
        let profile = context.profile_mut(self.pod().scheduler_name);
        self.timed = point.zip(profile).map(|(point, profile)| (point, profile.meter().start(self.choice.cycle)));
    }

    /// The extension point that is being timed, if there is one, is over.
    pub(super) fn leave(&mut self, code: Code, context: &mut Context) {
        let profile = context.profile_mut(self.pod().scheduler_name);
        if let Some(((point, start), profile)) = self.timed.take().zip(profile) {
            profile.meter().end(start, point.as_str(), code);
        }
    }

    /// When the pod's time is out if nothing happens, and before that when users are told what it waits for.
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

    /// The waits for objects of Permit plugins, or of PreBind plugins, also while their effects are being carried out.
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

    /// Calls into the pod's profile, at the node's present row. `None` when the profiles were replaced and none serves the
    /// pod any more.
    pub(super) fn call<R>(
        &self,
        context: &mut Context,
        work: impl FnOnce(&mut Profile, &Call<'_>, NodeIdx) -> R,
    ) -> Option<R> {
        self.call_about(self.pod(), context, work)
    }

    /// Calls, as [`Self::call`] does, about the pod as the API server shows it by now, for a plugin that waited for
    /// changes. `work` gets `true` if this pod is another one than at the beginning of the cycle.
    pub(super) fn call_again<R>(
        &self,
        context: &mut Context,
        work: impl FnOnce(&mut Profile, &Call<'_>, NodeIdx, bool) -> R,
    ) -> Option<R> {
        let newest = context.pending_pod(self.uid()).map_or(self.pod(), |pending| &pending.pod);
        let newest = Arc::clone(newest);
        let is_changed = !Arc::ptr_eq(&newest, self.pod());
        self.call_about(&newest, context, |profile, call, row| work(profile, call, row, is_changed))
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
