//! The plugins of a process: the registry of their lives beside the operator's rules.
//!
//! The registry decides who serves; here it is fed. Whether a binary may serve at all depends on what it wants to see
//! and on what it was granted, and what it is given to work with on its limits: both are settled here.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use berth_components::EmbeddedComponent;
use berth_framework::{Grants, Manifest, PluginFactory, Points};
use berth_lifecycle::{Component, Consequences, Fallback, Forbidden, PluginRegistry, Rebuild, Service, SettingsChange};
use berth_model::{BinaryId, Digest, PluginName, Time};
use berth_wasm_host::{Binary, Limits};
use tracing::warn;

use crate::{
    ready_binary::ReadyBinary,
    rules::{Granted, NotGranted, Rules},
    settings_file::HostFile,
    stand_in::StandIn,
};

/// All plugins, and what the operator allows them.
#[derive(Debug, Default)]
pub struct PluginInventory {
    pub rules: Rules,
    pub registry: PluginRegistry<ReadyBinary>,
}

/// A plugin of the plugins directory, in words.
#[derive(Debug)]
pub struct InstalledPlugin {
    pub name: PluginName,
    pub text: String,
}

impl PluginInventory {
    pub fn new(rules: Rules) -> Self {
        Self { rules, registry: PluginRegistry::default() }
    }

    /// Takes in what lay in the plugins directory at the start.
    ///
    /// # Errors
    /// Why the binary may not serve.
    pub fn add_installed(&mut self, name: &PluginName, component: Component<ReadyBinary>) -> Result<(), NotGranted> {
        self.rules.check_digest(component.digest)?;
        self.check_reads(name, &component)?;
        self.warn_of_name(name, &component);
        self.registry.add_installed(name, component);
        Ok(())
    }

    /// What this binary is granted under this name; with `None`, what any other than this program's own is.
    pub fn granted(&self, name: &str, binary: Option<BinaryId>) -> Granted {
        let built_in = self.registry.built_in(name).map(ReadyBinary::factory).filter(|_| is_own(name, binary));
        self.rules.granted(name, built_in.as_ref().map(|factory| factory.manifest()))
    }

    /// What the serving binary may ask for.
    pub fn grants(&self, name: &str, service: &Service<ReadyBinary>) -> Grants {
        self.granted(name, service.id()).grants()
    }

    /// What the binary is granted that serves where nothing is said about a profile.
    pub fn serving_granted(&self, name: &str) -> Granted {
        let service = self.registry.service(name, "", &self.rules);
        service.map(|service| self.granted(name, service.id())).unwrap_or_default()
    }

    /// # Errors
    /// What the component wants to see and may not.
    pub fn check_reads(&self, name: &str, component: &Component<ReadyBinary>) -> Result<(), NotGranted> {
        let built_in = self.registry.built_in(name).map(ReadyBinary::factory);
        let built_in = built_in.as_ref().map(|factory| factory.manifest());
        let granted = self.granted(name, Some(component.id()));
        granted.check_reads(name, component.binary.factory().manifest(), built_in)
    }

    /// A file that takes a built-in's name gets none of its grants, which its author may not expect.
    fn warn_of_name(&self, name: &str, component: &Component<ReadyBinary>) {
        let Some(built_in) = self.registry.built_in(name).map(ReadyBinary::factory) else { return };
        let needs = Granted::of_built_in(built_in.manifest());
        if needs.is_empty() || is_own(name, Some(component.id())) || self.rules.plugin(name).grants.is_some() {
            return;
        }
        let lines = needs.lines(name);
        warn!(
            plugin = name,
            "takes the name of a built-in and none of its grants; --plugin-config gives them by {lines}"
        );
    }

    /// The points of the binary that serves where nothing is said about a profile.
    pub fn points(&self, name: &str) -> Option<Points> {
        Some(self.serving(name)?.points())
    }

    /// What the binary says about itself that serves where nothing is said about a profile.
    pub fn manifest(&self, name: &str) -> Option<Manifest> {
        Some(self.serving(name)?.manifest().clone())
    }

    fn serving(&self, name: &str) -> Option<Arc<dyn PluginFactory>> {
        Some(self.registry.service(name, "", &self.rules)?.binary()?.factory())
    }

