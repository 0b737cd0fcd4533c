//! A scheduler that answers questions. The configuration and the plugins are loaded once, and the scheduler then works
//! on clusters from manifests.
//!
//! `berth simulate` and the C library (`crates/libberth`) use this crate. [`berth_what_if`] knows neither files nor
//! WebAssembly. This crate loads both, and passes plugins and settings on as [`Conditions`]. The crate creates no
//! objects in a cluster.

use std::{collections::BTreeSet, path::PathBuf};

use anyhow::{Result, bail};
use berth_config::{Execution, Overrides, Program, Settings, Usage, emulation::Emulation};
use berth_model::{KindRef, Release};
use berth_plugin_host::{PluginHostOptions, Plugins};
use berth_runtime::{Options, configuration};
use berth_telemetry::clock;
use berth_wasm_host::{CompilerProcess, FaultSink};
use berth_what_if::{
    Arrival, Batch, BatchBounds, BatchError, Cluster, Conditions, Placed, WhatIfAnswer, WhatIfRequest, place, what_if,
};
use tracing::warn;

/// The scheduler to simulate. By default, it is kube-scheduler of the oldest release with its default profile.
#[derive(Clone, Debug, Default)]
pub struct SimulatorOptions {
    /// A KubeSchedulerConfiguration. If it is `None`, the default profile places every pod, for any scheduler name.
    pub config: Option<PathBuf>,
    /// The `schedulerName` of the pods to serve, for a configuration with one profile.
    pub scheduler_name: Option<String>,
    /// A folder of plugin components.
    pub plugins_dir: Option<PathBuf>,
    /// A PluginHostConfiguration.
    pub plugin_config: Option<PathBuf>,
    /// How built-in plugins run: natively or as components. If it is `None`, a built-in plugin runs natively unless the
    /// folder contains another binary of the plugin.
    pub execution: Option<Execution>,
    /// The folder for compiled plugins. If it is `None`, it is a folder in the user's cache directory.
    pub artifact_cache: Option<PathBuf>,
    /// The release of Kubernetes: `1.36` or `1.37`.
    pub emulated_version: Option<String>,
    /// The process that compiles plugins. If it is `None`, this process compiles them.
    pub compiler: Option<CompilerProcess>,
}

/// A configuration with its loaded plugins. Any number of schedulers can be made from one simulator. The value stays on
/// the thread that opened it.
#[derive(Debug)]
pub struct Simulator {
    plugins: Plugins,
    settings: Settings,
    scheduler_settings: berth_scheduler::Settings,
    /// Whether the only profile serves every pod. This is so if neither a configuration nor a name is given.
    is_default: bool,
}

impl Simulator {
    /// Loads the configuration and the plugins.
    ///
    /// # Errors
    /// The configuration or the plugins cannot be used, or the configuration has extenders, which a simulation cannot
    /// ask.
    pub fn open(options: SimulatorOptions) -> Result<Self> {
        let SimulatorOptions { config, scheduler_name, emulated_version, .. } = &options;
        let version = emulated_version.as_deref().unwrap_or_default();
        let emulation = Emulation::new(&[version], &[], &[]).map_err(|error| Usage(error.to_string()))?;
        let emulated = emulation.resolve(Release::default().into()).map_err(|error| Usage(error.to_string()))?;
        emulated.warnings.iter().for_each(|warning| warn!("{warning}"));
        let plugin_host = PluginHostOptions {
            plugins_dir: options.plugins_dir.clone(),
            artifact_cache: options.artifact_cache.clone(),
            plugin_config: options.plugin_config.clone(),
            execution: options.execution,
            compiler: options.compiler.clone(),
            ..PluginHostOptions::default()
        };
        let mut scheduler_options =
            Options { config: config.clone(), plugins: plugin_host, kept_decisions_mib: 0, ..Options::default() };
        scheduler_options.decide_as(emulated.gates);
        let faults = FaultSink::new(|report| warn!(?report, "a plugin faulted; a running scheduler would restart it"));
        let plugins = Plugins::load_all(&scheduler_options.plugins, faults)?;
        let overrides = Overrides {
            program: Program::KubeScheduler,
            scheduler_name: scheduler_name.clone(),
            ..configuration::alone()
        };
        let settings = configuration::read(config.as_deref(), &overrides, &plugins.inventory)?;
        if let Some(extender) = settings.extenders.first() {
            bail!(Usage(format!(
                "--config: extenders[0] ({}): a simulation calls no extenders; use a copy of the file without \
                 `extenders`",
                extender.url_prefix
            )));
        }
        let scheduler_settings = configuration::scheduler_settings(&settings, &scheduler_options);
        let is_default = config.is_none() && scheduler_name.is_none();
        Ok(Self { plugins, settings, scheduler_settings, is_default })
    }

