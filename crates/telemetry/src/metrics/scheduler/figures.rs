//! The current values of the metrics, for people: sums and distributions without the labels that only dashboards need.

use std::collections::BTreeMap;

use berth_framework::Point;
use prometheus::{HistogramVec, IntCounterVec, IntGaugeVec, core::Collector as _, proto};

use super::SchedulerMetrics;

/// The values. Counters count from the start of the process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// The number of pods that wait, by queue: `active`, `backoff`, `unschedulable`, `gated`.
    pub pending: BTreeMap<String, u64>,
    /// The number of attempts by result: `scheduled`, `unschedulable`, `error`.
    pub attempts: BTreeMap<String, u64>,
    /// The time from a pod's first entry into activeQ until it is bound, in seconds.
    pub time_to_bind: Distribution,
    /// The time that extension points took, by name.
    pub points: BTreeMap<String, Timing>,
    /// The time that plugins took.
    pub plugins: PluginTimings,
    /// The number of entries in the cache: `nodes`, `pods`, `assumed_pods`.
    pub cache: BTreeMap<String, u64>,
}

/// The number of runs, and their total time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timing {
    /// The number of runs.
    pub count: u64,
    /// The total time.
    pub seconds: f64,
}

/// The time that plugins took since the start, by name and extension point. One attempt in ten is measured.
pub type PluginTimings = BTreeMap<(String, String), Timing>;

/// The distribution of values over buckets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// The upper bounds, each with the number of values up to it. The numbers are cumulative.
    pub buckets: Vec<(f64, u64)>,
    /// The number of all values, including values beyond the last bucket.
    pub count: u64,
}

impl Distribution {
    /// The values since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |at: usize| earlier.buckets.get(at).map_or(0, |(_, count)| *count);
        let buckets = self.buckets.iter().enumerate();
        let buckets = buckets.map(|(at, (bound, count))| (*bound, count.saturating_sub(before(at)))).collect();
        Self { buckets, count: self.count.saturating_sub(earlier.count) }
    }

    /// The value below which this share of all values lies, computed as in Prometheus' `histogram_quantile`. `None` if
    /// there are no values. If it is beyond the last bucket, the result is that bucket's bound.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "shares of counts")]
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let rank = share * self.count as f64;
        let (mut lower, mut below) = (0.0, 0);
        for (upper, count) in &self.buckets {
            if *count as f64 >= rank && *count > below {
                return Some(lower + (upper - lower) * (rank - below as f64) / (count - below) as f64);
            }
            (lower, below) = (*upper, *count);
        }
        (self.count > 0).then_some(lower)
    }
}

impl SchedulerMetrics {
    /// The current values.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let mut figures = Figures {
            pending: gauges(&self.pending_pods, "queue"),
            attempts: counters(&self.attempts, "result"),
            cache: gauges(&self.cache_size, "type"),
            ..Figures::default()
        };
        each(&self.sli_duration, |_, histogram| {
            let time = &mut figures.time_to_bind;
            time.count += histogram.get_sample_count();
            let buckets = histogram.get_bucket();
            if time.buckets.is_empty() {
                time.buckets = buckets.iter().map(|bucket| (bucket.upper_bound(), 0)).collect();
            }
            for ((_, count), bucket) in time.buckets.iter_mut().zip(buckets) {
                *count += bucket.cumulative_count();
            }
        });
        each(&self.point_duration, |labels, histogram| {
            let point = label(labels, "extension_point");
            figures.points.entry(Point::shown_of(&point).to_owned()).or_default().add(histogram);
        });
        figures.plugins = self.plugin_timings();
        figures
    }

    /// The time that plugins took.
    #[must_use]
    pub fn plugin_timings(&self) -> PluginTimings {
        let mut timings = PluginTimings::default();
        each(&self.plugin_duration, |labels, histogram| {
            let key = (label(labels, "plugin"), label(labels, "extension_point"));
            timings.entry(key).or_default().add(histogram);
        });
        timings
    }
}

impl Timing {
    fn add(&mut self, histogram: &proto::Histogram) {
        self.count += histogram.get_sample_count();
        self.seconds += histogram.get_sample_sum();
    }

    /// The increase since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self { count: self.count.saturating_sub(earlier.count), seconds: (self.seconds - earlier.seconds).max(0.0) }
    }
}

fn each(histograms: &HistogramVec, mut take: impl FnMut(&[proto::LabelPair], &proto::Histogram)) {
    for family in histograms.collect() {
        family.get_metric().iter().for_each(|metric| take(metric.get_label(), metric.get_histogram()));
    }
}

fn label(labels: &[proto::LabelPair], name: &str) -> String {
    labels.iter().find(|label| label.name() == name).map_or_else(String::new, |label| label.value().to_owned())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers of pods, never negative")]
fn gauges(gauges: &IntGaugeVec, name: &str) -> BTreeMap<String, u64> {
    let mut values = BTreeMap::new();
    for metric in gauges.collect().iter().flat_map(|family| family.get_metric().to_vec()) {
        *values.entry(label(metric.get_label(), name)).or_default() += metric.get_gauge().get_value() as u64;
    }
    values
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers of attempts, never negative")]
fn counters(counters: &IntCounterVec, name: &str) -> BTreeMap<String, u64> {
    let mut values = BTreeMap::new();
    for metric in counters.collect().iter().flat_map(|family| family.get_metric().to_vec()) {
        *values.entry(label(metric.get_label(), name)).or_default() += metric.get_counter().get_value() as u64;
    }
    values
}

#[cfg(test)]
mod tests {
    use berth_model::Symbols;
    use berth_scheduler::Observation;

    use crate::metrics::Metrics;

    #[test]
    fn quantiles_are_those_of_the_values_since() {
        let metrics = Metrics::default();
        let bind = |milliseconds: u64| {
            let observation = Observation::Scheduled { attempts: 1, milliseconds, after_flush: false };
            metrics.scheduler.observe(&observation, &Symbols::default());
        };
        assert_eq!(metrics.scheduler.figures().time_to_bind.quantile(0.5), None);
        (0..100).for_each(|_| bind(15));
        let before = metrics.scheduler.figures().time_to_bind;
        let median = before.quantile(0.5).expect("a hundred values");
        assert!((0.01..=0.02).contains(&median), "{median}");
        (0..100).for_each(|_| bind(700));
        let since = metrics.scheduler.figures().time_to_bind.since(&before);
        assert_eq!(since.count, 100);
        let median = since.quantile(0.5).expect("a hundred values");
        assert!((0.64..=1.28).contains(&median), "{median}");
        (0..1000).for_each(|_| bind(100_000_000));
        let all = metrics.scheduler.figures().time_to_bind;
        assert_eq!(all.quantile(0.99), all.buckets.last().map(|(bound, _)| *bound), "beyond the last bucket");
    }
}
