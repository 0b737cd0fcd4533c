//! The events for which each plugin registered.

use std::sync::Arc;

use berth_framework::ClusterEvent;
use berth_model::Sym;
use rustc_hash::FxHashMap;

use crate::object_event::ObjectEvent;

/// The events for which one plugin registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginEvents {
    /// The name of the plugin.
    pub plugin: Arc<str>,
    /// The events; `None` stands for every event.
    pub events: Option<Vec<ClusterEvent>>,
}

impl PluginEvents {
    /// Records the events for which a plugin registered. If a plugin registered for new nodes, it gets updates of
    /// taints as well. A node that is added with a taint may become usable when only its taint changes, and a plugin
    /// without this registration would miss the change (`buildQueueingHintMap` in `pkg/scheduler/scheduler.go`). The
    /// plugin's pods are tried again after each such update, because the plugin's hint knows nothing of taints.
    #[must_use]
    pub fn new(plugin: Arc<str>, events: Option<Vec<ClusterEvent>>) -> Self {
        let mut events = events;
        if let Some(events) = &mut events {
            let covers = |action: u32| events.iter().any(|it| it.resource == "Node" && it.actions & action != 0);
            if covers(ClusterEvent::ADD) && !covers(ClusterEvent::UPDATE_NODE_TAINT) {
                events.push(ClusterEvent::new("Node", ClusterEvent::UPDATE_NODE_TAINT));
            }
        }
        Self { plugin, events }
    }

    pub(crate) fn hears(&self, event: &ClusterEvent) -> bool {
        self.events.as_ref().is_none_or(|events| events.iter().any(|registered| matches(registered, event)))
    }
}

/// Whether a registration covers an event. A general `Update` reaches only plugins that registered for every kind of
/// update.
#[must_use]
pub fn matches(registered: &ClusterEvent, event: &ClusterEvent) -> bool {
    if registered.resource == "*" && registered.actions == ClusterEvent::ALL {
        return true;
    }
    let is_pod = event.resource == ObjectEvent::ASSIGNED_POD || event.resource == ObjectEvent::TARGET_POD;
    let same_kind =
        registered.resource == "*" || registered.resource == event.resource || (registered.resource == "Pod" && is_pod);
    same_kind && registered.actions & event.actions != 0 && event.actions <= registered.actions
}

/// The registrations of all profiles, by `schedulerName`.
#[derive(Debug, Default)]
pub(crate) struct Registrations {
    by_scheduler: FxHashMap<Sym, Vec<PluginEvents>>,
}

impl Registrations {
    pub(crate) fn set(&mut self, registrations: impl IntoIterator<Item = (Sym, Vec<PluginEvents>)>) {
        self.by_scheduler = registrations.into_iter().collect();
    }

    pub(crate) fn of(&self, scheduler_name: Sym) -> Option<&[PluginEvents]> {
        self.by_scheduler.get(&scheduler_name).map(Vec::as_slice)
    }

    /// Whether any plugin registered for the event.
    pub(crate) fn anyone_hears(&self, event: &ClusterEvent) -> bool {
        self.by_scheduler.values().flatten().any(|plugin| plugin.hears(event))
    }

    /// The plugins of all profiles that registered for the event. A plugin may be listed several times.
    pub(crate) fn hearing<'a>(&'a self, event: &'a ClusterEvent) -> impl Iterator<Item = &'a str> {
        let plugins = self.by_scheduler.values().flatten().filter(|plugin| plugin.hears(event));
        plugins.map(|plugin| &*plugin.plugin)
    }

    /// Whether `plugin` of that profile registered for the event.
    pub(crate) fn hears(&self, scheduler_name: Sym, plugin: &str, event: &ClusterEvent) -> bool {
        let plugins = self.of(scheduler_name).unwrap_or_default();
        plugins.iter().any(|it| *it.plugin == *plugin && it.hears(event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generic_update_needs_all_update_bits() {
        let update = ClusterEvent::new(ObjectEvent::ASSIGNED_POD, ClusterEvent::UPDATE);
        assert!(!matches(&ClusterEvent::new("Pod", ClusterEvent::UPDATE_POD_LABEL), &update));
        assert!(matches(&ClusterEvent::new("Pod", ClusterEvent::UPDATE), &update));
        assert!(matches(&ClusterEvent::new("*", ClusterEvent::ALL), &update));
        let label = ClusterEvent::new(ObjectEvent::ASSIGNED_POD, ClusterEvent::UPDATE_POD_LABEL);
        assert!(matches(&ClusterEvent::new("Pod", ClusterEvent::UPDATE_POD_LABEL), &label));
        assert!(!matches(&ClusterEvent::new("Node", ClusterEvent::ALL), &label));
    }

    #[test]
    fn node_additions_imply_taints() {
        let plugin = PluginEvents::new(Arc::from("p"), Some(vec![ClusterEvent::new("Node", ClusterEvent::ADD)]));
        assert!(plugin.hears(&ClusterEvent::new("Node", ClusterEvent::UPDATE_NODE_TAINT)));
        assert!(!plugin.hears(&ClusterEvent::new("Node", ClusterEvent::UPDATE_NODE_LABEL)));
    }
}