    /// The name of the only profile, if it serves every pod.
    #[must_use]
    pub fn serves_all(&self) -> Option<String> {
        let [profile] = self.settings.profiles.as_slice() else { return None };
        self.is_default.then(|| profile.scheduler_name.clone())
    }

    /// Assigns every pod of the cluster to the only profile, if this profile serves every pod.
    pub fn adopt(&self, cluster: &mut Cluster) {
        if let Some(scheduler_name) = self.serves_all() {
            cluster.serve_by(&scheduler_name);
        }
    }

    /// The kinds of objects of the API server that the plugins read.
    ///
    /// # Errors
    /// A plugin refuses its arguments.
    pub fn kinds(&mut self) -> Result<Vec<KindRef>> {
        let profiles = self.plugins.inventory.profiles(&self.settings)?;
        let instances = profiles.iter().flat_map(|profile| profile.instances());
        let kinds = instances.flat_map(|instance| instance.plugin.manifest().needs.objects.clone());
        let kinds = kinds.filter(|kind| !kind.is_of_facts());
        let kinds: BTreeSet<KindRef> = kinds.map(|kind| KindRef::of_kind(&kind.api_version, &kind.kind)).collect();
        Ok(kinds.into_iter().collect())
    }

    /// Makes new instances of the plugins for one run. The run ends early once `is_over` returns true.
    ///
    /// # Errors
    /// A plugin refuses its arguments.
    pub fn conditions<'a>(&'a mut self, arrival: Arrival, is_over: &'a dyn Fn() -> bool) -> Result<Conditions<'a>> {
        let whole_pods = self.plugins.inventory.settle_pod_json();
        let profiles = self.plugins.inventory.profiles(&self.settings)?;
        let engine = &self.plugins.engine;
        Ok(Conditions {
            settings: self.scheduler_settings,
            profiles,
            // Components use the time of the wall clock, which also measures their time limits.
            tell_time: Box::new(|_| engine.set_now(clock::now().0)),
            whole_pods,
            arrival,
            is_over,
        })
    }

    /// Places the pods that wait.
    ///
    /// # Errors
    /// A plugin refuses its arguments, or the time is used up.
    pub fn place(&mut self, cluster: &Cluster, arrival: Arrival, is_over: &dyn Fn() -> bool) -> Result<Placed> {
        Ok(place(cluster, self.conditions(arrival, is_over)?)?)
    }

    /// Answers a batch of what-if questions.
    ///
    /// # Errors
    /// [`Usage`] for a request that is invalid or exceeds its limits. Otherwise, a plugin refuses its arguments, or the
    /// time is used up.
    pub fn what_if(
        &mut self,
        cluster: &Cluster,
        request: &WhatIfRequest,
        is_over: &dyn Fn() -> bool,
    ) -> Result<WhatIfAnswer> {
        let scheduler_name = self.serves_all();
        let batch = Batch { bounds: BatchBounds::DEFAULT, scheduler_name: scheduler_name.as_deref() };
        let conditions = self.conditions(Arrival::Together, is_over)?;
        what_if(cluster, request, &batch, conditions).map_err(|error| match error {
            BatchError::Place(error) => error.into(),
            of_request => Usage(of_request.to_string()).into(),
        })
    }
}
