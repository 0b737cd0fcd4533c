//! How much of the scheduling thread's time one plugin may take, call after call.
//!
//! A bucket fills by so many milliseconds in each second up to a burst, and each call on the scheduling thread takes out what
//! it used. A call is never cut short for it, so the bucket may owe time. What is left out while it is empty is
//! decided where the call would be made.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The share of the scheduling thread that one plugin may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Of each second; a whole second is no bound.
    pub per_second: Duration,
    /// What may be saved up.
    pub burst: Duration,
}

/// Being without time is logged no more often.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// The time of one plugin, over all of its instances and binaries.
#[derive(Debug, Default)]
pub(crate) struct Budget(Mutex<Bucket>);

#[derive(Debug, Default)]
struct Bucket {
    /// Taken and not refilled yet.
    taken: Duration,
    /// Up to when it was refilled; `None` before the first call.
    refilled: Option<Instant>,
    told: Option<Instant>,
}

impl Bucket {
    fn refill(&mut self, share: Share, now: Instant) {
        let passed = self.refilled.map_or(Duration::ZERO, |before| now.saturating_duration_since(before));
        self.taken = self.taken.saturating_sub(passed.mul_f64(share.per_second.as_secs_f64()));
        self.refilled = Some(now);
    }
}

impl Budget {
    /// A call took so long.
    pub(crate) fn take(&self, used: Duration, share: Share, now: Instant) {
        let mut bucket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.refill(share, now);
        bucket.taken = bucket.taken.saturating_add(used);
    }

    /// Whether there is no time left.
    pub(crate) fn is_spent(&self, share: Share, now: Instant) -> bool {
        let mut bucket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.refill(share, now);
        bucket.taken >= share.burst
    }

    /// Whether it is time for another line in the log.
    pub(crate) fn is_to_be_told(&self, now: Instant) -> bool {
        let mut bucket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = bucket.told.is_none_or(|told| now.saturating_duration_since(told) >= TELL_EVERY);
        if is_due {
            bucket.told = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_back_with_time() {
        let share = Share { per_second: Duration::from_millis(200), burst: Duration::from_secs(1) };
        let (budget, start) = (Budget::default(), Instant::now());
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        budget.take(Duration::from_millis(900), share, after(0));
        assert!(!budget.is_spent(share, after(0)));
        budget.take(Duration::from_millis(300), share, after(0));
        assert!(budget.is_spent(share, after(900)), "200 ms over, and 180 ms came back");
        assert!(!budget.is_spent(share, after(1100)));
        budget.take(Duration::from_millis(900), share, after(100_000));
        assert!(!budget.is_spent(share, after(100_000)), "no more is saved up than the burst");
        budget.take(Duration::from_millis(100), share, after(100_000));
        assert!(budget.is_spent(share, after(100_000)));
    }
}
