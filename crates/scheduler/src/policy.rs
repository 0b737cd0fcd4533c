//! The answers to the queue's questions, which the plugins of the pod's profile give.

use std::sync::Arc;

use berth_cache::Cache;
use berth_framework::{ClusterEvent, Code, EventSubject, HintCall, Hook, Manifest, Plugin, PluginIdx, Point, Status};
use berth_lifecycle::Isolation;
use berth_model::{OwnerId, Pod, Sym, Time};
use berth_queue::{EventObjects, Gate, Movement, ObjectEvent, Policy, matches};

use crate::{
    metrics::{HintAnswer, Observation},
    occurrence::Occurrence,
    outbox::Outbox,
    preemptions::Preemptions,
    profiles::{Profiles, rejects},
    unasked_gates::UnaskedGates,
};

/// The answers for the queue during one change.
pub(crate) struct QueuePolicy<'a> {
    pub(crate) profiles: &'a mut Profiles,
    pub(crate) cache: &'a Cache,
    pub(crate) preemptions: &'a Preemptions,
    pub(crate) outbox: &'a mut Outbox,
    /// The plugins that could not be asked about a pod, by profile. They are not asked about the next pods, because a
    /// replica that cannot be filled takes seconds to fail.
    pub(crate) broken: Vec<(Sym, PluginIdx, Status)>,
    pub(crate) unasked_gates: &'a mut UnaskedGates,
    pub(crate) isolation: &'a Isolation,
}

/// The result of asking a PreEnqueue plugin.
enum GateAnswer {
    Said(Status),
    /// The plugin is asked again as soon as it has time, so the pod gets no message.
    NoTime(Status),
    /// The plugin broke, or is out of service.
    NotAsked(Status),
}

