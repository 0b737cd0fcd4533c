//! The plugins of a process when it starts.
//!
//! Built-ins are available immediately. A scheduler starts before it has loaded the files of the plugins directory and
//! the artifacts of registries. The scheduler loads these files and artifacts in the same way as later ones, so no file
//! can prevent the start. Commands that show all plugins wait until everything is loaded.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use berth_config::Usage;
use berth_framework::SchedulingTime;
use berth_lifecycle::Component;
use berth_model::{Digest, PluginName};
use berth_telemetry::{
    chain,
    clock::{self, now},
};
use berth_wasm_host::{Binary as Bytes, Engine, EngineOptions, FaultSink, Precompiled};
use tokio::{runtime::Runtime, sync::mpsc};
use tracing::warn;

use crate::{
    directory::PluginsDirectory,
    error::{PluginHostError, Result},
    finding::Finding,
    inventory::{PluginInventory, UnusableFile},
    limits::{file_limits, limits, plugin_limits, time_bounds},
    message::{INBOX_BOUND, Message},
    options::{PluginHostOptions, Sources},
    provenance::{CurrentProvenance, pull_cache},
    pulls::PullKit,
    ready_binary::{Origin, ReadyBinary, component},
    rules::Rules,
    settings_file::{self, HostFile},
    state_file::{self, StateDocument},
};

/// All plugins of a process, before it schedules the first pod.
#[derive(Debug)]
pub struct Plugins {
    pub engine: Engine,
    pub inventory: PluginInventory,
    /// The plugins directory, which the supervisor watches later.
    pub(crate) directory: Option<PluginsDirectory>,
    /// The tools that pull plugins from registries.
    pub(crate) pulls: PullKit,
    /// Both ends of the supervisor's channel.
    pub inbox: (mpsc::Sender<Message>, mpsc::Receiver<Message>),
}

impl Plugins {
    /// Starts the engine and compiles the built-ins that run as components. `faults` receives the faults of components
    /// in service. Files in the plugins directory and artifacts of registries are loaded once the supervisor runs.
    ///
    /// # Errors
    /// The plugin configuration is invalid, or the directory cannot be listed.
    pub fn load(options: &PluginHostOptions, faults: FaultSink) -> Result<Self> {
        let mut plugins = Self::awaiting(rules(options)?, &options.sources(), faults)?;
        if let Some(file) = &options.plugin_state {
            plugins.restore(state_file::read(file));
        }
        Ok(plugins)
    }

    /// Loads as [`Self::load`] does, and also loads all files and artifacts. If nothing is cached, the call takes as
    /// long as the slowest load, which may take seconds.
    ///
    /// # Errors
    /// Fails as [`Self::load`] does.
    pub fn load_all(options: &PluginHostOptions, faults: FaultSink) -> Result<Self> {
        let (plugins, unusable) = Self::inspect(rules(options)?, &options.sources(), faults)?;
        for (file, reason) in unusable {
            warn!(file = %file.display(), %reason, "the plugin is not used");
        }
        Ok(plugins)
    }

    /// Loads all plugins. The result includes the files that were refused, each with the reason.
    ///
    /// # Errors
    /// The engine cannot be started, or the directory cannot be read.
    pub fn inspect(rules: Rules, sources: &Sources, faults: FaultSink) -> Result<(Self, Vec<(PathBuf, UnusableFile)>)> {
        let mut plugins = Self::awaiting(rules, sources, faults)?;
        let mut unusable = Vec::new();
        for finding in plugins.find_all()? {
            let file = plugins.inventory.file(&finding);
            if let Some(reason) = plugins.inventory.take_in(finding, now()).unusable {
                unusable.push((file, reason));
            }
        }
        Ok((plugins, unusable))
    }

    /// Returns the built-ins, and registers all other plugins as expected.
    fn awaiting(rules: Rules, sources: &Sources, faults: FaultSink) -> Result<Self> {
        let mut plugins = Self::new(rules, sources, faults)?;
        plugins.inventory.await_sources();
        if let Some(dir) = &sources.plugins_dir {
            let admission = Arc::new(plugins.pulls.provenance.clone());
            let mut directory = PluginsDirectory::new(plugins.engine.clone(), dir).with_admission(admission);
            for name in directory.expect().map_err(|error| unreadable(dir, &error))? {
                plugins.inventory.await_binary(&name.into());
            }
            plugins.directory = Some(directory);
        }
        Ok(plugins)
    }

    /// Pulls the plugins from registries, then loads the files of the directory, and waits for all results.
    fn find_all(&mut self) -> Result<Vec<Finding>> {
        let mut findings = self.pull()?;
        if let Some(directory) = &mut self.directory {
            let found = directory.scan().map_err(|error| unreadable(directory.path(), &error))?;
            findings.extend(found.into_iter().map(Finding::from));
        }
        Ok(findings)
    }

