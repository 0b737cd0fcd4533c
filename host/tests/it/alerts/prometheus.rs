//! The data that a Prometheus server would hold of `/metrics`, and promtool (Debian's package `prometheus`), which
//! evaluates the rules over this data.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use serde_json::{Value, json};

use crate::cluster::Scheduler;

/// The rules that users install.
pub(super) const RULES: &str = include_str!("../../../../deploy/monitoring/rules.yaml");
const RULES_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/monitoring/rules.yaml");

/// The minutes before something happens, in which the first moment lasts.
const BEFORE: usize = 60;

/// The minutes that each further moment lasts.
const EACH: usize = 4;

/// The minutes for which the last growth goes on.
const GOES_ON: usize = 60;

/// The figures of one scrape that the rules read, by series: the name with its labels, as `/metrics` has it.
#[derive(Clone, Debug, Default)]
pub(super) struct Scrape(BTreeMap<String, Sample>);

#[derive(Clone, Copy, Debug)]
struct Sample {
    value: f64,
    /// Whether the sample only grows, because it belongs to a counter or a histogram.
    grows: bool,
}

/// The scrapes of all replicas at one time, by instance. A replica that does not answer has no scrape.
pub(super) type Moment = BTreeMap<&'static str, Option<Scrape>>;

/// The time after the last moment of a story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Nothing more happens: all values stay.
    Quiet,
    /// The changes before the last moment are repeated each minute for an hour.
    Again,
}

/// The samples of each series, one for each minute, in the notation of promtool. The series have the labels that
/// Prometheus adds.
#[derive(Debug, Default)]
pub(super) struct Samples {
    series: BTreeMap<String, Vec<Option<f64>>>,
    n_minutes: usize,
}

impl Scrape {
    pub(super) async fn of(scheduler: &Scheduler) -> Self {
        Self::when(scheduler, |_| true).await
    }

    /// Scrapes until the figures are right.
    pub(super) async fn when(scheduler: &Scheduler, is_right: impl Fn(&Self) -> bool) -> Self {
        Self::read(&scheduler.until("/metrics", |text| is_right(&Self::read(text))).await)
    }

    /// Scrapes until the series that begin with this text have grown to a sum.
    pub(super) async fn at_least(scheduler: &Scheduler, series: &str, sum: f64) -> Self {
        Self::when(scheduler, |scrape| scrape.sum(series) >= sum).await
    }

    fn read(text: &str) -> Self {
        let (mut samples, mut grows) = (BTreeMap::new(), false);
        for line in text.lines() {
            if let Some(described) = line.strip_prefix("# TYPE ") {
                grows = described.ends_with(" counter") || described.ends_with(" histogram");
            }
            let name = line.split(['{', ' ']).next().unwrap_or_default();
            if line.starts_with('#') || name.is_empty() || !RULES.contains(name) {
                continue;
            }
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            if let Ok(value) = value.parse() {
                samples.insert(series.to_owned(), Sample { value, grows });
            }
        }
        Self(samples)
    }

    /// The sum of the series that begin with this text.
    pub(super) fn sum(&self, start: &str) -> f64 {
        let found = self.0.iter().filter(|(series, _)| series.starts_with(start));
        found.map(|(_, sample)| sample.value).sum()
    }

    /// Whether the name or the labels of a series contain this text.
    pub(super) fn has(&self, part: &str) -> bool {
        self.0.keys().any(|series| series.contains(part))
    }

    /// This scrape, continued at the same rate: the growth since `before` is added `times` more times.
    fn again(&self, before: Option<&Self>, times: usize) -> Self {
        let times = f64::from(u32::try_from(times).expect("few minutes"));
        let grown = |series: &String, sample: Sample| {
            let old = before.and_then(|before| before.0.get(series)).map_or(0.0, |old| old.value);
            // A process that has started again counts from zero.
            let growth = if old <= sample.value { sample.value - old } else { sample.value };
            if sample.grows { Sample { value: sample.value + growth * times, ..sample } } else { sample }
        };
        Self(self.0.iter().map(|(series, sample)| (series.clone(), grown(series, *sample))).collect())
    }
}

/// A moment at which only one replica exists.
pub(super) fn alone(scrape: Scrape) -> Moment {
    Moment::from([("a", Some(scrape))])
}

