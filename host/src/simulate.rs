//! `berth simulate`: where the scheduler would place the pods of a cluster that stands in files.

mod changes;
mod input;
mod output;
mod question;

use std::{
    collections::BTreeSet,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use berth_config::{Overrides, Program, Settings, Usage};
use berth_model::{KindRef, Release};
use berth_plugin_host::Plugins;
use berth_runtime::{Options, configuration};
use berth_telemetry::clock;
use berth_wasm_host::FaultSink;
use berth_what_if::{Arrival, Cluster, Conditions, Placed, Report, place, svg, uses_after};
use clap::{Args, ValueEnum};
use tracing::warn;

pub(crate) use self::input::{Input, Objects};
use crate::{
    options::{Scheduling, duration},
    simulate::{
        changes::Changes,
        question::{Question, Setup},
    },
};

const AFTER_HELP: &str = "\
The cluster comes from manifests: nodes, pods and whatever plugins read, as `kubectl get nodes,pods,... -A -o yaml` prints them
or as a repository has them. Deployments, ReplicaSets, StatefulSets, Jobs and DaemonSets become pods, as far as these are not
there. The pods without a node are placed by the scheduler's own code with the configuration and the plugins that are given;
nothing is created anywhere.

Examples:
  berth simulate -f cluster.yaml -f manifests/            where the pods of manifests/ would go, and why some would not
  kubectl get nodes,pods,pvc,pv,sc -A -o yaml | berth simulate -f - -f new.yaml
                                                          the same on the cluster as it is
  berth simulate -f cluster/ --config scheduler.yaml --plugins-dir plugins
                                                          with another configuration and plugins of your own
  berth simulate -f cluster/ -o json | jq '.pods[] | select(.node == null)'
                                                          what stays pending, for programs
  berth simulate -f cluster/ --without zone/west          whether the other zones can take all pods of one
  berth simulate -f cluster/ --add 10=node.yaml           what ten more nodes would take
  berth simulate -f cluster/ --how-many pod.yaml          how many more pods like this one fit
  berth simulate -f cluster/ --drain n1 --drain n2        where the pods of two nodes go, as far as budgets allow
  berth simulate -f cluster/ --consolidate                which moves empty nodes
  berth simulate -f cluster/ --config a.yaml --compare b.yaml
                                                          which pods two configurations place apart, and by which plugin
  berth simulate -f cluster/ --compare-emulated-version 1.37
                                                          which pods the next Kubernetes release places elsewhere
  berth simulate -f cluster/ --what-if questions.json -o json
                                                          many variants at once, or how many nodes of which group take some pods
  berth simulate -f cluster/ --svg nodes.svg              a picture of the nodes by utilization
  berth simulate -f cluster/ --expect-all-placed -o json  for a pipeline

Exit code 0: the simulation was made. 1: with --expect-all-placed, a pod stays pending; or something broke. 2: the command line, a
file or the configuration cannot be used.";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Simulate {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    question: Question,
    /// Pods that --how-many tries at most
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    at_most: usize,
    /// Place the pods that wait one after the other, as if each came when all before it were placed [default: all wait together,
    /// as when the scheduler starts, and the QueueSort plugin says which is next]
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
    /// Give up after this long
    #[arg(long, default_value = "5m", value_parser = duration, value_name = "DURATION")]
    timeout: Duration,
    #[command(flatten)]
    scheduler: Simulated,
}

/// The scheduler that is simulated.
#[derive(Args, Clone, Debug)]
struct Simulated {
    /// KubeSchedulerConfiguration; without one, kube-scheduler's default profile places every pod, whichever scheduler it names
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Serve pods with this schedulerName; for a configuration with one profile
    #[arg(long, value_name = "NAME")]
    scheduler_name: Option<String>,
    /// Folder of plugin components: `NAME.wasm` adds plugin NAME, or takes the place of a built-in
    #[arg(long, value_name = "DIR")]
    plugins_dir: Option<PathBuf>,
    /// PluginHostConfiguration: limits, grants and failure policies of plugins
    #[arg(long, value_name = "FILE")]
    plugin_config: Option<PathBuf>,
    /// Decide as kube-scheduler of this Kubernetes release, 1.36 or 1.37; another takes the nearest [default: 1.36]
    #[arg(long, value_name = "VERSION")]
    emulated_version: Option<String>,
    /// How built-in plugins run [default: natively unless the plugins directory holds another binary]
    #[arg(long, value_enum)]
    execution: Option<crate::options::Execution>,
    /// Where compiled plugins are cached [default: a folder in the user's cache directory]
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

/// A configuration with its plugins, loaded: any number of schedulers are made of it.
struct Laboratory {
    plugins: Plugins,
    settings: Settings,
    scheduler_settings: berth_scheduler::Settings,
    /// Neither a configuration nor a name is given: the only profile serves every pod.
    is_default: bool,
}

pub(crate) fn run(arguments: &Simulate) -> Result<()> {
    let began = Instant::now();
    let mut laboratory = Laboratory::open(&arguments.scheduler)?;
    let mut cluster = arguments.input.read(laboratory.kinds()?)?;
    arguments.changes.apply(&mut cluster)?;
    laboratory.adopt(&mut cluster);
    let arrival = if arguments.one_by_one { Arrival::OneByOne } else { Arrival::Together };
    let is_over = || began.elapsed() > arguments.timeout;
    if let Some(asked) = arguments.question.asked(&arguments.scheduler) {
        ensure!(
            arguments.svg.is_none() && !arguments.expect_all_placed,
            Usage("--svg and --expect-all-placed are for a simulation without another question".to_owned())
        );
        let (n_most, format) = (arguments.at_most, arguments.output);
        return Setup { laboratory, cluster, arrival, n_most, is_over: &is_over, format }.answer(&asked);
    }
    let placed = laboratory.place(&cluster, arrival, &is_over)?;
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
        bail!("--expect-all-placed: {} pods stay pending: {}{more}", report.summary.pending, names.join(", "));
    }
    Ok(())
}

