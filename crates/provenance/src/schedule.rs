//! The times at which a component is pulled again.
//!
//! A tag is requested at an interval. A digest is never requested again after its first pull. The first attempt after a
//! failure comes soon, and the waits then grow. The waits never exceed the interval, if the reference has an interval.
//! Times are jittered, so that replicas which start together do not send requests together.

use std::time::Duration;

/// The wait after the first failure.
const FIRST_RETRY: Duration = Duration::from_secs(5);
/// The longest wait after failures for a digest.
const LONGEST_RETRY: Duration = Duration::from_secs(5 * 60);

/// The history of one component's pulls.
#[derive(Clone, Debug)]
pub struct PullSchedule {
    /// The interval for a tag; `None` for a digest.
    interval: Option<Duration>,
    n_failures: u32,
}

impl PullSchedule {
    /// A new schedule. `interval` is for tags, and `None` for a digest.
    #[must_use]
    pub fn new(interval: Option<Duration>) -> Self {
        Self { interval, n_failures: 0 }
    }

    /// The wait after a successful pull; `None` if no further pull is needed. `chance` is a random number from 0 to 1.
    pub fn succeeded(&mut self, chance: f64) -> Option<Duration> {
        self.n_failures = 0;
        self.interval.map(|interval| jittered(interval, chance))
    }

    /// The wait after a pull that failed.
    pub fn failed(&mut self, chance: f64) -> Duration {
        let wait = FIRST_RETRY.saturating_mul(1 << self.n_failures.min(16));
        self.n_failures = self.n_failures.saturating_add(1);
        jittered(wait.min(self.interval.unwrap_or(LONGEST_RETRY)), chance)
    }
}

/// The wait, changed by up to a tenth in either direction.
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
