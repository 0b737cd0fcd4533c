//! Time as the scheduler's parameter.

use std::ops::Add;

/// Milliseconds since the epoch. Backoff ends at whole seconds of wall-clock time, so it is not a mere difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The second that this moment is in.
    #[must_use]
    pub fn whole_second(self) -> Self {
        Self(self.0 - self.0 % 1000)
    }

    /// Milliseconds that passed since `earlier`; 0 when it is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u64> for Time {
    type Output = Time;

    /// `milliseconds` later.
    fn add(self, milliseconds: u64) -> Time {
        Time(self.0.saturating_add(milliseconds))
    }
}
