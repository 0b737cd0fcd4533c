//! The common part of `berth bench` and `berth-bench`: options, rounds, comparisons and output.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};

use crate::{
    curves,
    figures::{Figures, RunSetup},
    run::{Run, RunConditions, Runner, StormFigures, first_difference},
    workload::{Cluster, Pods, Scale, WORKLOADS, Workload},
};

/// The workloads to measure, and the use of the figures.
#[derive(Args, Clone, Debug)]
pub struct Measure {
    /// scheduler_perf's names of workloads, or parts of them [default: all workloads]; `list` prints the names
    #[arg(value_name = "WORKLOAD")]
    pub workloads: Vec<String>,
    /// Size of the workload: scheduler_perf's largest performance test, or a tenth or a fiftieth of it
    #[arg(long, default_value = "full", value_name = "full|medium|small")]
    pub size: Scale,
    /// Number of nodes; the number of pods changes in proportion. Workloads with one node keep one node [default: as
    /// --size says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub nodes: Option<u32>,
    /// Number of pods to measure [default: as --size or --nodes say]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub pods: Option<u32>,
    /// Number of small pods that are on the nodes before the measurement starts, in addition to the workload's pods
    #[arg(long, value_name = "N")]
    pub placed: Option<u32>,
    /// Number of equivalence classes of the measured pods. The pods belong to the classes alternately, and the classes
    /// differ in a label
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub classes: u16,
    /// Create this number of pods a second, even if the scheduler is slower, and measure the time from creation to
    /// binding [default: all pods exist before the clock starts]
    #[arg(long, value_name = "PODS", value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: Option<u32>,
    /// percentageOfNodesToScore, as in KubeSchedulerConfiguration; 0 adapts it to the size of the cluster
    #[arg(long, default_value_t = 0, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(..=100))]
    pub percentage_of_nodes_to_score: u8,
    /// Whether the scheduler keeps answers of plugins for equivalent pods; `both` measures both and checks that the
    /// pods go to the same nodes
    #[arg(long, default_value = "on")]
    pub equivalence_cache: CacheUse,
    /// Number of runs of each workload; medians are shown
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub rounds: u16,
    /// Output for people or for programs
    #[arg(short, long, default_value = "table")]
    pub output: Output,
    /// Show ratios to the figures that an earlier run printed with `-o json`
    #[arg(long, value_name = "FILE")]
    pub compare: Option<PathBuf>,
    /// Write the node of each measured pod to this file, or compare the nodes with the file if it exists
    #[arg(long, value_name = "FILE")]
    pub placements: Option<PathBuf>,
    /// Run no workloads, but measure how the cost of a pod grows with the number of nodes, of placed pods and of
    /// unschedulable pods. Writes curves.json, curves.csv and curves.svg to this folder; takes minutes
    #[arg(long, value_name = "DIR")]
    pub curves: Option<PathBuf>,
    /// Run no workloads, but measure how long storms of events delay a pod that fits on a node. The storms are: all
    /// nodes change, all pods are listed again, a namespace is deleted. The default cluster has 5,000 nodes with 50,000
    /// pods, and two pending pods for each node, which fit nowhere
    #[arg(long, conflicts_with_all = ["curves", "workloads", "pods", "rate", "rounds", "size", "classes", "compare", "placements"])]
    pub storms: bool,
}

/// Whether answers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CacheUse {
    On,
    Off,
    Both,
}

/// The reader of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Table,
    Json,
}

/// The nodes of pods, by workload with its size, and by pod.
type Placements = BTreeMap<String, BTreeMap<String, String>>;

/// Measures, and writes the figures to standard output.
///
/// # Errors
/// An option is invalid, a workload cannot be run, or pods went to other nodes than before.
pub fn run(measure: &Measure, runner: &mut dyn Runner, allocations: Option<fn() -> u64>) -> Result<()> {
    if measure.workloads.iter().any(|name| name == "list") {
        return list();
    }
    if let Some(dir) = &measure.curves {
        return curves::run(dir, runner, allocations);
    }
    if measure.storms {
        return storms(measure, runner);
    }
    let before = measure.compare.as_deref().map(read_figures).transpose()?;
    let mut all = Vec::new();
    let mut placements = Placements::new();
    for workload in chosen(&measure.workloads)? {
        for equivalence_cache in measure.equivalence_cache.choices() {
            let conditions = measure.conditions(*equivalence_cache, allocations);
            let (subject, runs) = rounds(measure, workload, &conditions, runner)?;
            let place = format!(
                "{} {} nodes {} pods {} classes",
                subject.workload, subject.nodes, subject.pods, subject.classes
            );
            remember(&mut placements, place, &runs)?;
            all.push(Figures::of(subject, &runs));
        }
    }
    show(measure, &runner.name(), &all, before.as_deref())?;
    measure.placements.as_deref().map_or(Ok(()), |file| write_or_compare(file, &placements))
}

