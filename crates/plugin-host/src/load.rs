//! The plugins of a process as it starts.
//!
//! Built-ins are there at once. A scheduler starts without the files of the plugins directory and the artifacts of registries:
//! these come as later ones do, so that none of them can keep it from starting. Commands that look at all plugins wait for all.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use berth_config::{FailurePolicy, FileSettings, PluginSettings, SchedulingThreadSettings, Usage};
use berth_framework::{SchedulingTime, Share, TimeBounds};
use berth_lifecycle::{Component, OperatorPolicy as _};
use berth_model::{Digest, PluginName};
use berth_provenance::{Evidence, Source};
use berth_telemetry::{
    chain,
    clock::{self, now},
};
use berth_wasm_host::{
    Binary as Bytes, CompileLimits, DirectoryChange, DirectoryEvent, Engine, EngineOptions, FaultSink, FileLimits,
    Limits, PluginsDirectory, Precompiled, WhenNotAsked,
};
use tokio::{runtime::Runtime, sync::mpsc};
use tracing::{info, warn};

use crate::{
    error::{PluginHostError, Result},
    inventory::PluginInventory,
    message::{INBOX_BOUND, Message},
    options::{PluginHostOptions, Sources},
    provenance::{CurrentProvenance, pull_cache},
    pulls::{Arrival, Outcome, PullKit},
    ready_binary::{Origin, ReadyBinary, component},
    rules::{NotGranted, Rules},
    settings_file::{self, HostFile},
    state_file::{self, StateDocument},
    totals::PluginTotals,
};

/// All plugins before anything is scheduled.
#[derive(Debug)]
pub struct Plugins {
    pub engine: Engine,
    pub inventory: PluginInventory,
    /// What was read of the plugins directory, to be watched from here on.
    pub directory: Option<PluginsDirectory>,
    /// What pulls plugins from registries.
    pub pulls: PullKit,
    pub totals: PluginTotals,
    /// Where the supervisor is told of things, and where it will hear of them.
    pub inbox: (mpsc::Sender<Message>, mpsc::Receiver<Message>),
}

/// Why a file of the plugins directory is not used: it is no plugin, or may not serve.
#[derive(Debug, thiserror::Error)]
pub enum UnusableFile {
    #[error(transparent)]
    NotGranted(#[from] NotGranted),
    /// With what is wrong with it.
    #[error("{0}")]
    NoPlugin(String),
}

impl Plugins {
    /// Starts the engine and, where built-ins run as components, compiles them; `faults` hears of those of components in
    /// service. What lies in the plugins directory, and what registries have, is loaded once the supervisor runs.
    ///
    /// # Errors
    /// The plugin configuration makes no sense, or the directory cannot be listed.
    pub fn load(options: &PluginHostOptions, faults: FaultSink) -> Result<Self> {
        let mut plugins = Self::new(rules(options)?, &options.sources(), faults)?;
        let PluginInventory { registry, rules } = &mut plugins.inventory;
        rules.provenance.sources.keys().for_each(|name| registry.await_binary(name));
        if let Some(dir) = &options.plugins_dir {
            let mut directory = plugins.directory(dir);
            for name in directory.expect().map_err(|error| unreadable(dir, &error))? {
                plugins.inventory.registry.await_binary(&name.into());
            }
            plugins.directory = Some(directory);
        }
        if let Some(file) = &options.plugin_state {
            plugins.restore(state_file::read(file));
        }
        Ok(plugins)
    }

    /// The same with all files and artifacts loaded. Takes seconds the first time, and as long as the slowest may take.
    ///
    /// # Errors
    /// As for [`Self::load`].
    pub fn load_all(options: &PluginHostOptions, faults: FaultSink) -> Result<Self> {
        let (plugins, unusable) = Self::inspect(rules(options)?, &options.sources(), faults)?;
        for (file, reason) in unusable {
            warn!(file = %file.display(), %reason, "the plugin is not used");
        }
        Ok(plugins)
    }

    /// All plugins loaded, with the files that were refused and what is wrong with each.
    ///
    /// # Errors
    /// The engine cannot be started, or the directory cannot be read.
    pub fn inspect(rules: Rules, sources: &Sources, faults: FaultSink) -> Result<(Self, Vec<(PathBuf, UnusableFile)>)> {
        let mut plugins = Self::new(rules, sources, faults)?;
        let mut unusable = Vec::new();
        plugins.pull(&mut unusable)?;
        if let Some(dir) = &sources.plugins_dir {
            plugins.directory = Some(plugins.scan(dir, &mut unusable)?);
        }
        Ok((plugins, unusable))
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
        // Without a plugin from a registry there is nothing to keep.
        let cached = sources.artifacts.as_deref().filter(|_| !rules.provenance.sources.is_empty());
        let cache = pull_cache(cached).unwrap_or_else(|error| {
            warn!("what is pulled from registries is not kept over restarts: {}", chain(&error));
            None
        });
        let mut plugins = Self {
            pulls: PullKit { engine: engine.clone(), provenance, cache },
            engine,
            inventory: PluginInventory::new(rules),
            directory: None,
            totals: PluginTotals::default(),
            inbox,
        };
        plugins.add_built_ins()?;
        Ok(plugins)
    }

