//! The metrics of Kubernetes' components about themselves: their version and their feature gates.

use berth_config::feature_gates::{FeatureGate, Gates};
use berth_model::Release;
use prometheus::{IntGaugeVec, process_collector::ProcessCollector};

use super::registration::{Registration, Stability::Beta};

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
        if let Err(error) = add.registry.register(Box::new(ProcessCollector::for_self())) {
            tracing::warn!(%error, "process metrics are not exported");
        }
        let metrics = Self { build_info, feature_enabled };
        metrics.show(&Gates::default());
        metrics
    }

    pub(super) fn show(&self, gates: &Gates) {
        let (major, minor, version) = kubernetes(gates.release());
        let version = format!("{version}+berth.{}", env!("CARGO_PKG_VERSION"));
        let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
        self.build_info.reset();
        self.build_info.with_label_values(&[major, minor, &version, "", "", "", "", "rustc", &platform]).set(1);
        self.feature_enabled.reset();
        for FeatureGate { name, stage, is_on, .. } in gates.all() {
            // A generally available gate has no stage.
            let stage = if stage == "GA" { "" } else { stage };
            self.feature_enabled.with_label_values(&[name, stage]).set(is_on.into());
        }
    }
}
