//! Makes the profiles of a configuration from the existing plugins.
//!
//! Plugins of the default set that this build does not have are left out. The log says so once.

use std::{collections::BTreeSet, convert::Infallible, sync::Arc};

use berth_config::{
    NamedPoints, PluginCatalogue, ProvidedPlugin, Settings, Usage, UselessName, missing_plugins,
    points_of_missing_plugin,
};
use berth_framework::{PluginFactory, Points, Profile, SchedulingTime, TimeBounds};
use berth_lifecycle::Service;
use berth_model::{Features, PluginName};
use berth_telemetry::clock::Stopwatch;
use tracing::warn;

use super::PluginInventory;
use crate::{limits::time_bounds, ready_binary::ReadyBinary};

impl PluginInventory {
    /// Builds the profiles of `settings`. The inventory keeps these profiles up to date.
    ///
    /// # Errors
    /// A plugin refuses its arguments. Nothing has changed in this case.
    pub fn profiles(&mut self, settings: &Settings) -> Result<Vec<Profile>, Usage> {
        let mut missing = BTreeSet::new();
        let profiles = settings.profiles.iter().map(|profile| self.profile(profile, &mut missing));
        let profiles: Vec<Profile> = profiles.collect::<Result<_, Usage>>()?;
        for profile in &profiles {
            for instance in profile.instances() {
                let name = PluginName::from(&**instance.name());
                self.registry.join_profile(&name, &profile.scheduler_name, &self.rules);
            }
        }
        self.named_points = NamedPoints::of(settings);
        if !missing.is_empty() {
            let names: Vec<_> = missing.into_iter().collect();
            warn!(
                plugins = names.join(", "),
                "Berth does not implement these plugins of kube-scheduler; their rules do not apply"
            );
        }
        Ok(profiles)
    }

    /// The lists of a profile that enable the plugin at a point which the binary that serves there does not implement.
    /// Each text is the error of a configuration with this list that is read while the binary is loaded.
    pub(crate) fn missed_points(&self, plugin: &str, scheduler_name: &str) -> Vec<String> {
        let service = self.service(plugin, scheduler_name);
        let Some(binary) = service.as_ref().and_then(Service::binary) else { return Vec::new() };
        self.named_points.missed(plugin, scheduler_name, binary.factory().points())
    }

    /// New instances of the binaries that serve in one profile of `settings`, for questions that decide nothing. The
    /// instances are not kept up to date. Each copy has separate accounts for the time of plugins, so questions do not
    /// use up the time that plugins have for scheduling. With `has_time`, all plugins together may take any time.
    ///
    /// # Errors
    /// There is no such profile, or a plugin refuses its arguments.
    pub fn copy_of_profile(&self, settings: &Settings, scheduler_name: &str, has_time: bool) -> Result<Profile, Usage> {
        let configured = settings.profiles.iter().find(|profile| profile.scheduler_name == scheduler_name);
        let configured = configured.ok_or_else(|| Usage(format!("no profile has schedulerName {scheduler_name:?}")))?;
        let time = SchedulingTime::new(Box::new(Stopwatch));
        let bounds = time_bounds(self.rules.settings.scheduling_thread());
        time.set_bounds(if has_time { TimeBounds { search: bounds.search, ..TimeBounds::default() } } else { bounds });
        let of_binary = |binary: &ReadyBinary| binary.factory_for_questions(&time);
        configured.build(|name, args| self.provide_by(of_binary, scheduler_name, name, args).map(Some))
    }

    /// From now on, profiles that are not in `profiles` are no longer kept up to date. Returns their plugins, each with
    /// the `schedulerName`.
    pub fn leave_profiles(&mut self, profiles: &[Profile]) -> Vec<(PluginName, String)> {
        self.registry.leave_profiles(|plugin, scheduler_name| {
            let profile = profiles.iter().find(|profile| profile.scheduler_name == scheduler_name);
            profile.is_some_and(|profile| profile.find(plugin).is_some())
        })
    }

