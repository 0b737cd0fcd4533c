//! The events that inform users for what a pod waits between Reserve and Bind. kube-scheduler writes no such events, so
//! only waits for components are reported. With built-in plugins, pods have the same events as with kube-scheduler.

use berth_framework::PluginIdx;
use berth_model::{BinaryId, Time};

use super::{
    binding::{Binding, Stage},
    object_wait::{ObjectWait, not_asked_again, shown},
    permit::PermitHolder,
};
use crate::context::{Context, PodEvent};

/// The wait in milliseconds after which an event is written. Shorter waits are usual: gangs come together, and claims
/// are bound.
const TELL_AFTER: u64 = 1000;

impl Binding {
    /// Notes that the pod begins to wait.
    pub(super) fn tell_later(&mut self, context: &Context) {
        self.tell_at = Some(context.now() + TELL_AFTER);
    }

    /// Keeps the refusals of effects at Permit for the event, because such a refusal may be the reason for the wait.
    pub(super) fn note_refused(&mut self, refused: Vec<(PluginIdx, String)>, context: &Context) {
        let scheduler_name = self.pod().scheduler_name;
        let Stage::Permit(waits) = &mut self.stage else { return };
        for (plugin, message) in refused {
            waits.note_refused(&context.plugin_name(scheduler_name, plugin), message);
        }
    }

    /// Whether the pod waits for the plugin and has no event yet about a refused effect of the plugin.
    pub(super) fn hears_refusals_of(&self, plugin: &str) -> bool {
        matches!(&self.stage, Stage::Permit(waits) if waits.hears_refusals_of(plugin))
    }

    /// Writes an event if a plugin that holds the pod was not granted to release or reject it.
    pub(super) fn tell_refused(&mut self, plugin: &str, message: String, context: &mut Context) {
        let Stage::Permit(waits) = &mut self.stage else { return };
        if waits.note_refused(plugin, message.clone()) {
            context.pod_event(self.pod(), PodEvent::EFFECT_REFUSED, message);
        }
    }

    /// Writes an event with the plugins for which the pod waits, and the end of each wait.
    pub(super) fn tell_waits(&self, context: &mut Context) {
        let scheduler_name = self.pod().scheduler_name;
        let is_component = |name: &str| {
            let plugin = context.profile(scheduler_name).and_then(|profile| profile.find(name));
            let binary = plugin.and_then(|plugin| context.plugin_binary(scheduler_name, plugin));
            matches!(binary, Some(BinaryId::Component(_)))
        };
        let (event, waits): (PodEvent, Vec<String>) = match &self.stage {
            Stage::Permit(permit) => {
                let holders = permit.holders().filter(|holder| is_component(holder.plugin));
                let told = holders.map(|PermitHolder { plugin, until, objects, refused }| {
                    let told = objects.map_or_else(|| ends(until), |wait| wait_until(wait, until));
                    let refused = refused.map(|message| format!(" ({message})")).unwrap_or_default();
                    format!("plugin {plugin:?} waits {told}{refused}")
                });
                (PodEvent::WAITING_ON_PERMIT, told.collect())
            }
            Stage::PreBind(group) => {
                let named = group.waiting().map(|(plugin, wait)| (context.plugin_name(scheduler_name, plugin), wait));
                let told = named.filter(|(name, _)| is_component(name));
                let told =
                    told.map(|(name, wait)| format!("plugin {name:?} waits {}", wait_until(wait, wait.deadline)));
                (PodEvent::WAITING_ON_PRE_BIND, told.collect())
            }
            Stage::BindEffects { .. } | Stage::BindRequest { .. } | Stage::ExtenderBind { .. } | Stage::Shutdown => {
                return;
            }
        };
        if waits.is_empty() {
            return;
        }
        let note = format!("waits before it can be bound to node {}: {}", context.text(self.node), waits.join("; "));
        context.pod_event(self.pod(), event, note);
    }
}

/// The objects that a plugin waits for while it holds the pod, in words, with the refusal of one of its effects. `None`
/// if the plugin waits for no objects and has no refused effect.
pub(super) fn words(wait: Option<&ObjectWait>, refused: Option<&str>) -> Option<String> {
    let objects = wait.map(to_see).filter(|text| !text.is_empty()).map(|text| format!("waits {text}"));
    let why = wait.map(|wait| wait.timeout_message.clone()).filter(|text| !text.is_empty());
    let notes = [wait.and_then(unwatched), refused.map(str::to_owned)];
    let what = [objects, why].into_iter().flatten().collect::<Vec<_>>().join(": ");
    let notes = notes.into_iter().flatten().collect::<Vec<_>>().join("; ");
    match (what.is_empty(), notes.is_empty()) {
        (true, true) => None,
        (true, false) => Some(notes),
        (false, true) => Some(what),
        (false, false) => Some(format!("{what} ({notes})")),
    }
}

/// The wait in the words of an event. `until` is the end of the plugin's time.
fn wait_until(wait: &ObjectWait, until: Time) -> String {
    // The text that the plugin chose for a time-out says what has not happened yet.
    let why = if wait.timeout_message.is_empty() { String::new() } else { format!(": {}", wait.timeout_message) };
    let unwatched = unwatched(wait).map(|text| format!(" ({text})")).unwrap_or_default();
    let to_see = to_see(wait);
    let between = if to_see.is_empty() { "" } else { " " };
    format!("{}{between}{to_see}{why}{unwatched}", ends(until))
}

/// The objects after whose changes the plugin is asked again; empty if there are none.
fn to_see(wait: &ObjectWait) -> String {
    if wait.objects.is_empty() { String::new() } else { format!("to see {} changed", shown(&wait.objects)) }
}

/// A sentence about the objects that no watch follows, so that the plugin waits for these objects in vain. `None` if
/// there are no such objects.
fn unwatched(wait: &ObjectWait) -> Option<String> {
    (!wait.unnamed.is_empty()).then(|| format!("the plugin {}", not_asked_again(&wait.unnamed)))
}

fn ends(until: Time) -> String {
    format!("until {}", until.to_rfc3339())
}
