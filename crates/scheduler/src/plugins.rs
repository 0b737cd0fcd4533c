//! Plugins are replaced between cycles, one binary or all profiles at a time.

use std::sync::Arc;

use berth_framework::{PluginFactory, PluginIdx, PluginVersion, Point, Profile, run};
use berth_model::Sym;
use berth_queue::Time;

use crate::{
    action::{Action, Level},
    policy::Profiles,
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
        self.queue.register(self.profiles.registrations());
    }

    /// Other profiles serve from here on. Pods that only they serve join the queue, pods that nobody serves leave it.
    pub(crate) fn change_profiles(&mut self, profiles: Vec<Profile>, now: Time) {
        self.install_profiles(profiles);
        let names: Vec<Sym> = self.profiles.by_name.keys().copied().collect();
        for name in names {
            if let Some(Err((plugin, status))) = self.profiles.get_mut(name).map(|it| it.sync(&self.cache)) {
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

    /// Gives every profile that uses the plugin an instance of the new binary, or leaves it the old one.
    pub(crate) fn swap_plugin(&mut self, name: &str, factory: &dyn PluginFactory, now: Time) {
        let mut users: Vec<(usize, Sym)> =
            self.profiles.by_name.iter().map(|(scheduler_name, index)| (*index, *scheduler_name)).collect();
        users.sort_unstable();
        let mut n_swapped = 0;
        for (_, scheduler_name) in users {
            let Some(plugin) = self.profiles.get(scheduler_name).and_then(|profile| profile.find(name)) else {
                continue;
            };
            let result = self.swap_in_profile(scheduler_name, plugin, factory);
            n_swapped += usize::from(result.is_ok());
            let scheduler_name = self.text(scheduler_name).to_owned();
            self.actions.push(Action::PluginSwapped { scheduler_name, plugin: name.to_owned(), result });
        }
        if n_swapped > 0 {
            self.queue.register(self.profiles.registrations());
            self.with_queue(|queue, policy| queue.plugin_replaced(name, now, policy));
        }
    }

    fn swap_in_profile(
        &mut self,
        scheduler_name: Sym,
        plugin: PluginIdx,
        factory: &dyn PluginFactory,
    ) -> Result<PluginVersion, String> {
        let profile = self.profiles.get_mut(scheduler_name).ok_or("no such profile")?;
        let args = profile.instances().get(plugin.index()).map(|instance| instance.args.clone()).unwrap_or_default();
        let mut new = factory.build(&args)?;
        new.sync(&self.cache).map_err(|status| format!("its replica could not be fed: {}", status.message()))?;
        drop(profile.replace(plugin, new));
        self.announce_reservations(scheduler_name, Some(plugin));
        Ok(factory.version())
    }

    /// Tells a new instance, or all plugins of a profile, of every pod between Reserve and PostBind. They cannot
    /// refuse: the decision was made.
    fn announce_reservations(&mut self, scheduler_name: Sym, plugin: Option<PluginIdx>) {
        let mut uids: Vec<Arc<str>> = self.bindings.keys().cloned().collect();
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
