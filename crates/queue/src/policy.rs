//! What the queue asks the plugins.

use std::sync::Arc;

use berth_model::{Pod, Time};

use crate::object_event::ObjectEvent;

/// The plugins' side of the queue.
pub trait Policy {
    /// May this pod enter activeQ? `gated_by` kept it out the last time and is asked first.
    fn pre_enqueue(&mut self, pod: &Pod, gated_by: Option<&str>) -> Gate;

    /// The pod's place in activeQ; smaller keys come first.
    fn sort_key(&mut self, pod: &Pod, queued_at: Time) -> (i64, i64);

    /// Whether `object_event` is worth another attempt of a pod that `plugin` rejected. Asked only for events for which
    /// the plugin registered.
    fn hint(&mut self, plugin: &Arc<str>, pod: &Pod, object_event: &ObjectEvent) -> bool;

    /// Whether [`Self::hint`] of that plugin says the same for all pods that [are alike](Pod::is_equivalent), but for one that
    /// `object_event` happened to.
    fn hints_alike(&mut self, plugin: &str, pod: &Pod, object_event: &ObjectEvent) -> bool;
}

/// The answer of PreEnqueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The pod may enter.
    Open,
    /// Kept out by this plugin.
    Closed(Arc<str>),
}