impl QueuePolicy<'_> {
    /// Whether the pod is held back for faults of this plugin. The plugin is then not asked about the pod.
    fn is_held_for(&self, plugin: &str, pod: &Pod) -> bool {
        if self.isolation.is_empty() {
            return false;
        }
        let owner = OwnerId::of(pod, &self.cache.table().symbols);
        self.isolation.hold(&owner, self.outbox.now()).is_some_and(|hold| hold.plugin() == plugin)
    }

    /// Asks one plugin, after its replica was updated.
    fn ask_gate(&mut self, scheduler_name: Sym, idx: PluginIdx, pod: &Pod) -> Option<GateAnswer> {
        let cache = self.cache;
        let known = self.broken.iter().find(|(name, plugin, _)| (*name, *plugin) == (scheduler_name, idx));
        if let Some((_, _, status)) = known {
            return Some(GateAnswer::NotAsked(status.clone()));
        }
        let profile = self.profiles.get_mut(scheduler_name)?;
        let name = Arc::clone(profile.name(idx));
        let plugin: &mut (dyn Plugin + 'static) = profile.get(idx)?;
        let no_time = if self.unasked_gates.are_before(scheduler_name, &name) {
            Some(Status::error(format!("plugin \"{name}\" had no time yet for earlier pods")))
        } else {
            plugin.has_time().err()
        };
        if let Some(status) = no_time {
            self.unasked_gates.note_no_time(scheduler_name, name, &pod.uid);
            return Some(GateAnswer::NoTime(status));
        }
        let status = match plugin.sync(cache) {
            Err(status) if status.code.is_rejected() => status,
            Err(status) => Status::error(format!("syncing plugin \"{name}\": {}", status.message())),
            Ok(()) => match plugin.pre_enqueue()?.pre_enqueue(pod, cache.table()) {
                status if status.code == Code::Error => {
                    Status::error(format!("running PreEnqueue plugin \"{name}\": {}", status.message()))
                }
                status => return Some(GateAnswer::Said(status)),
            },
        };
        self.broken.push((scheduler_name, idx, status.clone()));
        Some(GateAnswer::NotAsked(status))
    }

    /// Asks the PreEnqueue plugins until a plugin closes the gate.
    fn ask_gates(&mut self, pod: &Pod, gated_by: Option<&str>) -> Gate {
        let Some(profile) = self.profiles.get(pod.scheduler_name) else { return Gate::Open };
        let plugins = profile.plugins.at(Point::PreEnqueue);
        let n_plugins = plugins.len();
        let first = plugins.iter().position(|&plugin| gated_by == Some(&**profile.name(plugin)));
        for position in first.into_iter().chain((0..n_plugins).filter(|position| Some(*position) != first)) {
            let Some(profile) = self.profiles.get(pod.scheduler_name) else { continue };
            let Some(&plugin) = profile.plugins.at(Point::PreEnqueue).get(position) else { continue };
            let is_not_asked = profile.is_blind(plugin).is_some() || self.is_held_for(profile.name(plugin), pod);
            // The cycle of the pod reports the missing plugin, or the hold of the pod.
            if is_not_asked {
                continue;
            }
            let answer = self.ask_gate(pod.scheduler_name, plugin, pod);
            let (Some(answer), Some(profile)) = (answer, self.profiles.get_mut(pod.scheduler_name)) else { continue };
            let status = match answer {
                GateAnswer::Said(status) | GateAnswer::NoTime(status) => status,
                GateAnswer::NotAsked(status) => {
                    self.unasked_gates.note_failure(&pod.uid, status.clone(), self.outbox.now());
                    status
                }
            };
            profile.meter().answered(plugin, Point::PreEnqueue, status.code);
            if !status.is_success() {
                return Gate::Closed(Arc::clone(profile.name(plugin)));
            }
        }
        Gate::Open
    }

    /// Asks the plugin's queueing hint. A plugin without a hint accepts every event for which it registered.
    fn ask_hint(&mut self, plugin: &str, pod: &Pod, object_event: &ObjectEvent) -> HintAnswer {
        let Some(profile) = self.profiles.get_mut(pod.scheduler_name) else { return HintAnswer::Queue };
        let Some(plugin) = profile.find(plugin) else { return HintAnswer::Queue };
        if !rejects(profile, plugin) {
            // This plugin only holds the pod back. The plugins that rejected the pod are asked separately.
            return HintAnswer::QueueSkip;
        }
        let Some(plugin) = profile.get(plugin) else { return HintAnswer::Queue };
        let registered = plugin.manifest().events_to_register.as_ref();
        if registered.is_some_and(|events| !events.iter().any(|event| matches(event, &object_event.event))) {
            // The queue added this event to the plugin's registration (`PluginEvents::new`), so the plugin is not
            // asked.
            return HintAnswer::Queue;
        }
        if plugin.queueing_hint().is_none() {
            return HintAnswer::Queue;
        }
        // If a plugin has no time, the pod is tried again, as kube-scheduler does when a hint fails.
        if plugin.has_time().is_err() || plugin.sync(self.cache).is_err() {
            return HintAnswer::Error;
        }
        let subject = shown(&object_event.objects, plugin.manifest());
        let pod_event;
        let event = match subject {
            EventSubject::Pod { .. } => {
                pod_event = ClusterEvent::new("Pod", object_event.event.actions);
                &pod_event
            }
            EventSubject::Node { .. } | EventSubject::Object { .. } | EventSubject::Hidden => &object_event.event,
        };
        let call = HintCall { table: self.cache.table(), pod, event, subject };
        HintAnswer::of(plugin.queueing_hint().is_none_or(|point| point.queueing_hint(&call)))
    }
}

