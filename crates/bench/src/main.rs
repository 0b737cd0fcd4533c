//! `berth-bench`: scheduler_perf's workloads on the scheduling core alone.
//!
//! `cargo run --release -p berth-bench` measures every workload at 5,000 nodes with and without boards, and checks that both
//! place every pod on the same node.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, bail, ensure};
use berth_bench::{
    engine::{self, Options, Run, first_difference},
    report::Figures,
    workload::{WORKLOADS, Workload},
};
use clap::{Parser, ValueEnum};

/// Measures what a pod costs the scheduling core, without an API server and without components.
#[derive(Debug, Parser)]
struct Cli {
    /// Workloads by scheduler_perf's names; all if none is given
    workloads: Vec<String>,
    /// Nodes of the cluster
    #[arg(long, default_value_t = 5000)]
    nodes: usize,
    /// Pods to measure; by default as many as scheduler_perf has, scaled to the number of nodes
    #[arg(long)]
    pods: Option<usize>,
    /// Have the pods differ in a label, in turn, with so many values
    #[arg(long, default_value_t = 1)]
    shapes: usize,
    /// As in KubeSchedulerConfiguration; 0 adapts to the size of the cluster
    #[arg(long, default_value_t = 0)]
    percentage_of_nodes_to_score: i32,
    /// Whether answers of plugins are kept for pods that are alike
    #[arg(long, default_value = "both")]
    boards: Boards,
    /// How often each workload is run; medians are shown
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How to print the figures
    #[arg(short, long, default_value = "table")]
    output: Output,
    /// Figures that an earlier run printed with `-o json`
    #[arg(long)]
    compare: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Boards {
    On,
    Off,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    ensure!(cli.rounds > 0 && cli.nodes > 0 && cli.shapes > 0, "--rounds, --nodes and --shapes must be at least 1");
    let before: Vec<Figures> = match &cli.compare {
        None => Vec::new(),
        Some(file) => serde_json::from_slice(&fs::read(file).with_context(|| format!("reading {}", file.display()))?)
            .with_context(|| format!("{}: not what `-o json` prints", file.display()))?,
    };
    if cli.output == Output::Table {
        println!("{}", Figures::heading());
    }
    let mut all = Vec::new();
    for workload in workloads(&cli.workloads)? {
        for figures in measure(workload, &cli)? {
            if cli.output == Output::Table {
                println!("{}", figures.line());
                if cli.compare.is_some() {
                    println!("    {}", figures.compared_with(&before));
                }
            }
            all.push(figures);
        }
    }
    if cli.output == Output::Json {
        println!("{}", serde_json::to_string(&all)?);
    }
    Ok(())
}

fn workloads(names: &[String]) -> Result<Vec<&'static Workload>> {
    if names.is_empty() {
        return Ok(WORKLOADS.iter().collect());
    }
    let find = |name: &String| {
        let known: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
        Workload::find(name).with_context(|| format!("no workload is called {name}; there are {}", known.join(", ")))
    };
    names.iter().map(find).collect()
}

/// The figures with and without boards, as far as they are asked for.
fn measure(workload: &Workload, cli: &Cli) -> Result<Vec<Figures>> {
    let choices: &[bool] = match cli.boards {
        Boards::On => &[true],
        Boards::Off => &[false],
        Boards::Both => &[false, true],
    };
    let mut runs: Vec<Vec<Run>> = choices.iter().map(|_| Vec::new()).collect();
    for round in 1..=cli.rounds {
        for (&keeps_boards, runs) in choices.iter().zip(&mut runs) {
            eprint!("\r{} {round}/{} \x1b[K", workload.name, cli.rounds);
            let options = Options {
                n_nodes: cli.nodes,
                n_pods: cli.pods,
                n_shapes: cli.shapes,
                percentage_of_nodes_to_score: cli.percentage_of_nodes_to_score,
                keeps_boards,
            };
            runs.push(engine::run(workload, &options).with_context(|| workload.name)?);
        }
    }
    eprint!("\r\x1b[K");
    let first = runs.iter().flatten().next();
    for run in runs.iter().flatten() {
        if let Some(difference) = first.and_then(|first| first_difference(first, run)) {
            bail!("{}: two runs place pods differently: {difference}", workload.name);
        }
    }
    let figures = choices.iter().zip(&runs);
    Ok(figures.map(|(boards, runs)| Figures::of(workload.name, cli.nodes, *boards, runs)).collect())
}
