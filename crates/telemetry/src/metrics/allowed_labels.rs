//! The values of labels that an operator allows (`--allow-metric-labels`, as in `k8s.io/component-base/metrics`). Any
//! other value of such a label is shown as `unexpected`, which bounds the number of series.

use std::collections::{BTreeMap, BTreeSet};

use prometheus::proto::{Metric, MetricFamily};

use super::series::{Labels, SUM, labels_of};

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
        let mut series: BTreeMap<Labels, Metric> = BTreeMap::new();
        for mut metric in family.take_metric() {
            for label in metric.mut_label() {
                if labels.get(label.name()).is_some_and(|allowed| !allowed.contains(label.value())) {
                    label.set_value(UNEXPECTED.to_owned());
                }
            }
            let key = labels_of(&metric);
            match series.remove(&key) {
                None => series.insert(key, metric),
                Some(same) => series.insert(key, SUM.of(kind, &same, &metric)),
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
