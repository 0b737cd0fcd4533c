//! The `berth` binary: command line, wiring, endpoints, signals.

mod bench_command;
mod bundle;
mod cli;
mod compiler;
mod config_command;
mod demo;
mod doctor;
mod explain;
mod failure;
mod kube_scheduler;
mod logging;
mod manifests;
mod options;
mod pack;
mod page;
mod progress;
mod rbac;
mod reference;
mod run;
mod sandbox_command;
mod serving;
mod simulate;
mod snapshot;
mod top;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::Result;
use clap::{CommandFactory as _, Parser as _};
use mimalloc::MiMalloc;

use crate::{
    cli::{Cli, Command},
    failure::report,
    logging::start_logging,
};

/// For each pod, one thread makes some hundred small allocations, and another thread frees them.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    berth_cluster::use_built_in_name_services();
    if let Some(arguments) = kube_scheduler::arguments(std::env::args_os()) {
        return kube_scheduler::run(arguments);
    }
    match start(Cli::parse()) {
        Ok(code) => code,
        Err(error) => report(&error),
    }
}

fn start(cli: Cli) -> Result<ExitCode> {
    let is_quiet = matches!(
        cli.command,
        Command::Bench(_)
            | Command::Bundle(_)
            | Command::Config(_)
            | Command::Demo(_)
            | Command::Doctor(_)
            | Command::Explain(_)
            | Command::Page(_)
            | Command::Rbac(_)
            | Command::Simulate(_)
            | Command::Snapshot(_)
            | Command::Top(_)
    );
    let default = if is_quiet { "warn" } else { "info" };
    // The commands for authors report undeclared reads themselves, each once.
    let left_out = matches!(cli.command, Command::Plugin(_)).then_some(berth_wasm_host::UNDECLARED_READS_TARGET);
    start_logging(cli.log.as_deref().unwrap_or(default), cli.log_format, left_out)?;
    let done = match cli.command {
        Command::Run(arguments) => run::run(arguments),
        Command::Sandbox(arguments) => sandbox_command::run(arguments),
        Command::Demo(arguments) => demo::run(arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Snapshot(arguments) => snapshot::run(&arguments),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::Rbac(arguments) => rbac::run(arguments),
        Command::Config(command) => config_command::run(command),
        Command::Explain(command) => explain::run(command),
        Command::Top(arguments) => top::run(&arguments),
        Command::Page(arguments) => page::run(arguments),
        Command::Bundle(arguments) => bundle::run(&arguments),
        Command::KubeScheduler { arguments } => return Ok(kube_scheduler::run(arguments)),
        Command::Bench(arguments) => bench_command::run(&arguments),
        Command::Plugin(command) => berth_plugin_cli::run(command),
        Command::CompileComponent(arguments) => compiler::run(&arguments),
        Command::Pack(arguments) => pack::run(&arguments),
        Command::Schema { name } => berth_plugin_cli::print_schema(name),
        Command::Reference { man } => reference::run(man.as_deref()),
        Command::Completions { shell } => {
            // `generate` panics if the output is closed, as by `| head`.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "berth", &mut script);
            io::stdout().write_all(&script).map_err(Into::into)
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}
