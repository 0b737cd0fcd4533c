//! The steps of a pod from the chosen node until it is bound, in their order: Reserve and Permit, PreBind, Bind
//! (`schedulingCycle` and `bindingCycle` in kube-scheduler's `pkg/scheduler/schedule_one.go`). `ends` has the end of an
//! attempt: PostBind, or the way back to the queue.
//!
//! A step takes the binding, does as much as is possible without waiting, and returns the binding in a [`Step`].

use std::sync::Arc;

use berth_framework::{
    Call, Code, Effect, ExtenderIdx, PluginIdx, Point, Profile, Status, extender,
    run::{self, PermitRun, PreBindRun, PreFlights, Refusal},
};
use berth_model::{ObjectKey, Pod, Time};
use berth_queue::QueuedPod;

use super::{
    binding::{Binding, Choice, Input, Stage, Step},
    binding_failure::BindingFailure,
    effects::{self, Origin},
    object_wait::RequestedWait,
    peers::Peers,
    permit::{PermitTimeout, PermitWaits},
    pre_bind::{AfterEffects, PreBindGroup, PreBindTask, PreBindTimeout},
    questions::Question,
};
use crate::{
    action::{Level, Request, RequestError},
    context::Context,
    failure::AttemptFailure,
    metrics::WaitResult,
};

impl Binding {
    /// Assumes the pod on its node. `None` if the node cannot take the pod; the attempt has then failed.
    pub(super) fn new(record: QueuedPod, choice: Choice, context: &mut Context) -> Option<Self> {
        let pod = Arc::clone(&record.pod);
        let node = context.table().name(choice.row);
        match context.cache_mut().assume(&pod, node) {
            Ok(assumed) => {
                context.queue_mut().nominator_mut().remove(&pod.uid);
                let stage = Stage::Permit(PermitWaits::new([], context.now()));
                let pre_flights = PreFlights::default();
                Some(Self {
                    record,
                    choice,
                    node,
                    assumed,
                    stage,
                    pre_flights,
                    was_held: false,
                    tell_at: None,
                    question: None,
                    timed: None,
                    held: None,
                })
            }
            Err(inconsistency) => {
                context.end_cycle(pod.scheduler_name, choice.cycle);
                let failure = AttemptFailure::error(&Status::error(inconsistency.to_string()));
                let ending = choice.ending(record.attempts, node);
                context.fail_attempt(record, ending, &failure);
                None
            }
        }
    }

    /// Runs Reserve, then Permit. Every plugin may reject the pod, hold it, or let it continue. If Permit holds the pod
    /// or PreBind has something to do, the node is published in the pod's `nominatedNodeName`.
    pub(super) fn reserve_and_permit(mut self, context: &mut Context, peers: &mut Peers<'_>) -> Step {
        if let Some(Err(refusal)) = self.call_and_share(context, run::reserve) {
            return Step::Failed(self, BindingFailure::of(Point::Reserve, refusal));
        }
        let PermitRun { waits, effects } = match self.call(context, run::permit) {
            Some(Err(refusal)) => return Step::Failed(self, BindingFailure::of(Point::Permit, refusal)),
            Some(Ok(run)) => run,
            None => PermitRun::default(),
        };
        let pod = Arc::clone(self.pod());
        let named = |(plugin, timeout)| (context.plugin_name(pod.scheduler_name, plugin), timeout);
        let waits = PermitWaits::new(waits.into_iter().map(named), context.now());
        let is_held = !waits.is_empty();
        (self.stage, self.was_held) = (Stage::Permit(waits), is_held);
        let carried_out = effects::carry_out_each(context, peers, &pod, effects);
        for (plugin, effects) in carried_out.for_host {
            self.permit_effects(plugin, effects, None, context);
        }
        self.note_refused(carried_out.refused, context);
        self.pre_flights = match self.call(context, run::pre_bind_pre_flight) {
            Some(Err(Refusal { plugin, status })) => {
                return Step::Failed(self, BindingFailure::failed(Point::PreBindPreFlight, plugin, status));
            }
            Some(Ok(pre_flights)) => pre_flights,
            None => PreFlights::default(),
        };
        if is_held || self.pre_flights.has_work() {
            context.publish_expected_node(&pod, self.cycle(), self.node);
        }
        if is_held {
            self.held = context.start_step(pod.scheduler_name, self.cycle());
            self.tell_later(context);
            return Step::Waiting(self);
        }
        self.permitted(context, peers)
    }

