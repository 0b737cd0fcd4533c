//! Retries: their number, their delays, and the failures that cause them.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    time::Duration,
};

use crate::api_error::RequestFailure;

/// The maximum delay that a server's `Retry-After` can ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The number of times that a request is repeated because the server asked for it with `Retry-After`, as in client-go
/// (`rest/with_retry.go`).
const MAX_ASKED_RETRIES: u32 = 10;

/// A bounded series of attempts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryPolicy {
    pub(crate) tries: u32,
    pub(crate) first_wait: Duration,
    /// The factor from each wait to the next.
    pub(crate) factor: u32,
    /// The maximum part of a wait that is added to the wait, in percent.
    pub(crate) jitter_percent: u32,
    pub(crate) retry_on: fn(&RequestFailure) -> bool,
}

impl RetryPolicy {
    /// Retries only when the server asks for a retry.
    pub(crate) const AS_ASKED: Self =
        Self { tries: 1, first_wait: Duration::ZERO, factor: 1, jitter_percent: 0, retry_on: |_| false };
}

/// The number of failures of one request.
#[derive(Debug)]
pub(crate) struct Retries {
    policy: RetryPolicy,
    n_failed: u32,
    n_asked: u32,
}

impl Retries {
    pub(crate) fn new(policy: RetryPolicy) -> Self {
        Self { policy, n_failed: 0, n_asked: 0 }
    }

    /// The wait after `failure` before the request is sent again; `None` if the failure is final.
    ///
    /// A failure of an overloaded server that names a wait does not use up the tries of the policy.
    pub(crate) fn wait_after(&mut self, failure: &RequestFailure) -> Option<Duration> {
        if let Some(asked) = failure.retry_after() {
            self.n_asked += 1;
            return (self.n_asked <= MAX_ASKED_RETRIES).then(|| asked.min(LONGEST_WAIT));
        }
        self.n_failed += 1;
        let RetryPolicy { tries, first_wait, factor, jitter_percent, retry_on } = self.policy;
        if self.n_failed >= tries || !retry_on(failure) {
            return None;
        }
        let wait = first_wait * factor.saturating_pow(self.n_failed - 1);
        Some(wait + wait * jitter(jitter_percent) / 100)
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

    fn refused(code: u16, retry_after_seconds: u32) -> RequestFailure {
        let details = serde_json::json!({"retryAfterSeconds": retry_after_seconds});
        let status = serde_json::json!({"code": code, "message": "no", "details": details});
        RequestFailure::Api(serde_json::from_value(status).expect("a status"))
    }

    #[test]
    fn waits_grow_and_end() {
        let failure = RequestFailure::TimedOut(Duration::from_secs(1));
        let mut retries = Retries::new(POLICY);
        for (low, high) in [(10, 11), (50, 55), (250, 275)] {
            let wait = retries.wait_after(&failure).unwrap();
            assert!((low..=high).contains(&wait.as_millis()), "{wait:?}");
        }
        assert_eq!(retries.wait_after(&failure), None);
    }

    #[test]
    fn a_refusal_is_final() {
        assert_eq!(Retries::new(POLICY).wait_after(&refused(403, 0)), None);
        assert_eq!(Retries::new(POLICY).wait_after(&refused(403, 1)), None);
    }

    #[test]
    fn a_server_that_asks_for_time_gets_it_ten_times() {
        let mut retries = Retries::new(POLICY);
        for _ in 0..10 {
            assert_eq!(retries.wait_after(&refused(429, 7)), Some(Duration::from_secs(7)));
        }
        assert_eq!(retries.wait_after(&refused(429, 7)), None);
        assert_eq!(Retries::new(POLICY).wait_after(&refused(503, 3600)), Some(LONGEST_WAIT));
    }
}
