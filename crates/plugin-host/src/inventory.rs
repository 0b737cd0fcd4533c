//! The plugins of a process: the registry of their states, and the operator's rules.
//!
//! The registry decides which binary serves, and this module passes the facts to the registry. The module also applies
//! the limits, and decides from its needs and its grants whether a binary may serve at all.
//!
//! [`PluginInventory::take_in`] is the only entry for binaries, at the start and later. A finding is ignored if the
//! settings no longer let the plugin come from where it was found.

mod profiles;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use berth_config::NamedPoints;
use berth_framework::{Grants, Manifest, PluginFactory, Points};
use berth_lifecycle::{
    Component, Consequences, Fallback, Fault, Forbidden, OrderError, PluginRegistry, PluginStatus, Rebuild, Remembered,
    Service, SettingsChange,
};
use berth_model::{BinaryId, Digest, Feature, Features, PluginName, Time};
use berth_provenance::{Evidence, Source};
use tracing::{info, warn};

use crate::{
    finding::{Finding, Found, FoundIn},
    limits::limits,
    placeholder::PlaceholderFactory,
    ready_binary::{ReadyBinary, is_own},
    rules::{Granted, NotGranted, Rules},
    settings_file::HostFile,
    totals::{PluginTotals, Totals},
};

/// All plugins, and the operator's rules for them.
#[derive(Debug, Default)]
pub struct PluginInventory {
    rules: Rules,
    registry: PluginRegistry<ReadyBinary>,
    totals: PluginTotals,
    /// The points at which the profiles that are kept up to date enable plugins by name.
    named_points: NamedPoints,
}

/// The consequences of a finding.
#[derive(Debug, Default)]
pub(crate) struct TakenIn {
    pub(crate) consequences: Consequences<ReadyBinary>,
    /// The reason why the binary may not serve.
    pub(crate) unusable: Option<UnusableFile>,
}

/// The reason why a file of the plugins directory is not used: it is not a plugin, or it may not serve.
#[derive(Debug, thiserror::Error)]
pub enum UnusableFile {
    #[error(transparent)]
    NotGranted(#[from] NotGranted),
    /// The file is not a plugin. The text says what is wrong with the file.
    #[error("{0}")]
    NoPlugin(String),
    /// The file is the plugin `name`, under the name of another plugin.
    #[error("{reason}")]
    OtherName { name: String, reason: String },
}

/// A description of a plugin of the plugins directory.
#[derive(Debug)]
pub struct InstalledPlugin {
    pub name: PluginName,
    pub text: String,
}

impl PluginInventory {
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Sets the features for profiles that are read and built from now on.
    pub fn decide_as(&mut self, features: Features) {
        self.rules.features = features;
    }

    /// The operator's rules.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Registers a plugin that this program has as native code. If the plugin may have to run as a component, the
    /// component is also registered.
    pub(crate) fn add_built_in(
        &mut self,
        name: &PluginName,
        native: ReadyBinary,
        embedded: Option<Component<ReadyBinary>>,
    ) {
        if let Some(component) = &embedded {
            self.count(name, component);
        }
        self.registry.add_built_in(name, native, embedded);
    }

    /// Registers a file of this name that exists and is loaded later.
    pub(crate) fn await_binary(&mut self, name: &PluginName) {
        self.registry.await_binary(name);
    }

    /// Whether plugins come from registries.
    pub(crate) fn has_sources(&self) -> bool {
        !self.rules.provenance.sources.is_empty()
    }

    /// Registers the plugins from registries, which are loaded later.
    pub(crate) fn await_sources(&mut self) {
        self.rules.provenance.sources.keys().for_each(|name| self.registry.await_binary(name));
    }

    /// Restores a plugin's state from the end of the previous process. `serving` is the binary that had replaced a
    /// failed binary, if its file still exists.
    pub(crate) fn restore(
        &mut self,
        name: &PluginName,
        remembered: Remembered,
        serving: Option<Component<ReadyBinary>>,
        now: Time,
    ) {
        let serving = serving.filter(|component| self.check_reads(name, component).is_ok());
        if let Some(component) = &serving {
            self.count(name, component);
        }
        self.registry.restore(name, remembered, serving, now, &self.rules);
        if let Some(status) = self.status(name) {
            let (state, reason) = (status.state.as_str(), status.reason.unwrap_or_default());
            info!(plugin = name.as_str(), state, reason, "restored the plugin's state from before the restart");
        }
    }

