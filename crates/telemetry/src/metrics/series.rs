//! Arithmetic with series of one metric: their sums, and their differences from an earlier moment.

use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricType};

/// The labels of a series, which distinguish it from the other series of the metric.
pub(super) type Labels = Vec<(String, String)>;

/// An operation on two series.
#[derive(Clone, Copy)]
pub(super) struct Operation {
    numbers: fn(f64, f64) -> f64,
    counts: fn(u64, u64) -> u64,
}

pub(super) const SUM: Operation = Operation { numbers: |left, right| left + right, counts: u64::saturating_add };

/// The left series minus the right series.
pub(super) const DIFFERENCE: Operation = Operation { numbers: |left, right| left - right, counts: u64::saturating_sub };

pub(super) fn labels_of(metric: &Metric) -> Labels {
    let pair = |label: &LabelPair| (label.name().to_owned(), label.value().to_owned());
    metric.get_label().iter().map(pair).collect()
}

impl Operation {
    /// The result for two series of the same kind. The result has the labels of the left series.
    pub(super) fn of(self, kind: MetricType, left: &Metric, right: &Metric) -> Metric {
        let mut result = left.clone();
        match kind {
            MetricType::COUNTER => {
                let mut counter = Counter::default();
                counter.set_value((self.numbers)(left.get_counter().get_value(), right.get_counter().get_value()));
                result.set_counter(counter);
            }
            MetricType::GAUGE => {
                let mut gauge = Gauge::default();
                gauge.set_value((self.numbers)(left.get_gauge().get_value(), right.get_gauge().get_value()));
                result.set_gauge(gauge);
            }
            MetricType::HISTOGRAM => {
                result.set_histogram(self.of_histograms(left.get_histogram(), right.get_histogram()));
            }
            // Berth has no such metrics.
            MetricType::SUMMARY | MetricType::UNTYPED => {}
        }
        result
    }

    /// The result for two histograms with the same buckets.
    fn of_histograms(self, left: &Histogram, right: &Histogram) -> Histogram {
        let mut result = Histogram::default();
        result.set_sample_count((self.counts)(left.get_sample_count(), right.get_sample_count()));
        result.set_sample_sum((self.numbers)(left.get_sample_sum(), right.get_sample_sum()));
        let buckets = left.get_bucket().iter().zip(right.get_bucket()).map(|(left, right)| {
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(left.upper_bound());
            bucket.set_cumulative_count((self.counts)(left.cumulative_count(), right.cumulative_count()));
            bucket
        });
        result.set_bucket(buckets.collect());
        result
    }
}
