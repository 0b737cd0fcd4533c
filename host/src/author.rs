//! `berth plugin`, the author's half: from an empty folder to a component that the scheduler takes.
//!
//! What is done to a plugin lies in `berth_author`; here are the command lines, the projects on disk and the output.

mod bench;
mod build;
mod dev;
mod inspect;
mod new;
mod project;
mod template;
mod test;
mod verify;

use anyhow::Result;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a project for a new plugin
    New(new::New),
    /// Build a plugin's folder into build/NAME.wasm
    Build(build::Build),
    /// Compare a plugin's answers with the expected ones
    Test(test::Test),
    /// Time each extension point at several sizes of the cluster
    Bench(bench::Bench),
    /// Show what a component is, what it wants, and what it would get
    Inspect(inspect::Inspect),
    /// Try what the contract asks of every plugin
    Verify(verify::Verify),
    /// Build and swap into a running scheduler at every change of the sources
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
        Command::Dev(dev) => dev::run(dev),
    }
}
