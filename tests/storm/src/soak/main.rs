//! `soak`: checks that the scheduler's memory stays constant, and its pods stay quick, for hours.
//!
//! The API server and the scheduler run as two processes. Pods are created all the time. Each pod has labels and an
//! image that no earlier pod had, and some have image names of 200 kB. There are also pods that no profile serves. All
//! plugins are components. One plugin after the other is replaced by a binary of any kind, including a hostile binary,
//! and then by its own binary again. The API server refuses, delays and repeats a small share of the scheduler's
//! requests.
//!
//! Memory, symbols and the time from creation to binding are sampled, and a line is fitted to the samples. The exit
//! code is 1 if a pod was lost or bound twice, if a hostile binary continued to serve, or if a figure grows beyond its
//! limit. The same seed gives the same pods, swaps and faults.

#![expect(clippy::print_stdout, reason = "the result")]

mod outsiders;
mod samples;
mod trouble;

use std::{
    env,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use berth_storm::{PodStream, Processes, Swaps};
use berth_test_processes::{CONFINED, interruptible};
use clap::Parser;
use tokio::task::JoinHandle;

use crate::{
    outsiders::Outsiders,
    samples::{Limits, Sample, Samples},
    trouble::ForeignPods,
};

/// A pod that has waited for this long is explained.
const LATE: Duration = Duration::from_secs(15);

/// Runs the scheduler for hours with pods, swaps and faults that keep coming, and says whether anything grows
#[derive(Debug, Parser)]
struct Arguments {
    /// How long, in hours
    #[arg(long, default_value_t = 0.0)]
    hours: f64,
    /// The duration in minutes, in addition to the hours; 10 if neither is given
    #[arg(long, default_value_t = 0.0)]
    minutes: f64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, default_value_t = 200)]
    nodes: u32,
    /// Pods created in a second
    #[arg(long, default_value_t = 20)]
    rate: u32,
    /// Seconds between samples
    #[arg(long, default_value_t = 10)]
    every: u64,
    /// Seconds between swaps
    #[arg(long, default_value_t = 5)]
    swap_every: u64,
    /// How much the scheduler's memory may grow after the warm-up, by the fitted line, as a share of its mean
    #[arg(long, default_value_t = 0.15)]
    max_memory_growth: f64,
    /// The maximum number of symbols at any time
    #[arg(long, default_value_t = 60_000.0)]
    max_symbols: f64,
    /// Also send all data that outsiders can send: objects, effects, connections, files, and wrong answers of a
    /// registry. `cargo xtask soak --outsiders` runs the scheduler in a cgroup of 512 MiB, if a cgroup can be made
    #[arg(long)]
    outsiders: bool,
    /// How much the 99th percentile from creation to binding may grow after the warm-up, as a share of its mean
    #[arg(long, default_value_t = 1.0)]
    max_latency_growth: f64,
}

impl Arguments {
    fn time(&self) -> Duration {
        let asked = self.hours * 3600.0 + self.minutes * 60.0;
        Duration::from_secs_f64(if asked > 0.0 { asked } else { 600.0 })
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    tokio::runtime::Runtime::new()?.block_on(interruptible(soak(&arguments)))
}

async fn soak(arguments: &Arguments) -> Result<()> {
    let faults = trouble::faults(arguments.seed);
    let outsiders = if arguments.outsiders { Some(Outsiders::start().await?) } else { None };
    let rules = outsiders.as_ref().map(Outsiders::rules).unwrap_or_default();
    let config = if arguments.outsiders { outsiders::CONFIG } else { "" };
    let processes = Arc::new(Processes::start_with(arguments.nodes, Some(&faults), (config, &rules)).await?);
    match env::var(CONFINED) {
        Ok(asked) => println!("the scheduler runs in a cgroup, by {asked}"),
        Err(_) => println!("the scheduler was not run in a cgroup"),
    }
    let mut swaps = Swaps::new(arguments.seed);
    swaps.all_components(&processes)?;
    println!("all plugins are components; {:.1} minutes from here", arguments.time().as_secs_f64() / 60.0);
    let mut stream = PodStream::start(&processes.kubeconfig, arguments.rate, trouble::pod).await?;
    let end = Instant::now() + arguments.time();
    let swapping = swap_until(end, swaps, Arc::clone(&processes), Duration::from_secs(arguments.swap_every));
    let sending = outsiders.map(|outsiders| tokio::spawn(outsiders.send_until(end, Arc::clone(&processes))));
    let samples = sample_until(end, arguments, &processes, &stream, || swapping.is_finished()).await?;
    let swaps = swapping.await?.context("swapping")?;
    if let Some(sending) = sending {
        sending.await?.context("cannot send the outsiders' requests")?;
    }
    swaps.report();
    let outcome = stream.finish().await.inspect_err(|_| explain(&processes, &stream.unbound()))?;
    println!("{} pods created, all bound, each once; {} swaps", outcome.n_created, swaps.n_swaps());
    let limits = Limits {
        memory_growth: arguments.max_memory_growth,
        symbols: arguments.max_symbols,
        latency_growth: arguments.max_latency_growth,
    };
    ensure!(samples.report(&limits), "a figure grows beyond its limit");
    Ok(())
}

/// Prints the scheduler's explanations of pods without a node.
fn explain(processes: &Processes, pods: &[String]) {
    for pod in pods {
        match processes.explanation(pod) {
            Ok(explanation) => println!("{pod} has no node: {explanation}"),
            Err(error) => println!("{pod} has no node, and the scheduler does not say why: {error:#}"),
        }
    }
}

/// Replaces plugins one after the other.
fn swap_until(end: Instant, mut swaps: Swaps, processes: Arc<Processes>, pause: Duration) -> JoinHandle<Result<Swaps>> {
    tokio::spawn(async move {
        while Instant::now() < end {
            swaps.any(&processes)?;
            tokio::time::sleep(pause).await;
        }
        Ok(swaps)
    })
}

async fn sample_until(
    end: Instant,
    arguments: &Arguments,
    processes: &Processes,
    stream: &PodStream,
    is_broken: impl Fn() -> bool,
) -> Result<Samples> {
    let (began, mut samples) = (Instant::now(), Samples::default());
    let mut foreign = ForeignPods::new(&processes.kubeconfig).await?;
    let mut from = stream.mark();
    while Instant::now() < end && !is_broken() {
        tokio::time::sleep(Duration::from_secs(arguments.every)).await;
        let seen = stream.since(from);
        from = stream.mark();
        foreign.add_one().await?;
        explain(processes, &stream.newly_late(LATE));
        let (resident, symbols) = (processes.resident_kilobytes()?, processes.symbols()?);
        let sample = Sample::new(began.elapsed(), resident, symbols, &seen);
        println!("{sample}");
        samples.push(sample);
    }
    Ok(samples)
}
