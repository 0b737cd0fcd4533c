//! The moment at which a search for a node must end.

use std::time::Duration;

use crate::{
    scheduling_time::{SchedulingTime, SearchLength},
    status::Status,
};

/// The moment at which a search for a node must end. By default, a search has no such moment.
///
/// A plugin whose search may take longer than some milliseconds checks the deadline from time to time, and fails once
/// the deadline is over. The time of plugins that have an account does not count, because these plugins have their own
/// bounds. Inside a component, the deadline is never over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deadline<'a>(Option<Limit<'a>>);

#[derive(Clone, Copy, Debug)]
struct Limit<'a> {
    time: &'a SchedulingTime,
    allowed: Duration,
    began: Duration,
    by_plugins: Duration,
}

impl SchedulingTime {
    /// The deadline of a search that begins now.
    #[must_use]
    pub fn search_deadline(&self, length: SearchLength) -> Deadline<'_> {
        self.search_limit(length).map_or(Deadline::NEVER, |allowed| Deadline::after(self, allowed))
    }
}

impl<'a> Deadline<'a> {
    /// A deadline that never ends a search.
    pub const NEVER: Self = Self(None);

    const POSITIONS: usize = 64;

    /// The deadline of a search that begins now and may take as long as `allowed`.
    #[must_use]
    pub fn after(time: &'a SchedulingTime, allowed: Duration) -> Self {
        Self(Some(Limit { time, allowed, began: time.now(), by_plugins: time.taken_by_plugins() }))
    }

    /// Whether the search must end.
    #[must_use]
    pub fn is_over(self) -> bool {
        self.0.is_some_and(|Limit { time, allowed, began, by_plugins }| {
            let by_plugins = time.taken_by_plugins().saturating_sub(by_plugins);
            time.now().saturating_sub(began).saturating_sub(by_plugins) >= allowed
        })
    }

    /// Checks the deadline at one of every 64 positions. Plugins that go through a pod's terms call the method with the
    /// position of each term. The search for a pod with few terms is never ended.
    ///
    /// # Errors
    /// The search must end now.
    pub fn check_at(self, position: usize) -> Result<(), Status> {
        let is_to_be_checked = position % Self::POSITIONS == Self::POSITIONS - 1;
        match self.allowed() {
            Some(allowed) if is_to_be_checked && self.is_over() => {
                let milliseconds = allowed.as_millis();
                Err(Status::error(format!(
                    "evaluating the pod's affinity terms took longer than {milliseconds} ms, the limit of the search \
                     for a node"
                )))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The time that the search may take in all; `None` for a search without a limit.
    #[must_use]
    pub fn allowed(self) -> Option<Duration> {
        self.0.map(|limit| limit.allowed)
    }
}
