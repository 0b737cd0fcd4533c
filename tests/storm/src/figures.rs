//! What a stretch of time looked like, from the scheduler's metrics and from a client's view.

use std::{fmt, time::Duration};

/// The scheduler's counters at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mark {
    /// Upper bounds in seconds, and how many cycles took at most as long.
    pub(crate) cycles: Vec<(f64, f64)>,
}

/// What a client saw of its pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) elapsed: Duration,
    /// From creation to the binding that the watch showed.
    pub(crate) latencies: Vec<Duration>,
}

/// A stretch of time.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    cycles: Vec<(f64, f64)>,
    seen: Seen,
}

impl Phase {
    pub(crate) fn between(begin: &Mark, end: &Mark, seen: Seen) -> Self {
        let before =
            |bound: f64| begin.cycles.iter().find(|(other, _)| *other == bound).map_or(0.0, |(_, count)| *count);
        let cycles = end.cycles.iter().map(|(bound, count)| (*bound, count - before(*bound))).collect();
        Self { cycles, seen }
    }

    /// The upper bound of the bucket that holds the 99th of a hundred cycles, in seconds.
    pub(crate) fn p99_cycle(&self) -> f64 {
        let total = self.cycles.last().map_or(0.0, |(_, count)| *count);
        self.cycles.iter().find(|(_, count)| *count >= total * 0.99).map_or(0.0, |(bound, _)| *bound)
    }

    /// The upper bound of the highest bucket in use, in seconds.
    pub(crate) fn longest_cycle(&self) -> f64 {
        let total = self.cycles.last().map_or(0.0, |(_, count)| *count);
        self.cycles.iter().find(|(_, count)| *count >= total).map_or(0.0, |(bound, _)| *bound)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds: Vec<f64> = self.seen.latencies.iter().map(|latency| latency.as_secs_f64() * 1e3).collect();
        let rate = f64::from(u32::try_from(milliseconds.len()).unwrap_or(u32::MAX)) / self.seen.elapsed.as_secs_f64();
        write!(
            formatter,
            "{rate:.0} pods/s bound; from creation to binding p50 {:.1} ms, p99 {:.1} ms; p99 of a cycle below {:.3} ms",
            percentile(&milliseconds, 0.5),
            percentile(&milliseconds, 0.99),
            self.p99_cycle() * 1e3,
        )
    }
}

/// The value below which this share of the values lies; 0 without values.
pub(crate) fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n_below =
        sorted.iter().zip(1u32..).take_while(|(_, rank)| f64::from(*rank) < share * sorted.len() as f64).count();
    sorted.get(n_below).copied().unwrap_or(0.0)
}
