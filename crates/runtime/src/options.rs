//! What the command line says about a scheduler, beside its configuration.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use axum::Router;
use berth_config::feature_gates::Gates;
use berth_plugin_host::PluginHostOptions;
use berth_serving::secure_serving::SecureServing;

/// How much memory kept decisions take by default, in MiB.
pub const KEPT_DECISIONS_MIB: u32 = 8;

/// What every command that schedules takes.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `--config`: a KubeSchedulerConfiguration.
    pub config: Option<PathBuf>,
    /// What concerns plugins.
    pub plugins: PluginHostOptions,
    /// `--audit-log`; `-` is standard output.
    pub audit_log: Option<PathBuf>,
    /// `--metrics-address`: probes and metrics over plain HTTP.
    pub metrics_address: Option<SocketAddr>,
    /// `--admin-socket`; `None` is the usual path.
    pub admin_socket: Option<PathBuf>,
    /// `--kept-decisions-mib`: how much memory decisions take that are kept for explanations; 0 keeps none.
    pub kept_decisions_mib: u32,
    /// Every plugin is asked about each pod, even if one like it came before.
    pub without_equivalence_cache: bool,
    /// An unschedulable pod is tried again after this long although nothing happened; `None` is the default.
    pub longest_unschedulable: Option<Duration>,
    /// `--page`: the page on loopback, for all users of this machine.
    pub page: Option<SocketAddr>,
    /// Served beside the admin API, to the same callers.
    pub more_routes: Router,
    /// The endpoints over HTTPS.
    pub secure_serving: Option<SecureServing>,
    /// Which release of Kubernetes decides, with `--feature-gates`; those of the oldest until [`Self::decide_as`] is told others.
    pub gates: Gates,
}

impl Options {
    /// Which release decides, and how its gates stand.
    pub fn decide_as(&mut self, gates: Gates) {
        self.plugins.features = gates.features();
        self.gates = gates;
    }
}