    /// The plugins of the plugins directory, with what each is, may see and may do.
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
            "version {}, {}; may read {}, may ask for {}; {} ms a call, {} MiB",
            component.binary.factory().version().version,
            component.digest.short(),
            list(granted.read_names().chain(granted.pod_json.then(|| "pending pods as JSON".to_owned())).collect()),
            list(granted.effect_names().chain(granted.rule_names()).collect()),
            limits.call_time.as_millis(),
            limits.memory_bytes >> 20,
        )
    }

    /// A component came into the plugins directory, is a new version, or is to be tried once more.
    pub fn found(
        &mut self,
        name: &PluginName,
        component: Component<ReadyBinary>,
        now: Time,
    ) -> Consequences<ReadyBinary> {
        let factory = component.binary.factory();
        let manifest = factory.manifest();
        let may_serve = self.rules.check_digest(component.digest);
        let may_serve = may_serve.and_then(|()| self.check_reads(name, &component));
        let may_serve = may_serve.and_then(|()| self.rules.check_pod_json(manifest));
        match may_serve {
            Ok(()) => {
                self.warn_of_name(name, &component);
                self.registry.found(name, component, now, &self.rules)
            }
            Err(error) => self.registry.refused(name, Some(component.digest), &error.to_string(), now, &self.rules),
        }
    }

    /// The operator's settings are others from here on. Plugins whose limits or grants differ get new instances; `limits`
    /// says what a plugin's binaries may use. The names are those of refused files that may do under the new settings.
    pub fn settings_changed(
        &mut self,
        file: HostFile,
        now: Time,
        limits: impl Fn(&Rules, &str) -> Limits,
    ) -> (Consequences<ReadyBinary>, Vec<PluginName>) {
        let old = self.rules.clone();
        (self.rules.settings, self.rules.provenance) = (file.settings, file.provenance);
        let (mut consequences, mut to_retry) = (Consequences::default(), Vec::new());
        let names: Vec<PluginName> = self.registry.names().cloned().collect();
        for name in names {
            // A built-in's own needs are the same before and after.
            let has_other_grants = old.granted(&name, None) != self.rules.granted(&name, None)
                || old.plugin(&name).grants.is_some() != self.rules.plugin(&name).grants.is_some();
            let (before, after) = (old.plugin(&name), self.rules.plugin(&name));
            // What a plugin without time does is a part of its limits there.
            let has_other_limits = (before.limits, before.failure_policy) != (after.limits, after.failure_policy);
            if has_other_limits {
                let limits = limits(&self.rules, &name);
                self.registry.binaries_mut(&name).for_each(|binary| binary.set_limits(&limits));
            }
            let is_denied = |rules: &Rules| {
                self.registry.refused_digest(&name).is_some_and(|digest| rules.check_digest(digest).is_err())
            };
            let is_allowed_again = is_denied(&old) && !is_denied(&self.rules);
            let may_do = has_other_grants || has_other_limits || is_allowed_again;
            // Its signatures are checked again, whatever its state.
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
            // The signatures of a file that is gone cannot be checked.
            change.is_fallback_forbidden |=
                has_other_policy && matches!(self.registry.fallback(&name), Some(Fallback::Component(_)));
            consequences.add(self.registry.settings_changed(&name, change, now, &self.rules));
        }
        (consequences, to_retry)
    }

    /// A binary may not run. What served before goes on, unless this is it: the operator no longer trusts it.
    pub fn not_admitted(
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

    /// What the operator's settings mean for the plugin's binaries.
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

    /// Whether some plugin looks at more of pending pods than their record has, or one may that comes later. From here on,
    /// that is all there is.
    pub fn settle_pod_json(&mut self) -> bool {
        let names: Vec<PluginName> = self.registry.names().cloned().collect();
        let is_wanted = names.iter().any(|name| {
            let mut binaries = self.registry.binaries_mut(name);
            binaries.any(|binary| binary.factory().manifest().needs.pod_json)
        });
        self.rules.has_pod_json = is_wanted || self.rules.settings.grants_pod_json();
        self.rules.has_pod_json
    }
}

/// Whether the binary is this program's own of the built-in of this name.
pub fn is_own(name: &str, binary: Option<BinaryId>) -> bool {
    static EMBEDDED: LazyLock<BTreeMap<&str, Digest>> = LazyLock::new(|| {
        let digest = |it: &'static EmbeddedComponent| (it.name, Binary::embedded(it.name, it.bytes()).digest());
        berth_components::COMPONENTS.iter().map(digest).collect()
    });
    match binary {
        Some(BinaryId::Native) => true,
        Some(BinaryId::Component(digest)) => EMBEDDED.get(name) == Some(&digest),
        None => false,
    }
}

/// Makes instances of the serving binary.
pub(crate) fn factory(plugin: &PluginName, service: &Service<ReadyBinary>) -> Arc<dyn PluginFactory> {
    match service {
        Service::Native(binary) => binary.factory(),
        Service::Embedded(component) | Service::Directory(component) => component.binary.factory(),
        Service::Pass(_) => StandIn::that_passes(plugin),
        Service::Hold(reason) => StandIn::that_holds(plugin, reason),
    }
}

#[cfg(test)]
mod tests;
