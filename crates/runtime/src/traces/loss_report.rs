//! Counts spans that were exported or lost, and writes to the log that some are lost, at most once a minute.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use berth_framework::Clock as _;
use berth_otlp::{ExportError, ExportObserver};
use berth_telemetry::{
    clock::Stopwatch,
    metrics::{LostSpans, TraceMetrics},
};
use tracing::{info, warn};

/// The time between two lines about the same trouble.
const TELL_EVERY: Duration = Duration::from_mins(1);

/// The observer of the exporter.
#[derive(Debug)]
pub(super) struct LossReport {
    metrics: TraceMetrics,
    collector: String,
    /// The last line that the collector accepts no spans; empty while the collector accepts spans.
    failing: LastLine,
    /// The last line that the collector is too slow.
    slow: LastLine,
    /// The spans that were dropped since the collector last accepted spans.
    n_dropped: AtomicUsize,
}

/// The time of the last line about something.
#[derive(Debug, Default)]
struct LastLine(Mutex<Option<Duration>>);

impl LastLine {
    /// Whether another line is due. After `true`, the caller must write the line.
    fn is_due(&self, now: Duration) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| now.saturating_sub(last) >= TELL_EVERY);
        if is_due {
            *last = Some(now);
        }
        is_due
    }

    /// Notes that the trouble is over. Returns whether a line reported the trouble.
    fn clear(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }
}

impl LossReport {
    pub(super) fn new(metrics: TraceMetrics, collector: String) -> Self {
        let [failing, slow] = Default::default();
        Self { metrics, collector, failing, slow, n_dropped: AtomicUsize::new(0) }
    }
}

impl ExportObserver for LossReport {
    fn exported(&self, n_spans: usize) {
        self.metrics.exported(n_spans);
        if self.failing.clear() {
            info!(collector = self.collector, "the trace collector accepts spans again");
        }
        let spans = self.n_dropped.swap(0, Ordering::Relaxed);
        if spans > 0 && self.slow.is_due(Stopwatch.now()) {
            warn!(
                collector = self.collector,
                spans, "the trace collector accepts spans too slowly; some spans are lost"
            );
        }
    }

    fn failed(&self, n_spans: usize, error: &ExportError) {
        self.metrics.lost(n_spans, LostSpans::NotTaken);
        if self.failing.is_due(Stopwatch.now()) {
            let (collector, error) = (&*self.collector, error.to_string());
            warn!(collector, spans = n_spans, error, "the trace collector does not accept spans; the spans are lost");
        }
    }

    // The scheduling thread calls this function, so the function writes nothing to the log.
    fn dropped(&self) {
        self.metrics.lost(1, LostSpans::QueueFull);
        self.n_dropped.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use berth_telemetry::metrics::Metrics;

    use super::*;

    #[test]
    fn a_line_is_due_once_a_minute() {
        let line = LastLine::default();
        let due: Vec<bool> = [1, 2, 60, 61, 62].into_iter().map(|now| line.is_due(Duration::from_secs(now))).collect();
        assert_eq!(due, [true, false, false, true, false]);
        assert!(line.clear() && !line.clear());
        assert!(line.is_due(Duration::from_secs(63)), "the trouble is a new one");
    }

    #[test]
    fn losses_are_counted() {
        let metrics = Metrics::default();
        let report = LossReport::new(metrics.traces.clone(), "http://collector:4317".to_owned());
        report.exported(5);
        report.failed(3, &ExportError::TimedOut);
        report.dropped();
        let text = metrics.render();
        for line in [
            "berth_trace_spans_exported_total 5",
            "berth_trace_spans_lost_total{reason=\"not_taken\"} 3",
            "berth_trace_spans_lost_total{reason=\"queue_full\"} 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is missing from\n{text}");
        }
    }
}
