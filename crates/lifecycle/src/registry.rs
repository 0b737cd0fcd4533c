//! All plugins by name. Facts and orders come in, and their consequences go out.

use std::collections::BTreeMap;

use berth_model::{BinaryId, Digest, PluginName, Time};

use crate::{
    binary::{Component, CountCalls, Service},
    consequences::{Consequences, PluginNoticeKind},
    fault::Fault,
    life::{Event, Fallback, RefusalCause, RefusedFile},
    plugin::{BuiltIn, NoFallback, Plugin, SettingsChange},
    policy::OperatorPolicy,
    remembered::Remembered,
    status::PluginStatus,
};

/// The plugins. `B` is the caller's handle on a binary.
///
/// Most methods take the operator's current policy. When the policy changed, the caller must call
/// [`Self::settings_changed`] for each plugin.
#[derive(Debug)]
pub struct PluginRegistry<B> {
    plugins: BTreeMap<PluginName, Plugin<B>>,
}

/// The reason why an operator's order is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// No plugin of that name is known.
    #[error("unknown plugin {0:?}; `berth plugin list` shows all plugins")]
    UnknownPlugin(PluginName),
    /// The plugin has no binary to go back to.
    #[error("plugin {plugin:?} cannot be rolled back: {reason}")]
    NoFallback {
        /// The plugin.
        plugin: PluginName,
        /// The missing part.
        reason: NoFallback,
    },
}

impl<B> Default for PluginRegistry<B> {
    fn default() -> Self {
        Self { plugins: BTreeMap::new() }
    }
}

impl<B: Clone + CountCalls> PluginRegistry<B> {
    /// Registers a plugin that this program contains as native code. `embedded` is its component, if the plugin may
    /// have to run as a component.
    pub fn add_built_in(&mut self, name: &PluginName, native: B, embedded: Option<Component<B>>) {
        self.plugin(name).set_built_in(BuiltIn::Present { native, embedded });
    }

    /// Registers a plugin of kube-scheduler that this program does not have. Pods are scheduled without the plugin
    /// until the plugins directory provides it.
    pub fn add_left_out(&mut self, name: &PluginName) {
        self.plugin(name).set_built_in(BuiltIn::LeftOut);
    }

    /// Registers a component that the plugins directory contained when the program started.
    pub fn add_installed(&mut self, name: &PluginName, component: Component<B>) {
        self.plugin(name).serve_from_the_start(component);
    }

    /// Registers a plugin whose binary is loaded later, from a file of the plugins directory or from a registry. Until
    /// then no binary serves, except a built-in plugin. The first binary that is found counts as the binary that served
    /// before.
    pub fn await_binary(&mut self, name: &PluginName) {
        self.plugin(name).await_binary();
    }

    /// Whether a profile still waits for a binary that existed at the start.
    #[must_use]
    pub fn is_starting(&self) -> bool {
        self.plugins.values().any(Plugin::is_on_its_way)
    }

    /// Restores the state that the last process remembered. Before this call, the caller adds what is installed or
    /// awaited. After this call, the caller lets profiles join. `serving` is the binary that had replaced a failed
    /// binary, if the caller still has this binary.
    pub fn restore(
        &mut self,
        name: &PluginName,
        remembered: Remembered,
        serving: Option<Component<B>>,
        now: Time,
        policy: &dyn OperatorPolicy,
    ) {
        self.plugin(name).restore(remembered, serving, now, policy);
    }

    /// The data of plugins that must outlast the process.
    pub fn remembered(&self) -> impl Iterator<Item = (&PluginName, Remembered)> {
        let all = self.plugins.iter().map(|(name, plugin)| (name, plugin.remembered()));
        all.filter(|(_, remembered)| !remembered.is_empty())
    }

    /// Adds a profile that is being built, and returns the binary that serves in the profile. From this call on, the
    /// registry keeps the profile up to date.
    pub fn join_profile(&mut self, name: &PluginName, scheduler_name: &str, policy: &dyn OperatorPolicy) -> Service<B> {
        self.plugin(name).join(scheduler_name, policy)
    }

    /// The binary that would serve in a profile that may be built. The call records nothing.
    pub fn offer(&self, name: &PluginName, scheduler_name: &str, policy: &dyn OperatorPolicy) -> Service<B> {
        match self.plugins.get(name) {
            Some(plugin) => plugin.service(scheduler_name, policy),
            None => Plugin::new(name.clone()).service(scheduler_name, policy),
        }
    }

