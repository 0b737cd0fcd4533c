//! The questions to plugins about a pod after its cycle. They are asked while the plugins have time.

use std::sync::Arc;

use berth_framework::{
    Code, Effect, PluginIdx, Point,
    run::{self, PermitRun, Refusal},
};

use super::{
    binding::{Binding, Stage, Step},
    binding_failure::BindingFailure,
    effects::{self, Origin},
    object_wait::{ObjectWait, RequestedWait},
    peers::Peers,
    questions::Question,
};
use crate::{
    action::{Level, Request},
    context::Context,
    metrics::Observation,
};

/// The step of an attempt in which Permit plugins hold the pod.
pub const PERMIT_WAIT: &str = "PermitWait";

impl Binding {
    /// Asks the question, and takes the pod as far as the answers allow.
    pub(super) fn ask(self, question: Question, context: &mut Context, peers: &mut Peers<'_>) -> Step {
        context.begin_step();
        match question {
            Question::Permitted => match self.catch_up(context) {
                Ok(()) => self.permitted(context, peers),
                Err(status) => Step::Failed(self, BindingFailure::error(status)),
            },
            Question::PermitAgain { again } => self.permit_again(&again, context, peers),
            Question::PreBind { again } => self.pre_bind_again(&again, context, peers),
            Question::Bind => self.bind_by_plugin(context, peers),
        }
    }

    /// Handles the effects of a Permit plugin. If the plugin holds the pod, a wait for objects begins or continues. The
    /// other effects go to the host.
    pub(super) fn permit_effects(
        &mut self,
        plugin: PluginIdx,
        mut effects: Vec<Effect>,
        earlier: Option<&ObjectWait>,
        context: &mut Context,
    ) {
        let pod = Arc::clone(self.pod());
        let origin = Origin { pod: &pod, cycle: self.cycle(), point: Point::Permit, plugin };
        let name = context.plugin_name(pod.scheduler_name, plugin);
        if let Some(wait) = RequestedWait::take(&pod, plugin, &mut effects, context) {
            match &mut self.stage {
                Stage::Permit(waits) if waits.holds(&name) => {
                    waits.watch(&name, wait.begin(pod.scheduler_name, plugin, earlier, context));
                }
                Stage::Permit(_)
                | Stage::PreBind(_)
                | Stage::BindEffects { .. }
                | Stage::BindRequest { .. }
                | Stage::ExtenderBind { .. }
                | Stage::Shutdown => {
                    let message = format!(
                        "plugin {name} asked for a wait at Permit but does not hold the pod; the wait is ignored"
                    );
                    context.log_of(&name, Level::Warn, message);
                }
            }
        }
        if !effects.is_empty() {
            let request = origin.request(context, effects);
            context.request(&pod, Request::Effects(request));
        }
    }

    /// Asks these plugins, which hold the pod, again about the current pod. The pod continues if no plugin holds it any
    /// more.
    fn permit_again(mut self, plugins: &[Arc<str>], context: &mut Context, peers: &mut Peers<'_>) -> Step {
        if context.is_shutting_down() || !self.is_held_by_permit() {
            return Step::Waiting(self);
        }
        if let Err(status) = self.catch_up(context) {
            return Step::Failed(self, BindingFailure::error(status));
        }
        for name in plugins {
            if let Err(refusal) = self.ask_permit_again(name, context, peers) {
                let code = if refusal.status.code.is_rejected() { Code::Unschedulable } else { Code::Error };
                self.observe_permit(code, context);
                return Step::Failed(self, BindingFailure::of(Point::Permit, refusal));
            }
        }
        if self.is_held_by_permit() {
            return Step::Waiting(self);
        }
        self.observe_permit(Code::Success, context);
        self.permitted(context, peers)
    }

    fn ask_permit_again(
        &mut self,
        name: &Arc<str>,
        context: &mut Context,
        peers: &mut Peers<'_>,
    ) -> Result<(), Refusal> {
        let pod = Arc::clone(self.pod());
        let plugin = context.profile(pod.scheduler_name).and_then(|profile| profile.find(name));
        let Stage::Permit(waits) = &mut self.stage else { return Ok(()) };
        let Some(plugin) = plugin.filter(|_| waits.holds(name)) else { return Ok(()) };
        let earlier = waits.unwatch(name);
        let run = self.call_again(context, |profile, call, row, is_changed| {
            run::permit_again(profile, call, row, plugin, is_changed)
        });
        let PermitRun { waits: held, effects } = run.unwrap_or_else(|| Ok(PermitRun::default()))?;
        if let Stage::Permit(waits) = &mut self.stage {
            match held.first() {
                Some((_, timeout)) => waits.hold_on(name, *timeout, context.now()),
                None => drop(waits.allow(name)),
            }
        }
        for (plugin, effects) in effects::carry_out_each(context, peers, &pod, effects).for_host {
            self.permit_effects(plugin, effects, earlier.as_ref(), context);
        }
        Ok(())
    }

    /// Reports that Permit ended with this result.
    pub(super) fn observe_permit(&mut self, result: Code, context: &mut Context) {
        if let Stage::Permit(waits) = &self.stage {
            let milliseconds = waits.waited(context.now());
            context.observe(Observation::PermitWait { result: result.as_str(), milliseconds });
        }
        context.end_step(self.pod().scheduler_name, self.held.take(), PERMIT_WAIT, result);
    }
}
