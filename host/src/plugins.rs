//! The plugins of a process: which binary answers under each name, and the profiles made of them.
//!
//! `rules` says what is allowed, `roster` which binary serves where, `supervisor` is the task that keeps the roster while
//! the scheduler runs. A name is looked up in the plugins directory, then among the built-ins, which run natively or as
//! the embedded component. Plugins of the default set that this build does not have are left out, and said so once.

mod announcing;
mod binary;
mod entry;
mod ledger;
mod report;
mod roster;
mod rules;
pub(crate) mod settings_file;
mod stand_in;
mod supervisor;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, Result};
use berth_config::{
    InTree, PluginCatalogue, PluginHostSettings, PluginLimits, Settings, configurable_points, points_of_missing_plugin,
};
use berth_framework::{PluginFactory, Points, profile::Profile};
use berth_wasm_host::{
    Binary as Bytes, DirectoryChange, DirectoryEvent, Engine, EngineOptions, FaultSink, Limits, PluginsDirectory,
};
use tokio::sync::mpsc;
use tracing::{info, warn};

pub(crate) use self::{
    announcing::Announcer,
    report::{PluginReport, State},
    roster::Roster,
    rules::Rules,
    settings_file::SettingsWatch,
    stand_in::NO_DIGEST,
    supervisor::{HostSettings, Input, Order, Refusal, Supervisor},
};
use self::{
    binary::{Binary, Source},
    ledger::Ledger,
    roster::factory,
    supervisor::INBOX_BOUND,
};
use crate::{cli::Scheduling, failure::Usage};

/// All plugins, loaded, before anything is scheduled.
#[derive(Debug)]
pub(crate) struct Plugins {
    pub engine: Engine,
    pub roster: Roster,
    /// What was read of the plugins directory, to be watched from here on.
    pub directory: Option<PluginsDirectory>,
    pub ledger: Ledger,
    /// Where the supervisor is told of things, and where it will hear of them.
    pub inbox: (mpsc::Sender<Input>, mpsc::Receiver<Input>),
}

impl Plugins {
    /// Starts the engine, loads what lies in the plugins directory and, where built-ins run as components, compiles
    /// them. Takes seconds the first time.
    ///
    /// # Errors
    /// The plugin configuration makes no sense, or the directory cannot be read or holds something that is no plugin.
    pub(crate) fn load(options: &Scheduling) -> Result<Self> {
        let settings = plugin_host_settings(options.plugin_config.as_deref())?;
        let rules = Rules { settings, ..Rules::of_options(options) };
        let artefacts = artifact_cache(options);
        let (plugins, refused) = Self::inspect(rules, artefacts.as_deref(), options.plugins_dir.as_deref())?;
        if let Some((file, reason)) = refused.into_iter().next() {
            let file = file.display();
            let text = format!("{file} {reason}; take it out of the plugins directory or replace it");
            return Err(Usage(text).into());
        }
        Ok(plugins)
    }

    /// The same, but files that are no plugins or may not be do not end it: they come along, with what is wrong with each.
    ///
    /// # Errors
    /// The engine cannot be started, or the directory cannot be read.
    pub(crate) fn inspect(
        rules: Rules,
        artefacts: Option<&Path>,
        plugins_dir: Option<&Path>,
    ) -> Result<(Self, Vec<(PathBuf, String)>)> {
        let inbox = mpsc::channel(INBOX_BOUND);
        let to_supervisor = inbox.0.clone();
        let faults = FaultSink::new(move |report| drop(to_supervisor.try_send(Input::Fault(report))));
        let engine = Engine::new(EngineOptions {
            limits: limits(rules.plugin("").limits),
            plugin_limits: plugin_limits(&rules),
            artefacts: artefacts.map(Path::to_owned),
            faults,
        })?;
        let roster = Roster::new(rules);
        let mut plugins = Self { engine, roster, directory: None, ledger: Ledger::default(), inbox };
        plugins.add_built_ins()?;
        let mut refused = Vec::new();
        if let Some(dir) = plugins_dir {
            plugins.directory = Some(plugins.scan(dir, &mut refused)?);
        }
        Ok((plugins, refused))
    }

    fn add_built_ins(&mut self) -> Result<()> {
        for factory in berth_builtins::factories() {
            let name = factory.manifest().name.clone();
            self.roster.add_native(&name, Binary { factory, source: Source::Native, figures: None, component: None });
        }
        for component in berth_components::COMPONENTS {
            if !self.roster.rules.may_run_as_component(component.name) {
                continue;
            }
            let factory = self.engine.load(&Bytes::new(component.name, component.bytes));
            let factory = Arc::new(factory.with_context(|| format!("built-in plugin {}", component.name))?);
            self.ledger.add(component.name, factory.stats());
            self.roster.add_embedded(component.name, Binary::component(factory, Source::Embedded));
        }
        Ok(())
    }