    fn pull(&self) -> Result<Vec<Finding>> {
        if !self.inventory.has_sources() {
            return Ok(Vec::new());
        }
        // The caller may be on a thread of a runtime, and must not block on that runtime.
        let pulls = self.pulls.clone();
        let pulling = thread::spawn(move || Ok::<_, io::Error>(Runtime::new()?.block_on(pulls.pull_all())));
        pulling.join().map_err(|_| PluginHostError::PullPanicked)?.map_err(PluginHostError::Runtime)
    }

    /// The built-ins.
    fn new(rules: Rules, sources: &Sources, faults: FaultSink) -> Result<Self> {
        let inbox = mpsc::channel(INBOX_BOUND);
        let engine = Engine::new(EngineOptions {
            limits: limits(&rules.plugin("")),
            plugin_limits: plugin_limits(&rules),
            artefacts: sources.artifacts.clone(),
            files: file_limits(rules.settings.files()),
            denied: rules.settings.denied_digests().clone(),
            compiler: sources.compiler.clone(),
            faults,
            time: SchedulingTime::new(Box::new(clock::Stopwatch)),
        })?;
        engine.time().set_bounds(time_bounds(rules.settings.scheduling_thread()));
        let provenance = CurrentProvenance::new(rules.provenance.clone());
        // Nothing needs to be kept if no plugin comes from a registry.
        let cached = sources.artifacts.as_deref().filter(|_| !rules.provenance.sources.is_empty());
        let cache = pull_cache(cached).unwrap_or_else(|error| {
            warn!("pulled plugins are not cached across restarts: {}", chain(&error));
            None
        });
        let mut plugins = Self {
            pulls: PullKit { engine: engine.clone(), provenance, cache },
            engine,
            inventory: PluginInventory::new(rules),
            directory: None,
            inbox,
        };
        plugins.add_built_ins()?;
        Ok(plugins)
    }

    /// Restores the plugins' states from the end of the previous process.
    fn restore(&mut self, state: StateDocument) {
        for (name, remembered) in state.remembered() {
            let serving = remembered.failed.as_ref().and_then(|failed| failed.serving);
            let serving = serving.and_then(|digest| self.compiled_before(&name, digest));
            self.inventory.restore(&name, remembered, serving, now());
        }
    }

    /// A binary that no longer has a file, if the binary was compiled before and may serve.
    fn compiled_before(&self, name: &PluginName, digest: Digest) -> Option<Component<ReadyBinary>> {
        self.inventory.check_without_file(digest).ok()?;
        Some(component(Arc::new(self.engine.load_compiled(name, digest)?), Origin::default()))
    }

    fn add_built_ins(&mut self) -> Result<()> {
        let precompiled = self.precompiled();
        for factory in berth_builtins::factories() {
            let name = PluginName::from(factory.manifest().name.as_str());
            let embedded = self.embedded(&name, precompiled.as_ref())?;
            self.inventory.add_built_in(&name, ReadyBinary::Native(factory), embedded);
        }
        Ok(())
    }

    /// The precompiled components of the built-ins, which are part of this program. `None` if no built-in can be
    /// configured to run as a component, or if the precompiled components cannot be used.
    fn precompiled(&self) -> Option<Precompiled> {
        let mut built_ins = berth_components::COMPONENTS.iter();
        built_ins.find(|component| self.inventory.rules().may_run_as_component(component.name))?;
        Precompiled::of_this_program().unwrap_or_else(|error| {
            warn!("the precompiled built-in components cannot be used and are compiled again: {error}");
            None
        })
    }

    /// The embedded component of the built-in `name`. `None` if the built-in cannot be configured to run as a
    /// component, or if the component is denied.
    fn embedded(&self, name: &PluginName, precompiled: Option<&Precompiled>) -> Result<Option<Component<ReadyBinary>>> {
        let found = berth_components::COMPONENTS.iter().find(|component| *name == component.name);
        let Some(embedded) = found.filter(|_| self.inventory.rules().may_run_as_component(name)) else {
            return Ok(None);
        };
        let bytes = Bytes::embedded(embedded.name, embedded.bytes());
        if self.inventory.rules().check_digest(bytes.digest()).is_err() {
            return Ok(None);
        }
        let factory = self.engine.load_with(&bytes, precompiled);
        let factory = factory.map_err(|source| PluginHostError::BuiltIn { name: name.clone(), source })?;
        Ok(Some(component(Arc::new(factory), Origin::default())))
    }
}

fn unreadable(dir: &Path, error: &io::Error) -> Usage {
    Usage(format!("--plugins-dir {}: cannot be read: {error}", dir.display()))
}

/// The operator's rules.
fn rules(options: &PluginHostOptions) -> Result<Rules> {
    let HostFile { settings, provenance } = plugin_host_settings(options.plugin_config.as_deref())?;
    Ok(Rules { settings, provenance, ..Rules::of_options(options) })
}

fn plugin_host_settings(file: Option<&Path>) -> Result<HostFile> {
    let Some(file) = file else { return Ok(HostFile::default()) };
    let read = settings_file::read(file).map_err(|error| Usage(error.to_string()))?;
    settings_file::tell_what_stars_leave_out(&read.settings);
    settings_file::tell_misspelt_kinds(&read.settings);
    Ok(read)
}
