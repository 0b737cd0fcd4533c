//! The options of a scheduler on the command line, apart from its configuration.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use berth_config::feature_gates::Gates;
use berth_plugin_host::PluginHostOptions;
use berth_serving::secure_serving::SecureServing;
use berth_telemetry::metrics::MetricsOptions;

/// The default memory for kept decisions, in MiB.
pub const KEPT_DECISIONS_MIB: u32 = 8;

/// The options of every command that schedules.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `--config`: a KubeSchedulerConfiguration.
    pub config: Option<PathBuf>,
    /// The options about plugins.
    pub plugins: PluginHostOptions,
    /// `--audit-log`; `-` is standard output.
    pub audit_log: Option<PathBuf>,
    /// `--tracing-config-file`: a TracingConfiguration.
    pub tracing_config_file: Option<PathBuf>,
    /// `--metrics-address`: probes and metrics over plain HTTP.
    pub metrics_address: Option<SocketAddr>,
    /// The metrics and labels that are shown.
    pub metrics: MetricsOptions,
    /// `--admin-socket`; `None` stands for the default path.
    pub admin_socket: Option<PathBuf>,
    /// `--kept-decisions-mib`: the memory for decisions that are kept for explanations; 0 keeps no decisions.
    pub kept_decisions_mib: u32,
    /// Whether every plugin is asked about each pod, even if an equivalent pod came before.
    pub without_equivalence_cache: bool,
    /// The time after which an unschedulable pod is tried again without an event; `None` is the default.
    pub longest_unschedulable: Option<Duration>,
    /// `--page`: the page on loopback, for all users of this machine.
    pub page: Option<SocketAddr>,
    /// The endpoints over HTTPS.
    pub secure_serving: Option<SecureServing>,
    /// The feature gates of the emulated Kubernetes release, with the changes of `--feature-gates`. Until
    /// [`Self::decide_as`] is called, this field has the gates of the oldest release.
    pub gates: Gates,
}

impl Options {
    /// Sets the emulated release, and the state of its gates.
    pub fn decide_as(&mut self, gates: Gates) {
        self.plugins.features = gates.features();
        self.gates = gates;
    }
}
