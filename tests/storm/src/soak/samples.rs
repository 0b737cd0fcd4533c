//! Samples over time, and lines that are fitted to them.

use std::{fmt, time::Duration};

use berth_storm::{ClientView, percentile};

/// The scheduler at one time, and a client's figures since the previous sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    hours: f64,
    megabytes: f64,
    symbols: f64,
    n_bound: usize,
    /// The time from creation to binding, in milliseconds.
    p50: f64,
    p99: f64,
}

#[derive(Debug, Default)]
pub(crate) struct Samples(Vec<Sample>);

/// The limits. Growth is how much the fitted line rises after the warm-up, as a share of the mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) memory_growth: f64,
    pub(crate) symbols: f64,
    pub(crate) latency_growth: f64,
}

/// The share of the time in which caches fill.
const WARM_UP: f64 = 0.3;

/// A line through points, by least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    mean: f64,
    per_hour: f64,
    hours: f64,
}

impl Sample {
    pub(crate) fn new(elapsed: Duration, resident_kilobytes: u64, symbols: f64, seen: &ClientView) -> Self {
        let milliseconds: Vec<f64> = seen.latencies.iter().map(|latency| latency.as_secs_f64() * 1e3).collect();
        Self {
            hours: elapsed.as_secs_f64() / 3600.0,
            megabytes: f64::from(u32::try_from(resident_kilobytes).unwrap_or(u32::MAX)) / 1e3,
            symbols,
            n_bound: milliseconds.len(),
            p50: percentile(&milliseconds, 0.5),
            p99: percentile(&milliseconds, 0.99),
        }
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hours, megabytes, symbols, n_bound, p50, p99 } = self;
        let minutes = hours * 60.0;
        write!(
            formatter,
            "{minutes:7.1} min: memory {megabytes:.0} MB, {symbols:.0} symbols, {n_bound} pods bound, p50 {p50:.0} ms, p99 {p99:.0} ms"
        )
    }
}

impl Samples {
    pub(crate) fn push(&mut self, sample: Sample) {
        self.0.push(sample);
    }

    /// Prints the figures, and returns whether all are within their limits.
    pub(crate) fn report(&self, limits: &Limits) -> bool {
        let from = self.0.last().map_or(0.0, |last| last.hours * WARM_UP);
        let after_warm_up = |figure: fn(&Sample) -> f64| -> Vec<(f64, f64)> {
            let counted = self.0.iter().filter(|sample| sample.hours >= from);
            counted.map(|sample| (sample.hours, figure(sample))).collect()
        };
        let most_symbols = self.0.iter().map(|sample| sample.symbols).fold(0.0, f64::max);
        let few_symbols = most_symbols <= limits.symbols;
        println!("symbols: {most_symbols:.0} at most (limit {:.0}): {}", limits.symbols, verdict(few_symbols));
        let memory = Line::through(&after_warm_up(|sample| sample.megabytes));
        let flat = memory.report("memory", "MB", limits.memory_growth);
        Line::through(&after_warm_up(|sample| sample.p50)).report("p50 from creation to binding", "ms", f64::INFINITY);
        let latency = Line::through(&after_warm_up(|sample| sample.p99));
        let quick = latency.report("p99 from creation to binding", "ms", limits.latency_growth);
        few_symbols && flat && quick
    }
}

impl Line {
    fn through(points: &[(f64, f64)]) -> Self {
        let n = f64::from(u32::try_from(points.len()).unwrap_or(u32::MAX)).max(1.0);
        let mean = |part: fn(&(f64, f64)) -> f64| points.iter().map(part).sum::<f64>() / n;
        let (mean_hours, mean_value) = (mean(|point| point.0), mean(|point| point.1));
        let covariance: f64 = points.iter().map(|(hours, value)| (hours - mean_hours) * (value - mean_value)).sum();
        let variance: f64 = points.iter().map(|(hours, _)| (hours - mean_hours).powi(2)).sum();
        let per_hour = if variance > 0.0 { covariance / variance } else { 0.0 };
        let hours = points.last().zip(points.first()).map_or(0.0, |(last, first)| last.0 - first.0);
        Self { mean: mean_value, per_hour, hours }
    }

    /// The rise of the line over its whole length, as a share of the mean.
    fn growth(&self) -> f64 {
        self.per_hour * self.hours / self.mean.max(f64::MIN_POSITIVE)
    }

    fn report(&self, what: &str, unit: &str, limit: f64) -> bool {
        let passes = self.growth() <= limit;
        let Self { mean, per_hour, hours } = self;
        println!(
            "{what}: {mean:.0} {unit} on average, {per_hour:+.1} {unit} an hour; over {:.1} minutes {:+.1} % (limit {:.0} %): {}",
            hours * 60.0,
            self.growth() * 100.0,
            limit * 100.0,
            verdict(passes),
        );
        passes
    }
}

fn verdict(passes: bool) -> &'static str {
    if passes { "pass" } else { "FAIL" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(megabytes: impl Fn(f64) -> f64) -> Samples {
        let seen = ClientView { latencies: vec![Duration::from_millis(20)], ..ClientView::default() };
        let mut samples = Samples::default();
        for minute in 1..=60 {
            let mut sample = Sample::new(Duration::from_secs(60 * minute), 0, 5_000.0, &seen);
            sample.megabytes = megabytes(sample.hours);
            samples.push(sample);
        }
        samples
    }

    #[test]
    fn what_grows_fails_and_what_levels_off_passes() {
        let limits = Limits { memory_growth: 0.1, symbols: 6_000.0, latency_growth: 1.0 };
        assert!(samples(|_| 200.0).report(&limits));
        assert!(samples(|hours| 200.0 * (hours * 5.0).min(1.0)).report(&limits), "the warm-up does not count");
        assert!(!samples(|hours| 200.0 + 100.0 * hours).report(&limits));
        assert!(!samples(|_| 200.0).report(&Limits { symbols: 4_000.0, ..limits }));
    }

    #[test]
    fn a_line_has_its_slope() {
        let line = Line::through(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]);
        assert_eq!(line, Line { mean: 3.0, per_hour: 2.0, hours: 2.0 });
        assert_eq!(Line::through(&[]).growth(), 0.0);
    }
}
