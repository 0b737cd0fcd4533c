//! `berth-bench`: `berth bench` through the engine with native plugins. The program builds in a minute, counts
//! allocations, and a profile of it shows only the scheduling core.

mod allocations;

use anyhow::Result;
use berth_bench::{
    command::{self, Measure},
    engine::EngineRunner,
};
use clap::Parser;

/// Measures the cost of a pod in the scheduling core, without an API server and components.
#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    measure: Measure,
}

fn main() -> Result<()> {
    command::run(&Cli::parse().measure, &mut EngineRunner::native(), Some(allocations::made_by_this_thread))
}
