//! The parts of the context that concern plugins: profiles, extenders, and the time that plugins have.

use std::{sync::Arc, time::Duration};

use berth_cache::Cache;
use berth_framework::{
    Clock, Code, CycleId, Extenders, Fact, LateEffects, Measured, ObjectKind, PluginIdx, Profile, SchedulingTime,
    Start, TraceSampling, UnlistedKind, run::Refusal,
};
use berth_model::{BinaryId, PodUid, Sym};
use berth_queue::{Queue, QueuedPod};

use super::{Context, PLUGIN_REPLACED, SYNC};
use crate::{
    action::Level,
    outbox::Outbox,
    profiles::Profiles,
    unasked_gates::{GateMessage, ProfilePlugin},
};

/// The label of retries of pods for which a plugin had no time before.
const PLUGIN_HAS_TIME: &str = "PluginHasTime";

/// The plugins of one pod's profile, and the data that questions to these plugins need.
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
    /// The time by the clock; `None` without a clock.
    pub(crate) at: Option<Duration>,
    /// The time that plugins had been charged for before the attempt.
    by_plugins: Duration,
}

impl Context {
    pub(crate) fn profiles(&self) -> &Profiles {
        &self.profiles
    }

    pub(crate) fn profiles_mut(&mut self) -> &mut Profiles {
        &mut self.profiles
    }

    pub(crate) fn profile(&self, scheduler_name: Sym) -> Option<&Profile> {
        self.profiles.get(scheduler_name)
    }

    pub(crate) fn profile_mut(&mut self, scheduler_name: Sym) -> Option<&mut Profile> {
        self.profiles.get_mut(scheduler_name)
    }

    /// The profile's plugins, for questions about a pod; `None` if the profile no longer exists.
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

    /// Sends the changes to the replicas of the profile's plugins.
    ///
    /// # Errors
    /// A plugin could not be brought up to date. The refusal contains the plugin and the reason.
    pub(crate) fn sync(&mut self, scheduler_name: Sym) -> Result<(), Refusal> {
        // Nothing needs to be updated if no profile serves the pod any more.
        self.profiles.get_mut(scheduler_name).map_or(Ok(()), |profile| profile.sync(&self.cache))
    }

    /// Syncs the plugins as a step of an attempt.
    pub(crate) fn sync_within(&mut self, scheduler_name: Sym, cycle: CycleId) -> Result<(), Refusal> {
        let step = self.start_step(scheduler_name, cycle);
        let synced = self.sync(scheduler_name);
        let code = synced.as_ref().err().map_or(Code::Success, |refusal| refusal.status.code);
        self.end_step(scheduler_name, step, SYNC, code);
        synced
    }

    pub(crate) fn extenders(&self) -> Option<&dyn Extenders> {
        self.extenders.as_deref()
    }

    /// Sets the extenders that are asked besides the plugins of every profile. Returns whether the extenders differ
    /// from the previous extenders.
    pub(crate) fn set_extenders(&mut self, extenders: Option<Arc<dyn Extenders>>) -> bool {
        let before = std::mem::replace(&mut self.extenders, extenders);
        match (&before, &self.extenders) {
            (Some(before), Some(after)) => !Arc::ptr_eq(before, after),
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => true,
        }
    }

    /// Replaces all profiles, and returns the old profiles.
    pub(crate) fn install_profiles(&mut self, profiles: Vec<Profile>) -> Vec<Profile> {
        let before = self.profiles.replace(profiles, self.cache.symbols_mut());
        let Self { profiles, shared_facts, cache, .. } = self;
        shared_facts.retain(|scheduler_name, plugin| profiles.has(scheduler_name, plugin), cache);
        self.register_events();
        before
    }

    /// Registers with the queue which events bring back the pods that each plugin rejected.
    pub(crate) fn register_events(&mut self) {
        self.queue.register(self.profiles.registrations(self.extenders.is_some()));
    }

    /// Notes that a kind may not be listed from now on. `None` notes that the kind is listed. Pods that a plugin
    /// rejected are tried again if the plugin reads the kind.
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

