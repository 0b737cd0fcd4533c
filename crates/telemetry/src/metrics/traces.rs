//! The spans that were sent to a trace collector, and the spans that were lost.

use prometheus::IntCounterVec;

use super::registration::{Registration, Stability};

/// The counters, which all callers share.
#[derive(Clone, Debug)]
pub struct TraceMetrics {
    exported: IntCounterVec,
    lost: IntCounterVec,
}

/// The reason why spans were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostSpans {
    /// Too many other spans waited for the collector.
    QueueFull,
    /// The collector refused the spans or could not be reached.
    NotTaken,
}

impl LostSpans {
    fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::NotTaken => "not_taken",
        }
    }
}

impl TraceMetrics {
    pub(super) fn new(add: &mut Registration) -> Self {
        let none = Stability::None;
        Self {
            exported: add.counter(
                none,
                "berth_trace_spans_exported_total",
                "Spans that the trace collector accepted.",
                &[],
            ),
            lost: add.counter(
                none,
                "berth_trace_spans_lost_total",
                "Spans that the trace collector did not receive, by reason.",
                &["reason"],
            ),
        }
    }

    /// Records that the collector accepted this many spans.
    pub fn exported(&self, n_spans: usize) {
        self.exported.with_label_values::<&str>(&[]).inc_by(n_spans as u64);
    }

    /// Records that this many spans were lost.
    pub fn lost(&self, n_spans: usize, reason: LostSpans) {
        self.lost.with_label_values(&[reason.as_str()]).inc_by(n_spans as u64);
    }
}
