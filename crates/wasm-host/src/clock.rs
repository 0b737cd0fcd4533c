//! Time as components see it, and the ticks that bound their calls.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// How often time limits are looked at: often enough for limits of tens of milliseconds, seldom enough that an idle
/// scheduler's processor sleeps.
pub(crate) const TICK: Duration = Duration::from_millis(5);

const TICKS_PER_SECOND: u64 = 200;

/// Shared by all instances of an engine.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// Milliseconds since 1970 as of the start of the cycle.
    now: AtomicU64,
    /// Ticks since the engine started.
    ticks: AtomicU64,
}

impl Clock {
    /// Milliseconds since 1970 as of the start of the cycle.
    pub(crate) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    pub(crate) fn set_now(&self, milliseconds: u64) {
        self.now.store(milliseconds, Ordering::Relaxed);
    }

    /// Another [`TICK`] has passed.
    pub(crate) fn tick(&self) {
        self.ticks.fetch_add(1, Ordering::Relaxed);
    }

    /// Whole seconds since the engine started.
    pub(crate) fn seconds(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed) / TICKS_PER_SECOND
    }
}

/// When to look at a call's time again, in ticks from here on: after at least `timeout`, as the tick under way does not count.
pub(crate) fn ticks(timeout: Duration) -> u64 {
    let ticks = timeout.as_nanos().div_ceil(TICK.as_nanos());
    u64::try_from(ticks).unwrap_or(u64::MAX / 2).saturating_add(1)
}
