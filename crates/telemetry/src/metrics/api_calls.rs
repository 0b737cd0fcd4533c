//! The calls that kube-scheduler's dispatcher of asynchronous API calls counts: status patches of pods, and bindings.
//!
//! kube-scheduler has these metrics with the gate SchedulerAsyncAPICalls. Berth never waits for such a call, with the
//! gate on or off, and counts the calls only if the gate is on.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, exponential_buckets};

use super::registration::{Registration, Stability::Alpha};

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiCall {
    PodStatusPatch,
    PodBinding,
}

/// The counters, which all callers share.
#[derive(Clone, Debug)]
pub struct ApiCallMetrics {
    executed: IntCounterVec,
    duration: HistogramVec,
    pending: IntGaugeVec,
}

/// A call that waits for its turn until this value is dropped.
#[derive(Debug)]
pub struct PendingCall(IntGauge);

impl ApiCall {
    fn as_str(self) -> &'static str {
        match self {
            Self::PodStatusPatch => "pod_status_patch",
            Self::PodBinding => "pod_binding",
        }
    }
}

impl ApiCallMetrics {
    pub(super) fn new(add: &mut Registration) -> Self {
        Self {
            executed: add.counter(
                Alpha,
                "scheduler_async_api_call_execution_total",
                "Requests that were sent to patch the status of a pod or to bind a pod.",
                &["call_type", "result"],
            ),
            duration: add.histogram(
                Alpha,
                "scheduler_async_api_call_execution_duration_seconds",
                "How long requests to patch the status of a pod or to bind a pod took.",
                &["call_type", "result"],
                exponential_buckets(0.001, 2.0, 15).unwrap_or_default(),
            ),
            pending: add.gauge(
                Alpha,
                "scheduler_pending_async_api_calls",
                "Requests to patch a status or to bind a pod that wait for another request about the same pod.",
                &["call_type"],
            ),
        }
    }

    /// Records that a call was answered.
    pub fn executed(&self, call: ApiCall, succeeded: bool, duration: Duration) {
        let labels = [call.as_str(), if succeeded { "success" } else { "error" }];
        self.executed.with_label_values(&labels).inc();
        self.duration.with_label_values(&labels).observe(duration.as_secs_f64());
    }

    /// Records that a call waits. The call counts as waiting until the result is dropped.
    pub fn waits(&self, call: ApiCall) -> PendingCall {
        let gauge = self.pending.with_label_values(&[call.as_str()]);
        gauge.inc();
        PendingCall(gauge)
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        self.0.dec();
    }
}
