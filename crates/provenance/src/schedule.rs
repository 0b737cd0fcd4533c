//! When a component is pulled again.
//!
//! A tag is asked for at an interval, a digest never once it was pulled. After a failure the next attempt comes soon, then
//! later and later; never later than the interval where there is one. Times are jittered, so that replicas which start
//! together do not ask together.

use std::time::Duration;

/// The first attempt after a failure.
const FIRST_RETRY: Duration = Duration::from_secs(5);
/// The longest wait after failures for a digest.
const LONGEST_RETRY: Duration = Duration::from_secs(5 * 60);

/// How the pulls of one component have gone so far.
#[derive(Clone, Debug)]
pub struct PullSchedule {
    /// `None` for a digest.
    interval: Option<Duration>,
    n_failures: u32,
}

impl PullSchedule {
    /// `interval` is for tags; `None` for a digest.
    #[must_use]
    pub fn new(interval: Option<Duration>) -> Self {
        Self { interval, n_failures: 0 }
    }

    /// How long to wait after a pull that worked; `None` if there is no reason for another one. `chance` is a random number
    /// from 0 to 1.
    pub fn succeeded(&mut self, chance: f64) -> Option<Duration> {
        self.n_failures = 0;
        self.interval.map(|interval| jittered(interval, chance))
    }

    /// How long to wait after one that did not.
    pub fn failed(&mut self, chance: f64) -> Duration {
        let wait = FIRST_RETRY.saturating_mul(1 << self.n_failures.min(16));
        self.n_failures = self.n_failures.saturating_add(1);
        jittered(wait.min(self.interval.unwrap_or(LONGEST_RETRY)), chance)
    }
}

/// The wait, up to a tenth less or more.
fn jittered(wait: Duration, chance: f64) -> Duration {
    wait.mul_f64(0.9 + 0.2 * chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_asked_for_again_and_a_digest_is_not() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let mut tag = PullSchedule::new(Some(minutes(5)));
        assert_eq!(tag.succeeded(0.5), Some(minutes(5)));
        assert_eq!((tag.succeeded(0.0), tag.succeeded(1.0)), (Some(minutes(5) * 9 / 10), Some(minutes(5) * 11 / 10)));
        assert_eq!(PullSchedule::new(None).succeeded(0.5), None);
    }

    #[test]
    fn failures_are_tried_again_ever_later_up_to_the_interval() {
        let seconds = |schedule: &mut PullSchedule| schedule.failed(0.5).as_secs();
        let mut tag = PullSchedule::new(Some(Duration::from_secs(30)));
        let waits: Vec<u64> = (0..5).map(|_| seconds(&mut tag)).collect();
        assert_eq!(waits, [5, 10, 20, 30, 30]);
        tag.succeeded(0.5);
        assert_eq!(seconds(&mut tag), 5);
        let mut digest = PullSchedule::new(None);
        assert_eq!((0..40).map(|_| seconds(&mut digest)).max(), Some(300));
    }
}
