//! The time that a pod waits after a failed attempt.

use std::time::Duration;

use berth_model::{Time, backoff::backoff_duration};
use serde::{Deserialize, Serialize};

/// The backoff of a pod. It doubles with every failure, up to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// The backoff after the first failure, in milliseconds.
    pub initial: u64,
    /// The longest backoff, in milliseconds; 0 turns backoff off.
    pub max: u64,
}

impl Default for Backoff {
    /// Kubernetes' defaults: one second at first, and at most ten seconds.
    fn default() -> Self {
        Self { initial: 1000, max: 10_000 }
    }
}

impl Backoff {
    /// The milliseconds to wait after `count` failures.
    #[must_use]
    pub fn duration(self, count: u32) -> u64 {
        let [initial, max] = [self.initial, self.max].map(Duration::from_millis);
        u64::try_from(backoff_duration(count, initial, max).as_millis()).unwrap_or(u64::MAX)
    }

    /// The time from which a pod may be tried again after `count` failures, the last one at `failed_at`. `None` if the
    /// pod need not wait.
    #[must_use]
    pub fn end(self, failed_at: Time, count: u32) -> Option<Time> {
        (count > 0 && self.max > 0).then(|| failed_at + self.duration(count))
    }
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
        assert_eq!(Backoff { initial: 5, max: 0 }.end(Time(0), 3), None);
        assert_eq!(backoff.end(Time(700), 3), Some(Time(4700)));
    }
}