/// The objects of an event, as far as a plugin may see them. A plugin may register for events of a kind that it was not
/// granted to read.
fn shown<'a>(subject: &'a EventObjects, manifest: &Manifest) -> EventSubject<'a> {
    match subject {
        EventObjects::Pod { old, new } => EventSubject::Pod { old: old.as_deref(), new: new.as_deref() },
        EventObjects::Node { old, new } => EventSubject::Node { old: old.as_deref(), new: new.as_deref() },
        EventObjects::Object { key, old, new } if manifest.needs.has_objects_like(key) => {
            EventSubject::Object { key, old: old.as_deref(), new: new.as_deref() }
        }
        EventObjects::Object { .. } | EventObjects::Cluster => EventSubject::Hidden,
    }
}

impl Policy for QueuePolicy<'_> {
    fn pre_enqueue(&mut self, pod: &Pod, gated_by: Option<&str>) -> Gate {
        if let Some(plugin) = self.preemptions.gate(&pod.uid, self.cache) {
            return Gate::Closed(Arc::clone(plugin));
        }
        let Some(profile) = self.profiles.get_mut(pod.scheduler_name) else { return Gate::Open };
        let start = profile.meter().start_outside();
        let gate = self.ask_gates(pod, gated_by);
        if let Some(profile) = self.profiles.get_mut(pod.scheduler_name) {
            // PreEnqueue counts as a success even if a gate is closed, as in kube-scheduler.
            profile.meter().end(start, Point::PreEnqueue.as_str(), Code::Success);
        }
        gate
    }

    fn sort_key(&mut self, pod: &Pod, queued_at: Time) -> (i64, i64) {
        let queued_at = i64::try_from(queued_at.0).unwrap_or(i64::MAX);
        let by_priority = (-i64::from(pod.priority), queued_at);
        let cache = self.cache;
        let Some(profile) = self.profiles.get(pod.scheduler_name) else { return by_priority };
        let Some(&plugin) = profile.plugins.at(Point::QueueSort).first() else { return by_priority };
        if self.is_held_for(profile.name(plugin), pod) {
            return by_priority;
        }
        let profile = self.profiles.get_mut(pod.scheduler_name);
        let Some(plugin) = profile.and_then(|profile| profile.get(plugin)) else { return by_priority };
        if plugin.has_time().is_err() || plugin.sync(cache).is_err() {
            return by_priority;
        }
        plugin.queue_sort().map_or(by_priority, |point| point.sort_key(pod, queued_at))
    }

    /// Plugins with Reuse promise equal answers only for events of nodes and of other pods. An object of another kind
    /// may belong to a single pod, and may make this pod differ from pods that are otherwise equivalent.
    fn hints_alike(&mut self, plugin: &str, pod: &Pod, object_event: &ObjectEvent) -> bool {
        let is_promised = match object_event.objects {
            EventObjects::Node { .. } | EventObjects::Pod { .. } => true,
            EventObjects::Object { .. } | EventObjects::Cluster => false,
        };
        // A pod without an owner is held alone.
        let are_held_apart = pod.owner.is_none() && !self.isolation.is_empty();
        let can_say = is_promised && !are_held_apart;
        let Some(profile) = self.profiles.get_mut(pod.scheduler_name).filter(|_| can_say) else { return false };
        let plugin = profile.find(plugin).and_then(|plugin| profile.get(plugin));
        plugin.is_some_and(|plugin| plugin.hook(Hook::Reuse).is_some())
    }

    fn moved(&mut self, movement: Movement<'_>) {
        let occurrences = self.outbox.occurrences_mut();
        if occurrences.wants(Occurrence::movement_verbosity(movement.reason.cause)) {
            occurrences.add_movement(movement, &self.cache.table().symbols);
        }
    }

    fn hint(&mut self, plugin: &Arc<str>, pod: &Pod, object_event: &ObjectEvent) -> bool {
        if self.is_held_for(plugin, pod) {
            return false;
        }
        let start = self.outbox.instant();
        let answer = self.ask_hint(plugin, pod, object_event);
        let (plugin, event) = (Arc::clone(plugin), Arc::clone(&object_event.label));
        self.outbox.observe_since(start, |duration| Observation::QueueingHint { plugin, event, answer, duration });
        answer.queues()
    }
}
