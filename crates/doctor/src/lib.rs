//! Checks of an operator's setup, each with advice: `berth doctor` prints them.
//!
//! The checks use the code that would run the setup, and change only what `berth run` would change. Each area is a
//! module that adds its findings. An area that cannot be checked is also a finding, and the other areas are still
//! checked.

mod cluster;
mod endpoints;
mod files;
mod findings;

use std::{net::SocketAddr, path::PathBuf};

use berth_cluster::Impersonation;
use berth_config::{Overrides, emulation::KubernetesVersion, feature_gates::Gates};
use berth_plugin_host::PluginHostOptions;
use berth_runtime::rights::Operation;

pub use self::findings::{Area, Finding, Verdict};
use self::{cluster::Answer, findings::Findings};

/// The setup to check, by the options of `berth run`.
#[derive(Debug)]
pub struct Options {
    /// The KubeSchedulerConfiguration.
    pub config: Option<PathBuf>,
    /// The settings that the command line adds to the KubeSchedulerConfiguration.
    pub overrides: Overrides,
    /// The audit log; `-` is standard output.
    pub audit_log: Option<PathBuf>,
    /// The TracingConfiguration, if there is one.
    pub tracing_config_file: Option<PathBuf>,
    /// The options about plugins. Unless a version is given, the features come from the API server's release.
    pub plugins: PluginHostOptions,
    /// The version that `--emulated-version` gives.
    pub version: Option<KubernetesVersion>,
    /// `None` checks files only, and a running scheduler.
    pub cluster: Option<Cluster>,
    /// `None` if no running scheduler is checked.
    pub scheduler: Option<RunningScheduler>,
}

/// The cluster that the scheduler serves, or will serve.
#[derive(Debug)]
pub struct Cluster {
    /// The kubeconfig of the command line or of the configuration. `None` is the default kubeconfig, or the service
    /// account of this pod.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; `None` stands for the current context.
    pub context: Option<String>,
    /// The user as which all requests are made, and whose rights are checked; `None` stands for the user of the
    /// credentials.
    pub impersonation: Option<Impersonation>,
    /// Whether nothing is installed yet, so that the Lease needs no holder.
    pub is_before_installation: bool,
    /// The options of the scheduler that its rights depend on.
    pub operation: Operation,
}

/// The addresses at which a scheduler answers.
#[derive(Debug)]
pub struct RunningScheduler {
    pub metrics_address: SocketAddr,
    pub admin_socket: PathBuf,
}

/// Runs all checks. The findings are in the order of the areas.
pub async fn examine(mut options: Options) -> Vec<Finding> {
    let mut findings = Findings::default();
    // The release decides which settings are allowed and which rights are needed, so the checks ask for the release
    // first.
    let answer = match &options.cluster {
        Some(cluster) => Some(Answer::of(cluster).await),
        None => None,
    };
    let version = options.version.or_else(|| answer.as_ref()?.version());
    if let Some(version) = version {
        options.plugins.features = Gates::of_release(version.nearest().0).features();
    }
    let setup = files::look(&options, &mut findings);
    if let (Some(cluster), Some(answer)) = (&options.cluster, answer) {
        cluster::look(cluster, answer, options.version, setup.as_ref(), &mut findings).await;
    }
    if let Some(RunningScheduler { metrics_address, admin_socket }) = options.scheduler {
        endpoints::look(metrics_address, admin_socket, &mut findings).await;
    }
    findings.into_vec()
}
