//! `differential`: kube-scheduler and Berth get the same cluster and the same pods, each on a separate API server.
//!
//! Both programs get the same command line: Berth runs in kube-scheduler's place. `--feature-gates` switches gates of
//! both sides. `steps` rounds change one thing at a time (a pod is created or deleted, a node changes), and wait until
//! both schedulers have nothing left to do. `backlog` rounds create all pods before the schedulers start. `devices` and
//! `volumes` rounds are `steps` rounds in which pods have claims for devices or volumes. The order of attempts is forced
//! in all rounds. With `parallelism: 1`, kube-scheduler visits nodes in one order and uses this order to break ties, so
//! the nodes of pods are also forced.
//!
//! The comparison covers the pods after each step (node, nomination, conditions word for word), events, writes to the
//! API server, and the metrics that changed. The exit code is 1 if a difference has no reason in `known.rs`. The same
//! seed gives the same round.

#![expect(clippy::print_stdout, reason = "the result")]

mod devices;
mod difference;
mod events;
mod known;
mod metrics;
mod outcomes;
mod plan;
mod report;
mod requests;
mod round_kind;
mod rounds;
mod side;
mod step;
mod volume_controllers;
mod volumes;

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use berth_test_control_plane::Assets;
use berth_test_processes::interruptible;
use clap::Parser;

use crate::{round_kind::RoundKind, rounds::Round};

/// Gives the same pods to kube-scheduler and to Berth, and compares where they go
#[derive(Debug, Parser)]
struct Arguments {
    /// Pods in each round
    #[arg(long, default_value_t = 300)]
    pods: u32,
    /// Nodes in each round
    #[arg(long, default_value_t = 16)]
    nodes: u8,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, default_value_t = 4)]
    rounds: u32,
    /// Only rounds of this kind [default: all kinds, one after the other]
    #[arg(long, value_enum)]
    kind: Option<RoundKind>,
    /// Feature gates of both schedulers and of their API servers, such as StorageCapacityScoring=true
    #[arg(long, value_name = "LIST")]
    feature_gates: Option<String>,
    /// Let both schedulers log in detail, and keep the logs of the last round in this folder
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
    /// Print each step
    #[arg(long)]
    verbose: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let Some(assets) = Assets::from_environment()? else {
        println!("not run: KUBEBUILDER_ASSETS names no folder with etcd, kube-apiserver and kube-scheduler");
        return Ok(());
    };
    tokio::runtime::Runtime::new()?.block_on(interruptible(compare(&arguments, &assets)))
}

async fn compare(arguments: &Arguments, assets: &Assets) -> Result<()> {
    let kube_scheduler = assets.kube_scheduler();
    let kube_scheduler = kube_scheduler
        .with_context(|| format!("{}: there is no kube-scheduler to compare with", assets.folder().display()))?;
    let mut n_unexplained = 0;
    for number in 0..arguments.rounds {
        let kind = arguments.kind.unwrap_or(RoundKind::in_turn(number));
        let seed = arguments.seed + u64::from(number);
        let round = Round {
            kind,
            seed,
            n_pods: arguments.pods,
            n_nodes: arguments.nodes,
            is_verbose: arguments.verbose,
            feature_gates: arguments.feature_gates.as_deref(),
            logs: arguments.logs.as_deref(),
        };
        let outcome = round.run(assets, &kube_scheduler).await.with_context(|| format!("{round}"))?;
        println!("{round}: {}", outcome.summary);
        let (known, unexplained): (Vec<_>, Vec<_>) =
            outcome.differences.into_iter().partition(|difference| known::reason(difference).is_some());
        report::print("known", &known);
        report::print("UNEXPLAINED", &unexplained);
        n_unexplained += unexplained.len();
    }
    ensure!(n_unexplained == 0, "{n_unexplained} differences have no known reason");
    Ok(())
}
