//! The figures of a period, from the scheduler's metrics and from the view of a client.

use std::{
    fmt,
    time::{Duration, Instant},
};

/// The upper bounds in seconds, each with the number of values up to it.
pub type Buckets = Vec<(f64, f64)>;

/// The scheduler's counters at one time.
#[derive(Clone, Debug, Default)]
pub struct Mark {
    pub at: Option<Instant>,
    pub cycles: Buckets,
    pub pauses: Buckets,
    /// The time for which the scheduling thread has waited for a processor.
    pub starved: Duration,
}

/// The figures of a client about its pods.
#[derive(Clone, Debug, Default)]
pub struct ClientView {
    pub elapsed: Duration,
    /// The times from a pod's creation to the binding in the watch.
    pub latencies: Vec<Duration>,
}

/// A stretch of time.
#[derive(Clone, Debug)]
pub struct Phase {
    /// The scheduling cycles, each with its delay by swaps.
    pub cycles: Histogram,
    /// The steps of swaps on the scheduling thread.
    pub pauses: Histogram,
    /// The share of the time for which the scheduling thread waited for a processor, which is the machine's part in the
    /// delays.
    starved: f64,
    seen: ClientView,
}

/// Values in buckets. A figure is the upper bound of its bucket.
#[derive(Clone, Debug)]
pub struct Histogram(Buckets);

impl Phase {
    pub fn between(begin: &Mark, end: &Mark, seen: ClientView) -> Self {
        let cycles = Histogram::between(&begin.cycles, &end.cycles);
        let elapsed = begin.at.zip(end.at).map(|(begin, end)| end.duration_since(begin)).unwrap_or_default();
        let starved = end.starved.saturating_sub(begin.starved).as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
        Self { cycles, pauses: Histogram::between(&begin.pauses, &end.pauses), starved, seen }
    }
}

impl Histogram {
    fn between(begin: &Buckets, end: &Buckets) -> Self {
        let before = |bound: f64| begin.iter().find(|(other, _)| *other == bound).map_or(0.0, |(_, count)| *count);
        Self(end.iter().map(|(bound, count)| (*bound, count - before(*bound))).collect())
    }

    fn count(&self) -> f64 {
        self.0.last().map_or(0.0, |(_, count)| *count)
    }

    /// The percentile in seconds; 0 without values.
    pub fn percentile(&self, share: f64) -> f64 {
        let wanted = self.count() * share;
        if wanted == 0.0 {
            return 0.0;
        }
        self.0.iter().find(|(_, count)| *count >= wanted).map_or(0.0, |(bound, _)| *bound)
    }

    pub fn longest(&self) -> f64 {
        self.percentile(1.0)
    }
}

impl fmt::Display for Histogram {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = |share| self.percentile(share) * 1e3;
        write!(
            formatter,
            "{}: p50 {:.3} ms, p99 {:.3} ms, longest {:.3} ms",
            self.count(),
            milliseconds(0.5),
            milliseconds(0.99),
            milliseconds(1.0),
        )
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds: Vec<f64> = self.seen.latencies.iter().map(|latency| latency.as_secs_f64() * 1e3).collect();
        let rate = f64::from(u32::try_from(milliseconds.len()).unwrap_or(u32::MAX)) / self.seen.elapsed.as_secs_f64();
        writeln!(
            formatter,
            "{rate:.0} pods/s bound, from creation to binding p50 {:.1} ms, p99 {:.1} ms",
            percentile(&milliseconds, 0.5),
            percentile(&milliseconds, 0.99),
        )?;
        write!(
            formatter,
            "  cycles {}; the scheduling thread waited {:.2} % of the time for a processor",
            self.cycles,
            self.starved * 100.0
        )?;
        if self.pauses.count() > 0.0 {
            write!(formatter, "\n  pauses for swaps {}", self.pauses)?;
        }
        Ok(())
    }
}

/// The value below which this share of the values lies; 0 without values.
pub fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n_below =
        sorted.iter().zip(1u32..).take_while(|(_, rank)| f64::from(*rank) < share * sorted.len() as f64).count();
    sorted.get(n_below).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_counts_what_came_after_its_begin() {
        let begin = vec![(0.1, 5.0), (0.2, 6.0), (f64::INFINITY, 6.0)];
        let end = vec![(0.1, 5.0), (0.2, 15.0), (0.4, 16.0), (f64::INFINITY, 16.0)];
        let histogram = Histogram::between(&begin, &end);
        assert_eq!(histogram.count(), 10.0);
        assert_eq!((histogram.percentile(0.5), histogram.longest()), (0.2, 0.4));
        assert_eq!(Histogram::between(&begin, &begin).longest(), 0.0);
    }
}
