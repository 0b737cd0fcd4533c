//! The options that commands share, and the options of the commands that schedule.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, ensure};
use berth_config::{Overrides, Program, Usage, emulation::Emulation};
use berth_kube_flags::ServingFlags;
use berth_model::{Features, Release, duration::parse_duration};
use berth_plugin_cli::{Output, unless_empty};
use berth_plugin_host::PluginHostOptions;
use berth_runtime::{
    KEPT_DECISIONS_MIB, Options,
    rights::{Election, Operation, Serving},
};
use clap::{ArgMatches, Args, FromArgMatches, ValueEnum};

use crate::compiler::compiler_process;

const RUN_EXAMPLES: &str = "\
Examples:
  berth run --kubeconfig ~/.kube/config          schedule the pods that name `berth` as their scheduler
  berth run --config scheduler.yaml --plugins-dir plugins --plugin-config plugin-host.yaml
                                                 schedule the pods of the profiles, with your own plugins
  berth run --config scheduler.yaml --print-config
                                                 print the complete configuration, and schedule nothing

`berth check --pre` says before the first start what is missing.";

const SANDBOX_EXAMPLES: &str = "\
Examples:
  berth sandbox --nodes 50                       50 nodes in three zones, with Berth as their scheduler
  kubectl --kubeconfig berth.kubeconfig get nodes
                                                 the same cluster, in another terminal
  berth sandbox --nodes 5 --config scheduler.yaml --plugins-dir plugins
                                                 another configuration, and your own plugins
  berth sandbox --nodes 5 --page 127.0.0.1:8080  with the page of the scheduler in a browser

The cluster is gone when the command ends.";

const DEMO_EXAMPLES: &str = "\
Examples:
  berth demo                                     the cluster and the pods that come with Berth
  berth demo nodes.yaml pods/                    the nodes and pods of your own manifests
  berth demo --page 127.0.0.1:8080               and then look at the scheduler in a browser";

/// The options of commands that name the rights of a scheduler.
#[derive(Args, Clone, Debug)]
pub(crate) struct RightsOptions {
    /// The schedulerName of the configuration's only profile, as `berth run --scheduler-name` gives it
    #[arg(long, value_name = "NAME")]
    scheduler_name: Option<String>,
    /// Include the rights that a scheduler with --secure-port needs to authenticate and authorize its callers
    #[arg(long)]
    https: bool,
    /// Include the rights on LeaseCandidates, which the feature gate CoordinatedLeaderElection needs
    #[arg(long)]
    coordinated_leader_election: bool,
}

impl RightsOptions {
    pub(crate) fn operation(&self) -> Operation {
        Operation {
            serving: if self.https { Serving::Https } else { Serving::Http },
            election: if self.coordinated_leader_election { Election::Coordinated } else { Election::Lease },
        }
    }

    /// The settings that these options add to the configuration file.
    pub(crate) fn overrides(&self) -> Overrides {
        let scheduler_name = self.scheduler_name.clone();
        Overrides { program: Program::Berth, scheduler_name, ..Overrides::default() }
    }
}

/// The options of every command that schedules.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Scheduling {
    /// KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1), YAML or JSON [default: one profile with
    /// kube-scheduler's default plugins]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder of plugin components, which the scheduler watches: `NAME.wasm` adds the plugin NAME, or replaces a
    /// built-in plugin [default: none]
    #[arg(long, value_name = "DIR")]
    pub plugins_dir: Option<PathBuf>,
    /// Folder for compiled plugins [default: a folder in the user's cache directory]
    #[arg(long, value_name = "DIR")]
    pub artifact_cache: Option<PathBuf>,
    /// File in a writable folder that records, for the next start, which plugins are disabled, quarantined or rolled back.
    /// Each replica needs its own file [default: none; the scheduler then forgets these
    /// states at a restart]
    #[arg(long, value_name = "FILE")]
    pub plugin_state: Option<PathBuf>,
    /// Write an audit log to this file: a line of JSON for each change of a plugin and for each effect of a plugin on
    /// the cluster; `-` is standard output [default: none]
    #[arg(long, value_name = "FILE")]
    pub audit_log: Option<PathBuf>,
    /// TracingConfiguration (apiserver.config.k8s.io/v1): the OpenTelemetry collector that gets traces of scheduling
    /// attempts [default: no traces]
    #[arg(long, value_name = "FILE")]
    pub tracing_config_file: Option<PathBuf>,
    /// PluginHostConfiguration (berth.dev/v1alpha1): limits, grants and failure policies of plugins
    #[arg(long, value_name = "FILE")]
    pub plugin_config: Option<PathBuf>,
    /// How built-in plugins run; `auto` means natively, unless the plugins directory holds another binary [default: auto]
    #[arg(long, value_enum)]
    pub execution: Option<Execution>,
    /// Decide as kube-scheduler of this Kubernetes release, 1.36 or 1.37; any other value selects the nearest of the two
    /// [default: the API server's release, which is read once at the start]
    #[arg(long, value_name = "VERSION")]
    pub emulated_version: Option<String>,
    /// Serve /metrics, /healthz, /livez and /readyz at this address, over plain HTTP, as in 127.0.0.1:10259 [default:
    /// none]
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_address: Option<SocketAddr>,
    /// Unix socket for `berth plugin` and other commands on this machine; only the scheduler's user can connect
    /// [default: berth/admin.sock in the user's runtime directory]
    #[arg(long, env = unless_empty("BERTH_ADMIN_SOCKET"), value_name = "PATH")]
    pub admin_socket: Option<PathBuf>,
    /// MiB of decisions to keep for `berth explain`; 0 keeps none
    #[arg(long, value_name = "MIB", default_value_t = KEPT_DECISIONS_MIB)]
    pub kept_decisions_mib: u32,
    /// Ask every plugin about each pod, even if an equivalent pod came before: for comparison, the chosen nodes are the
    /// same
    #[arg(long, hide = true)]
    pub without_equivalence_cache: bool,
}

