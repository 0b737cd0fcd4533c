//! `berth bench`: scheduler_perf's workloads through the scheduling core, or through a whole scheduler and an API server.

mod engine;

use std::{ffi::OsString, path::PathBuf};

use anyhow::Result;
use berth_bench::command::{self, Measure};
use berth_bench_processes::{BerthRun, Processes, Program, Server, Users, View};
use berth_config::Usage;
use berth_runtime::KEPT_DECISIONS_MIB;
use clap::{Args, ValueEnum};

use crate::options::{Execution, Scheduling};

const AFTER_HELP: &str = "\
Examples:
  berth bench                                            every workload through the engine, natively
  berth bench SchedulingBasic TopologySpreading --execution wasm --equivalence-cache both --rounds 5
  berth bench Preemption --size small                    every workload with `Preemption` in its name
  berth bench SchedulingBasic --through http --pods 5000 scheduler and API server as processes of their own
  berth bench SchedulingDaemonset --through http --nodes 5000 --placed 50000 --pods 1
                                                         how long a start takes, and how much memory, with 50,000 pods
  berth bench SchedulingBasic --through http --rate 100  100 pods a second: the time from creation to binding
  berth bench -o json >before.json; ...; berth bench --compare before.json
  berth bench SchedulingBasic --through kubeconfig --kubeconfig FILE --kube-scheduler /usr/local/bin/kube-scheduler
                                                         what the same pods cost with kube-scheduler
  berth bench SchedulingBasic --through http --placed 40000 --browsers 10 --explain
                                                         how long users wait for the page and for explanations during the
                                                         run, and what the copy of the scheduler for them costs
  berth bench --curves curves                            how cost grows with nodes and pods

What is measured:
  engine      from a pod's decoded watch event to the request to bind, and what the answer and the next event cost.
              Nothing is sent. Two runs place every pod on the same node.
  http        a scheduler process on the sandbox's API, over HTTP. The clock runs from the scheduler's start to the
              last binding that a watch shows; with --rate the scheduler runs already when the first pod is created.
  kubeconfig  the same on your own API server, which must have no nodes. The created objects are deleted
              afterwards. Workloads with claims from templates need kube-controller-manager.
CPU US/POD is processor time of the scheduler alone. Another program counts allocations:
`cargo run --release -p berth-bench`.";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Bench {
    #[command(flatten)]
    measure: Measure,
    /// The programs that handle the pods
    #[arg(long, value_enum, default_value_t = Through::Engine)]
    through: Through,
    /// The kubeconfig file for --through kubeconfig
    #[arg(long, value_name = "FILE", required_if_eq("through", "kubeconfig"))]
    kubeconfig: Option<PathBuf>,
    /// Measure this kube-scheduler instead of Berth, for `--compare`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["execution", "config", "plugins_dir", "plugin_config"])]
    kube_scheduler: Option<PathBuf>,
    /// How built-in plugins run [default: native]
    #[arg(long, value_enum, default_value_t = Execution::Native, hide_default_value = true)]
    execution: Execution,
    /// KubeSchedulerConfiguration with one profile; the engine uses only the profile
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder of plugin components
    #[arg(long, value_name = "DIR")]
    plugins_dir: Option<PathBuf>,
    /// PluginHostConfiguration: limits, grants and failure policies of plugins
    #[arg(long, value_name = "FILE")]
    plugin_config: Option<PathBuf>,
    /// Folder for compiled plugins [default: a folder in the user's cache directory]
    #[arg(long, value_name = "DIR")]
    artifact_cache: Option<PathBuf>,
    /// Memory in MiB for decisions that the scheduler keeps for explanations; 0 keeps none. Needs a scheduler process
    #[arg(long, default_value_t = KEPT_DECISIONS_MIB, value_name = "MIB")]
    kept_decisions_mib: u32,
    /// Number of browsers that show the scheduler's page during the run; the time to the first view is measured. Needs
    /// a scheduler process
    #[arg(long, default_value_t = 0, value_name = "N", conflicts_with = "kube_scheduler")]
    browsers: u16,
    /// The view of the page that the browsers show
    #[arg(long, value_enum, default_value_t = View::Now)]
    view: View,
    /// Explain the pods during the run, one after the other, and measure the time to the answer. Needs a scheduler
    /// process
    #[arg(long, conflicts_with = "kube_scheduler")]
    explain: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Through {
    /// The scheduling core in this process
    Engine,
    /// A scheduler process and a sandbox process
    Http,
    /// A scheduler process and the API server of --kubeconfig
    Kubeconfig,
}

impl Bench {
    /// The options in the form that a scheduler takes.
    fn scheduling(&self) -> Scheduling {
        Scheduling {
            config: self.config.clone(),
            plugins_dir: self.plugins_dir.clone(),
            plugin_config: self.plugin_config.clone(),
            artifact_cache: self.artifact_cache.clone(),
            execution: Some(self.execution),
            kept_decisions_mib: self.kept_decisions_mib,
            ..Scheduling::default()
        }
    }

    /// The options in the form that a scheduler process takes.
    fn berth_run(&self) -> BerthRun {
        let mut arguments = vec![OsString::from("--execution"), self.execution_name().into()];
        arguments.push(format!("--kept-decisions-mib={}", self.kept_decisions_mib).into());
        let files = [
            ("--plugins-dir", &self.plugins_dir),
            ("--plugin-config", &self.plugin_config),
            ("--artifact-cache", &self.artifact_cache),
        ];
        for (option, file) in files {
            arguments.extend(file.iter().flat_map(|file| [OsString::from(option), file.into()]));
        }
        BerthRun { config: self.config.clone(), arguments }
    }

    fn execution_name(&self) -> &'static str {
        match self.execution {
            Execution::Auto => "auto",
            Execution::Native => "native",
            Execution::Wasm => "wasm",
        }
    }
}

pub(crate) fn run(bench: &Bench) -> Result<()> {
    let server = match (bench.through, &bench.kubeconfig) {
        (Through::Engine, _) if bench.kube_scheduler.is_some() => {
            return Err(Usage("--kube-scheduler needs --through http or --through kubeconfig".to_owned()).into());
        }
        (Through::Engine, _)
            if bench.browsers > 0 || bench.explain || bench.kept_decisions_mib != KEPT_DECISIONS_MIB =>
        {
            let text = "--browsers, --explain and --kept-decisions-mib need --through http or --through kubeconfig";
            return Err(Usage(text.to_owned()).into());
        }
        (Through::Engine, _) => return engine::run(bench),
        (Through::Http, _) => Server::Sandbox,
        (Through::Kubeconfig, Some(kubeconfig)) => Server::Cluster(kubeconfig.clone()),
        (Through::Kubeconfig, None) => {
            return Err(Usage("--through kubeconfig needs --kubeconfig FILE".to_owned()).into());
        }
    };
    let (program, name) = match &bench.kube_scheduler {
        Some(file) => (Program::KubeScheduler(file.clone()), "kube-scheduler"),
        None => (Program::Berth(bench.berth_run()), bench.execution_name()),
    };
    let users = Users { browsers: bench.browsers, view: bench.view, explains: bench.explain };
    let mut processes = Processes::new(server, program, users, name)?;
    command::run(&bench.measure, &mut processes, None)
}
