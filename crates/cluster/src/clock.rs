//! The only place where this crate reads the wall clock, and the formats in which the API writes a time.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// A wall-clock time as the API server sees it.
pub(crate) type Time = Timestamp;
/// A span between two [`Time`]s.
pub(crate) type Span = SignedDuration;

/// The present time. Event times and transition times are facts about the outside world, not inputs of a decision.
pub(crate) fn now() -> Time {
    Timestamp::now()
}

/// A time as `metav1.Time`: RFC 3339, in whole seconds.
pub(crate) fn seconds(time: Time) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time as `metav1.MicroTime`: RFC 3339, with six digits after the second.
pub(crate) fn micros(time: Time) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_api_servers_precision() {
        let time: Time = "2026-11-21T03:12:04.018971999Z".parse().unwrap();
        assert_eq!(seconds(time), "2026-11-21T03:12:04Z");
        assert_eq!(micros(time), "2026-11-21T03:12:04.018971Z");
        let whole: Time = "2026-11-21T03:12:04Z".parse().unwrap();
        assert_eq!(micros(whole), "2026-11-21T03:12:04.000000Z");
    }
}