impl From<Scheduling> for Options {
    fn from(options: Scheduling) -> Self {
        Self {
            plugins: options.plugin_host(),
            config: options.config,
            audit_log: options.audit_log,
            tracing_config_file: options.tracing_config_file,
            metrics_address: options.metrics_address,
            admin_socket: options.admin_socket,
            kept_decisions_mib: options.kept_decisions_mib,
            without_equivalence_cache: options.without_equivalence_cache,
            ..Self::default()
        }
    }
}

impl Scheduling {
    /// The Kubernetes release that decides the rules.
    ///
    /// # Errors
    /// `--emulated-version` is invalid.
    pub(crate) fn emulation(&self) -> Result<Emulation> {
        let version = self.emulated_version.as_deref().unwrap_or_default();
        Ok(Emulation::new(&[version], &[], &[]).map_err(|error| Usage(error.to_string()))?)
    }

    /// The features of `--emulated-version`, or else of the oldest release. Commands that do not ask an API server use
    /// these features.
    fn features(&self) -> Features {
        let version = self.emulation().ok().and_then(|emulation| emulation.version());
        version.map_or_else(Features::default, |version| Features::of(version.nearest().0))
    }

    /// The options that concern plugins.
    pub(crate) fn plugin_host(&self) -> PluginHostOptions {
        PluginHostOptions {
            plugins_dir: self.plugins_dir.clone(),
            artifact_cache: self.artifact_cache.clone(),
            plugin_state: self.plugin_state.clone(),
            plugin_config: self.plugin_config.clone(),
            execution: self.execution.map(Into::into),
            features: self.features(),
            compiler: Some(compiler_process()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Execution {
    Auto,
    Native,
    Wasm,
}

impl From<Execution> for berth_config::Execution {
    fn from(execution: Execution) -> Self {
        match execution {
            Execution::Auto => Self::Auto,
            Execution::Native => Self::Native,
            Execution::Wasm => Self::Wasm,
        }
    }
}

#[derive(Args, Debug)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct Run {
    // The field comes first, because each later field takes its own options out.
    #[command(flatten)]
    pub all: AllOptions,
    /// kubeconfig file [default: $KUBECONFIG, the pod's service account, ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig file [default: its current context]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Serve pods with this schedulerName; only for a configuration with one profile [default: the name in the
    /// configuration; `berth` without a configuration]
    #[arg(long, value_name = "NAME")]
    pub scheduler_name: Option<String>,
    /// Schedule only while this replica holds the Lease of the leader election [default: leaderElection.leaderElect of
    /// the configuration, which is true by default]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub leader_elect: Option<bool>,
    #[command(flatten)]
    pub scheduling: Scheduling,
    /// Print the complete configuration that would be used, and exit
    #[arg(long)]
    pub print_config: bool,
    #[command(flatten)]
    pub serving: ServingFlags,
}

/// All options of a command, as they were given. This type adds no option to the command.
#[derive(Clone, Debug)]
pub(crate) struct AllOptions(ArgMatches);

impl AllOptions {
    /// The values of an option, or its default, as one text. The text is empty without a value and a default. `id` is
    /// the name of the option in the command's definition.
    pub(crate) fn shown(&self, id: &str) -> String {
        let values = self.0.try_get_raw(id).ok().flatten().into_iter().flatten();
        values.map(|value| value.to_string_lossy().into_owned()).collect::<Vec<_>>().join(",")
    }
}

impl FromArgMatches for AllOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(matches.clone()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for AllOptions {
    fn augment_args(command: clap::Command) -> clap::Command {
        command
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command
    }
}

#[derive(Args, Debug)]
#[command(after_help = SANDBOX_EXAMPLES)]
pub(crate) struct Sandbox {
    /// Number of nodes to make
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub nodes: usize,
    /// Number of zones over which the nodes are spread
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub zones: u16,
    /// Where the API server listens; port 0 picks a free port
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// Write a kubeconfig for kubectl to this file
    #[arg(long, default_value = "berth.kubeconfig", value_name = "FILE")]
    pub kubeconfig: PathBuf,
    /// Kubernetes release of the API server: 1.36 or 1.37. The scheduler decides as this release unless
    /// --emulated-version names another
    #[arg(long, default_value = "1.36", value_name = "VERSION", value_parser = kubernetes_release)]
    pub kubernetes_version: Release,
    /// Run the API server without a scheduler
    #[arg(long)]
    pub no_scheduler: bool,
    /// Time until a bound pod is Running
    #[arg(long, default_value = "100ms", value_parser = duration, value_name = "DURATION")]
    pub pod_start_delay: Duration,
    /// File with rules that make requests to the API server fail once the nodes exist, YAML or JSON; the guide's page
    /// about the sandbox describes the rules
    #[arg(long, value_name = "FILE")]
    pub faults: Option<PathBuf>,
    /// Serve the page, which shows the scheduler in a browser, at this loopback address, for all users of this machine;
    /// port 0 picks a free port
    #[arg(long, value_name = "ADDRESS", value_parser = loopback, conflicts_with = "no_scheduler")]
    pub page: Option<SocketAddr>,
    #[command(flatten)]
    pub scheduling: Scheduling,
}

#[derive(Args, Debug)]
#[command(after_help = DEMO_EXAMPLES)]
pub(crate) struct Demo {
    /// Manifests to create: files or folders [default: a cluster and pods that come with Berth]
    #[arg(value_name = "PATH")]
    pub manifests: Vec<PathBuf>,
    /// Leave the sandbox running for kubectl
    #[arg(long)]
    pub keep: bool,
    /// Leave the sandbox running, and serve the page, which shows the scheduler in a browser, at this loopback address,
    /// for all users of this machine; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS", value_parser = loopback)]
    pub page: Option<SocketAddr>,
    /// Output for people or for programs
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Stop waiting for undecided pods after this time
    #[arg(long, default_value = "30s", value_parser = duration, value_name = "DURATION")]
    pub timeout: Duration,
    #[command(flatten)]
    pub scheduling: Scheduling,
}

/// Reads an address that only this machine can reach.
fn loopback(text: &str) -> Result<SocketAddr> {
    let address: SocketAddr = text.parse().context("expected an address with a port, such as 127.0.0.1:8080")?;
    ensure!(
        address.ip().is_loopback(),
        "the page is served without authentication here: give it an address on loopback, such as 127.0.0.1:{}; `berth run --secure-port` \
         serves it to others",
        address.port()
    );
    Ok(address)
}

/// Reads `1.36` or `1.37`.
fn kubernetes_release(text: &str) -> Result<Release, String> {
    let known = Release::ALL.map(Release::as_str).join(" or ");
    Release::from_name(text).ok_or_else(|| format!("expected {known}"))
}

/// Reads a duration such as `500ms`, `10s` or `1m30s`.
pub(crate) fn duration(text: &str) -> Result<Duration> {
    let nanos = parse_duration(text).and_then(|nanos| u64::try_from(nanos).ok());
    let nanos =
        nanos.with_context(|| format!("invalid duration `{text}`: expected a duration such as 500ms, 10s or 1m30s"))?;
    Ok(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_without_authentication_is_for_this_machine() {
        assert!(loopback("127.0.0.1:0").is_ok() && loopback("[::1]:8080").is_ok());
        let error = loopback("0.0.0.0:8080").expect_err("refused").to_string();
        assert!(error.contains("127.0.0.1:8080"), "{error}");
        assert!(loopback("localhost").is_err());
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("250ms").unwrap(), Duration::from_millis(250));
        assert_eq!(duration("2m").unwrap(), Duration::from_secs(120));
        assert!(duration("10").is_err());
        assert!(duration("s").is_err());
    }
}
