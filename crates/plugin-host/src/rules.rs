//! The operator's rules: which binary may serve, which data it may read, and which effects it may ask for.
//!
//! This program's own binaries of a built-in, native and embedded, have the grants that the built-in needs. A component
//! from the plugins directory has only the grants in the operator's configuration, even under the name of a built-in.
//! Without grants, such a component may read nodes and pods, filter and score. Only the embedded component itself,
//! recognised by its digest, is the built-in even in the plugins directory.

use std::{collections::BTreeSet, fmt, path::PathBuf};

use berth_config::{Execution, PluginGrants, PluginHostSettings, PluginSettings};
use berth_framework::{Grants, Manifest, ObjectKind, ObjectRule, Permission};
use berth_lifecycle::{OperatorPolicy, PluginPolicy};
use berth_model::{Digest, Features, KindRef};

use crate::{options::PluginHostOptions, provenance::Provenance, watched_kinds};

/// The operator's rules for plugins.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub settings: PluginHostSettings,
    /// The content of the files that `settings` name.
    pub provenance: Provenance,
    /// Whether the settings come from a file, `--plugin-config`.
    pub has_file: bool,
    /// `--execution`.
    pub on_command_line: Option<Execution>,
    /// The plugins directory, for messages.
    pub directory: Option<PathBuf>,
    /// Whether all pending pods are reported with their JSON. Once they are, they stay so until the process ends.
    pub has_pod_json: bool,
    /// The features by which the release and the feature gates change the rules of built-in plugins.
    pub features: Features,
}

/// The grants of one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    pub effects: Vec<Permission>,
    /// The objects that the plugin may change, and the allowed changes.
    pub rules: Vec<ObjectRule>,
    pub reads: Vec<ObjectKind>,
    /// Whether the plugin may read pending pods completely.
    pub pod_json: bool,
}

/// The text that the operator must write so that a plugin gets grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantsHint {
    /// The entry of the configuration.
    entry: String,
    /// A whole configuration with this entry alone.
    document: String,
    /// Whether there is a file to which the entry can be added.
    has_file: bool,
}

impl fmt::Display for GrantsHint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { entry, document, has_file } = self;
        if *has_file {
            write!(formatter, "add: {entry}")
        } else {
            write!(formatter, "give --plugin-config FILE, a file with this line: {document}")
        }
    }
}

/// The reason why a binary may not serve: the binary needs more data than it may read. The text continues the file's
/// name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotGranted {
    #[error(
        "wants pending pods as JSON, but --plugin-config does not set grants.podJson for it; to grant it, {hint}; \
         `berth plugin inspect` prints the entry with all grants that it may need"
    )]
    PodJson { hint: GrantsHint },
    #[error(
        "wants to read {kinds}, but its grants.reads in --plugin-config do not include it (`berth plugin inspect` \
         prints the entry with all grants that it may need); to grant it, {hint}"
    )]
    Reads { kinds: String, hint: GrantsHint },
    /// The plugin registers for events of `kinds`, which are not watched. A kind of each apiVersion in `versions`
    /// must be granted.
    #[error(
        "registers for events of {kinds} (`events-to-register` in its manifest), which the built-in plugins do not \
         watch: add a kind of each of these apiVersions to its grants.reads in --plugin-config: {versions}"
    )]
    Events { kinds: String, versions: String },
    #[error("has a denied digest: {0} is among deniedDigests in --plugin-config")]
    Denied(Digest),
    #[error("{0}")]
    Signature(String),
    /// The watches drop the data that no plugin may read. They get this data back with a new list.
    #[error("wants pending pods as JSON, which are being listed: it is tried again when the list is complete")]
    PodJsonNotListed,
}

impl Rules {
    /// The rules of the command line alone, without the file of settings.
    pub fn of_options(options: &PluginHostOptions) -> Self {
        Self {
            settings: PluginHostSettings::default(),
            provenance: Provenance::default(),
            has_file: options.plugin_config.is_some(),
            on_command_line: options.execution,
            directory: options.plugins_dir.clone(),
            has_pod_json: true,
            features: options.features,
        }
    }

