//! `swap-storm`: a steady stream of pods while every plugin's binary is replaced again and again.
//!
//! The API server and the scheduler run as two processes, with 1,000 nodes. The first phase has native plugins and no
//! swaps. In the second phase, components are replaced by other working components. An equally long time without swaps
//! follows, for comparison. In the third phase, each round puts one file after the other into the plugins directory:
//! equal binaries, other working binaries, and binaries that trap, loop, allocate without end, give wrong answers, are
//! slow, or are not plugins. After each file, the serving version must be a working binary. At the end, every pod must
//! have been bound exactly once, and the scheduler's memory must not have grown from round to round.
//!
//! The exit code is 1 if a pod was lost or bound twice, if a broken version continued to serve, or if memory leaks. The
//! same seed gives the same storm.

#![expect(clippy::print_stdout, reason = "the result")]

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use berth_storm::{Phase, PodStream, Processes, Swaps, percentile};
use berth_test_processes::interruptible;
use clap::Parser;
use serde_json::{Value, json};

/// Replaces plugins while pods keep coming, and checks that none is lost
#[derive(Debug, Parser)]
struct Arguments {
    /// Rounds with broken binaries. Each round replaces every plugin three to five times
    #[arg(long, default_value_t = 6)]
    rounds: u32,
    /// Rounds of good swaps that come first. Each round replaces every plugin three or four times
    #[arg(long, default_value_t = 2)]
    fair_rounds: u32,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, default_value_t = 1000)]
    nodes: u32,
    /// Pods created in a second
    #[arg(long, default_value_t = 100)]
    rate: u32,
    /// Seconds without swaps in the beginning, with native plugins
    #[arg(long, default_value_t = 15)]
    quiet: u64,
}

/// The share by which the scheduler's memory may grow after the first two rounds, because allocators keep some memory.
const MAX_GROWTH: f64 = 0.25;

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    tokio::runtime::Runtime::new()?.block_on(interruptible(storm(&arguments)))
}

async fn storm(arguments: &Arguments) -> Result<()> {
    let processes = Processes::start(arguments.nodes, None).await?;
    let mut stream = PodStream::start(&processes.kubeconfig, arguments.rate, pod).await?;
    let quiet_time = Duration::from_secs(arguments.quiet);
    println!("native plugins, without swaps: {}", quiet(&processes, &stream, quiet_time).await?);

    let mut swaps = Swaps::new(arguments.seed);
    swap_working_binaries(arguments, &processes, &stream, &mut swaps).await?;

    let mut memory = Vec::new();
    let (begin, from) = (processes.mark()?, stream.mark());
    for round in 1..=arguments.rounds {
        swaps.round_of_all_kinds(&processes)?;
        let resident = processes.resident_kilobytes()?;
        println!("round {round}: {} swaps, scheduler memory {} MB", swaps.n_swaps(), resident / 1000);
        memory.push(resident);
    }
    println!("swaps with broken binaries: {}", Phase::between(&begin, &processes.mark()?, stream.since(from)));
    swaps.report();
    let outcome = stream.finish().await?;
    println!("{} pods created, all bound, each once", outcome.n_created);
    check_memory(&memory)
}

/// Swaps between working binaries. These swaps should not slow cycles down. An equally long time without swaps follows,
/// so that both sides have equally many cycles.
async fn swap_working_binaries(
    arguments: &Arguments,
    processes: &Processes,
    stream: &PodStream,
    swaps: &mut Swaps,
) -> Result<()> {
    swaps.all_components(processes)?;
    let (begin, from, started) = (processes.mark()?, stream.mark(), Instant::now());
    let n_before = swaps.n_swaps();
    for _ in 0..arguments.fair_rounds {
        swaps.round_of_working_binaries(processes)?;
    }
    let swapping = Phase::between(&begin, &processes.mark()?, stream.since(from));
    println!("all plugins as components, {} good swaps: {swapping}", swaps.n_swaps() - n_before);
    let calm = quiet(processes, stream, started.elapsed()).await?;
    println!("all plugins as components, without swaps: {calm}");
    let ratio = |part: f64| swapping.cycles.percentile(part) / calm.cycles.percentile(part).max(1e-9);
    let longest = swapping.cycles.longest() / calm.cycles.longest().max(1e-9);
    println!(
        "cycles with good swaps, times those without: p50 {:.2}, p99 {:.2}, p99.9 {:.2}, longest {longest:.2}: {}",
        ratio(0.5),
        ratio(0.99),
        ratio(0.999),
        if longest > 2.0 { "MORE than twice" } else { "not more than twice" },
    );
    swaps.all_native(processes)
}

async fn quiet(processes: &Processes, stream: &PodStream, time: Duration) -> Result<Phase> {
    let (begin, from) = (processes.mark()?, stream.mark());
    tokio::time::sleep(time).await;
    Ok(Phase::between(&begin, &processes.mark()?, stream.since(from)))
}

fn pod(name: &str, _number: u64) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "storm"}},
        "spec": {"containers": [{
            "name": "main",
            "image": "example.com/web:1",
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        }]},
    })
}

/// The first rounds fill caches. The memory may not grow after these rounds.
fn check_memory(kilobytes: &[u64]) -> Result<()> {
    let (warm, later) = kilobytes.split_at(kilobytes.len().min(2));
    let (Some(before), Some(after)) = (warm.iter().max(), later.iter().max()) else { return Ok(()) };
    let numbers: Vec<f64> =
        later.iter().map(|kilobytes| f64::from(u32::try_from(*kilobytes).unwrap_or(u32::MAX))).collect();
    let limit = f64::from(u32::try_from(*before).unwrap_or(u32::MAX)) * (1.0 + MAX_GROWTH);
    println!("scheduler memory: {} MB after two rounds, at most {} MB later", before / 1000, after / 1000);
    ensure!(percentile(&numbers, 0.5) <= limit, "the scheduler's memory grows from round to round");
    Ok(())
}
