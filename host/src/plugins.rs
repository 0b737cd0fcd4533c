//! Which binary answers under each plugin's name, and the profiles made of them.
//!
//! A name is looked up in the plugins directory, then among the built-ins, which run natively or as the embedded
//! component. Plugins of the default set that this build does not have are left out, and said so once.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, Result};
use berth_config::{InTree, PluginCatalogue, PointSet, Settings};
use berth_framework::{
    PluginFactory, Point,
    profile::{Grants, Profile},
};
use berth_wasm_host::{
    Binary, ComponentFactory, DirectoryChange, DirectoryEvent, Engine, EngineOptions, PluginStats, PluginsDirectory,
};
use tracing::{info, warn};

use crate::{
    cli::{Execution, Scheduling},
    failure::Usage,
};

/// The binaries in service, by plugin name.
#[derive(Clone, Debug)]
pub(crate) struct Registry {
    pub engine: Engine,
    execution: Execution,
    /// From the plugins directory: they take the place of built-ins of their name.
    from_directory: BTreeMap<String, Arc<dyn PluginFactory>>,
    built_in: BTreeMap<String, Arc<dyn PluginFactory>>,
    /// Figures about every component that was ever loaded.
    stats: Vec<(String, Arc<PluginStats>)>,
}

impl Registry {
    /// Starts the engine and, where built-ins run as components, compiles them. Takes seconds the first time.
    pub(crate) fn new(options: &Scheduling) -> Result<Self> {
        let artefacts = options.artifact_cache.clone().or_else(default_artifact_cache);
        let engine = Engine::new(EngineOptions { artefacts, ..EngineOptions::default() })?;
        let mut registry = Self {
            engine,
            execution: options.execution,
            from_directory: BTreeMap::new(),
            built_in: BTreeMap::new(),
            stats: Vec::new(),
        };
        for factory in berth_builtins::factories() {
            registry.built_in.insert(factory.manifest().name.clone(), factory);
        }
        if options.execution == Execution::Wasm {
            for component in berth_components::COMPONENTS {
                let binary = Binary::new(component.name, component.bytes);
                let factory = registry.engine.load(&binary);
                let factory = factory.with_context(|| format!("built-in plugin {}", component.name))?;
                registry.stats.push((component.name.to_owned(), Arc::clone(factory.stats())));
                registry.built_in.insert(component.name.to_owned(), Arc::new(factory));
            }
        }
        Ok(registry)
    }

    /// Takes in all that lies in the plugins directory.
    ///
    /// # Errors
    /// The directory cannot be read, or holds something that is no plugin.
    pub(crate) fn scan(&mut self, dir: &Path) -> Result<PluginsDirectory> {
        let mut directory = PluginsDirectory::new(self.engine.clone(), dir);
        let found = directory
            .scan()
            .map_err(|error| Usage(format!("--plugins-dir {}: cannot be read: {error}", dir.display())))?;
        for DirectoryEvent { name, change } in found {
            let file = dir.join(format!("{name}.wasm"));
            let factory = match change {
                DirectoryChange::Loaded(factory) => factory,
                DirectoryChange::Removed => continue,
                DirectoryChange::Refused(error) => {
                    let (file, reason) = (file.display(), chain(&error));
                    let text = format!("{file} {reason}; take it out of the plugins directory or replace it");
                    return Err(Usage(text).into());
                }
            };
            info!(plugin = name, file = %file.display(), digest = factory.version().digest, "found");
            self.put(&name, Some(factory));
        }
        Ok(directory)
    }

    pub(crate) fn stats(&self) -> &[(String, Arc<PluginStats>)] {
        &self.stats
    }

    /// Takes in what came into the plugins directory, or with `None` what left it, and gives back what answers under the
    /// name from now on.
    pub(crate) fn put(&mut self, name: &str, factory: Option<Arc<ComponentFactory>>) -> Option<Arc<dyn PluginFactory>> {
        match factory {
            Some(_) if self.execution == Execution::Native && self.built_in.contains_key(name) => {
                warn!(plugin = name, "kept out by --execution native, which runs built-ins from this binary only");
                return None;
            }
            Some(factory) => {
                self.stats.push((name.to_owned(), Arc::clone(factory.stats())));
                self.from_directory.insert(name.to_owned(), factory);
            }
            None => drop(self.from_directory.remove(name)),
        }
        self.get(name).cloned()
    }