    /// Names of plugins and profiles in the PluginHostConfiguration that do not exist and that are not in `settings`.
    pub fn useless_names(&self, settings: &Settings) -> Vec<UselessName> {
        let enabled = settings.profiles.iter().flat_map(|profile| profile.plugins.named());
        let plugins: Vec<&str> = self.registry.names().chain(enabled).map(PluginName::as_str).collect();
        let profiles: Vec<&str> = settings.profiles.iter().map(|profile| profile.scheduler_name.as_str()).collect();
        self.rules.settings.useless_names(&plugins, &profiles)
    }

    /// The names, compared with the profiles that are kept up to date.
    pub(crate) fn useless_names_now(&self) -> Vec<UselessName> {
        let statuses = self.registry.names().filter_map(|name| self.status(name));
        let profiles: BTreeSet<String> =
            statuses.flat_map(|status| status.profiles).map(|(name, _)| name.to_owned()).collect();
        let profiles: Vec<&str> = profiles.iter().map(String::as_str).collect();
        let plugins: Vec<&str> = self.registry.names().map(PluginName::as_str).collect();
        self.rules.settings.useless_names(&plugins, &profiles)
    }

    /// The plugins of all profiles that refuse their arguments, each with the reason.
    pub fn refused_arguments(&self, settings: &Settings) -> Vec<String> {
        let mut refused = Vec::new();
        for profile in &settings.profiles {
            let Ok(_) = profile.build(|name, args| {
                refused.extend(self.provide(&profile.scheduler_name, name, args).err().map(|error| error.to_string()));
                Ok::<_, Infallible>(None)
            });
        }
        refused
    }

    fn profile(
        &mut self,
        configured: &berth_config::Profile,
        missing: &mut BTreeSet<PluginName>,
    ) -> Result<Profile, Usage> {
        let scheduler_name = &configured.scheduler_name;
        configured.build(|name, args| {
            let is_in_tree = points_of_missing_plugin(name).is_some();
            if is_in_tree && self.registry.built_in(name).is_none() && PluginInventory::points(self, name).is_none() {
                self.registry.add_left_out(name);
                missing.insert(name.clone());
            }
            Ok(Some(self.provide(scheduler_name, name, args)?))
        })
    }

    fn provide(&self, scheduler_name: &str, name: &PluginName, args: &str) -> Result<ProvidedPlugin, Usage> {
        self.provide_by(ReadyBinary::factory, scheduler_name, name, args)
    }

    /// An instance from the factory that `of_binary` makes.
    fn provide_by(
        &self,
        of_binary: impl FnOnce(&ReadyBinary) -> Arc<dyn PluginFactory>,
        scheduler_name: &str,
        name: &PluginName,
        args: &str,
    ) -> Result<ProvidedPlugin, Usage> {
        let service = self.registry.offer(name, scheduler_name, &self.rules);
        let plugin = self
            .factory_by(of_binary, name, scheduler_name, &service)
            .build(args)
            .map_err(|reason| Usage(format!("profiles[{scheduler_name}].pluginConfig[{name}].args: {reason}")))?;
        Ok(ProvidedPlugin { plugin, grants: self.grants(name, &service) })
    }
}

/// The catalogue also contains the plugins of kube-scheduler that this build lacks, so that a file that names them
/// stays valid. Any other name may later be the name of a file in the plugins directory.
impl PluginCatalogue for PluginInventory {
    fn features(&self) -> Features {
        self.rules.features
    }

    fn points(&self, plugin: &str) -> Option<Points> {
        PluginInventory::points(self, plugin).or_else(|| points_of_missing_plugin(plugin))
    }

    fn names(&self) -> Vec<PluginName> {
        self.registry.names().cloned().chain(missing_plugins()).collect()
    }

    fn awaits(&self, _plugin: &str) -> bool {
        self.rules.directory.is_some() || !self.rules.provenance.sources.is_empty()
    }
}