impl CacheUse {
    fn choices(self) -> &'static [bool] {
        match self {
            Self::On => &[true],
            Self::Off => &[false],
            Self::Both => &[false, true],
        }
    }
}

impl Measure {
    fn conditions(&self, equivalence_cache: bool, allocations: Option<fn() -> u64>) -> RunConditions {
        RunConditions {
            percentage_of_nodes_to_score: i32::from(self.percentage_of_nodes_to_score),
            equivalence_cache,
            rate: self.rate.map(f64::from),
            allocations,
        }
    }
}

fn storms(measure: &Measure, runner: &mut dyn Runner) -> Result<()> {
    let [n_nodes, n_placed] = [(measure.nodes, 5000), (measure.placed, 50_000)]
        .map(|(given, default)| given.map_or(default, |number| number as usize));
    let conditions = measure.conditions(measure.equivalence_cache != CacheUse::Off, None);
    let storms = runner.storms(&conditions, &Cluster::new(n_nodes, n_placed))?;
    let mut out = io::stdout().lock();
    if measure.output == Output::Json {
        serde_json::to_writer_pretty(&mut out, &storms)?;
        return Ok(writeln!(out)?);
    }
    let heading = ["STORM", "EVENTS", "ALL MS", "LONGEST TURN MS"].map(str::to_owned);
    let rows = storms.iter().map(|storm| {
        let StormFigures { storm, events, all_millis, longest_millis } = storm;
        [storm.clone(), events.to_string(), format!("{all_millis:.0}"), format!("{longest_millis:.1}")]
    });
    let rows: Vec<_> = [heading].into_iter().chain(rows).collect();
    let widths: Vec<usize> = (0..4)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0))
        .collect();
    writeln!(out, "{}, {n_nodes} nodes, {n_placed} pods on them", runner.name())?;
    rows.iter().try_for_each(|row| Ok(writeln!(out, "{}", padded(row, &widths))?))
}

fn list() -> Result<()> {
    let mut out = io::stdout().lock();
    for Workload { name, full, .. } in WORKLOADS {
        let crate::workload::Size { nodes, initial, measured } = full;
        writeln!(out, "{name:<54} {nodes:>6} nodes {initial:>6} pods before {measured:>6} measured")?;
    }
    Ok(())
}

fn chosen(names: &[String]) -> Result<Vec<&'static Workload>> {
    if names.is_empty() {
        return Ok(WORKLOADS.iter().collect());
    }
    let mut chosen = Vec::new();
    for name in names {
        let named = Workload::named(name);
        ensure!(!named.is_empty(), "no workload has `{name}` in its name; `list` names them all");
        chosen.extend(named);
    }
    Ok(chosen)
}

fn read_figures(file: &Path) -> Result<Vec<Figures>> {
    let text = fs::read(file).with_context(|| format!("--compare {}", file.display()))?;
    serde_json::from_slice(&text)
        .with_context(|| format!("--compare {}: the file is not output of `-o json`", file.display()))
}

fn rounds(
    measure: &Measure,
    workload: &Workload,
    conditions: &RunConditions,
    runner: &mut dyn Runner,
) -> Result<(RunSetup, Vec<Run>)> {
    let scale = measure.nodes.map_or(measure.size, |nodes| Scale::Nodes(nodes as usize));
    let mut size = workload.size(scale);
    if let Some(pods) = measure.pods {
        size.measured = pods as usize;
    }
    let classes = usize::from(measure.classes);
    let n_placed = measure.placed.map_or(0, |n| n as usize);
    let mut runs = Vec::new();
    for round in 1..=measure.rounds {
        let mut progress = Progress::new(workload.name, round, measure.rounds, size.measured);
        let mut scene = workload.scene(size).in_classes(classes);
        if n_placed > 0 {
            ensure!(scene.placed.is_empty(), "--placed: {} has placed pods of its own", workload.name);
            scene.placed = Pods::placed(n_placed, size.nodes);
        }
        let run = runner.run(scene, conditions, &mut |n_bound| progress.show(n_bound));
        progress.clear();
        runs.push(run.with_context(|| workload.name)?);
    }
    let subject = RunSetup {
        workload: workload.name.to_owned(),
        runner: runner.name(),
        nodes: size.nodes,
        initial_pods: size.initial,
        placed_pods: n_placed,
        pods: size.measured,
        classes,
        percentage_of_nodes_to_score: conditions.percentage_of_nodes_to_score,
        equivalence_cache: conditions.equivalence_cache,
        rate: measure.rate.map(u64::from),
    };
    Ok((subject, runs))
}

