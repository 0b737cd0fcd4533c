//! component-base's metrics about metrics: the number of metrics, and the number of hidden metrics.

use std::collections::BTreeMap;

use prometheus::IntCounterVec;

use super::{
    raise,
    registration::{Registered, Registration, Stability::Beta},
};

#[derive(Debug)]
pub(super) struct MetaMetrics {
    registered: IntCounterVec,
    disabled: IntCounterVec,
}

impl MetaMetrics {
    pub(super) fn new(add: &mut Registration) -> Self {
        // No metric is hidden, so nothing increases this counter.
        add.counter(Beta, "hidden_metrics_total", "Metrics that are hidden because they are deprecated.", &[]);
        Self {
            registered: add.counter(
                Beta,
                "registered_metrics_total",
                "Metrics of kube-scheduler that exist here, by stability. No metric is deprecated.",
                &["stability_level", "deprecated_version"],
            ),
            disabled: add.counter(Beta, "disabled_metrics_total", "Metrics that --disabled-metrics names.", &[]),
        }
    }

    /// Sets the number of metrics. Berth's own metrics have no stability, and are not counted.
    pub(super) fn set_registered(&self, all: &[Registered]) {
        let mut by_stability: BTreeMap<&str, u64> = BTreeMap::new();
        for registered in all.iter().filter(|registered| !registered.stability.is_empty()) {
            *by_stability.entry(registered.stability).or_default() += 1;
        }
        for (stability, n_metrics) in by_stability {
            raise(&self.registered, &[stability, ""], n_metrics);
        }
    }

    /// Sets the number of metrics that an operator disabled.
    pub(super) fn set_disabled(&self, n_metrics: usize) {
        raise(&self.disabled, &[], n_metrics as u64);
    }
}
