//! The `berth` binary: command line, wiring, endpoints, signals.

mod admin;
mod author;
mod cache_dump;
mod cli;
mod client_metrics;
mod configuration;
mod decision;
mod demo;
mod doctor;
mod endpoints;
mod executor;
mod failure;
mod health;
mod leader_election;
mod manifests;
mod metrics;
mod options;
mod plugin_command;
mod plugin_supervisor;
mod progress;
mod run;
mod sandbox;
mod scheduling;
mod session;
mod tasks;
mod watching;

use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
};

use anyhow::{Context as _, Result};
use clap::{CommandFactory as _, Parser as _};
use tracing_subscriber::EnvFilter;

use crate::{
    cli::{Cli, Command, LogFormat},
    failure::{Usage, report},
};

fn main() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}

fn start() -> Result<()> {
    let cli = Cli::parse();
    start_logging(&cli)?;
    match cli.command {
        Command::Run(arguments) => run::run(arguments),
        Command::Sandbox(arguments) => sandbox::run(arguments),
        Command::Demo(arguments) => demo::run(arguments),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::Plugin(command) => plugin_command::run(command),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "berth", &mut io::stdout());
            Ok(())
        }
    }
}

/// kube warns with each connection that the server's certificate is not verified. `berth_cluster::connect` says it once.
const REPEATED_WARNINGS: &str = "kube_client::client::tls=error";

/// Logs go to standard error: standard output belongs to results.
fn start_logging(cli: &Cli) -> Result<()> {
    let default = if matches!(cli.command, Command::Demo(_) | Command::Doctor(_)) { "warn" } else { "info" };
    let filter = cli.log.as_deref().unwrap_or(default);
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| Usage(format!("--log {filter}: {error}; try `info` or `berth_cluster=debug,warn`")))?
        .add_directive(REPEATED_WARNINGS.parse().context("the filter of repeated warnings")?);
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match cli.log_format {
        LogFormat::Text => logs.with_ansi(io::stderr().is_terminal()).init(),
        LogFormat::Json => logs.json().init(),
    }
    Ok(())
}
