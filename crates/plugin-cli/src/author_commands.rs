//! `berth plugin`, the commands for authors: from an empty folder to a component that the scheduler accepts.
//!
//! `berth_author` works on plugins. This module has the command lines, the projects on disk and the output.

mod arguments;
mod bench;
mod build;
mod cases;
mod dev;
mod inspect;
mod new;
mod node_plugin;
mod project;
mod registry;
mod script;
mod signing;
mod template;
mod test;
mod verify;

use anyhow::Result;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a project for a new plugin
    New(new::New),
    /// Build a plugin's folder into build/NAME.wasm
    Build(build::Build),
    /// Compare a plugin's answers with the expected answers
    Test(test::Test),
    /// Measure the time of sync and of the extension points up to Score, on clusters of several sizes
    Bench(bench::Bench),
    /// Show a component's name, interfaces, needs and grants
    Inspect(inspect::Inspect),
    /// Check that a plugin follows the contract, and with --key check the plugin's signature
    Verify(verify::Verify),
    /// Make a pair of keys to sign plugins with
    Keygen(signing::Keygen),
    /// Sign a plugin: a file, or an artifact in a registry
    Sign(signing::Sign),
    /// Push a component to an OCI registry
    Push(registry::Push),
    /// Pull a component from an OCI registry
    Pull(registry::Pull),
    /// Build the plugin and swap it into a running scheduler at every change of its sources
    Dev(dev::Dev),
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::New(new) => new::run(new),
        Command::Build(build) => build::run(build),
        Command::Test(test) => test::run(test),
        Command::Bench(bench) => bench::run(bench),
        Command::Inspect(inspect) => inspect::run(inspect),
        Command::Verify(verify) => verify::run(verify),
        Command::Keygen(keygen) => signing::run_keygen(keygen),
        Command::Sign(sign) => signing::run_sign(sign),
        Command::Push(push) => registry::run_push(push),
        Command::Pull(pull) => registry::run_pull(pull),
        Command::Dev(dev) => dev::run(dev),
    }
}