    /// Whether some plugin looks at more of pending pods than their record has.
    pub(crate) fn wants_pod_json(&self) -> bool {
        let built_in = self.built_in.values().map(|factory| factory.manifest());
        let from_directory = self.from_directory.values().map(|factory| factory.manifest());
        built_in.chain(from_directory).any(|manifest| manifest.needs.pod_json)
    }

    /// The binary that answers under `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<dyn PluginFactory>> {
        self.from_directory.get(name).or_else(|| self.built_in.get(name))
    }

    /// The built-in plugins and those of the directory, for validating a configuration.
    fn known_points(&self, name: &str) -> Option<PointSet> {
        let points = self.get(name)?.points();
        Some(POINTS.into_iter().filter(|(ours, _)| points.contains(*ours)).map(|(_, theirs)| theirs).collect())
    }

    /// Builds the profiles of `settings`.
    ///
    /// # Errors
    /// A plugin that refuses its arguments, or a profile that is left without a plugin that binds.
    pub(crate) fn profiles(&self, settings: &Settings) -> Result<Vec<Profile>> {
        let mut missing = BTreeSet::new();
        let profiles =
            settings.profiles.iter().map(|profile| self.profile(profile, &mut missing)).collect::<Result<Vec<_>>>()?;
        if !missing.is_empty() {
            let names: Vec<_> = missing.into_iter().collect();
            warn!(plugins = names.join(", "), "enabled, but not in this build: their rules do not apply");
        }
        Ok(profiles)
    }

    fn profile(&self, configured: &berth_config::Profile, missing: &mut BTreeSet<String>) -> Result<Profile> {
        let mut profile = Profile::new(&configured.scheduler_name);
        profile.percentage_of_nodes_to_score = configured.percentage_of_nodes_to_score.map(i32::from);
        for name in configured.plugins.named() {
            let Some(factory) = self.get(name) else {
                missing.insert(name.clone());
                continue;
            };
            let args = configured.plugin_config.get(name).map_or_else(|| "null".to_owned(), ToString::to_string);
            let plugin = factory
                .build(&args)
                .map_err(|reason| Usage(format!("profile {:?}, plugin {name}: {reason}", configured.scheduler_name)))?;
            profile.add(plugin, &args, Grants::ALL);
        }
        for (ours, theirs) in POINTS {
            for name in configured.plugins.at(theirs) {
                if let Some(plugin) = profile.find(name) {
                    profile.plugins.enable(ours, plugin);
                }
            }
        }
        for (name, weight) in configured.plugins.score_weights() {
            if let Some(plugin) = profile.find(name) {
                profile.plugins.set_weight(plugin, weight);
            }
        }
        Ok(profile)
    }
}

/// Falls back on the table of kube-scheduler's own plugins, so that a file that names them stays valid.
impl PluginCatalogue for Registry {
    fn points(&self, plugin: &str) -> Option<PointSet> {
        self.known_points(plugin).or_else(|| InTree.points(plugin))
    }
}

/// The framework's points beside those that a configuration file knows.
const POINTS: [(Point, berth_config::Point); 12] = [
    (Point::PreEnqueue, berth_config::Point::PreEnqueue),
    (Point::QueueSort, berth_config::Point::QueueSort),
    (Point::PreFilter, berth_config::Point::PreFilter),
    (Point::Filter, berth_config::Point::Filter),
    (Point::PostFilter, berth_config::Point::PostFilter),
    (Point::PreScore, berth_config::Point::PreScore),
    (Point::Score, berth_config::Point::Score),
    (Point::Reserve, berth_config::Point::Reserve),
    (Point::Permit, berth_config::Point::Permit),
    (Point::PreBind, berth_config::Point::PreBind),
    (Point::Bind, berth_config::Point::Bind),
    (Point::PostBind, berth_config::Point::PostBind),
];

/// Reads the configuration file, or gives the defaults. `scheduler_name` renames the only profile.
pub(crate) fn settings(file: Option<&Path>, scheduler_name: Option<&str>, registry: &Registry) -> Result<Settings> {
    let mut settings = match file {
        None => Settings::default(),
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Usage(format!("--config {}: cannot be read: {error}", file.display())))?;
            Settings::from_text(&file.display().to_string(), &text, registry)
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
