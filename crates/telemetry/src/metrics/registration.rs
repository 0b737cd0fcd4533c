//! Registers metrics under their names. The help text begins with the stability, as in component-base.

use prometheus::{
    CounterVec, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry, core::Collector,
};

/// The promise of Kubernetes about a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stability {
    Alpha,
    Beta,
    Stable,
    /// kube-scheduler does not have the metric.
    None,
}

/// A registered metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registered {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) stability: &'static str,
    pub(super) labels: String,
    /// The number of buckets, and the first two.
    pub(super) buckets: String,
}

/// A metric that is to be registered.
#[derive(Clone, Copy)]
struct Described {
    name: &'static str,
    kind: &'static str,
    stability: Stability,
}

/// Fills a registry.
#[derive(Debug, Default)]
pub(super) struct Registration {
    pub(super) registry: Registry,
    pub(super) registered: Vec<Registered>,
}

#[expect(
    clippy::expect_used,
    reason = "names, labels and buckets are constants, and each test of this module registers them all"
)]
impl Registration {
    /// A counter of fractional amounts.
    pub(super) fn float_counter(
        &mut self,
        stability: Stability,
        name: &'static str,
        help: &str,
        labels: &[&str],
    ) -> CounterVec {
        let counter = CounterVec::new(Opts::new(name, with_stability(stability, help)), labels)
            .expect("the name and the labels of a counter are valid");
        self.add(&counter, Described { name, kind: "counter", stability }, labels, &[]);
        counter
    }

    pub(super) fn counter(
        &mut self,
        stability: Stability,
        name: &'static str,
        help: &str,
        labels: &[&str],
    ) -> IntCounterVec {
        let counter = IntCounterVec::new(Opts::new(name, with_stability(stability, help)), labels)
            .expect("the name and the labels of a counter are valid");
        if labels.is_empty() {
            // The metric is shown from the start.
            counter.with_label_values::<&str>(&[]);
        }
        self.add(&counter, Described { name, kind: "counter", stability }, labels, &[]);
        counter
    }

    pub(super) fn gauge(
        &mut self,
        stability: Stability,
        name: &'static str,
        help: &str,
        labels: &[&str],
    ) -> IntGaugeVec {
        let gauge = IntGaugeVec::new(Opts::new(name, with_stability(stability, help)), labels)
            .expect("the name and the labels of a gauge are valid");
        self.add(&gauge, Described { name, kind: "gauge", stability }, labels, &[]);
        gauge
    }

    /// A gauge of fractional amounts.
    pub(super) fn float_gauge(
        &mut self,
        stability: Stability,
        name: &'static str,
        help: &str,
        labels: &[&str],
    ) -> GaugeVec {
        let gauge = GaugeVec::new(Opts::new(name, with_stability(stability, help)), labels)
            .expect("the name and the labels of a gauge are valid");
        self.add(&gauge, Described { name, kind: "gauge", stability }, labels, &[]);
        gauge
    }

    pub(super) fn histogram(
        &mut self,
        stability: Stability,
        name: &'static str,
        help: &str,
        labels: &[&str],
        buckets: Vec<f64>,
    ) -> HistogramVec {
        let options = HistogramOpts::new(name, with_stability(stability, help)).buckets(buckets.clone());
        let histogram =
            HistogramVec::new(options, labels).expect("the name, the labels and the buckets of a histogram are valid");
        if labels.is_empty() {
            histogram.with_label_values::<&str>(&[]);
        }
        self.add(&histogram, Described { name, kind: "histogram", stability }, labels, &buckets);
        histogram
    }

    fn add(
        &mut self,
        collector: &(impl Collector + Clone + 'static),
        described: Described,
        labels: &[&str],
        buckets: &[f64],
    ) {
        let Described { name, kind, stability } = described;
        self.registry.register(Box::new(collector.clone())).expect("no other metric has the name");
        let mut labels = labels.to_vec();
        labels.sort_unstable();
        let buckets = match buckets {
            [first, second, ..] => format!("{}:{first},{second}", buckets.len()),
            [] | [_] => "-".to_owned(),
        };
        let labels = if labels.is_empty() { "-".to_owned() } else { labels.join(",") };
        self.registered.push(Registered { name, kind, stability: stability.as_str(), labels, buckets });
    }
}

impl Stability {
    fn as_str(self) -> &'static str {
        match self {
            Stability::Alpha => "ALPHA",
            Stability::Beta => "BETA",
            Stability::Stable => "STABLE",
            Stability::None => "",
        }
    }
}

fn with_stability(stability: Stability, help: &str) -> String {
    match stability {
        Stability::None => help.to_owned(),
        Stability::Alpha | Stability::Beta | Stability::Stable => format!("[{}] {help}", stability.as_str()),
    }
}
