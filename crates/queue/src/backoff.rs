//! How long a pod waits after an attempt that failed.

use std::time::Duration;

use berth_model::{Time, backoff::backoff_duration};
use serde::{Deserialize, Serialize};

/// Doubles with every failure, up to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// Milliseconds after the first failure.
    pub initial: u64,
    /// Milliseconds at most; 0 turns backoff off.
    pub max: u64,
}

impl Default for Backoff {
    /// One second, up to ten: Kubernetes' defaults.
    fn default() -> Self {
        Self { initial: 1000, max: 10_000 }
    }
}

impl Backoff {
    /// Milliseconds to wait after `count` failures.
    #[must_use]
    pub fn duration(self, count: u32) -> u64 {
        let [initial, max] = [self.initial, self.max].map(Duration::from_millis);
        u64::try_from(backoff_duration(count, initial, max).as_millis()).unwrap_or(u64::MAX)
    }

    /// The whole second after which a pod that failed `count` times, last at `failed_at`, may be tried again; `None`
    /// when it need not wait.
    #[must_use]
    pub fn expiry(self, failed_at: Time, count: u32) -> Option<Time> {
        (count > 0 && self.max > 0).then(|| (failed_at + self.duration(count)).whole_second())
    }
}

/// Whether backoff until `expiry` is over: the second of `expiry` itself still counts.
pub(crate) fn is_over(expiry: Time, now: Time) -> bool {
    expiry < now.whole_second()
}

/// The first moment at which [`is_over`] holds.
pub(crate) fn over_at(expiry: Time) -> Time {
    expiry + 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_limit() {
        let backoff = Backoff::default();
        let durations: Vec<u64> = (0..7).map(|count| backoff.duration(count)).collect();
        assert_eq!(durations, [0, 1000, 2000, 4000, 8000, 10_000, 10_000]);
        assert_eq!(backoff.duration(200), 10_000);
        assert_eq!(Backoff { initial: 5, max: 0 }.expiry(Time(0), 3), None);
    }

    #[test]
    fn ends_after_a_whole_second() {
        let noon = 43_200_000;
        let expiry = Backoff::default().expiry(Time(noon + 700), 3);
        assert_eq!(expiry, Some(Time(noon + 4000)));
        assert!(!is_over(Time(noon + 4000), Time(noon + 4999)));
        assert!(is_over(Time(noon + 4000), Time(noon + 5000)));
    }
}