    /// Checks whether a binary may serve although its file and its signatures no longer exist.
    ///
    /// # Errors
    /// The error says why the binary may not serve.
    pub(crate) fn check_without_file(&self, digest: Digest) -> Result<(), NotGranted> {
        self.rules.check_digest(digest)?;
        let decided = self.rules.provenance.policy.decide(&Source::Directory, &Evidence::default());
        decided.map(drop).map_err(|refusal| NotGranted::Signature(refusal.to_string()))
    }

    /// Handles a result about a binary, from any source and at any time.
    pub(crate) fn take_in(&mut self, finding: Finding, now: Time) -> TakenIn {
        let file = self.file(&finding);
        let Finding { plugin, found_in, found } = finding;
        match (self.rules.provenance.sources.get(&plugin), found_in) {
            (Some(source), FoundIn::Directory) => {
                let (name, file, reference) = (plugin.as_str(), file.display(), source.reference.to_string());
                warn!(plugin = name, %file, reference, "the file is not used: the plugin comes from a registry");
                return TakenIn::default();
            }
            // The settings changed while the binary was being loaded.
            (None, FoundIn::Registry) => return TakenIn::default(),
            (Some(_), FoundIn::Registry) | (None, FoundIn::Directory) => {}
        }
        match found {
            Found::Binary(mut component) => {
                self.count(&plugin, &component);
                // The component was compiled with earlier limits.
                component.binary.set_limits(&limits(&self.rules.plugin(&plugin)));
                if found_in == FoundIn::Directory {
                    let digest = component.digest.to_string();
                    info!(plugin = plugin.as_str(), file = %file.display(), digest, "compiled");
                }
                self.found(&plugin, component, now)
            }
            Found::NotAdmitted { digest, reason } => {
                let consequences = self.not_admitted(&plugin, digest, &reason, now);
                TakenIn { consequences, unusable: Some(UnusableFile::NoPlugin(reason)) }
            }
            Found::Unreachable(reason) if self.registry.installed(&plugin).is_some() => {
                warn!(plugin = plugin.as_str(), reason, "the plugin cannot be pulled; keeping the current version");
                TakenIn::default()
            }
            Found::Unreachable(reason) => self.no_plugin(&plugin, None, UnusableFile::NoPlugin(reason), now),
            Found::NoPlugin { digest, reason, own_name } => {
                let unusable = match own_name {
                    Some(name) => UnusableFile::OtherName { name, reason },
                    None => UnusableFile::NoPlugin(reason),
                };
                self.no_plugin(&plugin, digest, unusable, now)
            }
            Found::Gone => {
                info!(plugin = plugin.as_str(), file = %file.display(), "gone");
                let consequences = self.registry.removed(&plugin, now, &self.rules);
                TakenIn { consequences, unusable: None }
            }
        }
    }

    fn no_plugin(&mut self, plugin: &PluginName, digest: Option<Digest>, unusable: UnusableFile, now: Time) -> TakenIn {
        let consequences = self.registry.refused(plugin, digest, &unusable.to_string(), now, &self.rules);
        TakenIn { consequences, unusable: Some(unusable) }
    }

    /// The name of a finding's source for people: a file, or the reference of an artifact.
    pub(crate) fn file(&self, finding: &Finding) -> PathBuf {
        let (plugin, source) = (&finding.plugin, self.rules.provenance.sources.get(&finding.plugin));
        match (finding.found_in, source) {
            (FoundIn::Registry, Some(source)) => PathBuf::from(source.reference.to_string()),
            (FoundIn::Registry, None) | (FoundIn::Directory, _) => self.file_of(plugin),
        }
    }

    /// The path of the plugin's file, whether it exists or not.
    pub(crate) fn file_of(&self, plugin: &str) -> PathBuf {
        self.rules.directory.clone().unwrap_or_default().join(format!("{plugin}.wasm"))
    }

