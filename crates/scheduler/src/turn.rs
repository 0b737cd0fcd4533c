//! A turn of the scheduling thread: the events since the last cycle, the work that is due, and a cycle.

use std::time::Duration;

/// The maximum number of events that are handled, and of steps that pods take, between two cycles.
pub(crate) const MOST: usize = 512;

/// The maximum time for events and steps between two cycles. A step that has begun is not cut off.
pub(crate) const LONGEST: Duration = Duration::from_millis(5);

/// The part of the current turn that is used up by steps outside of its cycle. The remaining steps wait for the next
/// turn, after a cycle.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    n_steps: usize,
    /// The time at which the first step began; `None` without a clock.
    began: Option<Duration>,
}

impl Turn {
    /// Whether the turn has room for one more step. After `true`, the caller must take the step. The first step always
    /// has room.
    pub(crate) fn has_room(&mut self, now: Option<Duration>) -> bool {
        if self.n_steps == 0 {
            self.began = now;
        }
        let elapsed = now.zip(self.began).map_or(Duration::ZERO, |(now, began)| now.saturating_sub(began));
        let has_room = self.n_steps < MOST && elapsed < LONGEST;
        self.n_steps += usize::from(has_room);
        has_room
    }

    /// Ends the turn, and begins the next turn.
    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_room_for_one_step_at_least_and_ends_by_time_or_number() {
        let mut turn = Turn::default();
        let at = |milliseconds| Some(Duration::from_millis(milliseconds));
        assert!(turn.has_room(at(100)) && turn.has_room(at(104)));
        assert!(!turn.has_room(at(105)));
        turn.end();
        assert!(turn.has_room(at(105)), "the next turn");
        turn.end();
        let n_steps = (0..10_000).filter(|_| turn.has_room(None)).count();
        assert_eq!(n_steps, MOST);
    }
}
