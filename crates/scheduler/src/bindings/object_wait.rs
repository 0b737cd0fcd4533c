//! The wait of a plugin at Permit or PreBind that has answered [`Effect::Wait`].

use berth_framework::{Effect, ObjectRef, PluginIdx};
use berth_model::{ObjectKey, Sym, Time};

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
    /// The time at which the plugin first waited, even if it was asked in between.
    began: Time,
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
    pub(crate) timeout: u64,
    pub(crate) timeout_message: String,
    /// The number of effects after the wait. They are not carried out.
    pub(crate) n_dropped: usize,
    /// The bytes of the objects' names.
    pub(crate) bytes: usize,
}

impl RequestedWait {
    /// Removes the first wait and the effects after it from the effects of a plugin of this profile. If effects are
    /// dropped, this is logged.
    pub(crate) fn take(
        scheduler_name: Sym,
        plugin: PluginIdx,
        effects: &mut Vec<Effect>,
        context: &mut Context,
    ) -> Option<Self> {
        let requested = Self::take_from(effects)?;
        if requested.n_dropped > 0 {
            let plugin = context.plugin_name(scheduler_name, plugin);
            let message =
                format!("plugin {plugin} asked for {} effects after a wait; they are ignored", requested.n_dropped);
            context.log_of(&plugin, Level::Warn, message);
        }
        Some(requested)
    }

    fn take_from(effects: &mut Vec<Effect>) -> Option<Self> {
        let position = effects.iter().position(|effect| matches!(effect, Effect::Wait { .. }))?;
        let mut rest = effects.split_off(position).into_iter();
        let wait = rest.next()?;
        let bytes = bytes_of(&wait);
        let Effect::Wait { objects, timeout_ms, timeout_message } = wait else { return None };
        let objects = objects.into_iter().map(key).collect();
        Some(Self { objects, timeout: timeout_ms, timeout_message, n_dropped: rest.len(), bytes })
    }

    /// Begins or continues the wait. If the plugin waited before, its earlier deadline still holds.
    pub(crate) fn begin(
        self,
        scheduler_name: Sym,
        plugin: PluginIdx,
        earlier: Option<&ObjectWait>,
        context: &mut Context,
    ) -> ObjectWait {
        let Self { objects, timeout, timeout_message, n_dropped: _, bytes } = self;
        let now = context.now();
        let plugin = context.plugin_name(scheduler_name, plugin);
        let held = context.hold_bytes(&plugin, bytes);
        let deadline = earlier.map_or(now + timeout, |earlier| earlier.deadline.min(now + timeout));
        let began = earlier.map_or(now, |earlier| earlier.began);
        ObjectWait { objects, began, deadline, timeout_message, has_changed: false, _held: held }
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

/// Splits `apiVersion/kind`, and makes the key of the object.
fn key(object: ObjectRef) -> ObjectKey {
    let (api_version, kind) = object.kind.rsplit_once('/').unwrap_or(("", &object.kind));
    let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
    ObjectKey { api_version, kind, namespace: object.namespace, name: object.name }
}
