//! Traces of attempts: the choice of the attempts that are traced, and the spans that a meter records.
//!
//! A span is a plain value with two instants. The host turns spans into spans of its tracing system. The number of an
//! attempt decides whether the attempt is traced, so each part of the program that knows this number comes to the same
//! answer. No other attempt is recorded.

use std::time::Duration;

use crate::{plugin::PluginIdx, points::CycleId, status::Code};

/// Decides which attempts are traced. The default traces no attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceSampling {
    seed: u64,
    per_million: u32,
}

impl TraceSampling {
    /// The highest rate, which traces every attempt.
    pub const ALL: u32 = 1_000_000;

    /// Traces about this many of a million attempts. `seed` decides which attempts are traced.
    #[must_use]
    pub fn new(seed: u64, per_million: u32) -> Self {
        Self { seed, per_million }
    }

    /// Whether this attempt is traced.
    #[must_use]
    pub fn takes(self, cycle: CycleId) -> bool {
        self.per_million > 0 && mix(self.seed ^ cycle.0) % u64::from(Self::ALL) < u64::from(self.per_million)
    }
}

/// A part of a traced attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedSpan {
    /// The attempt.
    pub cycle: CycleId,
    /// The label `extension_point`, or the name of another step, such as `Sync`.
    pub name: &'static str,
    /// The call; `None` if the span covers a whole extension point or step.
    pub call: Option<TracedCall>,
    /// The code of the outcome.
    pub code: Code,
    /// The beginning, by the clock of the meter.
    pub start: Duration,
    /// The end, by the clock of the meter.
    pub end: Duration,
}

/// The call of a plugin in a traced attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedCall {
    /// The plugin.
    pub plugin: PluginIdx,
    /// The beginning of the span that the call is a part of. `None` for calls at an extension point that also waits
    /// until the plugins' effects are carried out. An attempt has only one span of such an extension point.
    pub within: Option<Duration>,
}

/// Spreads neighbouring numbers over all 64 bits (the finalizer of SplitMix64).
pub(crate) fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_decides_how_many_attempts_are_traced() {
        let traced = |per_million| {
            let sampling = TraceSampling::new(7, per_million);
            (0..10_000).filter(|cycle| sampling.takes(CycleId(*cycle))).count()
        };
        assert_eq!(traced(0), 0);
        assert!((50..200).contains(&traced(10_000)), "{} of 10,000", traced(10_000));
        assert_eq!(traced(TraceSampling::ALL), 10_000);
    }
}
