//! The metrics of kube-scheduler's informers, one for each watched kind. kube-scheduler has these metrics from 1.37 on
//! (`staging/src/k8s.io/component-base/metrics/prometheus/clientgo/fifo`).

use std::time::Duration;

use prometheus::{Histogram, HistogramVec, IntGauge, IntGaugeVec};

use super::registration::{Registration, Stability::Alpha};

/// The name of kube-scheduler's informers.
const NAME: &str = "kube-scheduler";
const LABELS: [&str; 4] = ["name", "group", "version", "resource"];
const BUCKETS: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The number of digits of a resource version that fit into a metric.
const DIGITS: usize = 15;

#[derive(Clone, Debug)]
pub(super) struct InformersMetrics {
    stored: IntGaugeVec,
    queued: IntGaugeVec,
    latency: HistogramVec,
}

/// The metrics of one kind. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct InformerMetrics {
    stored: IntGauge,
    queued: IntGauge,
    latency: Histogram,
}

impl InformersMetrics {
    pub(super) fn new(add: &mut Registration) -> Self {
        Self {
            stored: add.gauge(
                Alpha,
                "informer_store_resource_version",
                "The last 15 digits of the resource version up to which the watch was read.",
                &LABELS,
            ),
            queued: add.gauge(
                Alpha,
                "informer_queued_items",
                "Changes that were read and are not yet taken out of the queue.",
                &LABELS,
            ),
            latency: add.histogram(
                Alpha,
                "informer_processing_latency_seconds",
                "Time from taking a change out of the queue until the scheduling thread accepted it.",
                &LABELS,
                BUCKETS.to_vec(),
            ),
        }
    }

    pub(super) fn of(&self, group: &str, version: &str, resource: &str) -> InformerMetrics {
        let labels = [NAME, group, version, resource];
        InformerMetrics {
            stored: self.stored.with_label_values(&labels),
            queued: self.queued.with_label_values(&labels),
            latency: self.latency.with_label_values(&labels),
        }
    }

    /// Removes the metrics of a kind that is no longer watched.
    pub(super) fn remove(&self, group: &str, version: &str, resource: &str) {
        let labels = [NAME, group, version, resource];
        // Two names of a kind may lead here, and the metrics are removed only once.
        let _ = self.stored.remove_label_values(&labels);
        let _ = self.queued.remove_label_values(&labels);
        let _ = self.latency.remove_label_values(&labels);
    }
}

impl InformerMetrics {
    /// Records that everything up to this resource version was read.
    pub fn read_up_to(&self, resource_version: &str) {
        let digits = resource_version.len().saturating_sub(DIGITS);
        if let Some(number) = resource_version.get(digits..).and_then(|text| text.parse().ok()) {
            self.stored.set(number);
        }
    }

    /// Records that a change was put into the queue.
    pub fn queued(&self) {
        self.queued.inc();
    }

    /// Records that a change was taken out of the queue.
    pub fn taken(&self) {
        self.queued.dec();
    }

    /// Records the time from taking a change out of the queue until the scheduling thread accepted the change.
    pub fn handled(&self, duration: Duration) {
        self.latency.observe(duration.as_secs_f64());
    }
}
