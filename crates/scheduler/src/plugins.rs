//! Plugins are replaced between cycles, one binary or all profiles at a time.

use std::sync::Arc;

use berth_framework::{Grants, Plugin, PluginFactory, PluginIdx, PluginVersion, Point, Profile, State, run};
use berth_model::{PodUid, Sym, Time};

use crate::{
    action::{Action, Level},
    binding::Stage,
    policy::Profiles,
    preparation::{Instances, Swap, fill},
    scheduler::Scheduler,
};

impl Scheduler {
    /// Which binaries answer, by profile.
    #[must_use]
    pub fn plugins(&self) -> Vec<(String, Vec<PluginVersion>)> {
        let versions = |profile: &Profile| (profile.scheduler_name.clone(), profile.versions().collect());
        self.profiles.list.iter().map(versions).collect()
    }

    pub(crate) fn install_profiles(&mut self, profiles: Vec<Profile>) {
        let symbols = self.cache.symbols_mut();
        let by_name = profiles
            .iter()
            .enumerate()
            .map(|(index, profile)| (symbols.intern(&profile.scheduler_name), index))
            .collect();
        self.profiles = Profiles { list: profiles, by_name };
        self.batching.forget();
        self.queue.register(self.profiles.registrations());
    }

    /// Other profiles serve from here on. Pods that only they serve join the queue, pods that nobody serves leave it.
    pub(crate) fn change_profiles(&mut self, profiles: Vec<Profile>, now: Time) {
        self.install_profiles(profiles);
        let names: Vec<Sym> = self.profiles.by_name.keys().copied().collect();
        for name in names {
            let synced = self.profiles.get_mut(name).map(|it| it.sync(&self.cache));
            if let Some(Err((plugin, status))) =
                synced.filter(|it| !matches!(it, Err((_, status)) if status.code.is_rejected()))
            {
                let plugin = self.plugin_name(name, plugin);
                self.log(Level::Error, format!("syncing plugin {plugin}: {}", status.message()));
            }
            self.announce_reservations(name, None);
        }
        let mut pending: Vec<_> = self.pods.iter().map(|known| Arc::clone(&known.pod)).collect();
        pending.sort_by(|left, right| left.uid.cmp(&right.uid));
        for pod in pending {
            if self.bindings.contains_key(&pod.uid) || self.cache.pod(&pod.uid).is_some() {
                continue;
            }
            if self.profiles.serves(pod.scheduler_name) {
                self.with_queue(|queue, policy| queue.add(pod, now, policy));
            } else {
                self.queue.delete(&pod.uid);
            }
        }
        let plugins: Vec<Arc<str>> = self
            .profiles
            .list
            .iter()
            .flat_map(|profile| profile.instances().iter().map(|instance| Arc::clone(instance.name())))
            .collect();
        for plugin in plugins {
            self.with_queue(|queue, policy| queue.plugin_replaced(&plugin, now, policy));
        }
    }

    /// Gives every profile that is to have it an instance of the new binary: a prepared one, or one that is built here. If
    /// it cannot serve one of them, all keep the old one.
    pub(crate) fn swap_plugin(&mut self, swap: &Swap, mut prepared: Instances, now: Time) {
        let Swap { name, scheduler_names, factory, grants } = swap;
        let users = self.users(name, scheduler_names.as_deref());
        let mut successors = Vec::new();
        let mut refusal = None;
        for &(scheduler_name, plugin) in &users {
            let instance = prepared.remove(self.text(scheduler_name));
            match self.successor(scheduler_name, plugin, &**factory, instance) {
                Ok(successor) => successors.push((scheduler_name, plugin, successor)),
                Err(reason) => refusal = refusal.or(Some(reason)),
            }
        }
        if refusal.is_none() {
            self.batching.forget();
            for (scheduler_name, plugin, successor) in successors {
                self.replace_plugin(scheduler_name, plugin, successor, *grants);
            }
            self.queue.register(self.profiles.registrations());
            self.with_queue(|queue, policy| queue.plugin_replaced(name, now, policy));
        }
        for (scheduler_name, _) in users {
            let scheduler_name = self.text(scheduler_name).to_owned();
            let result = refusal.clone().map_or(Ok(()), Err);
            let (plugin, version) = (name.clone(), factory.version());
            self.actions.push(Action::PluginSwapped { scheduler_name, plugin, version, result });
        }
    }