    /// Delivers an input to the pod. An input that does not concern the pod's stage changes nothing: for example, a
    /// plugin may allow a pod that has left Permit, or an object may change again. A step asks no plugins, because
    /// plugins may have no time.
    pub(super) fn step(mut self, input: Input, context: &mut Context) -> Step {
        match input {
            Input::Allowed { plugin } => self.allowed(&plugin, context),
            Input::Rejected { plugin, reason } if self.is_held_by_permit() => {
                self.rejected_by_permit(&plugin, reason, context)
            }
            Input::Rejected { .. } => Step::Waiting(self),
            Input::Refused { plugin, message } => {
                self.tell_refused(&plugin, message, context);
                Step::Waiting(self)
            }
            Input::Terminating => self.terminating(context),
            Input::Preempted { preemptor, plugin } => self.preempted(&preemptor, &plugin, context),
            Input::Deleted => Step::Deleted(self),
            Input::SeenOnNode(node) if self.is_sent() && self.node == node => Step::Bound(self),
            Input::SeenOnNode(_) => Step::BoundByOther(self),
            Input::DeadlinePassed(deadline) => self.timed_out(deadline, context),
            Input::ObjectChanged(object) => self.object_changed(&object),
            Input::EffectsFinished { plugin, result } => self.effects_finished(&plugin, result, context),
            Input::BindFinished(result) => self.bind_finished(result, context),
        }
    }

    fn allowed(mut self, plugin: &str, context: &mut Context) -> Step {
        let Stage::Permit(waits) = &mut self.stage else { return Step::Waiting(self) };
        if !waits.allow(plugin) || !waits.is_empty() {
            return Step::Waiting(self);
        }
        self.observe_permit(Code::Success, context);
        Step::Asks(self, Question::Permitted)
    }

    fn rejected_by_permit(mut self, plugin: &str, reason: String, context: &mut Context) -> Step {
        let Stage::Permit(waits) = &self.stage else { return Step::Waiting(self) };
        if !waits.is_empty() {
            self.observe_permit(Code::Unschedulable, context);
        }
        let (profile, status) = (self.pod().scheduler_name, Status::unschedulable(reason));
        let failure = BindingFailure::of_held_pod(profile, plugin, self.node, status, context);
        Step::Failed(self, failure)
    }

    /// Handles a pod that a client deleted and that is not gone yet. The pod gives its node back, unless a binding
    /// request for the pod is under way. In that case, the API server's answer to the request decides.
    fn terminating(self, context: &mut Context) -> Step {
        match &self.stage {
            Stage::Permit(_) => self.rejected_by_permit("", "removed".to_owned(), context),
            Stage::PreBind(_) => Step::Failed(self, BindingFailure::error(Status::error("the pod is being deleted"))),
            Stage::BindEffects { .. } | Stage::BindRequest { .. } | Stage::ExtenderBind { .. } | Stage::Shutdown => {
                Step::Waiting(self)
            }
        }
    }

    /// Handles the release by Permit, which ends the queue's attempt. PreBind begins, or Bind if PreBind has no work.
    pub(super) fn permitted(mut self, context: &mut Context, peers: &mut Peers<'_>) -> Step {
        context.queue_mut().done(self.uid());
        // kube-scheduler measures PreBind for every pod.
        self.enter(Some(Point::PreBind), context);
        if !self.pre_flights.has_work() {
            return self.bind(context, peers);
        }
        self.pre_bind(0, context, peers)
    }

