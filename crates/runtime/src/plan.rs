//! The parts that exist before a scheduler connects: the probes, the plugins and the configuration.
//!
//! The probes and the plugins do not depend on the emulated Kubernetes release, but the settings do. The release may
//! have to be requested from the API server. A [`Draft`] therefore comes first, and becomes a [`Plan`] once the release
//! is known.

use anyhow::{Context as _, Result};
use berth_config::{Overrides, Settings, Usage};
use berth_model::{Features, Release};
use berth_plugin_host::Plugins;
use berth_wasm_host::{FaultReport, FaultSink};
use tokio::{sync::mpsc, task::spawn_blocking};
use tracing::{info, warn};

use crate::{
    configuration::{self, ConfigurationSource},
    front::Front,
    options::Options,
    traces::TraceSettings,
};

/// The plugins of a session and the source of its configuration.
#[derive(Debug)]
pub struct Draft {
    source: ConfigurationSource,
    plugins: Plugins,
    front: Front,
    traces: Option<TraceSettings>,
    faults: mpsc::UnboundedReceiver<FaultReport>,
}

/// The settings and plugins of a session, ready to start.
#[derive(Debug)]
pub struct Plan {
    pub settings: Settings,
    pub(crate) source: ConfigurationSource,
    pub(crate) plugins: Plugins,
    pub(crate) front: Front,
    /// The trace collector, if there is one.
    pub(crate) traces: Option<TraceSettings>,
    /// One report for each instance that was lost to a fault.
    pub(crate) faults: mpsc::UnboundedReceiver<FaultReport>,
}

impl Draft {
    /// Serves the probes and loads the built-ins. `overrides` are later applied to the configuration.
    ///
    /// # Errors
    /// The error says what is wrong with an address, the tracing configuration or the plugins directory. The files in
    /// that directory cause no error.
    pub async fn new(scheduling: &Options, overrides: Overrides) -> Result<Self> {
        let traces = scheduling.tracing_config_file.as_deref().map(TraceSettings::read).transpose()?;
        let front = Front::listen(scheduling).await?;
        let scheduling = scheduling.clone();
        let loading = move || {
            let (fault, faults) = mpsc::unbounded_channel();
            // No receiver exists once the scheduling thread has ended.
            let sink = FaultSink::new(move |report| drop(fault.send(report)));
            let plugins = Plugins::load(&scheduling.plugins, sink)?;
            let source = ConfigurationSource { file: scheduling.config, overrides };
            Ok(Self { source, plugins, front, traces, faults })
        };
        spawn_blocking(loading).await.context("the task that loads the plugins failed")?
    }

    /// The settings according to the oldest release that can read them. The settings of the connection are the same in
    /// all releases.
    ///
    /// # Errors
    /// No release can read the configuration.
    pub fn settings_of_any_release(&mut self) -> Result<Settings> {
        let ConfigurationSource { file, overrides } = &self.source;
        let mut readings = Release::ALL.map(|release| {
            self.plugins.inventory.decide_as(Features::of(release));
            configuration::read_all(file.as_deref(), overrides, &self.plugins.inventory)
        });
        readings.sort_by_key(Result::is_err);
        let [first, _] = readings;
        Ok(first.map_err(|error| Usage(error.to_string()))?.settings)
    }

    /// Reads the configuration for a scheduler with these gates.
    ///
    /// # Errors
    /// The error says what is wrong with the configuration.
    pub fn plan(self, scheduling: &Options) -> Result<Plan> {
        let Self { source, mut plugins, front, traces, faults } = self;
        front.metrics.decides_as(&scheduling.gates);
        front.metrics.show_by(scheduling.metrics.clone());
        plugins.inventory.decide_as(scheduling.gates.features());
        let settings = source.read(&plugins.inventory)?;
        for useless in plugins.inventory.useless_names(&settings) {
            let file = scheduling.plugins.plugin_config.as_deref().map(|file| file.display().to_string());
            warn!(file = file.unwrap_or_default(), "{useless}");
        }
        let names: Vec<&str> = settings.profiles.iter().map(|profile| profile.scheduler_name.as_str()).collect();
        info!(scheduler_names = names.join(", "), "configuration loaded");
        Ok(Plan { settings, source, plugins, front, traces, faults })
    }
}

impl Plan {
    /// A plan for a scheduler with gates that are known from the start.
    ///
    /// # Errors
    /// Fails as [`Draft::new`] and [`Draft::plan`] do.
    pub async fn new(scheduling: &Options, overrides: Overrides) -> Result<Self> {
        Draft::new(scheduling, overrides).await?.plan(scheduling)
    }
}
