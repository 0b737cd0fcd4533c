//! The time that a watch waits before it connects again.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use tokio::time::Instant;

/// The time without a failure after which the next wait is short again.
const RESET_AFTER: Duration = Duration::from_secs(120);

/// The waits of client-go's reflector: 800 ms, doubled with each failure up to 30 s, with jitter
/// (`tools/cache/reflector.go`).
#[derive(Debug)]
pub(super) struct ReconnectBackoff {
    waits: ExponentialBackoff,
    last_failure: Option<Instant>,
}

impl Default for ReconnectBackoff {
    fn default() -> Self {
        Self { waits: waits(), last_failure: None }
    }
}

impl ReconnectBackoff {
    /// The wait after a failure at `now`.
    pub(super) fn next(&mut self, now: Instant) -> Duration {
        if self.last_failure.is_some_and(|last| now.saturating_duration_since(last) > RESET_AFTER) {
            self.waits = waits();
        }
        self.last_failure = Some(now);
        self.waits.next().unwrap_or(MAX_WAIT)
    }
}

const MAX_WAIT: Duration = Duration::from_secs(30);

fn waits() -> ExponentialBackoff {
    let builder = ExponentialBuilder::new().with_min_delay(Duration::from_millis(800)).with_max_delay(MAX_WAIT);
    builder.with_factor(2.0).with_jitter().without_max_times().build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_start_over_after_two_calm_minutes() {
        let (mut backoff, start) = (ReconnectBackoff::default(), Instant::now());
        let first = backoff.next(start);
        assert!((800..1600).contains(&first.as_millis()), "{first:?}");
        let later: Vec<Duration> = (0..100).map(|_| backoff.next(start)).collect();
        assert!(later.iter().skip(5).all(|wait| (30..=60).contains(&wait.as_secs())), "{later:?}");
        assert!(backoff.next(start + RESET_AFTER) >= MAX_WAIT);
        let calm = start + RESET_AFTER * 2 + Duration::from_secs(1);
        assert!(backoff.next(calm) < Duration::from_millis(1600));
    }
}
