//! The number of bytes of objects and patches that wait to be carried out. They count from a plugin's answer to the API
//! server's answer.
//!
//! One answer may contain 16 MiB of objects and patches. After a change of one object, the scheduler may ask plugins
//! about thousands of pods again. The effects in their answers wait until the API server has carried them out. A value
//! that goes with the waiting effects counts their bytes, wherever the effects wait. The names of objects for which
//! pods wait in PreBind count as well. Each plugin has its own count, so a plugin that reaches the limit takes nothing
//! from other plugins.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use berth_framework::Effect;
use rustc_hash::FxHashMap;

/// The limit of a plugin's bytes. A plugin beyond the limit gets its answers with objects, patches and waits refused.
pub(crate) const MAX_BYTES: usize = 32 << 20;

/// The bytes that a wait keeps for an object besides its names.
const OBJECT_BYTES: usize = 128;

/// The bytes of all effects that are not carried out yet, by plugin.
#[derive(Debug, Default)]
pub(crate) struct EffectBytes(FxHashMap<Arc<str>, Arc<AtomicUsize>>);

/// A number of bytes that counts as long as the value lives.
#[derive(Debug, Default)]
pub struct HeldBytes {
    bytes: usize,
    total: Arc<AtomicUsize>,
}

impl EffectBytes {
    /// Whether `bytes` more bytes of the plugin may wait.
    pub(crate) fn has_room_for(&self, plugin: &str, bytes: usize) -> bool {
        let waiting = self.0.get(plugin).map_or(0, |waiting| waiting.load(Ordering::Relaxed));
        bytes == 0 || waiting.saturating_add(bytes) <= MAX_BYTES
    }

    /// Counts bytes of the plugin that wait until the value is dropped.
    pub(crate) fn hold(&mut self, plugin: &Arc<str>, bytes: usize) -> HeldBytes {
        HeldBytes::new(bytes, self.0.entry(Arc::clone(plugin)).or_default())
    }
}

impl HeldBytes {
    fn new(bytes: usize, total: &Arc<AtomicUsize>) -> Self {
        total.fetch_add(bytes, Ordering::Relaxed);
        Self { bytes, total: Arc::clone(total) }
    }
}

impl Clone for HeldBytes {
    fn clone(&self) -> Self {
        Self::new(self.bytes, &self.total)
    }
}

/// The count does not matter for the comparison of effects.
impl PartialEq for HeldBytes {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The bytes of an effect: its object or patch, or the objects for which the plugin waits. Names of objects count
/// twice, because an index contains them too. Everything else is small.
pub(crate) fn bytes_of(effect: &Effect) -> usize {
    match effect {
        Effect::Patch { patch, .. } => patch.len(),
        Effect::Create { body, .. } => body.len(),
        Effect::Bind
        | Effect::Delete { .. }
        | Effect::Evict { .. }
        | Effect::Allow { .. }
        | Effect::Reject { .. }
        | Effect::Activate { .. }
        | Effect::Nominate { .. }
        | Effect::Event { .. } => 0,
        Effect::Wait { objects, .. } => {
            let names = objects.iter().map(|object| object.kind.len() + object.namespace.len() + object.name.len());
            2 * names.map(|names| names + OBJECT_BYTES).sum::<usize>()
        }
    }
}
