//! `/metrics/slis`: the results of health checks. These metrics have a separate registry, which can be scraped often
//! (`component-base/metrics/prometheus/slis`).

use prometheus::{IntCounterVec, IntGaugeVec, Registry};

use super::registration::{Registration, Stability::Stable};

#[derive(Debug)]
pub(super) struct Slis {
    registry: Registry,
    last: IntGaugeVec,
    total: IntCounterVec,
}

impl Slis {
    pub(super) fn new() -> Self {
        let mut add = Registration::default();
        let last = "This metric records the result of a single healthcheck.";
        let total = "This metric records the results of all healthcheck.";
        Self {
            last: add.gauge(Stable, "kubernetes_healthcheck", last, &["name", "type"]),
            total: add.counter(Stable, "kubernetes_healthchecks_total", total, &["name", "type", "status"]),
            registry: add.registry,
        }
    }

    pub(super) fn probed(&self, probe: &str, check: &str, is_well: bool) {
        self.last.with_label_values(&[check, probe]).set(is_well.into());
        let status = if is_well { "success" } else { "error" };
        self.total.with_label_values(&[check, probe, status]).inc();
    }

    pub(super) fn render(&self) -> String {
        super::render(self.registry.gather())
    }
}