    /// Handles the replacement of a plugin by this binary, or by nothing. Pods that the old binary held or rejected are
    /// tried again. In the profiles in `ungated`, PreEnqueue plugins are asked about the pods about which they could not
    /// be asked before.
    pub(crate) fn plugin_replaced(&mut self, plugin: &str, binary: Option<BinaryId>, ungated: &[Sym]) {
        let now = self.now();
        let held: Vec<PodUid> = match binary {
            Some(binary) => self.isolation.replaced(plugin, binary),
            None if self.lets_pods_pass(plugin) => self.isolation.passed(plugin),
            None => Vec::new(),
        };
        self.with_queue(|queue, policy| {
            if !ungated.is_empty() {
                queue.check_gates(|pod| ungated.contains(&pod.scheduler_name), policy);
            }
            queue.activate(&held, now, policy);
            queue.retry_rejected_by(plugin, PLUGIN_REPLACED, now, policy);
        });
    }

    /// Measures with `clock`. `seed` decides in which attempts each plugin is timed.
    pub(crate) fn measure_with(&mut self, clock: Arc<dyn Clock>, seed: u64) {
        self.outbox.set_clock(Arc::clone(&clock));
        self.profiles.measure_with(clock, seed);
    }

    /// Traces the attempts that `tracing` takes.
    pub(crate) fn trace_with(&mut self, tracing: TraceSampling) {
        self.outbox.set_tracing(tracing);
        self.profiles.trace_with(tracing);
    }

    /// Begins a step of an attempt. The step is not an extension point, so only traces contain it.
    pub(crate) fn start_step(&mut self, scheduler_name: Sym, cycle: CycleId) -> Option<Start> {
        if !self.outbox.tracing().takes(cycle) {
            return None;
        }
        Some(self.profiles.get_mut(scheduler_name)?.meter().start_step(cycle))
    }

    /// Ends the step. The step is recorded only if a profile still serves the pod.
    pub(crate) fn end_step(&mut self, scheduler_name: Sym, start: Option<Start>, name: &'static str, code: Code) {
        if let Some((start, profile)) = start.zip(self.profiles.get_mut(scheduler_name)) {
            profile.meter().end_step(&start, name, code);
        }
    }

    pub(crate) fn drain_measured(&mut self, take: &mut impl FnMut(&Profile, &Measured)) {
        self.profiles.drain_measured(take);
    }

    /// Sets the accounts that decide which pods wait for other pods.
    pub(crate) fn set_time(&mut self, time: SchedulingTime) {
        self.time = time;
    }

    /// Runs `work` while plugins may take more than the share of all plugins.
    pub(crate) fn while_idle(&mut self, work: impl FnOnce(&mut Self)) {
        self.time.set_idle(true);
        work(self);
        self.time.set_idle(false);
    }

    /// Begins a step in which a pod's plugins are asked.
    pub(crate) fn begin_step(&self) {
        self.time.begin_step();
    }

    /// Begins the search for a pod's node.
    pub(crate) fn begin_search(&self) -> SearchStart {
        let at = self.instant();
        self.begin_step();
        SearchStart { at, by_plugins: self.time.taken_by_plugins() }
    }