    /// Adds the binary's counters to the plugin's figures from now on.
    fn count(&mut self, plugin: &PluginName, component: &Component<ReadyBinary>) {
        if let Some(stats) = component.binary.stats() {
            self.totals.add(plugin, stats);
        }
    }

    /// The sums of the counters of all binaries of each plugin.
    pub(crate) fn figures(&mut self) -> BTreeMap<String, Totals> {
        self.totals.by_plugin()
    }

    /// Handles the consequences of passing time, such as the end of a quarantine.
    pub(crate) fn tick(&mut self, now: Time) -> Consequences<ReadyBinary> {
        self.registry.tick(now, &self.rules)
    }

    /// Whether binaries that existed at the start are still on their way to profiles.
    pub(crate) fn is_starting(&self) -> bool {
        self.registry.is_starting()
    }

    /// The state that must survive the process.
    pub(crate) fn remembered(&self) -> Vec<(PluginName, Remembered)> {
        self.registry.remembered().map(|(name, remembered)| (name.clone(), remembered)).collect()
    }

    pub(crate) fn faulted(&mut self, plugin: &PluginName, fault: Fault, now: Time) -> Consequences<ReadyBinary> {
        self.registry.faulted(plugin, fault, now, &self.rules)
    }

    /// Switches the plugin on or off, by an operator's order.
    ///
    /// # Errors
    /// There is no such plugin.
    pub(crate) fn set_disabled(
        &mut self,
        plugin: &PluginName,
        is_disabled: bool,
        now: Time,
    ) -> Result<Consequences<ReadyBinary>, OrderError> {
        self.registry.set_disabled(plugin, is_disabled, now, &self.rules)
    }

    /// Returns to the previous binary, by an operator's order.
    ///
    /// # Errors
    /// There is no previous binary.
    pub(crate) fn roll_back(
        &mut self,
        plugin: &PluginName,
        now: Time,
    ) -> Result<Consequences<ReadyBinary>, OrderError> {
        self.registry.roll_back(plugin, now, &self.rules)
    }

    /// Records that a profile took a binary; `None` stands for a placeholder without a binary.
    pub(crate) fn taken(
        &mut self,
        plugin: &PluginName,
        scheduler_name: &str,
        binary: Option<BinaryId>,
        now: Time,
    ) -> Consequences<ReadyBinary> {
        self.registry.taken(plugin, scheduler_name, binary, now, &self.rules)
    }

    /// Records that no profile could take its binary.
    pub(crate) fn not_taken(
        &mut self,
        plugin: &PluginName,
        binary: Option<BinaryId>,
        reason: &str,
        now: Time,
    ) -> Consequences<ReadyBinary> {
        self.registry.not_taken(plugin, binary, reason, now, &self.rules)
    }

    /// The binary that a profile last took.
    pub(crate) fn taken_by(&self, plugin: &PluginName, scheduler_name: &str) -> Option<BinaryId> {
        self.registry.taken_by(plugin, scheduler_name)
    }

    /// The binary or placeholder that must serve in a profile.
    pub(crate) fn service(&self, plugin: &str, scheduler_name: &str) -> Option<Service<ReadyBinary>> {
        self.registry.service(plugin, scheduler_name, &self.rules)
    }

    /// The state of a plugin; `None` if the plugin is unknown.
    pub(crate) fn status(&self, plugin: &str) -> Option<PluginStatus<'_, ReadyBinary>> {
        self.registry.status(plugin, &self.rules)
    }

    /// All plugins that are known.
    pub(crate) fn names(&self) -> impl Iterator<Item = &PluginName> {
        self.registry.names()
    }

    /// Whether the plugin is known.
    pub(crate) fn contains(&self, plugin: &PluginName) -> bool {
        self.registry.contains(plugin)
    }

    /// The plugins with binaries that no profile could take with its arguments.
    pub(crate) fn refused_by_profiles(&self) -> Vec<PluginName> {
        self.registry.names().filter(|name| self.registry.is_refused_by_profiles(name)).cloned().collect()
    }