    fn directory(&self, dir: &Path) -> PluginsDirectory {
        let gate = Arc::new(self.pulls.provenance.clone());
        PluginsDirectory::new(self.engine.clone(), dir).with_gate(gate)
    }

    /// Plugins stand where they stood when the process before this one ended.
    fn restore(&mut self, state: StateDocument) {
        for (name, remembered) in state.remembered() {
            let serving = remembered.failed.as_ref().and_then(|failed| failed.serving);
            let serving = serving.and_then(|digest| self.compiled_before(&name, digest));
            let PluginInventory { registry, rules } = &mut self.inventory;
            registry.restore(&name, remembered, serving, now(), rules);
            if let Some(status) = registry.status(&name, rules) {
                let (state, reason) = (status.state.as_str(), status.reason.unwrap_or_default());
                info!(plugin = name.as_str(), state, reason, "restored the plugin's state from before the restart");
            }
        }
    }

    /// A binary whose file is gone, if it was compiled before and may serve.
    fn compiled_before(&mut self, name: &PluginName, digest: Digest) -> Option<Component<ReadyBinary>> {
        let rules = &self.inventory.rules;
        rules.check_digest(digest).ok()?;
        // Its signatures are gone with its file.
        rules.provenance.policy.decide(&Source::Directory, &Evidence::default()).ok()?;
        let factory = Arc::new(self.engine.load_compiled(name, digest)?);
        self.totals.add(name, factory.stats());
        let component = component(factory, Origin::default());
        self.inventory.check_reads(name, &component).ok()?;
        Some(component)
    }

    fn add_built_ins(&mut self) -> Result<()> {
        let precompiled = self.precompiled();
        for factory in berth_builtins::factories() {
            let name = PluginName::from(factory.manifest().name.as_str());
            let embedded = self.embedded(&name, precompiled.as_ref())?;
            self.inventory.registry.add_built_in(&name, ReadyBinary::Native(factory), embedded);
        }
        Ok(())
    }

    /// The built-ins' compiled components that come with this program, if any may have to run as one.
    fn precompiled(&self) -> Option<Precompiled> {
        let mut built_ins = berth_components::COMPONENTS.iter();
        built_ins.find(|component| self.inventory.rules.may_run_as_component(component.name))?;
        Precompiled::of_this_program().unwrap_or_else(|error| {
            warn!("compiling the built-in components again: {error}");
            None
        })
    }

    /// The component of a built-in, if it may have to run as one somewhere.
    fn embedded(
        &mut self,
        name: &PluginName,
        precompiled: Option<&Precompiled>,
    ) -> Result<Option<Component<ReadyBinary>>> {
        let found = berth_components::COMPONENTS.iter().find(|component| *name == component.name);
        let Some(embedded) = found.filter(|_| self.inventory.rules.may_run_as_component(name)) else {
            return Ok(None);
        };
        let bytes = Bytes::embedded(embedded.name, embedded.bytes());
        if self.inventory.rules.check_digest(bytes.digest()).is_err() {
            return Ok(None);
        }
        let factory = self.engine.load_with(&bytes, precompiled);
        let factory = Arc::new(factory.map_err(|source| PluginHostError::BuiltIn { name: name.clone(), source })?);
        self.totals.add(name, factory.stats());
        Ok(Some(component(factory, Origin::default())))
    }

    /// Pulls what comes from registries, and waits for it.
    fn pull(&mut self, unusable: &mut Vec<(PathBuf, UnusableFile)>) -> Result<()> {
        if self.inventory.rules.provenance.sources.is_empty() {
            return Ok(());
        }
        // Whoever loads plugins may be on a thread of a runtime, and must not wait for that one.
        let pulls = self.pulls.clone();
        let pulling = thread::spawn(move || Ok::<_, io::Error>(Runtime::new()?.block_on(pulls.pull_all())));
        let arrivals = pulling.join().map_err(|_| PluginHostError::PullPanicked)?;
        let arrivals = arrivals.map_err(PluginHostError::Runtime)?;
        for Arrival { plugin, outcome } in arrivals {
            let (digest, reason) = match outcome {
                Outcome::Ready(component) => {
                    if let Some(stats) = component.binary.stats() {
                        self.totals.add(&plugin, stats);
                    }
                    let digest = component.digest;
                    match self.inventory.add_installed(&plugin, component) {
                        Ok(()) => (Some(digest), None),
                        Err(error) => (Some(digest), Some(UnusableFile::NotGranted(error))),
                    }
                }
                Outcome::Refused { digest, reason } => (Some(digest), Some(UnusableFile::NoPlugin(reason))),
                Outcome::Unreachable(reason) => (None, Some(UnusableFile::NoPlugin(reason))),
            };
            if let Some(reason) = reason {
                self.refuse(&plugin, digest, &reason);
                let origin = self.inventory.rules.origin(&plugin).unwrap_or_default();
                unusable.push((PathBuf::from(origin), reason));
            }
        }
        Ok(())
    }

