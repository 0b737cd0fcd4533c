//! `berth simulate`: where the scheduler would place the pods of a cluster that files describe.

mod changes;
mod input;
mod output;
mod question;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use berth_config::Usage;
use berth_simulator::{Simulator, SimulatorOptions};
use berth_what_if::{Arrival, Report, svg, uses_after};
use clap::{Args, ValueEnum};

pub(crate) use self::input::{Input, Objects};
use crate::{
    compiler::compiler_process,
    options::duration,
    simulate::{
        changes::Changes,
        question::{Question, Setup},
    },
};

const AFTER_HELP: &str = "\
The cluster comes from manifests: nodes, pods and the objects that plugins read, as `kubectl get nodes,pods,... -A -o yaml` prints them
or as a repository contains them. Deployments, ReplicaSets, StatefulSets, Jobs and DaemonSets become pods, unless the manifests
already contain their pods. The scheduler's own code places the pods that have no node, with the given configuration and plugins. The
command creates nothing in a cluster.

Examples:
  berth simulate -f cluster.yaml -f manifests/            where the pods of manifests/ would go, and why some would not
  kubectl get nodes,pods,pvc,pv,sc -A -o yaml | berth simulate -f - -f new.yaml
                                                          the same on the present state of a cluster
  berth simulate -f cluster/ --config scheduler.yaml --plugins-dir plugins
                                                          the same with another configuration and your own plugins
  berth simulate -f cluster/ -o json | jq '.pods[] | select(.node == null)'
                                                          the pods that stay pending, for programs
  berth simulate -f cluster/ --without zone/west          whether the other zones can take all pods of this zone
  berth simulate -f cluster/ --add 10=node.yaml           which pods ten more nodes would take
  berth simulate -f cluster/ --how-many pod.yaml          how many more pods like the pod in pod.yaml fit
  berth simulate -f cluster/ --drain n1 --drain n2        where the pods of two nodes go, as far as budgets allow
  berth simulate -f cluster/ --consolidate                which moves empty nodes
  berth simulate -f cluster/ --config a.yaml --compare b.yaml
                                                          which pods two configurations place differently, and why
  berth simulate -f cluster/ --compare-emulated-version 1.37
                                                          which pods the next Kubernetes release places elsewhere
  berth simulate -f cluster/ --what-if questions.json -o json
                                                          many variants in one run, or how many nodes of a group some pods need
  berth simulate -f cluster/ --svg nodes.svg              a picture of the nodes by utilization
  berth simulate -f cluster/ --expect-all-placed -o json  exit code 1 if a pod stays pending, for pipelines

Exit code 0: the simulation is complete. 1: a pod stays pending and --expect-all-placed is set, or the simulation failed. 2: the
command line, a file or the configuration cannot be used.";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Simulate {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    question: Question,
    /// Maximum number of pods that --how-many tries
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    at_most: usize,
    /// Place the waiting pods one after the other, as if each pod came after the previous pod was placed [default: all
    /// pods wait at the same time, as after a start of the scheduler, and the QueueSort plugin decides the order]
    #[arg(long)]
    one_by_one: bool,
    /// Exit code 1 if a pod stays pending
    #[arg(long)]
    expect_all_placed: bool,
    /// Output for people or for programs
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Draw the nodes by utilization, before and after
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Give up after this time
    #[arg(long, default_value = "5m", value_parser = duration, value_name = "DURATION")]
    timeout: Duration,
    #[command(flatten)]
    scheduler: Simulated,
}

/// The scheduler that is simulated.
#[derive(Args, Clone, Debug)]
struct Simulated {
    /// KubeSchedulerConfiguration; without one, kube-scheduler's default profile places every pod, regardless of its
    /// schedulerName
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Serve pods with this schedulerName; only for a configuration with one profile
    #[arg(long, value_name = "NAME")]
    scheduler_name: Option<String>,
    /// Folder of plugin components: `NAME.wasm` adds the plugin NAME, or replaces a built-in plugin
    #[arg(long, value_name = "DIR")]
    plugins_dir: Option<PathBuf>,
    /// PluginHostConfiguration: limits, grants and failure policies of plugins
    #[arg(long, value_name = "FILE")]
    plugin_config: Option<PathBuf>,
    /// Decide as kube-scheduler of this Kubernetes release, 1.36 or 1.37; any other value selects the nearest of the two
    /// [default: 1.36]
    #[arg(long, value_name = "VERSION")]
    emulated_version: Option<String>,
    /// How built-in plugins run [default: natively unless the plugins directory holds another binary]
    #[arg(long, value_enum)]
    execution: Option<crate::options::Execution>,
    /// Folder for compiled plugins [default: a folder in the user's cache directory]
    #[arg(long, value_name = "DIR")]
    artifact_cache: Option<PathBuf>,
}

/// `-o`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
    /// For programs.
    Yaml,
}

impl Simulated {
    fn open(&self) -> Result<Simulator> {
        Simulator::open(SimulatorOptions {
            config: self.config.clone(),
            scheduler_name: self.scheduler_name.clone(),
            plugins_dir: self.plugins_dir.clone(),
            plugin_config: self.plugin_config.clone(),
            execution: self.execution.map(Into::into),
            artifact_cache: self.artifact_cache.clone(),
            emulated_version: self.emulated_version.clone(),
            compiler: Some(compiler_process()),
        })
    }
}

pub(crate) fn run(arguments: &Simulate) -> Result<()> {
    let began = Instant::now();
    let mut simulator = arguments.scheduler.open()?;
    let mut cluster = arguments.input.read(simulator.kinds()?)?;
    arguments.changes.apply(&mut cluster)?;
    simulator.adopt(&mut cluster);
    let arrival = if arguments.one_by_one { Arrival::OneByOne } else { Arrival::Together };
    let is_over = || began.elapsed() > arguments.timeout;
    if let Some(asked) = arguments.question.asked(&arguments.scheduler) {
        ensure!(
            arguments.svg.is_none() && !arguments.expect_all_placed,
            Usage("--svg and --expect-all-placed cannot be combined with another question".to_owned())
        );
        let (n_most, format) = (arguments.at_most, arguments.output);
        return Setup { simulator, cluster, arrival, n_most, is_over: &is_over, format }.answer(&asked);
    }
    let placed = simulator.place(&cluster, arrival, &is_over)?;
    if let Some(file) = &arguments.svg {
        let svg = svg(&uses_after(&cluster, &placed));
        std::fs::write(file, svg).with_context(|| format!("--svg {}: cannot be written", file.display()))?;
    }
    let report = Report::new(&cluster, placed);
    output::write(&report, arguments.output)?;
    if arguments.expect_all_placed && report.summary.pending > 0 {
        let pending = report.pods.iter().filter(|pod| pod.node.is_none()).take(5);
        let names: Vec<String> = pending.map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
        let more = if report.summary.pending > names.len() { ", ..." } else { "" };
        let stay = if report.summary.pending == 1 { "pod stays" } else { "pods stay" };
        bail!("--expect-all-placed: {} {stay} pending: {}{more}", report.summary.pending, names.join(", "));
    }
    Ok(())
}