    /// Whether a file of this name was refused. Such a file is not tried again until it changes.
    pub fn has_refused_file(&self, plugin: &str) -> bool {
        self.registry.has_refused_file(plugin)
    }

    /// Whether the plugin comes from a registry.
    pub(crate) fn is_pulled(&self, plugin: &PluginName) -> bool {
        self.rules.provenance.sources.contains_key(plugin)
    }

    /// The grants of this binary under this name. `None` stands for any binary except the program's own binaries.
    pub fn granted(&self, name: &str, binary: Option<BinaryId>) -> Granted {
        let built_in = self.registry.built_in(name).map(ReadyBinary::factory).filter(|_| is_own(name, binary));
        self.rules.granted(name, built_in.as_ref().map(|factory| factory.manifest()))
    }

    /// The effects that the serving binary may ask for.
    pub(crate) fn grants(&self, name: &str, service: &Service<ReadyBinary>) -> Grants {
        self.granted(name, service.id()).grants()
    }

    /// The grants of the binary that serves in profiles without a separate entry.
    pub fn serving_granted(&self, name: &str) -> Granted {
        let service = self.registry.service(name, "", &self.rules);
        service.map(|service| self.granted(name, service.id())).unwrap_or_default()
    }

    /// # Errors
    /// The error names the data that the component needs and may not read.
    fn check_reads(&self, name: &str, component: &Component<ReadyBinary>) -> Result<(), NotGranted> {
        let built_in = self.registry.built_in(name).map(ReadyBinary::factory);
        let built_in = built_in.as_ref().map(|factory| factory.manifest());
        let granted = self.granted(name, Some(component.id()));
        let checked = granted.check_reads(name, component.binary.factory().manifest(), built_in);
        checked.map_err(|reason| if self.rules.has_file { reason } else { reason.without_file() })
    }

    /// Warns if a file has the name of a built-in. The file gets none of the built-in's grants, which may surprise its
    /// author.
    fn warn_of_name(&self, name: &str, component: &Component<ReadyBinary>) {
        let Some(built_in) = self.registry.built_in(name).map(ReadyBinary::factory) else { return };
        let needs = Granted::of_built_in(built_in.manifest());
        if needs.is_empty() || is_own(name, Some(component.id())) || self.rules.plugin(name).grants.is_some() {
            return;
        }
        let lines = needs.lines(name);
        warn!(
            plugin = name,
            "the plugin replaces a built-in but does not get its grants; to grant them, add to --plugin-config: {lines}"
        );
    }

    /// The points of the binary that serves in profiles without a separate entry.
    pub fn points(&self, name: &str) -> Option<Points> {
        Some(self.serving(name)?.points())
    }

    /// The manifest of the binary that serves in profiles without a separate entry.
    pub fn manifest(&self, name: &str) -> Option<Manifest> {
        Some(self.serving(name)?.manifest().clone())
    }

    fn serving(&self, name: &str) -> Option<Arc<dyn PluginFactory>> {
        Some(self.registry.service(name, "", &self.rules)?.binary()?.factory())
    }

    /// The plugins of the plugins directory, with descriptions of their binaries, grants and limits.
    pub fn installed(&self) -> impl Iterator<Item = InstalledPlugin> {
        self.registry.names().filter_map(|name| {
            let text = self.describe(name, self.registry.installed(name)?);
            Some(InstalledPlugin { name: name.clone(), text })
        })
    }

    fn describe(&self, name: &str, component: &Component<ReadyBinary>) -> String {
        let granted = self.granted(name, Some(component.id()));
        let list = |items: Vec<String>| if items.is_empty() { "nothing".to_owned() } else { items.join(", ") };
        let limits = self.rules.plugin(name).limits;
        format!(
            "version {}, {}; may read {}, may ask for {}; limits: {} ms a call, {} MiB of memory",
            component.binary.factory().version().version,
            component.digest.short(),
            list(granted.read_names().chain(granted.pod_json.then(|| "pending pods as JSON".to_owned())).collect()),
            list(granted.effect_names().chain(granted.rule_names()).collect()),
            limits.call_time.as_millis(),
            limits.memory_bytes >> 20,
        )
    }

