//! `DELETE /metrics`: counters and histograms begin at zero again. Many counters are set to totals that the scheduler
//! counts, so the counters themselves keep their values. The values at the reset are subtracted when metrics are
//! rendered.

use std::collections::HashMap;

use prometheus::proto::{Metric, MetricFamily, MetricType};

use super::series::{DIFFERENCE, Labels, labels_of};

/// Counters that do not count events since a reset: figures of the process and of the metrics themselves.
const KEPT: [&str; 4] =
    ["disabled_metrics_total", "hidden_metrics_total", "process_cpu_seconds_total", "registered_metrics_total"];

/// The values at the last reset, by metric and labels.
#[derive(Debug, Default)]
pub(super) struct Baseline(HashMap<String, HashMap<Labels, Metric>>);

impl Baseline {
    pub(super) fn of(families: Vec<MetricFamily>) -> Self {
        let counted = families.into_iter().filter(is_counted).map(|mut family| {
            let series: HashMap<Labels, Metric> =
                family.take_metric().into_iter().map(|metric| (labels_of(&metric), metric)).collect();
            (family.name().to_owned(), series)
        });
        Self(counted.collect())
    }

    /// Subtracts the values at the last reset. A series with labels that has not changed since then is left out.
    pub(super) fn apply(&self, family: &mut MetricFamily) {
        let Some(before) = self.0.get(family.name()) else { return };
        let kind = family.get_field_type();
        let since = family.take_metric().into_iter().filter_map(|metric| {
            let labels = labels_of(&metric);
            let Some(before) = before.get(&labels) else { return Some(metric) };
            let since = DIFFERENCE.of(kind, &metric, before);
            (labels.is_empty() || !is_zero(kind, &since)).then_some(since)
        });
        let since = since.collect();
        family.set_metric(since);
    }
}

fn is_counted(family: &MetricFamily) -> bool {
    let is_counter = matches!(family.get_field_type(), MetricType::COUNTER | MetricType::HISTOGRAM);
    is_counter && !KEPT.contains(&family.name())
}

fn is_zero(kind: MetricType, metric: &Metric) -> bool {
    match kind {
        MetricType::COUNTER => metric.get_counter().get_value() <= 0.0,
        MetricType::HISTOGRAM => metric.get_histogram().get_sample_count() == 0,
        MetricType::GAUGE | MetricType::SUMMARY | MetricType::UNTYPED => false,
    }
}