impl Laboratory {
    fn open(scheduler: &Simulated) -> Result<Self> {
        let scheduling = Scheduling {
            config: scheduler.config.clone(),
            plugins_dir: scheduler.plugins_dir.clone(),
            plugin_config: scheduler.plugin_config.clone(),
            artifact_cache: scheduler.artifact_cache.clone(),
            execution: scheduler.execution,
            emulated_version: scheduler.emulated_version.clone(),
            ..Scheduling::default()
        };
        let emulated = scheduling.emulation()?.resolve(Release::default().into());
        let emulated = emulated.map_err(|error| Usage(error.to_string()))?;
        emulated.warnings.iter().for_each(|warning| warn!("{warning}"));
        let mut options = Options::from(scheduling);
        options.decide_as(emulated.gates);
        let faults =
            FaultSink::new(|report| warn!(?report, "a plugin faulted: a running scheduler would start it anew"));
        let plugins = Plugins::load_all(&options.plugins, faults)?;
        let overrides = Overrides {
            program: Program::KubeScheduler,
            scheduler_name: scheduler.scheduler_name.clone(),
            ..configuration::alone()
        };
        let settings = configuration::read(scheduler.config.as_deref(), &overrides, &plugins.inventory)?;
        if let Some(extender) = settings.extenders.first() {
            bail!(Usage(format!(
                "--config: extenders[0] ({}): a simulation asks no extenders; take `extenders` out of a copy of the file",
                extender.url_prefix
            )));
        }
        let scheduler_settings = configuration::scheduler_settings(&settings, &options);
        let is_default = scheduler.config.is_none() && scheduler.scheduler_name.is_none();
        Ok(Self { plugins, settings, scheduler_settings, is_default })
    }

    /// The name of the only profile, if that serves every pod.
    fn serves_all(&self) -> Option<String> {
        let [profile] = self.settings.profiles.as_slice() else { return None };
        self.is_default.then(|| profile.scheduler_name.clone())
    }

    /// Has the only profile serve every pod, if it does.
    fn adopt(&self, cluster: &mut Cluster) {
        if let Some(scheduler_name) = self.serves_all() {
            cluster.serve_by(&scheduler_name);
        }
    }

    /// The kinds of objects that the plugins read.
    fn kinds(&mut self) -> Result<Vec<KindRef>> {
        let profiles = self.plugins.inventory.profiles(&self.settings)?;
        let instances = profiles.iter().flat_map(|profile| profile.instances());
        let kinds = instances.flat_map(|instance| instance.plugin.manifest().needs.objects.clone());
        let kinds: BTreeSet<KindRef> = kinds.map(|kind| KindRef::of_kind(&kind.api_version, &kind.kind)).collect();
        Ok(kinds.into_iter().collect())
    }

    /// For one run: instances of the plugins are made anew.
    fn conditions<'a>(&'a mut self, arrival: Arrival, is_over: &'a dyn Fn() -> bool) -> Result<Conditions<'a>> {
        let whole_pods = self.plugins.inventory.settle_pod_json();
        let profiles = self.plugins.inventory.profiles(&self.settings)?;
        let engine = &self.plugins.engine;
        Ok(Conditions {
            settings: self.scheduler_settings,
            profiles,
            // Components see the time of the wall, by which they are also given time.
            tell_time: Box::new(|_| engine.set_now(clock::now().0)),
            whole_pods,
            arrival,
            is_over,
        })
    }

    fn place(&mut self, cluster: &Cluster, arrival: Arrival, is_over: &dyn Fn() -> bool) -> Result<Placed> {
        Ok(place(cluster, self.conditions(arrival, is_over)?)?)
    }
}