    /// Handles a component that is new, is a new version, or must be tried once more.
    fn found(&mut self, name: &PluginName, component: Component<ReadyBinary>, now: Time) -> TakenIn {
        match self.check(name, &component) {
            Ok(()) => {
                self.warn_of_name(name, &component);
                let consequences = self.registry.found(name, component, now, &self.rules);
                TakenIn { consequences, unusable: None }
            }
            Err(error) => {
                let digest = Some(component.digest);
                let consequences = self.registry.refused(name, digest, &error.to_string(), now, &self.rules);
                TakenIn { consequences, unusable: Some(UnusableFile::NotGranted(error)) }
            }
        }
    }

    /// Whether the binary may serve.
    fn check(&self, name: &PluginName, component: &Component<ReadyBinary>) -> Result<(), NotGranted> {
        self.rules.check_digest(component.digest)?;
        self.check_reads(name, component)?;
        self.rules.check_pod_json(component.binary.factory().manifest())
    }

    /// Applies other settings of the operator. Plugins with other limits or grants get new instances. Returns the names
    /// of files that must be read again, such as refused files that may serve under the new settings.
    pub(crate) fn settings_changed(
        &mut self,
        file: HostFile,
        now: Time,
    ) -> (Consequences<ReadyBinary>, Vec<PluginName>) {
        let old = self.rules.clone();
        (self.rules.settings, self.rules.provenance) = (file.settings, file.provenance);
        let (mut consequences, mut to_retry) = (Consequences::default(), Vec::new());
        let names: Vec<PluginName> = self.registry.names().cloned().collect();
        for name in names {
            // A built-in's own needs are the same before and after the change.
            let has_other_grants = old.granted(&name, None) != self.rules.granted(&name, None)
                || old.plugin(&name).grants.is_some() != self.rules.plugin(&name).grants.is_some();
            let (before, after) = (old.plugin(&name), self.rules.plugin(&name));
            // The behaviour of a plugin without remaining time is a part of its limits in the engine.
            let has_other_limits = (before.limits, before.failure_policy) != (after.limits, after.failure_policy);
            if has_other_limits {
                let limits = limits(&self.rules.plugin(&name));
                self.registry.binaries_mut(&name).for_each(|binary| binary.set_limits(&limits));
            }
            let is_denied = |rules: &Rules| {
                self.registry.refused_digest(&name).is_some_and(|digest| rules.check_digest(digest).is_err())
            };
            let is_allowed_again = is_denied(&old) && !is_denied(&self.rules);
            let may_do = has_other_grants || has_other_limits || is_allowed_again;
            // The plugin's signatures are checked again in every state of the plugin.
            let has_other_policy = old.provenance.policy != self.rules.provenance.policy;
            let is_back_in_directory =
                old.provenance.sources.contains_key(&name) && !self.rules.provenance.sources.contains_key(&name);
            if is_back_in_directory {
                consequences.add(self.registry.removed(&name, now, &self.rules));
            }
            if may_do && self.registry.has_refused_file(&name) || has_other_policy || is_back_in_directory {
                to_retry.push(name.clone());
            }
            let rebuild = match (has_other_grants, has_other_limits) {
                (true, _) => Rebuild::Everything,
                (false, true) => Rebuild::Components,
                (false, false) => Rebuild::Nothing,
            };
            let mut change = self.change(&name, rebuild);
            // The signatures of a deleted file cannot be checked.
            change.is_fallback_forbidden |=
                has_other_policy && matches!(self.registry.fallback(&name), Some(Fallback::Component(_)));
            consequences.add(self.registry.settings_changed(&name, change, now, &self.rules));
        }
        (consequences, to_retry)
    }

    /// Handles a binary that may not run. The present binary continues to serve, unless the refused binary is the
    /// present binary: the operator then no longer trusts the present binary.
    fn not_admitted(
        &mut self,
        name: &PluginName,
        digest: Option<Digest>,
        reason: &str,
        now: Time,
    ) -> Consequences<ReadyBinary> {
        let installed = self.registry.installed(name).map(|component| component.digest);
        if digest.is_none() || installed != digest {
            return self.registry.refused(name, digest, reason, now, &self.rules);
        }
        let forbidden = Some(Forbidden::NotGranted(reason.to_owned()));
        let change = SettingsChange { forbidden, is_fallback_forbidden: false, rebuild: Rebuild::Nothing };
        self.registry.settings_changed(name, change, now, &self.rules)
    }

