//! The metrics of Kubernetes' components about themselves: their versions, their feature gates and their processes.
//! Berth has figures of its asynchronous runtime where a program in Go has `go_*`.

use berth_config::feature_gates::{FeatureGate, Gates};
use berth_model::Release;
use prometheus::IntGaugeVec;
use tokio::runtime::Handle;

use super::{
    process_usage::ProcessUsage,
    registration::{
        Registration,
        Stability::{self, Alpha, Beta},
    },
    to_gauge,
};

/// The Kubernetes release that Berth emulates: the major and minor numbers, and the version that Berth was compared
/// with.
const fn kubernetes(release: Release) -> (&'static str, &'static str, &'static str) {
    match release {
        Release::V1_36 => ("1", "36", "v1.36.2"),
        Release::V1_37 => ("1", "37", "v1.37.0"),
    }
}

/// The metrics of Kubernetes' components about themselves.
#[derive(Debug)]
pub(super) struct ProcessMetrics {
    build_info: IntGaugeVec,
    feature_enabled: IntGaugeVec,
    version_info: IntGaugeVec,
    async_tasks: IntGaugeVec,
    async_workers: IntGaugeVec,
    async_queue: IntGaugeVec,
    usage: ProcessUsage,
}

impl ProcessMetrics {
    /// Registers the metrics, including the figures of the process.
    pub(super) fn new(add: &mut Registration) -> Self {
        let labels = [
            "major",
            "minor",
            "git_version",
            "git_commit",
            "git_tree_state",
            "build_date",
            "go_version",
            "compiler",
            "platform",
        ];
        let help = "1, labelled with the emulated Kubernetes release and with Berth's own version.";
        let build_info = add.gauge(Beta, "kubernetes_build_info", help, &labels);
        let help = "This metric records the data about the stage and enablement of a k8s feature.";
        let feature_enabled = add.gauge(Beta, "kubernetes_feature_enabled", help, &["name", "stage"]);
        let help = "1, labelled with the newest and the emulated Kubernetes release.";
        let version_info = add.gauge(Alpha, "version_info", help, &["component", "binary", "emulation", "min_compat"]);
        let own = Stability::None;
        let async_tasks = add.gauge(own, "berth_async_tasks", "Tasks of the asynchronous runtime.", &[]);
        let async_workers = add.gauge(own, "berth_async_workers", "Threads of the asynchronous runtime.", &[]);
        let help = "Tasks that wait in the queue that all threads of the asynchronous runtime share.";
        let async_queue = add.gauge(own, "berth_async_queue_depth", help, &[]);
        let usage = ProcessUsage::new(add);
        let metrics =
            Self { build_info, feature_enabled, version_info, async_tasks, async_workers, async_queue, usage };
        metrics.show(&Gates::default());
        metrics
    }

    pub(super) fn show(&self, gates: &Gates) {
        let (major, minor, version) = kubernetes(gates.release());
        let version = format!("{version}+berth.{}", env!("CARGO_PKG_VERSION"));
        let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
        self.build_info.reset();
        self.build_info.with_label_values(&[major, minor, &version, "", "", "", "", "rustc", &platform]).set(1);
        self.version_info.reset();
        let newest = Release::ALL.into_iter().max().unwrap_or(gates.release());
        let (_, _, binary) = kubernetes(newest);
        let (emulation, min_compat) = (gates.release().as_str(), format!("{major}.{}", gates.oldest_minor()));
        self.version_info.with_label_values(&["kube", binary.trim_start_matches('v'), emulation, &min_compat]).set(1);
        self.feature_enabled.reset();
        for FeatureGate { name, stage, is_on, .. } in gates.all() {
            // A generally available gate has no stage.
            let stage = if stage == "GA" { "" } else { stage };
            self.feature_enabled.with_label_values(&[name, stage]).set(is_on.into());
        }
    }

    /// Reads the figures of the process, and of the asynchronous runtime to which the caller belongs, if there is one.
    pub(super) fn read(&self) {
        self.usage.read();
        let Ok(runtime) = Handle::try_current() else { return };
        let runtime = runtime.metrics();
        for (gauge, value) in [
            (&self.async_tasks, runtime.num_alive_tasks()),
            (&self.async_workers, runtime.num_workers()),
            (&self.async_queue, runtime.global_queue_depth()),
        ] {
            gauge.with_label_values::<&str>(&[]).set(to_gauge(value));
        }
    }
}