impl Samples {
    /// The first moment lasts for an hour, and each further moment for some minutes. Then the time continues as `then`
    /// says.
    pub(super) fn of(moments: &[Moment], then: Then) -> Self {
        let mut samples = Self::default();
        for (number, moment) in moments.iter().enumerate() {
            let n_minutes = if number == 0 { BEFORE } else { EACH };
            (0..n_minutes).for_each(|_| samples.add(moment));
        }
        if then == Then::Again
            && let [.., before, last] = moments
        {
            for minute in 1..=GOES_ON {
                let later = last.iter().map(|(instance, scrape)| {
                    let before = before.get(instance).and_then(Option::as_ref);
                    (*instance, scrape.as_ref().map(|scrape| scrape.again(before, minute)))
                });
                samples.add(&later.collect());
            }
        }
        samples
    }

    fn add(&mut self, moment: &Moment) {
        for (instance, scrape) in moment {
            self.set(&format!("up{{job=\"berth\",instance=\"{instance}\"}}"), f64::from(u8::from(scrape.is_some())));
            for (series, sample) in scrape.iter().flat_map(|scrape| &scrape.0) {
                self.set(&with_target(series, instance), sample.value);
            }
        }
        self.n_minutes += 1;
        for values in self.series.values_mut() {
            values.resize(self.n_minutes, None);
        }
    }

    fn set(&mut self, series: &str, value: f64) {
        let values = self.series.entry(series.to_owned()).or_default();
        values.resize(self.n_minutes, None);
        values.push(Some(value));
    }

    /// The last minute of the first moment.
    pub(super) fn before(&self) -> usize {
        BEFORE.min(self.n_minutes) - 1
    }

    /// The last minute.
    pub(super) fn end(&self) -> usize {
        self.n_minutes - 1
    }

    /// promtool's `input_series`.
    fn input(&self) -> Value {
        let mut input = Vec::new();
        for (series, values) in &self.series {
            let mut was_there = false;
            let mut words = Vec::with_capacity(values.len());
            for value in values {
                words.push(match value {
                    Some(value) => value.to_string(),
                    // Prometheus marks a series as stale when its target no longer has the series.
                    None if was_there => "stale".to_owned(),
                    None => "_".to_owned(),
                });
                was_there = value.is_some();
            }
            input.push(json!({"series": series, "values": words.join(" ")}));
        }
        input.into()
    }

    /// The series that change, each with its first and last value, for people.
    fn changes(&self) -> String {
        let ends = self.series.iter().map(|(series, values)| (series, values.first(), values.last()));
        let changing = ends.filter(|(_, first, last)| first != last);
        changing.map(|(series, first, last)| format!("{series}: {first:?} to {last:?}\n")).collect()
    }
}

/// The series with the labels that Prometheus adds.
fn with_target(series: &str, instance: &str) -> String {
    let target = format!("job=\"berth\",instance=\"{instance}\"");
    match series.split_once('{') {
        Some((name, labels)) => format!("{name}{{{target},{labels}"),
        None => format!("{series}{{{target}}}"),
    }
}

/// The names of the alerts in the rules.
pub(super) fn names() -> BTreeSet<&'static str> {
    RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect()
}

/// Whether promtool is on the path. Without it a test says that it was not run.
pub(super) fn has_promtool() -> bool {
    let found = Command::new("promtool").arg("--version").output().is_ok();
    if !found {
        eprintln!("the alerts were NOT RUN: promtool is not on the PATH (Debian's package prometheus has it)");
    }
    found
}

/// An expectation: the alerts that fire at a minute, with the labels after `alertname`. `alert` is one alert, or `None`
/// for all alerts.
pub(super) fn firing(alert: Option<&str>, minute: usize, labels: &[&str]) -> Value {
    let which = alert.map_or_else(String::new, |alert| format!("alertname=\"{alert}\","));
    let series = |labels: &&str| {
        let name = alert.unwrap_or_default();
        json!({"labels": format!("ALERTS{{alertname=\"{name}\",alertstate=\"firing\",{labels}}}"), "value": 1})
    };
    json!({
        "expr": format!("ALERTS{{{which}alertstate=\"firing\"}}"),
        "eval_time": format!("{minute}m"),
        "exp_samples": labels.iter().map(series).collect::<Vec<Value>>(),
    })
}

/// Evaluates the rules over the samples with promtool, which must find the expected alerts.
pub(super) fn evaluate(name: &str, samples: &Samples, expected: &[Value]) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("alerts.yaml");
    let test = json!({
        "name": name, "interval": "1m", "input_series": samples.input(), "promql_expr_test": expected,
    });
    // JSON is YAML.
    let tests = json!({"rule_files": [RULES_FILE], "evaluation_interval": "1m", "tests": [test]});
    fs::write(&file, tests.to_string()).expect("a file");
    let output = Command::new("promtool").args(["test", "rules"]).arg(&file).output().expect("promtool runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {out}{err}\n{}", samples.changes());
}
