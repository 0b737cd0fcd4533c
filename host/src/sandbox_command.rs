//! `berth sandbox`: a Kubernetes API in memory, with nodes and, by default, the scheduler.

use std::{
    fmt::Display,
    io::{self, Write as _},
    net::SocketAddr,
    path::Path,
};

use anyhow::{Context as _, Result};
use berth_cluster::{Client, ConnectOptions, Connection, Creator, USER_AGENT, connect};
use berth_config::Usage;
use berth_model::Release;
use berth_plugin_cli::block_on;
use berth_runtime::{Plan, Session, configuration};
use berth_sandbox::{KubernetesRelease, Options, Rule};
use berth_telemetry::chain;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use crate::{options, progress::Progress, run::until_told_to_stop};

/// Nodes that are created at the same time.
const CREATES: usize = 16;

pub(crate) fn run(arguments: options::Sandbox) -> Result<()> {
    block_on(serve(arguments))
}

async fn serve(arguments: options::Sandbox) -> Result<()> {
    let mut scheduling = berth_runtime::Options { page: arguments.page, ..arguments.scheduling.clone().into() };
    let emulation = arguments.scheduling.emulation()?;
    let emulated = emulation.resolve(arguments.kubernetes_version.into()).map_err(|error| Usage(error.to_string()))?;
    scheduling.decide_as(emulated.gates);
    emulated.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let plan = if arguments.no_scheduler { None } else { Some(Plan::new(&scheduling, configuration::alone()).await?) };
    let faults = arguments.faults.as_deref().map_or(Ok(Vec::new()), read_faults)?;
    let options = Options {
        listen: arguments.listen,
        pod_start_delay: arguments.pod_start_delay,
        release: release_of_sandbox(arguments.kubernetes_version),
        ..Options::default()
    };
    let sandbox = start(options).await?;
    write_kubeconfig(&sandbox, &arguments.kubeconfig)?;
    let connection = connection(&arguments.kubeconfig).await?;
    let nodes: Vec<Value> = berth_sandbox::nodes(arguments.nodes, usize::from(arguments.zones)).collect();
    create(&connection.client(), nodes, "nodes", CREATES).await?;
    sandbox.faults().add(faults).context("--faults")?;
    let session = match plan {
        Some(plan) => Some(Session::start(connection, plan, &scheduling, None).await?),
        None => None,
    };
    let kubeconfig = arguments.kubeconfig.display();
    let page = session.as_ref().and_then(Session::page).map(page_line).unwrap_or_default();
    let nodes = if arguments.nodes == 1 { "node" } else { "nodes" };
    let text = format!(
        "serving {} with {} {nodes}\ntry: kubectl --kubeconfig {kubeconfig} get nodes\n{page}",
        sandbox.url(),
        arguments.nodes
    );
    // The sandbox keeps serving even if its output is closed.
    let _ = io::stdout().lock().write_all(text.as_bytes());
    match session {
        Some(session) => session.run_until(until_told_to_stop()).await?,
        None => until_told_to_stop().await?,
    }
    sandbox.stop().await;
    Ok(())
}

/// The line that names the page's address.
pub(crate) fn page_line(address: SocketAddr) -> String {
    format!("open http://{address}/ to see its page\n")
}

fn release_of_sandbox(release: Release) -> KubernetesRelease {
    match release {
        Release::V1_36 => KubernetesRelease::V1_36,
        Release::V1_37 => KubernetesRelease::V1_37,
    }
}

fn read_faults(path: &Path) -> Result<Vec<Rule>> {
    let usage = |problem: &dyn Display| Usage(format!("--faults {}: {problem}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| usage(&error))?;
    Ok(berth_sandbox::read_rules(&text).map_err(|error| usage(&error))?)
}

pub(crate) async fn start(options: Options) -> Result<berth_sandbox::Sandbox> {
    berth_sandbox::Sandbox::start(options).await.map_err(|error| anyhow::anyhow!(chain(&error)))
}

pub(crate) fn write_kubeconfig(sandbox: &berth_sandbox::Sandbox, path: &Path) -> Result<()> {
    std::fs::write(path, sandbox.kubeconfig()).with_context(|| format!("cannot write --kubeconfig {}", path.display()))
}

pub(crate) async fn connection(kubeconfig: &Path) -> Result<Connection> {
    let options = ConnectOptions {
        kubeconfig: Some(kubeconfig.to_owned()),
        user_agent: USER_AGENT.to_owned(),
        ..ConnectOptions::default()
    };
    connect(&options).await.map_err(|error| anyhow::anyhow!(chain(&error)))
}

/// Creates `objects`, `at_a_time` of them at the same time, and shows the progress.
pub(crate) async fn create(client: &Client, objects: Vec<Value>, what: &str, at_a_time: usize) -> Result<()> {
    let progress = Progress::new(objects.len(), &format!("creating {what}"));
    let creator = Creator::new(client.clone());
    stream::iter(objects)
        .map(|object| {
            let mut creator = creator.clone();
            async move { creator.create(&object).await }
        })
        .buffer_unordered(at_a_time)
        .try_for_each(|_| {
            progress.advance();
            async { Ok(()) }
        })
        .await
        .map_err(|error| anyhow::anyhow!("cannot create {what}: {}", chain(&error)))?;
    progress.finish();
    Ok(())
}
