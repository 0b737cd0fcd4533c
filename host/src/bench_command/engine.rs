//! The scheduling core, with plugins that are loaded as in a scheduler.

use anyhow::{Context as _, Result};
use berth_bench::{command, engine::EngineRunner, workload::SCHEDULER_NAME};
use berth_config::{Overrides, Program};
use berth_plugin_host::Plugins;
use berth_runtime::configuration;
use berth_telemetry::clock;
use berth_wasm_host::FaultSink;
use tracing::warn;

use super::Bench;

pub(super) fn run(bench: &Bench) -> Result<()> {
    let scheduling = bench.scheduling();
    let faults =
        FaultSink::new(|report| warn!(?report, "a plugin faulted: the figures do not describe a healthy plugin"));
    let Plugins { engine, mut inventory, .. } = Plugins::load_all(&scheduling.plugin_host(), faults)?;
    let scheduler_name = Some(SCHEDULER_NAME.to_owned());
    let overrides = Overrides { program: Program::Berth, scheduler_name, ..configuration::alone() };
    let settings = configuration::read(scheduling.config.as_deref(), &overrides, &inventory)?;
    let profile = || inventory.profiles(&settings)?.into_iter().next().context("the configuration has no profile");
    // The components' clock is the wall clock, which also measures their time limits. The scheduler's clock is the
    // workload's.
    let mut runner =
        EngineRunner::new(bench.execution_name(), Box::new(profile)).telling_time(|_| engine.set_now(clock::now().0));
    command::run(&bench.measure, &mut runner, None)
}
