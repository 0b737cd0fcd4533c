//! The values of labels that an operator allows (`--allow-metric-labels`, as in `k8s.io/component-base/metrics`). Any
//! other value of such a label is shown as `unexpected`, which bounds the number of series.

use std::collections::{BTreeMap, BTreeSet};

use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};

/// The value that stands for all values that are not allowed.
const UNEXPECTED: &str = "unexpected";

/// The allowed values by metric and label. Labels that are not listed may have any value.
#[derive(Clone, Debug, Default)]
pub struct AllowedLabels(BTreeMap<String, BTreeMap<String, BTreeSet<String>>>);

/// A key is not the name of a metric and of a label. The text is kube-scheduler's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "--allow-metric-labels must have a list of kv pair with format `metricName,labelName=labelValue, labelValue,...`"
)]
pub struct InvalidKey;

impl AllowedLabels {
    /// Allows `values`, separated by commas, of the label that `key` names as `METRIC,LABEL`.
    ///
    /// # Errors
    /// `key` has another form.
    pub fn allow(&mut self, key: &str, values: &str) -> Result<(), InvalidKey> {
        let (metric, label) = key.split_once(',').ok_or(InvalidKey)?;
        if !is_name(metric, true) || !is_name(label, false) {
            return Err(InvalidKey);
        }
        let labels = self.0.entry(metric.to_owned()).or_default();
        labels.insert(label.to_owned(), values.split(',').map(str::to_owned).collect());
        Ok(())
    }

    /// Replaces the values that are not allowed, and adds up the series whose labels are equal afterwards.
    pub(super) fn apply(&self, family: &mut MetricFamily) {
        let Some(labels) = self.0.get(family.name()) else { return };
        let kind = family.get_field_type();
        let mut series: BTreeMap<Vec<(String, String)>, Metric> = BTreeMap::new();
        for mut metric in family.take_metric() {
            for label in metric.mut_label() {
                if labels.get(label.name()).is_some_and(|allowed| !allowed.contains(label.value())) {
                    label.set_value(UNEXPECTED.to_owned());
                }
            }
            let pair = |label: &LabelPair| (label.name().to_owned(), label.value().to_owned());
            let key = metric.get_label().iter().map(pair).collect();
            match series.remove(&key) {
                None => series.insert(key, metric),
                Some(same) => series.insert(key, sum(kind, &same, &metric)),
            };
        }
        family.set_metric(series.into_values().collect());
    }
}

/// Whether the text can be the name of a metric, or of a label. Names of metrics may contain colons.
fn is_name(text: &str, has_colons: bool) -> bool {
    let is_begin = |c: char| c.is_ascii_alphabetic() || c == '_' || has_colons && c == ':';
    text.starts_with(is_begin) && text.chars().all(|c| is_begin(c) || c.is_ascii_digit())
}

/// The sum of two series with the same labels.
fn sum(kind: MetricType, left: &Metric, right: &Metric) -> Metric {
    let mut sum = left.clone();
    match kind {
        MetricType::COUNTER => {
            let mut counter = Counter::default();
            counter.set_value(left.get_counter().get_value() + right.get_counter().get_value());
            sum.set_counter(counter);
        }
        MetricType::GAUGE => {
            let mut gauge = Gauge::default();
            gauge.set_value(left.get_gauge().get_value() + right.get_gauge().get_value());
            sum.set_gauge(gauge);
        }
        MetricType::HISTOGRAM => sum.set_histogram(histogram_sum(left.get_histogram(), right.get_histogram())),
        // Berth has no summaries and no metrics without a type.
        MetricType::SUMMARY | MetricType::UNTYPED => {}
    }
    sum
}

/// The sum of two histograms with the same buckets.
fn histogram_sum(left: &Histogram, right: &Histogram) -> Histogram {
    let mut sum = Histogram::default();
    sum.set_sample_count(left.get_sample_count() + right.get_sample_count());
    sum.set_sample_sum(left.get_sample_sum() + right.get_sample_sum());
    let buckets = left.get_bucket().iter().zip(right.get_bucket()).map(|(left, right)| {
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(left.upper_bound());
        bucket.set_cumulative_count(left.cumulative_count() + right.cumulative_count());
        bucket
    });
    sum.set_bucket(buckets.collect());
    sum
}
