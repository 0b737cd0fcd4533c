//! Time as the scheduler's parameter.

use std::ops::Add;

use serde::{Deserialize, Serialize};

/// Milliseconds of a clock that never jumps. The value equals the milliseconds since 1970 until somebody sets the wall
/// clock. Backoff ends at whole seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Time(pub u64);

impl Time {
    /// The time in an RFC 3339 text; `None` if the text is not such a time, or if the time is before 1970.
    #[must_use]
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        let timestamp: jiff::Timestamp = text.parse().ok()?;
        u64::try_from(timestamp.as_millisecond()).ok().map(Self)
    }

    /// The time as the API server writes it: RFC 3339 in UTC, in whole seconds.
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        let seconds = i64::try_from(self.0 / 1000).unwrap_or(i64::MAX);
        jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX).to_string()
    }

    /// The beginning of the second that contains this time.
    #[must_use]
    pub fn whole_second(self) -> Self {
        Self(self.0 - self.0 % 1000)
    }

    /// The milliseconds since `earlier`; 0 if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u64> for Time {
    type Output = Time;

    /// The time `milliseconds` later.
    fn add(self, milliseconds: u64) -> Time {
        Time(self.0.saturating_add(milliseconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_texts_of_whole_seconds() {
        let time = Time(1_795_327_200_700);
        assert_eq!(time.to_rfc3339(), "2026-11-22T06:00:00Z");
        assert_eq!(Time::from_rfc3339("2026-11-22T06:00:00Z"), Some(time.whole_second()));
        assert_eq!(Time::from_rfc3339("2026-11-22T07:00:00.7+01:00"), Some(time));
        assert_eq!([Time::from_rfc3339("1969-12-31T23:59:59Z"), Time::from_rfc3339("noon")], [None, None]);
    }
}
