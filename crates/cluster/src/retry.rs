//! Retries: how many, after how long, and after which failures.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    time::Duration,
};

use crate::api_error::Failure;

/// The longest wait that a server's `Retry-After` can ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A bounded series of attempts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryPolicy {
    pub(crate) tries: u32,
    pub(crate) first_wait: Duration,
    /// Each wait is this many times the one before.
    pub(crate) factor: u32,
    /// Up to this part of a wait is added to it, in percent.
    pub(crate) jitter_percent: u32,
    pub(crate) retry_on: fn(&Failure) -> bool,
}

impl RetryPolicy {
    /// How long to wait after `failure`, the `n_failed`th in a row; `None` when it is final.
    pub(crate) fn wait_after(&self, failure: &Failure, n_failed: u32) -> Option<Duration> {
        if n_failed >= self.tries || !(self.retry_on)(failure) {
            return None;
        }
        let wait = self.first_wait * self.factor.saturating_pow(n_failed.saturating_sub(1));
        let wait = wait + wait * jitter(self.jitter_percent) / 100;
        let asked = failure.retry_after().unwrap_or_default().min(LONGEST_WAIT);
        Some(wait.max(asked))
    }
}

/// A random number from zero to `limit`, so that clients do not all send at the same time.
pub(crate) fn jitter(limit: u32) -> u32 {
    let random = RandomState::new().build_hasher().finish() % (u64::from(limit) + 1);
    u32::try_from(random).unwrap_or(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryPolicy = RetryPolicy {
        tries: 4,
        first_wait: Duration::from_millis(10),
        factor: 5,
        jitter_percent: 10,
        retry_on: |failure| failure.is_ambiguous(),
    };

    #[test]
    fn waits_grow_and_end() {
        let failure = Failure::TimedOut(Duration::from_secs(1));
        for (n_failed, low, high) in [(1, 10, 11), (2, 50, 55), (3, 250, 275)] {
            let wait = POLICY.wait_after(&failure, n_failed).unwrap();
            assert!((low..=high).contains(&wait.as_millis()), "{n_failed}: {wait:?}");
        }
        assert_eq!(POLICY.wait_after(&failure, 4), None);
    }

    #[test]
    fn a_refusal_is_final() {
        let refused = kube::core::Status::failure("no", "Forbidden").with_code(403);
        assert_eq!(POLICY.wait_after(&Failure::Api(refused.boxed()), 1), None);
    }
}
