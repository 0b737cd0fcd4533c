//! `e2e`: the `berth` binary against a real etcd and kube-apiserver, through its own flags and files.
//!
//! All scenarios share one control plane, and each begins without nodes and pods. The scheduler is a service account
//! with only the rights that `berth rbac` prints. A scenario fails if the API server refuses a request because a right
//! is missing. There are no controllers and no kubelet: a scenario itself does the part of their work that the scenario
//! needs. The exit code is 1 if a scenario fails.

#![expect(clippy::print_stdout, reason = "the result")]

mod bench;
mod objects;
mod scenarios;

use std::time::Instant;

use anyhow::{Result, bail, ensure};
use berth_test_control_plane::Assets;
use berth_test_processes::interruptible;
use clap::Parser;

use crate::{
    bench::Bench,
    scenarios::{SCENARIOS, Scenario},
};

/// Runs Berth against a real API server
#[derive(Debug, Parser)]
struct Arguments {
    /// Scenarios to run [default: all]
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// List the scenarios
    #[arg(long)]
    list: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.list {
        for scenario in SCENARIOS {
            println!("{}", scenario.name);
        }
        return Ok(());
    }
    let Some(assets) = Assets::from_environment()? else {
        println!("e2e: NOT RUN, for KUBEBUILDER_ASSETS names no folder with etcd and kube-apiserver");
        return Ok(());
    };
    let chosen = choose(&arguments.scenarios)?;
    tokio::runtime::Runtime::new()?.block_on(interruptible(run(&chosen, &assets)))
}

fn choose(names: &[String]) -> Result<Vec<&'static Scenario>> {
    for name in names {
        let all: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        ensure!(all.contains(&name.as_str()), "there is no scenario `{name}`; scenarios are: {}", all.join(", "));
    }
    let is_chosen = |scenario: &&Scenario| names.is_empty() || names.iter().any(|name| name == scenario.name);
    Ok(SCENARIOS.iter().filter(is_chosen).collect())
}

async fn run(scenarios: &[&Scenario], assets: &Assets) -> Result<()> {
    let begin = Instant::now();
    let bench = Bench::start(assets).await?;
    println!("etcd and kube-apiserver are ready after {:.1} s", begin.elapsed().as_secs_f64());
    let mut failed = Vec::new();
    for scenario in scenarios {
        let begin = Instant::now();
        let outcome = async {
            bench.clean().await?;
            (scenario.run)(&bench).await?;
            bench.check_requests()
        };
        let outcome = outcome.await;
        let seconds = begin.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => println!("{:<28} ok      {seconds:>5.1} s", scenario.name),
            Err(error) => {
                println!("{:<28} FAILED  {seconds:>5.1} s  {error:#}", scenario.name);
                failed.push(scenario.name);
            }
        }
    }
    println!("{} of {} ok, {:.0} s", scenarios.len() - failed.len(), scenarios.len(), begin.elapsed().as_secs_f64());
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}
