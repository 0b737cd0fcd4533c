//! The time that components see.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

/// A clock that all instances of an engine share.
#[derive(Debug)]
pub(crate) struct Clock {
    /// Milliseconds since 1970 as of the start of the cycle.
    now: AtomicU64,
    started: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { now: AtomicU64::new(0), started: Instant::now() }
    }

    /// Milliseconds since 1970 as of the start of the cycle.
    pub(crate) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    pub(crate) fn set_now(&self, milliseconds: u64) {
        self.now.store(milliseconds, Ordering::Relaxed);
    }

    /// Whole seconds since the engine started.
    pub(crate) fn seconds(&self) -> u64 {
        self.started.elapsed().as_secs()
    }
}
