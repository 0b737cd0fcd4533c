//! The time that searching may take for one pod, on all nodes together.
//!
//! kube-scheduler gives each node `filterTimeout`, and searches several nodes at a time; here one thread searches for all
//! pods, so a pod with claims made to be slow must not keep it. As a component the plugin has no clock: the host bounds its
//! time there.

use std::time::Duration;
#[cfg(not(target_family = "wasm"))]
use std::time::Instant;

/// What is left for the pod in this attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SearchTime(Duration);

/// When a search must end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    /// `None`: never.
    #[cfg(not(target_family = "wasm"))]
    at: Option<Instant>,
}

impl SearchTime {
    pub(super) const OF_POD: Self = Self(Duration::from_secs(1));
    pub(super) const UNLIMITED: Self = Self(Duration::MAX);

    /// Runs a search, and takes the time that it took from what is left.
    #[cfg(not(target_family = "wasm"))]
    pub(super) fn spend<R>(&mut self, search: impl FnOnce(Deadline) -> R) -> R {
        let start = Instant::now();
        let result = search(Deadline { at: start.checked_add(self.0) });
        self.0 = self.0.saturating_sub(start.elapsed());
        result
    }

    #[cfg(target_family = "wasm")]
    pub(super) fn spend<R>(&mut self, search: impl FnOnce(Deadline) -> R) -> R {
        search(Deadline::NEVER)
    }
}

impl Deadline {
    pub(super) const NEVER: Self = Self {
        #[cfg(not(target_family = "wasm"))]
        at: None,
    };

    #[cfg(not(target_family = "wasm"))]
    pub(super) fn is_over(self) -> bool {
        self.at.is_some_and(|at| Instant::now() >= at)
    }

    #[cfg(target_family = "wasm")]
    pub(super) fn is_over(self) -> bool {
        false
    }
}
