//! The questions that the queue asks plugins, and the moves that the queue reports.

use std::sync::Arc;

use berth_model::{Pod, Time};

use crate::{movement::Movement, object_event::ObjectEvent};

/// The interface through which the queue asks plugins.
pub trait Policy {
    /// Whether this pod may enter activeQ. `gated_by` names the plugin that kept the pod out the last time. That plugin
    /// is asked first.
    fn pre_enqueue(&mut self, pod: &Pod, gated_by: Option<&str>) -> Gate;

    /// The sort key of the pod in activeQ; smaller keys come first.
    fn sort_key(&mut self, pod: &Pod, queued_at: Time) -> (i64, i64);

    /// Whether a pod that `plugin` rejected should be tried again because of `object_event`. The queue asks only about
    /// events for which the plugin registered.
    fn hint(&mut self, plugin: &Arc<str>, pod: &Pod, object_event: &ObjectEvent) -> bool;

    /// Whether [`Self::hint`] of that plugin gives the same answer for all pods that [are
    /// equivalent](Pod::is_equivalent). A pod that is itself an object of `object_event` is an exception.
    fn hints_alike(&mut self, plugin: &str, pod: &Pod, object_event: &ObjectEvent) -> bool;

    /// Reports that a pod enters a part of the queue. The report is for the log. No behaviour depends on it.
    fn moved(&mut self, _movement: Movement<'_>) {}
}

/// The answer of PreEnqueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The pod may enter.
    Open,
    /// The plugin of this name keeps the pod out.
    Closed(Arc<str>),
}