    pub fn plugin(&self, name: &str) -> PluginSettings {
        self.settings.plugin(name)
    }

    pub fn execution(&self, name: &str, scheduler_name: &str) -> Execution {
        self.settings.execution(name, scheduler_name, self.on_command_line)
    }

    /// Whether a built-in may have to run as a component in some profile.
    pub fn may_run_as_component(&self, name: &str) -> bool {
        // No profile has an empty name. The empty name stands for all profiles without an entry.
        let mut profiles = self.settings.profiles().chain([""]);
        profiles.any(|profile| self.execution(name, profile) == Execution::Wasm)
    }

    /// # Errors
    /// The plugin needs data that the watches have not reported yet.
    pub fn check_pod_json(&self, manifest: &Manifest) -> Result<(), NotGranted> {
        if self.has_pod_json || !manifest.needs.pod_json { Ok(()) } else { Err(NotGranted::PodJsonNotListed) }
    }

    /// # Errors
    /// The binary may not serve under any name.
    pub fn check_digest(&self, digest: Digest) -> Result<(), NotGranted> {
        if self.is_denied(digest) { Err(NotGranted::Denied(digest)) } else { Ok(()) }
    }

    /// The grants of a binary under this name. `built_in` is the manifest of the native built-in if the binary is part
    /// of this program. `built_in` is never the manifest of a component.
    pub fn granted(&self, name: &str, built_in: Option<&Manifest>) -> Granted {
        if let Some(own) = self.plugin(name).grants {
            return Granted::from(&own);
        }
        let granted = Granted::from(&self.settings.default_grants());
        built_in.map_or(granted.clone(), |built_in| granted.with(&Granted::of_built_in(built_in)))
    }
}

impl NotGranted {
    /// The reason for an operator without `--plugin-config`.
    #[must_use]
    pub(crate) fn without_file(self) -> Self {
        let whole = |hint: GrantsHint| GrantsHint { has_file: false, ..hint };
        match self {
            Self::PodJson { hint } => Self::PodJson { hint: whole(hint) },
            Self::Reads { kinds, hint } => Self::Reads { kinds, hint: whole(hint) },
            other @ (Self::Events { .. } | Self::Denied(_) | Self::Signature(_) | Self::PodJsonNotListed) => other,
        }
    }
}

impl OperatorPolicy for Rules {
    fn plugin(&self, plugin: &str) -> PluginPolicy {
        let PluginSettings { failure_policy, quarantine, probation, .. } = self.settings.plugin(plugin);
        PluginPolicy { failure_policy, quarantine, probation }
    }

    fn execution(&self, plugin: &str, scheduler_name: &str) -> Execution {
        self.settings.execution(plugin, scheduler_name, self.on_command_line)
    }

    fn is_denied(&self, digest: Digest) -> bool {
        self.settings.denied_digests().contains(&digest)
    }

    fn origin(&self, plugin: &str) -> Option<String> {
        if let Some(source) = self.provenance.sources.get(plugin) {
            return Some(source.reference.to_string());
        }
        let dir = self.directory.as_ref()?.display();
        Some(format!("{plugin}.wasm in {dir}"))
    }
}

impl Granted {
    /// The grants that a built-in needs.
    pub fn of_built_in(manifest: &Manifest) -> Self {
        Self {
            effects: manifest.effects.clone(),
            rules: manifest.rules.clone(),
            reads: manifest.needs.objects.clone(),
            pod_json: manifest.needs.pod_json,
        }
    }

    /// The grants of this value and of `other`.
    pub fn with(mut self, other: &Self) -> Self {
        fn add<T: Clone + PartialEq>(items: &mut Vec<T>, others: &[T]) {
            for item in others {
                if !items.contains(item) {
                    items.push(item.clone());
                }
            }
        }
        add(&mut self.effects, &other.effects);
        add(&mut self.rules, &other.rules);
        add(&mut self.reads, &other.reads);
        self.pod_json |= other.pod_json;
        self
    }