    /// Removes plugins from the profiles for which `stays` does not hold, and returns the removed pairs of plugin and
    /// `schedulerName`. A plugin about which the registry knows nothing else is forgotten.
    pub fn leave_profiles(&mut self, stays: impl Fn(&PluginName, &str) -> bool) -> Vec<(PluginName, String)> {
        let mut left = Vec::new();
        for (name, plugin) in &mut self.plugins {
            let gone = plugin.leave(|scheduler_name| stays(name, scheduler_name));
            left.extend(gone.into_iter().map(|scheduler_name| (name.clone(), scheduler_name)));
        }
        self.plugins.retain(|_, plugin| !plugin.is_forgotten());
        left
    }

    /// Notes that a component appeared in the plugins directory, is a new version, or must be tried again.
    pub fn found(
        &mut self,
        name: &PluginName,
        component: Component<B>,
        now: Time,
        policy: &dyn OperatorPolicy,
    ) -> Consequences<B> {
        self.plugin(name).handle(Event::Found(component), now, policy)
    }

    /// Notes that a file of the plugins directory is not a plugin, or may not serve. `digest` is `None` if the file
    /// could not be read. `reason` is a text that follows the file's name.
    pub fn refused(
        &mut self,
        name: &PluginName,
        digest: Option<Digest>,
        reason: &str,
        now: Time,
        policy: &dyn OperatorPolicy,
    ) -> Consequences<B> {
        let reason = reason.to_owned();
        let mut consequences = Consequences::default();
        consequences.tell(name, PluginNoticeKind::Refused { digest, reason: reason.clone() });
        let file = RefusedFile { digest, reason, cause: RefusalCause::File };
        consequences.add(self.plugin(name).handle(Event::FileRefused(file), now, policy));
        consequences
    }

    /// Notes that a file left the plugins directory. Its binary is withdrawn, and no later rollback brings the binary
    /// back. A plugin about which the registry knows nothing else is forgotten.
    pub fn removed(&mut self, name: &PluginName, now: Time, policy: &dyn OperatorPolicy) -> Consequences<B> {
        let Some(plugin) = self.plugins.get_mut(name) else { return Consequences::default() };
        let consequences = plugin.handle(Event::FileRemoved, now, policy);
        if plugin.is_forgotten() {
            self.plugins.remove(name);
        }
        consequences
    }

    /// Notes that a profile took the given service; `None` stands for no binary. The profile may no longer use the
    /// plugin.
    pub fn taken(
        &mut self,
        name: &PluginName,
        scheduler_name: &str,
        binary: Option<BinaryId>,
        now: Time,
        policy: &dyn OperatorPolicy,
    ) -> Consequences<B> {
        let plugin = self.plugins.get_mut(name);
        plugin.map_or_else(Consequences::default, |plugin| plugin.taken(scheduler_name, binary, now, policy))
    }

    /// Notes that no profile could take the given service; `None` stands for no binary. The profiles keep their
    /// previous service. They may no longer use the plugin.
    pub fn not_taken(
        &mut self,
        name: &PluginName,
        binary: Option<BinaryId>,
        reason: &str,
        now: Time,
        policy: &dyn OperatorPolicy,
    ) -> Consequences<B> {
        let plugin = self.plugins.get_mut(name);
        plugin.map_or_else(Consequences::default, |plugin| plugin.not_taken(binary, reason, now, policy))
    }

    /// Handles a fault of a component's instance.
    pub fn faulted(
        &mut self,
        name: &PluginName,
        fault: Fault,
        now: Time,
        policy: &dyn OperatorPolicy,
    ) -> Consequences<B> {
        self.plugins.get_mut(name).map_or_else(Consequences::default, |plugin| plugin.faulted(fault, now, policy))
    }

    /// Ends the quarantines, restarts and probations whose time is over.
    pub fn tick(&mut self, now: Time, policy: &dyn OperatorPolicy) -> Consequences<B> {
        let mut consequences = Consequences::default();
        for plugin in self.plugins.values_mut() {
            consequences.add(plugin.handle(Event::TimePassed, now, policy));
        }
        consequences
    }

    /// Handles a change of the operator's settings. `policy` must contain the new settings.
    pub fn settings_changed(
        &mut self,
        name: &PluginName,
        change: SettingsChange,
        now: Time,
        policy: &dyn OperatorPolicy,
    ) -> Consequences<B> {
        self.plugin(name).settings_changed(change, now, policy)
    }