    fn replace_plugin(
        &mut self,
        scheduler_name: Sym,
        plugin: PluginIdx,
        successor: Box<dyn Plugin>,
        grants: Option<Grants>,
    ) {
        if let Some(profile) = self.profiles.get_mut(scheduler_name) {
            let before = profile.plugins.at(Point::PreBind).to_vec();
            self.retired.extend(profile.replace(plugin, successor));
            if let Some(grants) = grants {
                profile.set_grants(plugin, grants);
            }
            let after = profile.plugins.at(Point::PreBind).to_vec();
            self.find_places_in_pre_bind(scheduler_name, &before, &after);
        }
        self.announce_reservations(scheduler_name, Some(plugin));
    }

    /// The profiles that use the plugin, in their order.
    pub(crate) fn users(&self, name: &str, scheduler_names: Option<&[String]>) -> Vec<(Sym, PluginIdx)> {
        let mut users = Vec::new();
        for (&scheduler_name, &index) in &self.profiles.by_name {
            let Some(profile) = self.profiles.list.get(index) else { continue };
            if scheduler_names.is_none_or(|names| names.contains(&profile.scheduler_name)) {
                users.extend(profile.find(name).map(|plugin| (index, scheduler_name, plugin)));
            }
        }
        users.sort_unstable();
        users.into_iter().map(|(_, scheduler_name, plugin)| (scheduler_name, plugin)).collect()
    }

    /// An instance that could take the plugin's place at once: configured, with its predecessor's state, and synced.
    fn successor(
        &mut self,
        scheduler_name: Sym,
        plugin: PluginIdx,
        factory: &dyn PluginFactory,
        prepared: Option<Result<Box<dyn Plugin>, String>>,
    ) -> Result<Box<dyn Plugin>, String> {
        let profile = self.profiles.get_mut(scheduler_name).ok_or("no such profile")?;
        let args = profile.instances().get(plugin.index()).map(|instance| instance.args.clone()).unwrap_or_default();
        let mut new = prepared.unwrap_or_else(|| factory.build(&args))?;
        let state = profile.get(plugin).and_then(|old| old.state().map(State::snapshot));
        let state = state.filter(|state| !state.is_empty());
        let restored = state.map(|state| match new.state() {
            Some(point) => point.restore(&state),
            None => Err("it takes over none".to_owned()),
        });
        if let Some(Err(reason)) = restored {
            let name = profile.name(plugin);
            let message = format!("plugin {name} starts without the state of the binary before it: {reason}");
            self.log(Level::Warn, message);
        }
        fill(&mut *new, &self.cache)?;
        Ok(new)
    }

    /// Has pods in the middle of PreBind go on behind the last plugin that is done with them, wherever that stands now.
    fn find_places_in_pre_bind(&mut self, scheduler_name: Sym, before: &[PluginIdx], after: &[PluginIdx]) {
        if before == after {
            return;
        }
        for binding in self.bindings.values_mut() {
            if binding.pod().scheduler_name != scheduler_name {
                continue;
            }
            if let Stage::PreBinding { next, .. } | Stage::Watching { next, .. } = &mut binding.stage {
                let done = before.get(..*next).unwrap_or(before);
                *next = after.iter().rposition(|plugin| done.contains(plugin)).map_or(0, |last| last + 1);
            }
        }
    }

    /// Tells a new instance, or all plugins of a profile, of every pod between Reserve and PostBind. They cannot
    /// refuse: the decision was made.
    fn announce_reservations(&mut self, scheduler_name: Sym, plugin: Option<PluginIdx>) {
        let mut uids: Vec<PodUid> = self.bindings.keys().cloned().collect();
        uids.sort_unstable();
        for uid in uids {
            let Some(binding) = self.bindings.remove(&uid) else { continue };
            if binding.pod().scheduler_name == scheduler_name {
                let refused = self.call(&binding, |profile, call, row| match plugin {
                    None => run::reserve(profile, call, row).is_err(),
                    Some(plugin) if profile.plugins.at(Point::Reserve).contains(&plugin) => {
                        let point = profile.get(plugin).and_then(|plugin| plugin.reserve());
                        point.is_some_and(|point| !point.reserve(call, row).is_success())
                    }
                    Some(_) => false,
                });
                if refused == Some(true) {
                    let message =
                        format!("a new plugin refused the placement of pod {}", self.full_name(binding.pod()));
                    self.log(Level::Warn, message);
                }
            }
            self.bindings.insert(uid, binding);
        }
    }
}