    /// The effects of the operator's settings on the plugin's binaries.
    fn change(&self, name: &str, rebuild: Rebuild) -> SettingsChange {
        let is_denied = |component: &Component<ReadyBinary>| self.rules.check_digest(component.digest).is_err();
        let check = |component: &Component<ReadyBinary>| self.check_reads(name, component);
        let installed = self.registry.installed(name);
        let is_fallback_forbidden = match self.registry.fallback(name) {
            Some(Fallback::Component(component)) => is_denied(component) || check(component).is_err(),
            Some(Fallback::BuiltIn) | None => false,
        };
        let forbidden = installed.and_then(|component| {
            let not_granted = || check(component).err().map(|error| Forbidden::NotGranted(error.to_string()));
            if is_denied(component) { Some(Forbidden::Denied) } else { not_granted() }
        });
        SettingsChange { forbidden, is_fallback_forbidden, rebuild }
    }

    /// Whether a plugin may read the JSON of pending pods, and the pods were reported without their JSON.
    pub(crate) fn wants_pod_json(&self) -> bool {
        !self.rules.has_pod_json && self.rules.settings.grants_pod_json()
    }

    /// Notes that all pending pods were reported with their JSON. Returns the names of files that must be read again,
    /// because they may have been refused without the JSON.
    pub(crate) fn pod_json_listed(&mut self) -> Vec<PluginName> {
        self.rules.has_pod_json = true;
        self.registry.names().filter(|name| self.registry.has_refused_file(name)).cloned().collect()
    }

    /// The factory for instances of the service that a profile gets.
    pub(crate) fn factory(
        &self,
        plugin: &PluginName,
        scheduler_name: &str,
        service: &Service<ReadyBinary>,
    ) -> Arc<dyn PluginFactory> {
        self.factory_by(ReadyBinary::factory, plugin, scheduler_name, service)
    }

    /// The factory that `of_binary` makes from the serving binary, or the factory of a placeholder if no binary serves.
    fn factory_by(
        &self,
        of_binary: impl FnOnce(&ReadyBinary) -> Arc<dyn PluginFactory>,
        plugin: &PluginName,
        scheduler_name: &str,
        service: &Service<ReadyBinary>,
    ) -> Arc<dyn PluginFactory> {
        let placeholder = match service {
            Service::Native(binary) => return of_binary(binary),
            Service::Embedded(component) | Service::Directory(component) => return of_binary(&component.binary),
            Service::Pass(_) => PlaceholderFactory::that_passes(plugin),
            Service::Hold(reason) => PlaceholderFactory::that_holds(plugin, reason),
        };
        let in_charge = self.registry.in_charge(plugin, scheduler_name, &self.rules);
        match in_charge.as_ref().and_then(Service::binary).map(ReadyBinary::factory) {
            Some(absent) => Arc::new(placeholder.until_return_of(absent.manifest())),
            None => Arc::new(placeholder),
        }
    }

    /// Whether a plugin needs more of a pending pod than its record has, or whether a later plugin may need more. With the
    /// gate DRANodeAllocatableResources, the scheduler and DynamicResources need the whole pod. The answer is stored. If it
    /// is false, it may become true later ([`Self::wants_pod_json`]).
    pub fn settle_pod_json(&mut self) -> bool {
        let names: Vec<PluginName> = self.registry.names().cloned().collect();
        let is_wanted = names.iter().any(|name| {
            let mut binaries = self.registry.binaries_mut(name);
            binaries.any(|binary| binary.factory().manifest().needs.pod_json)
        });
        let is_gated = self.rules.features.has(Feature::DRANodeAllocatableResources);
        self.rules.has_pod_json = is_wanted || is_gated || self.rules.settings.grants_pod_json();
        self.rules.has_pod_json
    }
}

#[cfg(test)]
mod tests;