    /// Runs PreBind plugins from position `from` on, then Bind, as far as possible without waiting.
    fn pre_bind(mut self, mut from: usize, context: &mut Context, peers: &mut Peers<'_>) -> Step {
        loop {
            let run = |profile: &mut Profile, call: &Call<'_>, row| {
                run::pre_bind(profile, call, row, from, &self.pre_flights)
            };
            let (wanted, next) = match self.call_and_share(context, run).unwrap_or(Ok(PreBindRun::Done)) {
                Err(Refusal { plugin, status }) => {
                    return Step::Failed(self, BindingFailure::failed(Point::PreBind, plugin, status));
                }
                Ok(PreBindRun::Done) => return self.bind(context, peers),
                Ok(PreBindRun::Group { wanted, next }) => (wanted, next),
            };
            let mut group = PreBindGroup::new(next);
            for (plugin, effects) in wanted {
                let origin = Origin { pod: &self.record.pod, cycle: self.cycle(), point: Point::PreBind, plugin };
                if let Err(status) = start_pre_bind(&mut group, origin, effects, context, peers) {
                    return Step::Failed(self, BindingFailure::failed(Point::PreBind, plugin, status));
                }
            }
            if !group.is_done() {
                self.stage = Stage::PreBind(group);
                self.tell_later(context);
                return Step::Waiting(self);
            }
            from = next;
        }
    }

    fn object_changed(mut self, object: &ObjectKey) -> Step {
        match &mut self.stage {
            Stage::PreBind(group) => {
                let again = group.object_changed(object);
                if again.is_empty() { Step::Waiting(self) } else { Step::Asks(self, Question::PreBind { again }) }
            }
            Stage::Permit(waits) => {
                let again = waits.object_changed(object);
                if again.is_empty() { Step::Waiting(self) } else { Step::Asks(self, Question::PermitAgain { again }) }
            }
            Stage::BindEffects { .. } | Stage::BindRequest { .. } | Stage::ExtenderBind { .. } | Stage::Shutdown => {
                Step::Waiting(self)
            }
        }
    }

    /// Asks these plugins of the group again, and no other plugins. If the group is then done, the plugins after it
    /// follow.
    pub(super) fn pre_bind_again(
        mut self,
        plugins: &[PluginIdx],
        context: &mut Context,
        peers: &mut Peers<'_>,
    ) -> Step {
        if !plugins.is_empty() && context.is_shutting_down() {
            return Step::Waiting(self);
        }
        if let Err(status) = self.catch_up(context) {
            for &plugin in plugins {
                self.give_up_waiting(plugin, WaitResult::Error, context);
            }
            return Step::Failed(self, BindingFailure::error(status));
        }
        for &plugin in plugins {
            if let Err(status) = self.ask_pre_bind_again(plugin, context, peers) {
                return Step::Failed(self, BindingFailure::failed(Point::PreBind, plugin, status));
            }
        }
        self.pre_bind_next(context, peers)
    }

    fn ask_pre_bind_again(
        &mut self,
        plugin: PluginIdx,
        context: &mut Context,
        peers: &mut Peers<'_>,
    ) -> Result<(), Status> {
        let run = self.call_again(context, |profile, call, row, is_changed| {
            run::pre_bind_again(profile, call, row, plugin, is_changed)
        });
        let effects = match run.unwrap_or(Ok(Vec::new())) {
            Ok(effects) => effects,
            Err(refusal) => {
                self.give_up_waiting(plugin, WaitResult::Failure, context);
                return Err(refusal.status);
            }
        };
        let origin = Origin { pod: &self.record.pod, cycle: self.choice.cycle, point: Point::PreBind, plugin };
        match &mut self.stage {
            Stage::PreBind(group) => start_pre_bind(group, origin, effects, context, peers),
            Stage::Permit(_)
            | Stage::BindEffects { .. }
            | Stage::BindRequest { .. }
            | Stage::ExtenderBind { .. }
            | Stage::Shutdown => Ok(()),
        }
    }

    /// Ends a plugin's wait for objects, because the attempt fails.
    fn give_up_waiting(&mut self, plugin: PluginIdx, result: WaitResult, context: &mut Context) {
        let scheduler_name = self.pod().scheduler_name;
        if let Stage::PreBind(group) = &mut self.stage
            && let Some(wait) = group.take(plugin)
        {
            wait.ended(scheduler_name, plugin, result, context);
        }
    }

    /// Continues PreBind if every plugin of the group is done.
    fn pre_bind_next(self, context: &mut Context, peers: &mut Peers<'_>) -> Step {
        match self.stage {
            Stage::PreBind(ref group) if group.is_done() => {
                let next = group.next;
                self.pre_bind(next, context, peers)
            }
            Stage::PreBind(_)
            | Stage::Permit(_)
            | Stage::BindEffects { .. }
            | Stage::BindRequest { .. }
            | Stage::ExtenderBind { .. }
            | Stage::Shutdown => Step::Waiting(self),
        }
    }

    /// Updates the plugins' replicas after the pod waited. This fails if a plugin went out of service since the pod's
    /// cycle. The next cycle of the pod then waits for that plugin.
    pub(super) fn catch_up(&self, context: &mut Context) -> Result<(), Status> {
        let scheduler_name = self.pod().scheduler_name;
        let Some(profile) = context.profile_mut(scheduler_name) else { return Ok(()) };
        if let Some(Refusal { status, .. }) = profile.out_of_service() {
            return Err(Status::error(status.message()));
        }
        context.sync_within(scheduler_name, self.cycle()).map_err(|Refusal { plugin, status }| {
            if status.code.is_rejected() {
                return Status::error(status.message());
            }
            let name = context.plugin_name(scheduler_name, plugin);
            Status::error(format!("syncing plugin \"{name}\": {}", status.message()))
        })
    }

    fn effects_finished(mut self, plugin: &str, result: Result<(), RequestError>, context: &mut Context) -> Step {
        match (&self.stage, result) {
            (Stage::PreBind(_), result) => self.pre_bind_effects_finished(plugin, result, context),
            (&Stage::BindEffects { plugin, then_bind: true }, Ok(())) => self.request_binding(plugin, context),
            (&Stage::BindEffects { plugin, then_bind: false }, Ok(())) => {
                self.stage = Stage::BindRequest { plugin };
                Step::Bound(self)
            }
            (&Stage::BindEffects { plugin, .. }, Err(error)) => {
                self.stage = Stage::BindRequest { plugin };
                self.bind_failed(plugin, &error, context)
            }
            (Stage::Permit(_) | Stage::BindRequest { .. } | Stage::ExtenderBind { .. } | Stage::Shutdown, _) => {
                self.unexpected_answer("effects", context)
            }
        }
    }

    fn pre_bind_effects_finished(
        mut self,
        plugin: &str,
        result: Result<(), RequestError>,
        context: &mut Context,
    ) -> Step {
        let profile = context.profile(self.pod().scheduler_name);
        let plugin = profile.and_then(|profile| profile.find(plugin)).unwrap_or(PluginIdx::NOBODY);
        let after = match &mut self.stage {
            Stage::PreBind(group) => group.effects_carried_out(plugin),
            Stage::Permit(_)
            | Stage::BindEffects { .. }
            | Stage::BindRequest { .. }
            | Stage::ExtenderBind { .. }
            | Stage::Shutdown => AfterEffects::Unexpected,
        };
        match (after, result) {
            (AfterEffects::Unexpected, _) => self.unexpected_answer("effects", context),
            (AfterEffects::Done | AfterEffects::Waits | AfterEffects::AskAgain, Err(error)) => {
                self.pre_bind_failed(plugin, &error.to_string(), context)
            }
            (AfterEffects::Waits, Ok(())) => Step::Waiting(self),
            (AfterEffects::AskAgain, Ok(())) => Step::Asks(self, Question::PreBind { again: vec![plugin] }),
            (AfterEffects::Done, Ok(())) => Step::Asks(self, Question::PreBind { again: Vec::new() }),
        }
    }

    fn pre_bind_failed(self, plugin: PluginIdx, text: &str, context: &Context) -> Step {
        let name = context.plugin_name(self.pod().scheduler_name, plugin);
        let status = Status::error(format!("running PreBind plugin \"{name}\": {text}"));
        Step::Failed(self, BindingFailure::failed(Point::PreBind, plugin, status))
    }

    /// Asks an extender to bind the pod, or the Bind plugins if no extender binds it.
    fn bind(mut self, context: &mut Context, peers: &mut Peers<'_>) -> Step {
        if context.is_shutting_down() {
            self.stage = Stage::Shutdown;
            return Step::Waiting(self);
        }
        self.enter(Some(Point::Bind), context);
        if context.table().find(self.node).is_none() {
            let text = format!("node \"{}\" not found", context.text(self.node));
            return Step::Failed(self, BindingFailure::error(Status::error(text)));
        }
        match self.extender_after(None, context) {
            Some(extender) => self.request_extender(extender, context),
            None => self.bind_by_plugin(context, peers),
        }
    }

    /// The first extender after `before` that binds this pod.
    fn extender_after(&self, before: Option<ExtenderIdx>, context: &Context) -> Option<ExtenderIdx> {
        extender::binder(context.extenders()?, self.pod(), before)
    }

    fn request_extender(mut self, extender: ExtenderIdx, context: &mut Context) -> Step {
        let node = context.shared_text(self.node);
        let request = Request::BindByExtender { cycle: self.cycle(), node, extender };
        context.request(self.pod(), request);
        self.stage = Stage::ExtenderBind { extender };
        Step::Waiting(self)
    }

    /// Handles the failure of an extender. If it is ignorable, the next extender or the Bind plugins bind the pod.
    fn extender_bind_failed(self, failed: ExtenderIdx, error: &RequestError, context: &mut Context) -> Step {
        let profile = context.extenders().and_then(|extenders| extenders.list().get(failed.0));
        if !profile.is_some_and(|profile| profile.is_ignorable) {
            return Step::Failed(self, BindingFailure::error(Status::error(error.to_string())));
        }
        match self.extender_after(Some(failed), context) {
            Some(next) => self.request_extender(next, context),
            None => Step::Asks(self, Question::Bind),
        }
    }

    /// Asks the Bind plugins, and sends the effects of the first plugin that takes the pod to the host.
    pub(super) fn bind_by_plugin(mut self, context: &mut Context, peers: &mut Peers<'_>) -> Step {
        let no_profile = || Refusal { plugin: PluginIdx::NOBODY, status: Status::error("no profile serves the pod") };
        let run = match self.call(context, run::bind).unwrap_or_else(|| Err(no_profile())) {
            Err(Refusal { plugin, status }) => {
                return Step::Failed(self, BindingFailure::failed(Point::Bind, plugin, status));
            }
            Ok(run) => run,
        };
        let pod = Arc::clone(self.pod());
        let origin = Origin { pod: &pod, cycle: self.cycle(), point: Point::Bind, plugin: run.plugin };
        let then_bind = run.effects.contains(&Effect::Bind);
        let carried_out = effects::check_grants(context, origin, &run.effects).and_then(|()| {
            let others = run.effects.into_iter().filter(|effect| *effect != Effect::Bind).collect();
            effects::carry_out(context, peers, origin, others)
        });
        let effects = match carried_out {
            Ok(effects) => effects,
            Err(status) => return Step::Failed(self, BindingFailure::failed(Point::Bind, run.plugin, status)),
        };
        if then_bind && effects.is_empty() {
            return self.request_binding(run.plugin, context);
        }
        let request = origin.request(context, effects);
        context.request(&pod, Request::AwaitedEffects(request));
        self.stage = Stage::BindEffects { plugin: run.plugin, then_bind };
        Step::Waiting(self)
    }

    fn request_binding(mut self, plugin: PluginIdx, context: &mut Context) -> Step {
        let node = context.shared_text(self.node);
        context.request(self.pod(), Request::Bind { cycle: self.cycle(), node });
        self.stage = Stage::BindRequest { plugin };
        Step::Waiting(self)
    }

    fn bind_finished(self, result: Result<(), RequestError>, context: &mut Context) -> Step {
        match (&self.stage, result) {
            (Stage::BindRequest { .. } | Stage::ExtenderBind { .. }, Ok(())) => Step::Bound(self),
            (&Stage::ExtenderBind { extender }, Err(error)) => self.extender_bind_failed(extender, &error, context),
            (&Stage::BindRequest { plugin }, Err(error)) => self.bind_failed(plugin, &error, context),
            (Stage::Permit(_) | Stage::PreBind(_) | Stage::BindEffects { .. } | Stage::Shutdown, _) => {
                self.unexpected_answer("binding", context)
            }
        }
    }

    fn bind_failed(self, plugin: PluginIdx, error: &RequestError, context: &Context) -> Step {
        let name = context.plugin_name(self.pod().scheduler_name, plugin);
        let status = Status::error(format!("running Bind plugin \"{name}\": {error}"));
        Step::Failed(self, BindingFailure::failed(Point::Bind, plugin, status))
    }

    /// Logs an answer of the host to a request that this attempt has not made.
    fn unexpected_answer(self, to: &str, context: &mut Context) -> Step {
        let message = format!("ignoring an unexpected result for the {to} of pod {}", context.full_name(self.pod()));
        context.log(Level::Error, message);
        Step::Waiting(self)
    }

    fn timed_out(mut self, deadline: Time, context: &mut Context) -> Step {
        if self.tell_at.take_if(|at| *at == deadline).is_some() {
            self.tell_waits(context);
        }
        match &self.stage {
            Stage::Permit(waits) => match waits.timed_out(deadline) {
                Some(PermitTimeout { plugin, reason }) => self.rejected_by_permit(&plugin, reason, context),
                None => Step::Waiting(self),
            },
            Stage::PreBind(group) => match group.timed_out(deadline) {
                Some(PreBindTimeout { plugin, message }) => {
                    self.give_up_waiting(plugin, WaitResult::Timeout, context);
                    self.pre_bind_failed(plugin, &message, context)
                }
                None => Step::Waiting(self),
            },
            Stage::BindEffects { .. } | Stage::BindRequest { .. } | Stage::ExtenderBind { .. } | Stage::Shutdown => {
                Step::Waiting(self)
            }
        }
    }

    /// Handles the preemption of the pod by a pod of higher priority. The API server does not know the pod's place on
    /// the node.
    fn preempted(mut self, preemptor: &Pod, plugin: &str, context: &mut Context) -> Step {
        if self.is_sent() {
            let message = format!("pod {} is being bound and was not preempted", context.full_name(self.pod()));
            context.log(Level::Warn, message);
            return Step::Waiting(self);
        }
        self.observe_permit(Code::Error, context);
        let node = context.text(self.node);
        let note = format!("Preempted by pod {} on node {node} (in kube-scheduler memory).", preemptor.uid);
        context.preempted_event(self.pod(), preemptor, note);
        let text = if self.is_held_by_permit() {
            "waiting on permit for pod: preempted".to_owned()
        } else {
            format!("preempted by {plugin}")
        };
        Step::Failed(self, BindingFailure::error(Status::error(text)))
    }
}

/// Carries out the effects of a PreBind plugin. The group waits for them. A plugin that is asked again gets no more
/// time, because its first deadline stays in force.
fn start_pre_bind(
    group: &mut PreBindGroup,
    origin: Origin<'_>,
    effects: Vec<Effect>,
    context: &mut Context,
    peers: &mut Peers<'_>,
) -> Result<(), Status> {
    let earlier = group.take(origin.plugin);
    let mut effects = effects::carry_out(context, peers, origin, effects)?;
    let requested = RequestedWait::take(origin.pod, origin.plugin, &mut effects, context);
    let scheduler_name = origin.pod.scheduler_name;
    let wait = requested.map(|wait| wait.begin(scheduler_name, origin.plugin, earlier.as_ref(), context));
    if let Some(earlier) = earlier.filter(|_| wait.is_none() && effects.is_empty()) {
        earlier.ended(scheduler_name, origin.plugin, WaitResult::Success, context);
    }
    group.extend(PreBindTask::new(origin.plugin, !effects.is_empty(), wait));
    if !effects.is_empty() {
        let request = origin.request(context, effects);
        context.request(origin.pod, Request::AwaitedEffects(request));
    }
    Ok(())
}