    /// Charges a long search to the pod's namespace, without the time that plugins are charged for. The record notes
    /// whether the search took long, and which plugins took long.
    pub(crate) fn charge_search(&self, record: &mut QueuedPod, start: SearchStart) {
        record.had_long_search = false;
        record.slow_plugins.clear();
        let (Some(started), Some(now)) = (start.at, self.instant()) else { return };
        let by_plugins = self.time.taken_by_plugins().saturating_sub(start.by_plugins);
        if by_plugins > SchedulingTime::LONG_SEARCH {
            record.slow_plugins = self.time.slow_in_step();
        }
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

    /// Passes waiting messages to plugins, as far as the plugins and the turn have time. Returns the effects that the
    /// plugins ask for.
    pub(crate) fn deliver_messages(&mut self) -> Vec<LateEffects> {
        let (now, mut late) = (self.outbox.now(), Vec::new());
        for scheduler_name in self.profiles.with_messages() {
            while self.has_room()
                && let Some(profile) = self.profiles.get_mut(scheduler_name)
                && profile.deliver_message(now, self.cache.table(), &mut late)
            {}
        }
        late
    }

    /// Asks plugins again that had no time for PreEnqueue, about the pods that these plugins could not judge, as far as
    /// the plugins and the turn have time. Each plugin with time is asked about at least one pod, because cycles may
    /// use up every turn. Returns whether any plugin was asked.
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

    /// Whether the profile's plugin has time. For a plugin that no longer exists, the result is `true`, so that its
    /// pods continue.
    fn plugin_has_time(&mut self, (scheduler_name, name): &ProfilePlugin) -> bool {
        let Some(profile) = self.profiles.get_mut(*scheduler_name) else { return true };
        let plugin = profile.find(name).and_then(|plugin| profile.get(plugin));
        plugin.is_none_or(|plugin| plugin.has_time().is_ok())
    }

    /// Whether pods wait for a plugin to have time for PreEnqueue.
    pub(crate) fn has_unasked_gates(&self) -> bool {
        self.unasked_gates.is_any_without_time()
    }

    /// Asks PreEnqueue plugins again that failed some time ago.
    pub(crate) fn retry_gates(&mut self) {
        let now = self.now();
        let due = self.unasked_gates.take_due(now);
        if !due.is_empty() {
            self.with_queue(|queue, policy| queue.activate(&due, now, policy));
        }
    }

    /// The pods that stay out of activeQ because plugins could not be asked, with the reasons. Each pod is returned
    /// once.
    pub(crate) fn take_gate_failures(&mut self) -> Vec<GateMessage> {
        self.unasked_gates.take_new()
    }

    /// Drops the report about the pod's gate, because its failed attempt is reported instead.
    pub(crate) fn leave_gate_failure_unreported(&mut self, uid: &PodUid) {
        self.unasked_gates.leave_unreported(uid);
    }

    /// Informs the plugins of the pod's profile that the attempt is over, so that the plugins may forget it.
    pub(crate) fn end_cycle(&mut self, scheduler_name: Sym, cycle: CycleId) {
        // If the configuration was replaced during the attempt, the profile and its plugins may be gone.
        if let Some(profile) = self.profiles.get_mut(scheduler_name) {
            profile.end_cycle(cycle);
        }
    }

    /// Enters what the plugins of the profile share after a call about the cycle, so that the other plugins know of it.
    /// Shares of nodes are counted instead.
    pub(crate) fn share_facts(&mut self, scheduler_name: Sym, cycle: CycleId) {
        let Some(profile) = self.profiles.get_mut(scheduler_name) else { return };
        for (plugin, facts) in profile.take_facts(cycle) {
            let (shares, facts): (Vec<Fact>, Vec<Fact>) =
                facts.into_iter().partition(|fact| fact.as_node_share().is_some());
            for (pod_uid, claims) in shares.iter().filter_map(Fact::as_node_share) {
                self.count_reserved_share(pod_uid, claims);
            }
            let profile = self.shared_text(scheduler_name);
            let n_left_out = self.shared_facts.publish(&profile, cycle, &plugin, facts, &mut self.cache);
            if n_left_out > 0 {
                let message =
                    format!("plugin {plugin} shares too much: other plugins do not get {n_left_out} of its facts");
                self.log_of(&plugin, Level::Warn, message);
            }
        }
    }

    /// Enters what the plugins of the profile share after Unreserve. An instance that was lost cannot take back what it
    /// shared about the cycle, so this is taken back in its place.
    pub(crate) fn unshare_facts(&mut self, scheduler_name: Sym, cycle: CycleId) {
        self.share_facts(scheduler_name, cycle);
        let Some(profile) = self.profiles.get_mut(scheduler_name) else { return };
        for plugin in profile.sharers_without(cycle) {
            let profile = self.shared_text(scheduler_name);
            self.shared_facts.end_cycle(&profile, cycle, &plugin, &mut self.cache);
        }
    }

    /// Takes back everything that the plugins of this scheduler share, but not the facts of a scheduler that it follows.
    pub(crate) fn forget_shared_facts(&mut self) {
        self.shared_facts.retain(|_, _| false, &mut self.cache);
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
