//! The queue's questions, answered by the plugins of the pod's profile.

use std::sync::Arc;

use berth_cache::Cache;
use berth_framework::{Plugin, PluginIdx, Point, Profile, Status};
use berth_model::{Pod, Sym, Time};
use berth_queue::{Gate, Occurrence, PluginEvents, Policy, Subject};
use rustc_hash::FxHashMap;

use crate::preemption::Preemptions;

/// Profiles by `schedulerName`.
#[derive(Debug, Default)]
pub(crate) struct Profiles {
    pub(crate) list: Vec<Profile>,
    pub(crate) by_name: FxHashMap<Sym, usize>,
}

impl Profiles {
    pub(crate) fn serves(&self, scheduler_name: Sym) -> bool {
        self.by_name.contains_key(&scheduler_name)
    }

    pub(crate) fn get_mut(&mut self, scheduler_name: Sym) -> Option<&mut Profile> {
        self.list.get_mut(*self.by_name.get(&scheduler_name)?)
    }

    pub(crate) fn get(&self, scheduler_name: Sym) -> Option<&Profile> {
        self.list.get(*self.by_name.get(&scheduler_name)?)
    }

    /// The events that each profile's plugins registered for; only plugins that can reject a pod are asked.
    pub(crate) fn registrations(&self) -> Vec<(Sym, Vec<PluginEvents>)> {
        let of_profile = |(name, index): (&Sym, &usize)| Some((*name, registrations(self.list.get(*index)?)));
        self.by_name.iter().filter_map(of_profile).collect()
    }
}

fn registrations(profile: &Profile) -> Vec<PluginEvents> {
    let instances = (0u32..).map(PluginIdx).zip(profile.instances());
    let may_reject = |plugin| rejects(profile, plugin) || profile.plugins.at(Point::PostFilter).contains(&plugin);
    let rejecting = instances.filter(|(plugin, _)| may_reject(*plugin)).map(|(_, instance)| instance);
    rejecting
        .map(|instance| PluginEvents::new(Arc::clone(instance.name()), instance.plugin.manifest().requeue.clone()))
        .collect()
}

/// Whether the plugin itself can turn a pod down. A PostFilter plugin that cannot still has pods held back in its name,
/// until what it asked for is done.
fn rejects(profile: &Profile, plugin: PluginIdx) -> bool {
    const REJECTING: [Point; 5] = [Point::PreEnqueue, Point::PreFilter, Point::Filter, Point::Reserve, Point::Permit];
    REJECTING.iter().any(|&point| profile.plugins.at(point).contains(&plugin))
}

/// Answers for the queue while it works.
pub(crate) struct PluginPolicy<'a> {
    pub(crate) profiles: &'a mut Profiles,
    pub(crate) cache: &'a Cache,
    pub(crate) preemptions: &'a Preemptions,
}

impl PluginPolicy<'_> {
    /// Asks one plugin, its replica caught up.
    fn ask_gate(&mut self, scheduler_name: Sym, plugin: PluginIdx, pod: &Pod) -> Option<Status> {
        let cache = self.cache;
        let plugin: &mut (dyn Plugin + 'static) = self.profiles.get_mut(scheduler_name)?.get(plugin)?;
        if let Err(status) = plugin.sync(cache) {
            return Some(status);
        }
        Some(plugin.pre_enqueue()?.pre_enqueue(pod))
    }
}

impl Policy for PluginPolicy<'_> {
    fn pre_enqueue(&mut self, pod: &Pod, gated_by: Option<&str>) -> Gate {
        if let Some((plugin, _)) = self.preemptions.gate(&pod.uid, self.cache) {
            return Gate::Closed(Arc::clone(plugin));
        }
        let Some(profile) = self.profiles.get(pod.scheduler_name) else { return Gate::Open };
        let mut plugins = profile.plugins.at(Point::PreEnqueue).to_vec();
        plugins.sort_by_key(|&plugin| gated_by != Some(&**profile.name(plugin)));
        for plugin in plugins {
            let status = self.ask_gate(pod.scheduler_name, plugin, pod);
            if status.is_some_and(|status| !status.is_success())
                && let Some(profile) = self.profiles.get(pod.scheduler_name)
            {
                return Gate::Closed(Arc::clone(profile.name(plugin)));
            }
        }
        Gate::Open
    }

    fn sort_key(&mut self, pod: &Pod, queued_at: Time) -> (i64, i64) {
        let queued_at = i64::try_from(queued_at.0).unwrap_or(i64::MAX);
        let by_priority = (-i64::from(pod.priority), queued_at);
        let cache = self.cache;
        let Some(profile) = self.profiles.get_mut(pod.scheduler_name) else { return by_priority };
        let Some(&plugin) = profile.plugins.at(Point::QueueSort).first() else { return by_priority };
        let Some(plugin) = profile.get(plugin) else { return by_priority };
        if plugin.sync(cache).is_err() {
            return by_priority;
        }
        plugin.queue_sort().map_or(by_priority, |point| point.sort_key(pod, queued_at))
    }

    /// A plugin that has no hint, or cannot be shown the objects, wants every event for which it registered.
    fn hint(&mut self, plugin: &str, pod: &Pod, occurrence: &Occurrence) -> bool {
        let Some(profile) = self.profiles.get_mut(pod.scheduler_name) else { return true };
        let Some(plugin) = profile.find(plugin) else { return true };
        if !rejects(profile, plugin) {
            // No event concerns a pod that was only held back; those who turned it down are asked themselves.
            return false;
        }
        let Subject::Object { kind, old, new } = &occurrence.subject else { return true };
        let Some(plugin) = profile.get(plugin) else { return true };
        if plugin.queueing_hint().is_none() || plugin.sync(self.cache).is_err() {
            return true;
        }
        // Who registers for events of a kind need not be one who may read it.
        let is_shown = plugin.manifest().needs.objects.contains(kind);
        let [old, new] = [old, new].map(|object| object.as_deref().filter(|_| is_shown));
        plugin.queueing_hint().is_none_or(|point| point.queueing_hint(pod, &occurrence.event, old, new))
    }
}