    pub fn grants(&self) -> Grants {
        Grants::new(self.effects.iter().copied(), self.rules.as_slice()).with_reads(self.reads.clone(), self.pod_json)
    }

    /// The kinds that the plugin may read, as `apiVersion/kind`.
    pub fn read_names(&self) -> impl Iterator<Item = String> {
        self.reads.iter().map(ToString::to_string)
    }

    /// The kinds of effects that the plugin may ask for.
    pub fn effect_names(&self) -> impl Iterator<Item = String> {
        self.effects.iter().map(|effect| effect.as_str().to_owned())
    }

    /// The objects that the plugin may change, each as a rule on one line.
    pub fn rule_names(&self) -> impl Iterator<Item = String> {
        self.rules.iter().map(ToString::to_string)
    }

    /// Whether there is no grant.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The configuration entry that grants the read to the plugin.
    pub fn lines(&self, plugin: &str) -> String {
        self.grants().entry(plugin)
    }

    /// Checks the reads that a manifest needs. `built_in` is the manifest of the built-in of the plugin's name; `None`
    /// if no built-in has the name.
    ///
    /// # Errors
    /// The error names the data that a plugin needs without a grant.
    pub fn check_reads(
        &self,
        plugin: &str,
        manifest: &Manifest,
        built_in: Option<&Manifest>,
    ) -> Result<(), NotGranted> {
        let hint = || {
            let needs = built_in.map(Self::of_built_in).unwrap_or_default();
            let (reads, pod_json) = (manifest.needs.objects.clone(), manifest.needs.pod_json);
            let mut granted = self.clone();
            granted.reads.retain(|read| !reads.iter().any(|wanted| means(read, wanted)));
            let grants = granted.with(&needs).with(&Self { reads, pod_json, ..Self::default() }).grants();
            GrantsHint { entry: grants.entry(plugin), document: grants.document(plugin), has_file: true }
        };
        if manifest.needs.pod_json && !self.pod_json {
            return Err(NotGranted::PodJson { hint: hint() });
        }
        let wanted = manifest.needs.objects.iter().filter(|kind| !self.reads.contains(kind));
        let wanted: Vec<String> = wanted.map(ToString::to_string).collect();
        if !wanted.is_empty() {
            return Err(NotGranted::Reads { kinds: wanted.join(", "), hint: hint() });
        }
        self.check_events(manifest)
    }

    /// Checks the kinds of events. Each watched kind has a cost for the API server and this program, so only kinds that
    /// are watched anyway need no grant.
    fn check_events(&self, manifest: &Manifest) -> Result<(), NotGranted> {
        let is_granted = |kind: &KindRef| {
            let api_version = kind.api_version();
            watched_kinds::is_of_built_ins(kind) || self.reads.iter().any(|read| read.api_version == api_version)
        };
        let refused: Vec<KindRef> = watched_kinds::heard(manifest).filter(|kind| !is_granted(kind)).collect();
        if refused.is_empty() {
            return Ok(());
        }
        let kinds: BTreeSet<String> = refused.iter().map(KindRef::resource).collect();
        let versions: BTreeSet<String> = refused.iter().map(KindRef::api_version).collect();
        let join = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join(", ");
        Err(NotGranted::Events { kinds: join(kinds), versions: join(versions) })
    }
}

/// Whether a granted kind is probably a misspelling of the kind that a plugin wants.
fn means(granted: &ObjectKind, wanted: &ObjectKind) -> bool {
    let nearest = || watched_kinds::nearest(&granted.api_version, &granted.kind);
    granted != wanted
        && granted.api_version == wanted.api_version
        && (granted.kind.eq_ignore_ascii_case(&wanted.kind) || nearest().as_ref() == Some(&wanted.kind))
}

impl From<&PluginGrants> for Granted {
    fn from(grants: &PluginGrants) -> Self {
        let PluginGrants { reads, effects, rules, pod_json } = grants.clone();
        Self { effects, rules, reads, pod_json }
    }
}

#[cfg(test)]
mod tests;
