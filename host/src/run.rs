//! `berth run`: schedule the pods of a cluster.

use std::{
    io::{self, Write as _},
    num::NonZero,
    path::PathBuf,
    thread,
};

use anyhow::{Context as _, Result};
use berth_cluster::{ConnectError, ConnectOptions, USER_AGENT, connect_for_long};
use berth_config::{Overrides, Program, Usage};
use berth_plugin_cli::block_on_runtime;
use berth_runtime::{Options, Plan, Session};
use berth_telemetry::chain;
use serde_json::{Map, json};
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

use crate::options::Run;

/// What the command line of a scheduler on a cluster says.
pub(crate) struct Invocation {
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
    /// The API server's address, instead of the kubeconfig's.
    pub server: Option<String>,
    pub options: Options,
    pub overrides: Overrides,
    pub output: ConfigOutput,
}

/// Whether to write the complete configuration instead of scheduling.
pub(crate) enum ConfigOutput {
    None,
    Standard,
    File(PathBuf),
}

pub(crate) fn run(arguments: Run) -> Result<()> {
    let overrides = overrides(&arguments);
    let Run { kubeconfig, context, scheduling, print_config, .. } = arguments;
    let output = if print_config { ConfigOutput::Standard } else { ConfigOutput::None };
    let options = scheduling.into();
    schedule_blocking(Invocation { kubeconfig, context, server: None, options, overrides, output })
}

/// Schedules until the process is told to stop.
///
/// # Errors
/// What is asked for makes no sense, or scheduling cannot go on.
pub(crate) fn schedule_blocking(invocation: Invocation) -> Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(n_workers(thread::available_parallelism().map_or(1, NonZero::get)));
    block_on_runtime(&mut runtime, schedule(invocation))
}

/// How many threads speak with the API server on a machine of so many processors. One keeps up with some thousand pods a second,
/// and each further one costs changes between threads: on two processors a second one took a sixth more processor time a pod.
fn n_workers(n_processors: usize) -> usize {
    (n_processors / 4).clamp(1, 4)
}

async fn schedule(invocation: Invocation) -> Result<()> {
    let Invocation { kubeconfig, context, server, options, overrides, output } = invocation;
    let text =
        async |overrides| berth_runtime::settings(&options, overrides).await?.to_yaml().map_err(anyhow::Error::from);
    match output {
        ConfigOutput::None => {}
        ConfigOutput::Standard => return Ok(write!(io::stdout().lock(), "{}", text(overrides).await?)?),
        ConfigOutput::File(file) => {
            let written = std::fs::write(&file, text(overrides).await?);
            return written.with_context(|| format!("--write-config-to {}: cannot be written", file.display()));
        }
    }
    let plan = Plan::new(&options, overrides).await?;
    let kubeconfig = kubeconfig.or_else(|| {
        let named = &plan.settings.client_connection.kubeconfig;
        (!named.is_empty()).then(|| named.into())
    });
    let server = ConnectOptions { kubeconfig, context, server, user_agent: USER_AGENT.to_owned() };
    let (connection, renewal) = connect_for_long(&server).await.map_err(|error| match error {
        ConnectError::NoCluster => Usage(format!("{error} with --kubeconfig FILE")),
        error => Usage(chain(&error)),
    })?;
    info!(server = connection.server, origin = %connection.origin, "connecting");
    let mut session = Session::start(connection, plan, &options, None).await?;
    session.renew_credentials(renewal)?;
    session.run_until(until_told_to_stop()).await
}

/// What the options say beside the configuration file.
fn overrides(arguments: &Run) -> Overrides {
    let mut fields = Map::new();
    if let Some(leader_elect) = arguments.leader_elect {
        fields.insert("leaderElection".to_owned(), json!({ "leaderElect": leader_elect }));
    }
    Overrides { program: Program::Berth, scheduler_name: arguments.scheduler_name.clone(), fields }
}

/// Waits for SIGTERM or SIGINT. A second one ends the process at once.
pub(crate) async fn until_told_to_stop() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    info!("stopping");
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        std::process::exit(1);
    });
    Ok(())
}