    /// Switches a plugin off, or on again. A plugin that is off is treated as if no profile named it.
    ///
    /// # Errors
    /// No such plugin is known.
    pub fn set_disabled(
        &mut self,
        name: &PluginName,
        disabled: bool,
        now: Time,
        policy: &dyn OperatorPolicy,
    ) -> Result<Consequences<B>, OrderError> {
        let plugin = self.known(name)?;
        Ok(plugin.handle(if disabled { Event::SwitchedOff } else { Event::SwitchedOn }, now, policy))
    }

    /// Goes back to the previous binary.
    ///
    /// # Errors
    /// No such plugin is known, or the plugin has no binary to go back to.
    pub fn roll_back(
        &mut self,
        name: &PluginName,
        now: Time,
        policy: &dyn OperatorPolicy,
    ) -> Result<Consequences<B>, OrderError> {
        let plugin = self.known(name)?;
        if let Err(reason) = plugin.fallback() {
            return Err(OrderError::NoFallback { plugin: name.clone(), reason });
        }
        Ok(plugin.handle(Event::RollBack, now, policy))
    }

    /// The names of all plugins, in order.
    pub fn names(&self) -> impl Iterator<Item = &PluginName> {
        self.plugins.keys()
    }

    /// Whether a plugin of this name is known.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.plugins.contains_key(name)
    }

    /// The binary that serves in a profile. An empty `scheduler_name` stands for profiles without separate settings.
    /// `None` if no plugin of this name is known.
    pub fn service(&self, name: &str, scheduler_name: &str, policy: &dyn OperatorPolicy) -> Option<Service<B>> {
        Some(self.plugins.get(name)?.service(scheduler_name, policy))
    }

    /// The binary that serves in a profile, or that will serve again after a quarantine or a restart. `None` if no
    /// binary can serve, or if an operator switched the plugin off.
    pub fn in_charge(&self, name: &str, scheduler_name: &str, policy: &dyn OperatorPolicy) -> Option<Service<B>> {
        self.plugins.get(name)?.in_charge(scheduler_name, policy)
    }

    /// The native code of this name; `None` if the program has no such code.
    pub fn built_in(&self, name: &str) -> Option<&B> {
        self.plugins.get(name)?.built_in().native()
    }

    /// The binary of the plugins directory that is in charge.
    pub fn installed(&self, name: &str) -> Option<&Component<B>> {
        Some(&self.plugins.get(name)?.life().installed()?.component)
    }

    /// The binary to which the plugin can go back.
    pub fn fallback(&self, name: &str) -> Option<&Fallback<B>> {
        self.plugins.get(name)?.fallback().ok()
    }

    /// Whether the file's content was refused. Refused content is not tried again automatically.
    #[must_use]
    pub fn has_refused_file(&self, name: &str) -> bool {
        self.plugins.get(name).is_some_and(|plugin| plugin.life().refused().is_some())
    }

    /// Whether the file's binary was refused because no profile could take it with the arguments of that time.
    #[must_use]
    pub fn is_refused_by_profiles(&self, name: &str) -> bool {
        let refused = self.plugins.get(name).and_then(|plugin| plugin.life().refused());
        refused.is_some_and(|file| file.cause == RefusalCause::Profile)
    }

    /// The digest of the refused bytes, if they could be read.
    #[must_use]
    pub fn refused_digest(&self, name: &str) -> Option<Digest> {
        self.plugins.get(name)?.life().refused()?.digest
    }

    /// The binary that the profile reported to use; `None` if no binary serves in the profile.
    #[must_use]
    pub fn taken_by(&self, name: &str, scheduler_name: &str) -> Option<BinaryId> {
        self.plugins.get(name)?.taken_by(scheduler_name)
    }

    /// All binaries of a plugin. The caller may change its handles on the binaries.
    pub fn binaries_mut(&mut self, name: &str) -> impl Iterator<Item = &mut B> {
        self.plugins.get_mut(name).into_iter().flat_map(Plugin::binaries_mut)
    }

    /// The status of a plugin for operators; `None` if no plugin of that name is known.
    pub fn status(&self, name: &str, policy: &dyn OperatorPolicy) -> Option<PluginStatus<'_, B>> {
        Some(PluginStatus::of(self.plugins.get(name)?, policy))
    }

    fn plugin(&mut self, name: &PluginName) -> &mut Plugin<B> {
        self.plugins.entry(name.clone()).or_insert_with(|| Plugin::new(name.clone()))
    }

    fn known(&mut self, name: &PluginName) -> Result<&mut Plugin<B>, OrderError> {
        self.plugins.get_mut(name).ok_or_else(|| OrderError::UnknownPlugin(name.clone()))
    }
}

#[cfg(test)]
mod tests;
