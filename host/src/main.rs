//! The `berth` binary: command line, wiring, endpoints, signals.

mod cli;

use std::{
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
};

use clap::{CommandFactory as _, Parser as _};
use tracing_subscriber::EnvFilter;

use crate::cli::{Cli, Command, LogFormat};

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Err(error) = start_logging(&cli) {
        return report(&error);
    }
    let outcome = match cli.command {
        Command::Run(arguments) => run::run(arguments),
        Command::Sandbox(arguments) => sandbox::run(arguments),
        Command::Demo(arguments) => demo::run(arguments),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "berth", &mut io::stdout());
            Ok(())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}
