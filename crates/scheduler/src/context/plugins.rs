//! What is asked about pods, and when: profiles, extenders, and the time that plugins have.

use std::{sync::Arc, time::Duration};

use berth_cache::Cache;
use berth_framework::{
    Clock, CycleId, Extenders, Measured, ObjectKind, PluginIdx, Profile, SchedulingTime, UnlistedKind, run::Refusal,
};
use berth_model::{BinaryId, PodUid, Sym};
use berth_queue::{Queue, QueuedPod};

use super::{Context, PLUGIN_REPLACED};
use crate::{
    outbox::Outbox,
    profiles::Profiles,
    unasked_gates::{ProfilePlugin, Untold},
};

/// The label of what brings back pods about which a plugin had no time to be asked.
const PLUGIN_HAS_TIME: &str = "PluginHasTime";

/// The plugins of one pod's profile, and what they are asked with.
pub(crate) struct PodPlugins<'a> {
    pub(crate) profile: &'a mut Profile,
    pub(crate) cache: &'a Cache,
    pub(crate) queue: &'a Queue,
    pub(crate) extenders: Option<&'a dyn Extenders>,
    pub(crate) time: &'a SchedulingTime,
    pub(crate) outbox: &'a mut Outbox,
}

/// The beginning of the search for a pod's node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchStart {
    /// The time by the clock; `None` without one.
    pub(crate) at: Option<Duration>,
    /// What plugins had been charged for by then.
    by_plugins: Duration,
}

impl Context {
    pub(crate) fn profiles(&self) -> &Profiles {
        &self.profiles
    }

    pub(crate) fn profile(&self, scheduler_name: Sym) -> Option<&Profile> {
        self.profiles.get(scheduler_name)
    }

    pub(crate) fn profile_mut(&mut self, scheduler_name: Sym) -> Option<&mut Profile> {
        self.profiles.get_mut(scheduler_name)
    }

