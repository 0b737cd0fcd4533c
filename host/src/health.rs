//! What `/livez` and `/readyz` say, and who keeps it true.
//!
//! The scheduling thread beats with each turn of its loop, at least once a second. A loop that has not turned for a while hangs,
//! and only a new process helps.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// A turn takes microseconds; one that fills new instances of all plugins, or takes hundreds of objects that each plugin
/// may look at until its deadline, takes seconds.
const LONGEST_TURN: Duration = Duration::from_secs(60);

/// Shared by those who report and those who ask. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Health(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    readiness: Readiness,
    last_turn: Instant,
}

/// Whether the scheduler does its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// The first lists are not complete.
    Listing,
    Ready,
    /// It was told to stop, or a part of it ended.
    Stopping,
}

impl Health {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State { readiness: Readiness::Listing, last_turn: Instant::now() })))
    }

    /// Every object that existed at the start is known.
    pub(crate) fn synced(&self) {
        let mut state = self.state();
        if state.readiness == Readiness::Listing {
            state.readiness = Readiness::Ready;
        }
    }

    /// From here on it is not ready any more.
    pub(crate) fn stopping(&self) {
        self.state().readiness = Readiness::Stopping;
    }

    /// The scheduling loop has turned.
    pub(crate) fn beat(&self, now: Instant) {
        self.state().last_turn = now;
    }

    pub(crate) fn readiness(&self) -> Readiness {
        self.state().readiness
    }

    /// For how long the scheduling loop has not turned, if that is too long.
    pub(crate) fn hangs_for(&self, now: Instant) -> Option<Duration> {
        let silent = now.saturating_duration_since(self.state().last_turn);
        (silent > LONGEST_TURN).then_some(silent)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_does_not_turn_is_not_alive() {
        let health = Health::new();
        let start = Instant::now();
        health.beat(start);
        assert_eq!(health.hangs_for(start + LONGEST_TURN), None);
        let later = start + 2 * LONGEST_TURN;
        assert_eq!(health.hangs_for(later), Some(2 * LONGEST_TURN));
        health.beat(later);
        assert_eq!(health.hangs_for(later), None);
    }

    #[test]
    fn lists_that_complete_during_a_stop_make_nothing_ready() {
        let health = Health::new();
        assert_eq!(health.readiness(), Readiness::Listing);
        health.synced();
        assert_eq!(health.readiness(), Readiness::Ready);
        health.stopping();
        health.synced();
        assert_eq!(health.readiness(), Readiness::Stopping);
    }
}
