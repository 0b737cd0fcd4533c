//! `berth run`: schedule the pods of a cluster.

use std::io::{self, Write as _};

use anyhow::{Context as _, Result};
use berth_cluster::{ConnectError, ConnectOptions, connect};
use berth_config::{Overrides, Program};
use serde_json::{Map, json};
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

use crate::{
    failure::{Usage, chain},
    options::Run,
    session::{Plan, Session},
};

/// What the API server's audit log and field managers show.
pub(crate) const USER_AGENT: &str = concat!("berth/", env!("CARGO_PKG_VERSION"));

pub(crate) fn run(arguments: Run) -> Result<()> {
    block_on(schedule(arguments))
}

/// Runs `work` on a tokio runtime. Its threads only move bytes: plugins run elsewhere.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting tokio")?;
    let outcome = runtime.block_on(work);
    // What still runs has nothing left to say.
    runtime.shutdown_background();
    outcome
}

async fn schedule(arguments: Run) -> Result<()> {
    let plan = Plan::new(&arguments.scheduling, overrides(&arguments)).await?;
    if arguments.print_config {
        write!(io::stdout().lock(), "{}", plan.settings.to_yaml()?)?;
        return Ok(());
    }
    let kubeconfig = arguments.kubeconfig.or_else(|| {
        let named = &plan.settings.client_connection.kubeconfig;
        (!named.is_empty()).then(|| named.into())
    });
    let options = ConnectOptions { kubeconfig, context: arguments.context, user_agent: USER_AGENT.to_owned() };
    let connection = connect(&options).await.map_err(|error| match error {
        ConnectError::NoCluster => Usage(format!("{error} with --kubeconfig FILE")),
        error => Usage(chain(&error)),
    })?;
    info!(server = connection.server, origin = %connection.origin, "connecting");
    let session = Session::start(connection, plan, &arguments.scheduling, None).await?;
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