    fn scan(&mut self, dir: &Path, refused: &mut Vec<(PathBuf, String)>) -> Result<PluginsDirectory> {
        let mut directory = PluginsDirectory::new(self.engine.clone(), dir);
        let found = directory
            .scan()
            .map_err(|error| Usage(format!("--plugins-dir {}: cannot be read: {error}", dir.display())))?;
        for DirectoryEvent { name, change } in found {
            let file = dir.join(format!("{name}.wasm"));
            let added = match change {
                DirectoryChange::Loaded(factory) => {
                    let digest = factory.version().digest;
                    info!(plugin = name, file = %file.display(), digest, "found");
                    self.ledger.add(&name, factory.stats());
                    self.roster.add_installed(&name, Binary::component(factory, Source::Directory))
                }
                DirectoryChange::Removed => Ok(()),
                DirectoryChange::Refused { error, .. } => Err(chain(&error)),
            };
            if let Err(reason) = added {
                refused.push((file, reason));
            }
        }
        Ok(directory)
    }

    /// Builds the profiles of `settings`, which the roster keeps up to date from here on.
    ///
    /// # Errors
    /// A plugin that refuses its arguments.
    pub(crate) fn profiles(&mut self, settings: &Settings) -> Result<Vec<Profile>> {
        let mut missing = BTreeSet::new();
        let mut profiles = Vec::new();
        for profile in &settings.profiles {
            profiles.push(self.profile(profile, &mut missing)?);
        }
        if !missing.is_empty() {
            let names: Vec<_> = missing.into_iter().collect();
            warn!(plugins = names.join(", "), "enabled, but not in this build: their rules do not apply");
        }
        Ok(profiles)
    }

    fn profile(&mut self, configured: &berth_config::Profile, missing: &mut BTreeSet<String>) -> Result<Profile> {
        let scheduler_name = &configured.scheduler_name;
        let mut profile = Profile::new(scheduler_name);
        profile.percentage_of_nodes_to_score = configured.percentage_of_nodes_to_score.map(i32::from);
        for name in configured.plugins.named() {
            if self.roster.points(name).is_none() && points_of_missing_plugin(name).is_some() {
                self.roster.add_optional(name);
                missing.insert(name.clone());
            }
            let choice = self.roster.enlist(name, scheduler_name);
            let args = configured.plugin_config.get(name).map_or_else(|| "null".to_owned(), ToString::to_string);
            let plugin = factory(name, &choice)
                .build(&args)
                .map_err(|reason| Usage(format!("profile {scheduler_name:?}, plugin {name}: {reason}")))?;
            let plugin = profile.add(plugin, &args, self.roster.grants(name));
            profile.plugins.set_weight(plugin, configured.plugins.weight(name));
        }
        for point in configurable_points() {
            for name in configured.plugins.wanted_at(point) {
                if let Some(plugin) = profile.find(name) {
                    profile.want(point, plugin);
                }
            }
        }
        Ok(profile)
    }
}

/// Falls back on those plugins of kube-scheduler that this build lacks, so that a file that names them stays valid. Any
/// other name may come to be that of a file of the plugins directory.
impl PluginCatalogue for Plugins {
    fn points(&self, plugin: &str) -> Option<Points> {
        self.roster.points(plugin).or_else(|| points_of_missing_plugin(plugin))
    }

    fn awaits(&self, _plugin: &str) -> bool {
        self.roster.rules.directory.is_some()
    }
}

fn plugin_host_settings(file: Option<&Path>) -> Result<PluginHostSettings> {
    let Some(file) = file else { return Ok(PluginHostSettings::default()) };
    Ok(settings_file::read(file).map_err(Usage)?)
}

/// By name, the limits of plugins that have an entry.
fn plugin_limits(rules: &Rules) -> BTreeMap<String, Limits> {
    rules.settings.named().map(|name| (name.to_owned(), limits(rules.plugin(name).limits))).collect()
}

fn limits(limits: PluginLimits) -> Limits {
    let size = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
    Limits {
        call_timeout: limits.call_time,
        memory_bytes: size(limits.memory_bytes),
        output_bytes: size(limits.output_bytes),
        list_items: size(u64::from(limits.output_elements)),
        log_lines_per_second: limits.log_lines_per_second,
        ..Limits::default()
    }
}

/// Reads the configuration file, or gives the defaults. `scheduler_name` renames the only profile.
pub(crate) fn settings(file: Option<&Path>, scheduler_name: Option<&str>, plugins: &Plugins) -> Result<Settings> {
    let mut settings = match file {
        None => Settings::defaults(&InTree::new(&berth_builtins::factories())),
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Usage(format!("--config {}: cannot be read: {error}", file.display())))?;
            Settings::from_text(&file.display().to_string(), &text, plugins)
                .map_err(|error| Usage(error.to_string()))?
        }
    };
    match (scheduler_name, settings.profiles.as_mut_slice()) {
        (None, _) => {}
        (Some(name), [profile]) => name.clone_into(&mut profile.scheduler_name),
        (Some(_), profiles) => {
            let count = profiles.len();
            let text = format!("--scheduler-name renames the only profile, but the configuration has {count}");
            return Err(Usage(text).into());
        }
    }
    info!(profiles = settings.profiles.len(), "configuration loaded");
    Ok(settings)
}

/// Where compiled plugins are kept; `None` when nobody says and there is no home.
pub(crate) fn artifact_cache(options: &Scheduling) -> Option<PathBuf> {
    options.artifact_cache.clone().or_else(default_artifact_cache)
}

fn default_artifact_cache() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    base.map(|base| base.join("berth").join("plugins"))
}

/// The error and what it came from, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
