//! The only module that reads the clock, and the API's format of timestamps.

use std::time::{SystemTime, UNIX_EPOCH};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// The current time in whole seconds, as in `creationTimestamp`.
pub(crate) fn now() -> String {
    after(0)
}

/// The time that is this number of seconds after the current time.
pub(crate) fn after(seconds: i64) -> String {
    let time = current_time() + SignedDuration::from_secs(seconds);
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The seconds since a timestamp; `None` if the text is no timestamp.
pub(crate) fn seconds_since(timestamp: &str) -> Option<i64> {
    let then: Timestamp = timestamp.parse().ok()?;
    Some(current_time().duration_since(then).as_secs())
}

fn current_time() -> Timestamp {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let microseconds = i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_microsecond(microseconds).unwrap_or(Timestamp::MAX)
}
