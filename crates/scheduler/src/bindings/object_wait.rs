//! The wait of a plugin that answered [`Effect::Wait`] at Permit or PreBind.

use std::collections::BTreeSet;

use berth_framework::{Effect, ObjectRef, PluginIdx};
use berth_model::{BinaryId, ObjectKey, Pod, Sym, Time};

use crate::{
    action::Level,
    context::Context,
    effect_bytes::{HeldBytes, bytes_of},
    metrics::{Observation, WaitResult},
};

/// The objects that a plugin waits for, and the time that the wait may take. The plugin is asked again when one of the
/// objects has changed.
#[derive(Debug)]
pub(crate) struct ObjectWait {
    pub(crate) objects: Vec<ObjectKey>,
    /// The objects that the plugin named although its manifest does not name their kinds. After a change of these
    /// objects, the plugin is not asked again.
    pub(crate) unnamed: Vec<ObjectKey>,
    /// The time at which the plugin first waited, even if the plugin was asked again since then.
    pub(crate) began: Time,
    pub(crate) deadline: Time,
    pub(crate) timeout_message: String,
    /// Whether one of the objects changed while the plugin's other effects were being carried out.
    pub(crate) has_changed: bool,
    /// The bytes of the objects' names, which count as held while the wait lasts.
    _held: HeldBytes,
}

/// The first wait among `effects`. The wait and the effects after it were removed from the effects.
pub(crate) struct RequestedWait {
    pub(crate) objects: Vec<ObjectKey>,
    /// The objects of kinds that the plugin's manifest does not name.
    pub(crate) unnamed: Vec<ObjectKey>,
    pub(crate) timeout: u64,
    pub(crate) timeout_message: String,
    /// The number of effects after the wait. These effects are not carried out.
    pub(crate) n_dropped: usize,
    /// The bytes of the objects' names.
    pub(crate) bytes: usize,
}

impl RequestedWait {
    /// Removes the first wait and the effects after it from the effects of a plugin for this pod. A log line reports
    /// dropped effects, and a wait for objects that the plugin's manifest does not name.
    pub(crate) fn take(pod: &Pod, plugin: PluginIdx, effects: &mut Vec<Effect>, context: &mut Context) -> Option<Self> {
        let mut requested = Self::take_from(effects)?;
        requested.leave_out_unnamed(pod, plugin, context);
        let name = context.plugin_name(pod.scheduler_name, plugin);
        if requested.n_dropped > 0 {
            let message =
                format!("plugin {name} asked for {} effects after a wait; they are ignored", requested.n_dropped);
            context.log_of(&name, Level::Warn, message);
        }
        if !requested.unnamed.is_empty() {
            context.log_of(&name, Level::Warn, format!("plugin {name} {}", not_asked_again(&requested.unnamed)));
        }
        Some(requested)
    }

    /// Leaves out the objects of kinds that the manifest's `objects` do not name, except the pod itself. Such a kind
    /// may be watched for another plugin, but this plugin could not see the change. Built-in plugins wait only for
    /// kinds of which they get events.
    fn leave_out_unnamed(&mut self, pod: &Pod, plugin: PluginIdx, context: &Context) {
        if !matches!(context.plugin_binary(pod.scheduler_name, plugin), Some(BinaryId::Component(_))) {
            return;
        }
        let profile = context.profile(pod.scheduler_name);
        let Some(instance) = profile.and_then(|profile| profile.instances().get(plugin.index())) else { return };
        let needs = &instance.plugin.manifest().needs;
        let own = ObjectKey::named("v1/Pod", context.text(pod.namespace), &*pod.name);
        let objects = std::mem::take(&mut self.objects);
        (self.objects, self.unnamed) = objects.into_iter().partition(|object| needs.end_wait_for(object, &own));
    }

    fn take_from(effects: &mut Vec<Effect>) -> Option<Self> {
        let position = effects.iter().position(|effect| matches!(effect, Effect::Wait { .. }))?;
        let mut rest = effects.split_off(position).into_iter();
        let wait = rest.next()?;
        let bytes = bytes_of(&wait);
        let Effect::Wait { objects, timeout_ms, timeout_message } = wait else { return None };
        let objects = objects
            .into_iter()
            .map(|ObjectRef { kind, namespace, name }| ObjectKey::named(&kind, namespace, name))
            .collect();
        let unnamed = Vec::new();
        Some(Self { objects, unnamed, timeout: timeout_ms, timeout_message, n_dropped: rest.len(), bytes })
    }

    /// Begins or continues the wait. If the plugin waited before, its earlier deadline stays in force.
    pub(crate) fn begin(
        self,
        scheduler_name: Sym,
        plugin: PluginIdx,
        earlier: Option<&ObjectWait>,
        context: &mut Context,
    ) -> ObjectWait {
        let Self { objects, unnamed, timeout, timeout_message, n_dropped: _, bytes } = self;
        let now = context.now();
        let plugin = context.plugin_name(scheduler_name, plugin);
        let held = context.hold_bytes(&plugin, bytes);
        let deadline = earlier.map_or(now + timeout, |earlier| earlier.deadline.min(now + timeout));
        let began = earlier.map_or(now, |earlier| earlier.began);
        ObjectWait { objects, unnamed, began, deadline, timeout_message, has_changed: false, _held: held }
    }
}

impl ObjectWait {
    /// Reports that the wait ended.
    pub(crate) fn ended(&self, scheduler_name: Sym, plugin: PluginIdx, result: WaitResult, context: &mut Context) {
        let plugin = context.plugin_name(scheduler_name, plugin);
        let objects = self.objects.iter().filter_map(|key| context.cache().object(key).cloned()).collect();
        let milliseconds = context.now().since(self.began);
        context.observe(Observation::ObjectWait { scheduler_name, plugin, objects, result, milliseconds });
    }
}

/// The number of objects that a text shows.
const SHOWN: usize = 8;

/// The objects in words, for a message.
pub(super) fn shown(objects: &[ObjectKey]) -> String {
    let mut texts: Vec<String> = objects.iter().take(SHOWN).map(object).collect();
    if objects.len() > SHOWN {
        texts.push(format!("{} other objects", objects.len() - SHOWN));
    }
    texts.join(" or ")
}

/// A text that follows the name of a plugin. It says that the plugin is not asked again when these objects change, and
/// names the remedy.
pub(super) fn not_asked_again(unnamed: &[ObjectKey]) -> String {
    let kinds = unnamed.iter().take(SHOWN).map(|key| format!("{}/{}", key.api_version, key.kind));
    let kinds = kinds.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ");
    format!(
        "is not asked again when {} changes, because its manifest's `objects` do not name {kinds}: add {kinds} to \
         `objects`, and grant `reads: [{kinds}]`",
        shown(unnamed)
    )
}

fn object(ObjectKey { api_version, kind, namespace, name }: &ObjectKey) -> String {
    match namespace.as_str() {
        "" => format!("{api_version}/{kind} {name}"),
        namespace => format!("{api_version}/{kind} {namespace}/{name}"),
    }
}