/// Keeps the placements of the first run under `place`, and compares later runs with them. Only runs in which pods come
/// in one order must agree: pods that are created at a rate, or over HTTP, have no such order.
fn remember(placements: &mut Placements, place: String, runs: &[Run]) -> Result<()> {
    for run in runs.iter().filter(|run| run.engine.is_some() && run.latencies.is_empty()) {
        match placements.get(&place) {
            None => {
                placements.insert(place.clone(), run.placements.clone());
            }
            Some(first) => {
                if let Some(difference) = first_difference(first, &run.placements) {
                    bail!("{place}: two runs place pods differently: {difference}");
                }
            }
        }
    }
    if let Some(run) = runs.first() {
        placements.entry(place).or_insert_with(|| run.placements.clone());
    }
    Ok(())
}

fn show(measure: &Measure, runner: &str, all: &[Figures], before: Option<&[Figures]>) -> Result<()> {
    let mut out = io::stdout().lock();
    if measure.output == Output::Json {
        serde_json::to_writer_pretty(&mut out, all)?;
        return Ok(writeln!(out)?);
    }
    writeln!(out, "{runner}; medians of {}", measure.rounds)?;
    let rows: Vec<[String; 12]> = all.iter().map(Figures::row).collect();
    let widths: Vec<usize> = (0..12)
        .map(|column| {
            let heading = Figures::heading().get(column).map_or(0, |text| text.len());
            rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0).max(heading)
        })
        .collect();
    writeln!(out, "{}", padded(&Figures::heading().map(str::to_owned), &widths))?;
    for (figures, row) in all.iter().zip(&rows) {
        writeln!(out, "{}", padded(row, &widths))?;
        let threads = &figures.cpu_micros_by_thread;
        if threads.len() > 1 {
            let threads: Vec<String> = threads.iter().map(|(name, micros)| format!("{name} {micros:.0}")).collect();
            writeln!(out, "    CPU us/pod by thread: {}", threads.join(", "))?;
        }
        if let Some(millis) = figures.first_binding_millis {
            writeln!(out, "    first pod bound {millis:.0} ms after the start")?;
        }
        let answers =
            [("explanations", &figures.explanation_millis), ("first view of the page", &figures.first_view_millis)];
        for (what, times) in answers {
            if let Some(times) = times {
                writeln!(out, "    {what}: {times}")?;
            }
        }
        if let Some(copy) = figures.copy {
            writeln!(out, "    the copy for users: {copy}")?;
        }
        if figures.bound_by_second.len() > 2 {
            let counts: Vec<String> = figures.bound_by_second.iter().map(usize::to_string).collect();
            writeln!(out, "    bound in each second: {}", counts.join(" "))?;
        }
        if let Some(before) = before {
            let ratios = figures.compared_with(before).map(|ratios| ratios.line());
            writeln!(out, "{}", ratios.as_deref().unwrap_or("    the other run has no such figures"))?;
        }
    }
    Ok(())
}

fn padded(cells: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
        if at == 0 {
            line.push_str(&format!("{cell:<width$}"));
        } else {
            line.push_str(&format!("  {cell:>width$}"));
        }
    }
    line
}

fn write_or_compare(file: &Path, placements: &Placements) -> Result<()> {
    if !file.exists() {
        let text = serde_json::to_string_pretty(placements)?;
        return fs::write(file, text).with_context(|| format!("--placements {}", file.display()));
    }
    let text = fs::read(file).with_context(|| format!("--placements {}", file.display()))?;
    let before: Placements = serde_json::from_slice(&text)
        .with_context(|| format!("--placements {}: the file was not written by this option", file.display()))?;
    for (place, now) in placements {
        let Some(before) = before.get(place) else { bail!("{} has no entry for {place}", file.display()) };
        if let Some(difference) = first_difference(before, now) {
            bail!("{place} differs from {}: {difference}", file.display());
        }
    }
    Ok(writeln!(io::stderr(), "the node of every pod is the same as in {}", file.display())?)
}

/// The progress of a run, on a terminal.
struct Progress {
    what: String,
    n_pods: usize,
    shown: Instant,
    is_terminal: bool,
}

/// The time between two lines of progress.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

impl Progress {
    fn new(workload: &str, round: u16, rounds: u16, n_pods: usize) -> Self {
        let what = if rounds > 1 { format!("{workload} {round}/{rounds}") } else { workload.to_owned() };
        let is_terminal = io::stderr().is_terminal();
        let progress = Self { what, n_pods, shown: Instant::now(), is_terminal };
        progress.write(&format!("{}: setting up", progress.what));
        progress
    }

    fn show(&mut self, n_bound: usize) {
        if self.shown.elapsed() >= SHOWN_EVERY {
            self.shown = Instant::now();
            self.write(&format!("{}: {n_bound} of {} pods bound", self.what, self.n_pods));
        }
    }

    fn clear(&self) {
        self.write("");
    }

    fn write(&self, text: &str) {
        if self.is_terminal {
            // The output is complete without this line.
            let _ = write!(io::stderr(), "\r{text}\x1b[K");
        }
    }
}