    /// The profile's plugins, to be asked about a pod; `None` if there is no such profile any more.
    pub(crate) fn plugins_of(&mut self, scheduler_name: Sym) -> Option<PodPlugins<'_>> {
        Some(PodPlugins {
            profile: self.profiles.get_mut(scheduler_name)?,
            cache: &self.cache,
            queue: &self.queue,
            extenders: self.extenders.as_deref(),
            time: &self.time,
            outbox: &mut self.outbox,
        })
    }

    /// Sends the replicas of the profile's plugins what has changed.
    ///
    /// # Errors
    /// Names the plugin that could not be brought up to date, and says why.
    pub(crate) fn sync(&mut self, scheduler_name: Sym) -> Result<(), Refusal> {
        // Nothing is to be synced once no profile serves the pod any more.
        self.profiles.get_mut(scheduler_name).map_or(Ok(()), |profile| profile.sync(&self.cache))
    }

    pub(crate) fn extenders(&self) -> Option<&dyn Extenders> {
        self.extenders.as_deref()
    }

    /// Asks these extenders beside the plugins of every profile from here on. Tells whether they are others than
    /// before.
    pub(crate) fn set_extenders(&mut self, extenders: Option<Arc<dyn Extenders>>) -> bool {
        let before = std::mem::replace(&mut self.extenders, extenders);
        match (&before, &self.extenders) {
            (Some(before), Some(after)) => !Arc::ptr_eq(before, after),
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => true,
        }
    }

    /// Puts these profiles in the place of all that there are, which it gives back.
    pub(crate) fn install_profiles(&mut self, profiles: Vec<Profile>) -> Vec<Profile> {
        let before = self.profiles.replace(profiles, self.cache.symbols_mut());
        self.register_events();
        before
    }

    /// Tells the queue which events bring back the pods that each plugin rejected.
    pub(crate) fn register_events(&mut self) {
        self.queue.register(self.profiles.registrations(self.extenders.is_some()));
    }

    /// A kind may not be listed from here on, or with `None` is listed. Pods are tried again that a plugin rejected which reads
    /// it.
    pub(crate) fn kind_changed(&mut self, kind: ObjectKind, unlisted: Option<UnlistedKind>) {
        let (readers, label) = match unlisted {
            Some(unlisted) => (self.profiles.kind_unlisted(kind, unlisted), "KindUnlisted"),
            None => (self.profiles.kind_listed(&kind), "KindListed"),
        };
        self.retry_rejected_by(&readers, label);
    }

    /// Tries the pods again that one of the plugins rejected or keeps out of activeQ.
    pub(crate) fn retry_rejected_by<'a>(&mut self, plugins: impl IntoIterator<Item = &'a Arc<str>>, label: &str) {
        let now = self.outbox.now();
        for plugin in plugins {
            self.with_queue(|queue, policy| queue.retry_rejected_by(plugin, label, now, policy));
        }
    }

    /// Instances of this binary have taken the plugin's place. Pods are tried again that the one before held or rejected, and
    /// plugins are asked again about pods of the profiles that were not asked before PreEnqueue.
    pub(crate) fn plugin_replaced(&mut self, plugin: &str, binary: Option<BinaryId>, ungated: &[Sym]) {
        let now = self.now();
        let held: Vec<PodUid> = binary.map_or_else(Vec::new, |binary| self.isolation.replaced(plugin, binary));
        self.with_queue(|queue, policy| {
            if !ungated.is_empty() {
                queue.check_gates(|pod| ungated.contains(&pod.scheduler_name), policy);
            }
            queue.activate(&held, now, policy);
            queue.retry_rejected_by(plugin, PLUGIN_REPLACED, now, policy);
        });
    }

    /// Takes measurements with `clock`. `seed` decides which attempts have each plugin timed.
    pub(crate) fn measure_with(&mut self, clock: Arc<dyn Clock>, seed: u64) {
        self.outbox.set_clock(Arc::clone(&clock));
        self.profiles.measure_with(clock, seed);
    }

    pub(crate) fn drain_measured(&mut self, take: &mut impl FnMut(&Profile, &Measured)) {
        self.profiles.drain_measured(take);
    }

    /// Lets these accounts say whose pods are to wait for others.
    pub(crate) fn set_time(&mut self, time: SchedulingTime) {
        self.time = time;
    }

    /// Does some work while plugins may take more than their share of all.
    pub(crate) fn while_idle(&mut self, work: impl FnOnce(&mut Self)) {
        self.time.set_idle(true);
        work(self);
        self.time.set_idle(false);
    }

    /// A step begins for which a pod's plugins are asked.
    pub(crate) fn begin_step(&self) {
        self.time.begin_step();
    }

    /// The search for a pod's node begins.
    pub(crate) fn begin_search(&self) -> SearchStart {
        let at = self.instant();
        self.begin_step();
        SearchStart { at, by_plugins: self.time.taken_by_plugins() }
    }

    /// Charges the search to the pod's namespace if it took long; what plugins are charged for does not count. The record says
    /// from here on whether the search took long, and whether the plugins did.
    pub(crate) fn charge_search(&self, record: &mut QueuedPod, start: SearchStart) {
        (record.had_long_search, record.had_long_calls) = (false, false);
        let (Some(started), Some(now)) = (start.at, self.instant()) else { return };
        let by_plugins = self.time.taken_by_plugins().saturating_sub(start.by_plugins);
        record.had_long_calls = by_plugins > SchedulingTime::LONG_SEARCH;
        let took = now.saturating_sub(started).saturating_sub(by_plugins);
        record.had_long_search = took > SchedulingTime::LONG_SEARCH;
        if record.had_long_search {
            self.time.searched(&self.shared_text(record.pod.namespace), took);
        }
    }

    /// Whether the plugins of the profile may be asked about a pod now.
    pub(crate) fn have_time(&mut self, scheduler_name: Sym) -> bool {
        self.profiles.why_no_time(scheduler_name).is_none()
    }

    /// Tells plugins what they had no time to hear, as far as they and the turn have time.
    pub(crate) fn tell_news(&mut self) {
        let now = self.outbox.now();
        for scheduler_name in self.profiles.with_news() {
            while self.has_room()
                && self.profiles.get_mut(scheduler_name).is_some_and(|it| it.tell_news(now, self.cache.table()))
            {
            }
        }
    }

    /// Plugins that had no time for PreEnqueue are asked about those pods again, as far as they and the turn have time. Each is
    /// asked about one at least: cycles may use up every turn. Whether any was asked.
    pub(crate) fn ask_gates_again(&mut self) -> bool {
        let (now, mut has_asked) = (self.now(), false);
        for (key, mut pods) in self.unasked_gates.take_without_time() {
            let mut is_first = true;
            while !pods.is_empty() && self.plugin_has_time(&key) && (is_first || self.has_room()) {
                is_first = false;
                let Some(uid) = pods.pop_front() else { break };
                self.with_queue(|queue, policy| queue.retry_gated(&uid, &key.1, PLUGIN_HAS_TIME, now, policy));
                self.queue_grew();
                has_asked = true;
            }
            self.unasked_gates.give_back(key, pods);
        }
        has_asked
    }

    /// Whether the profile's plugin may be asked. One that is not there any more is not asked, so that its pods go on.
    fn plugin_has_time(&mut self, (scheduler_name, name): &ProfilePlugin) -> bool {
        let Some(profile) = self.profiles.get_mut(*scheduler_name) else { return true };
        let plugin = profile.find(name).and_then(|plugin| profile.get(plugin));
        plugin.is_none_or(|plugin| plugin.has_time().is_ok())
    }

    /// Whether pods wait for a plugin to have time for PreEnqueue.
    pub(crate) fn has_unasked_gates(&self) -> bool {
        self.unasked_gates.is_any_without_time()
    }

    /// Asks PreEnqueue plugins again that could not be asked some time ago.
    pub(crate) fn retry_gates(&mut self) {
        let now = self.now();
        let due = self.unasked_gates.take_due(now);
        if !due.is_empty() {
            self.with_queue(|queue, policy| queue.activate(&due, now, policy));
        }
    }

    /// The pods that stay out of activeQ since plugins could not be asked, and why. Each is given out once.
    pub(crate) fn take_gate_failures(&mut self) -> Vec<Untold> {
        self.unasked_gates.take_new()
    }

    /// The pod's failed attempt is reported instead.
    pub(crate) fn leave_gate_failure_untold(&mut self, uid: &PodUid) {
        self.unasked_gates.leave_untold(uid);
    }

    /// The attempt is over: the plugins of the pod's profile may forget it.
    pub(crate) fn end_cycle(&mut self, scheduler_name: Sym, cycle: CycleId) {
        // The profile is gone if the configuration was replaced during the attempt, and so are its plugins.
        if let Some(profile) = self.profiles.get_mut(scheduler_name) {
            profile.end_cycle(cycle);
        }
    }

    /// The plugin's name; empty for [`PluginIdx::NOBODY`].
    pub(crate) fn plugin_name(&self, scheduler_name: Sym, plugin: PluginIdx) -> Arc<str> {
        let profile: Option<&Profile> = self.profiles.get(scheduler_name);
        profile.map_or_else(|| Arc::from(""), |profile| Arc::clone(profile.name(plugin)))
    }

    /// The binary that answers for a plugin.
    pub(crate) fn plugin_binary(&self, scheduler_name: Sym, plugin: PluginIdx) -> Option<BinaryId> {
        self.profiles.get(scheduler_name)?.binary(plugin)
    }
}
