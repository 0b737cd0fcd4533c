//! How long a pod waits before it is tried again.
//!
//! Rule: `podInitialBackoffSeconds` and `podMaxBackoffSeconds` of `KubeSchedulerConfiguration`; `calculateBackoffDuration` in
//! kube-scheduler's `pkg/scheduler/backend/queue/backoff_queue.go`.

use std::time::Duration;

/// The wait after the `count`th attempt in a row that failed: `initial`, doubled with each, at most `max`.
///
/// Nothing before the first failure, or if `initial` or `max` is nothing.
#[must_use]
pub fn backoff_duration(count: u32, initial: Duration, max: Duration) -> Duration {
    let Some(doublings) = count.checked_sub(1) else {
        return Duration::ZERO;
    };
    if initial.is_zero() {
        return Duration::ZERO;
    }
    match 1u32.checked_shl(doublings) {
        Some(factor) => initial.saturating_mul(factor).min(max),
        None => max,
    }
}
