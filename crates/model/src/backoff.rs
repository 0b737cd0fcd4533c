//! The time that a pod waits before it is tried again.
//!
//! The rule is `podInitialBackoffSeconds` and `podMaxBackoffSeconds` of `KubeSchedulerConfiguration`; see
//! `calculateBackoffDuration` in kube-scheduler's `pkg/scheduler/backend/queue/backoff_queue.go`.

use std::time::Duration;

/// The wait after `count` failed attempts in a row: `initial`, doubled with each further failure, at most `max`.
///
/// The wait is zero before the first failure, or if `initial` or `max` is zero.
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