    fn scan(&mut self, dir: &Path, unusable: &mut Vec<(PathBuf, UnusableFile)>) -> Result<PluginsDirectory> {
        let mut directory = self.directory(dir);
        let found = directory.scan().map_err(|error| unreadable(dir, &error))?;
        for DirectoryEvent { name, change } in found {
            let file = dir.join(format!("{name}.wasm"));
            if let Some(source) = self.inventory.rules.provenance.sources.get(name.as_str()) {
                let reference = source.reference.to_string();
                warn!(plugin = name, file = %file.display(), reference, "not used: the plugin comes from a registry");
                continue;
            }
            let added = match change {
                DirectoryChange::Loaded { factory, approval } => {
                    self.totals.add(&name, factory.stats());
                    let component = component(factory, Origin { reference: None, signed_by: approval.signed_by });
                    let digest = component.digest;
                    info!(plugin = name, file = %file.display(), digest = digest.to_string(), "found");
                    let added = self.inventory.add_installed(&name.as_str().into(), component);
                    added.map_err(|error| (Some(digest), UnusableFile::NotGranted(error)))
                }
                DirectoryChange::Removed => Ok(()),
                DirectoryChange::Refused { digest, error } => Err((digest, UnusableFile::NoPlugin(chain(&error)))),
            };
            if let Err((digest, reason)) = added {
                self.refuse(&name.as_str().into(), digest, &reason);
                unusable.push((file, reason));
            }
        }
        Ok(directory)
    }

    fn refuse(&mut self, name: &PluginName, digest: Option<Digest>, reason: &UnusableFile) {
        let PluginInventory { registry, rules } = &mut self.inventory;
        let consequences = registry.refused(name, digest, &reason.to_string(), now(), rules);
        debug_assert!(consequences.swaps.is_empty(), "there are no profiles yet");
    }
}

fn unreadable(dir: &Path, error: &io::Error) -> Usage {
    Usage(format!("--plugins-dir {}: cannot be read: {error}", dir.display()))
}

/// What the operator allows.
fn rules(options: &PluginHostOptions) -> Result<Rules> {
    let HostFile { settings, provenance } = plugin_host_settings(options.plugin_config.as_deref())?;
    Ok(Rules { settings, provenance, ..Rules::of_options(options) })
}

fn plugin_host_settings(file: Option<&Path>) -> Result<HostFile> {
    let Some(file) = file else { return Ok(HostFile::default()) };
    let read = settings_file::read(file).map_err(|error| Usage(error.to_string()))?;
    settings_file::tell_what_stars_leave_out(&read.settings);
    Ok(read)
}

/// By name, the limits of plugins that have an entry.
pub(crate) fn plugin_limits(rules: &Rules) -> BTreeMap<String, Limits> {
    rules.settings.named().map(|name| (name.to_string(), limits(&rules.plugin(name)))).collect()
}

/// What the binaries of a plugin may use.
pub fn limits(settings: &PluginSettings) -> Limits {
    let PluginSettings { limits, failure_policy, .. } = settings;
    let size = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
    Limits {
        call_timeout: limits.call_time,
        lifecycle_timeout: limits.lifecycle_time,
        scheduling_thread_timeout: limits.scheduling_thread_time,
        post_filter_timeout: limits.post_filter_time,
        share: Some(Share { per_second: limits.time_per_second, burst: limits.burst }),
        when_not_asked: match failure_policy {
            FailurePolicy::Fail => WhenNotAsked::Fail,
            FailurePolicy::Ignore => WhenNotAsked::Pass,
        },
        memory_bytes: size(limits.memory_bytes),
        output_bytes: size(limits.output_bytes),
        list_items: size(u64::from(limits.output_elements)),
        log_lines_per_second: limits.log_lines_per_second,
        ..Limits::default()
    }
}

pub(crate) fn file_limits(files: FileSettings) -> FileLimits {
    let compile = CompileLimits { cpu_time: files.compile_cpu_time, memory_bytes: files.compile_memory_bytes };
    FileLimits { max_bytes: files.max_bytes, compile }
}

/// What plugins and namespaces may take of the scheduling thread: no more is saved up than what a second gives.
pub(crate) fn time_bounds(settings: SchedulingThreadSettings) -> TimeBounds {
    let share =
        |per_second: Duration| (per_second < Duration::from_secs(1)).then_some(Share { per_second, burst: per_second });
    TimeBounds { all_plugins: share(settings.plugins_per_second), namespace: share(settings.namespace_per_second) }
}
