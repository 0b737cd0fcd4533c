//! What a search on one node may take.

use berth_framework::Deadline;

use super::AllocationError;

/// A look at a device takes less time than a look at the clock would after each.
const STEPS_BETWEEN_LOOKS_AT_THE_CLOCK: u64 = 64;

/// Steps, each a look at one device, and a moment at which the search ends in any case.
#[derive(Clone, Copy, Debug)]
pub(in crate::dynamic_resources) struct SearchLimit<'a> {
    pub(in crate::dynamic_resources) steps: u64,
    pub(in crate::dynamic_resources) deadline: Deadline<'a>,
}

impl SearchLimit<'_> {
    /// No limit, for what looks at no device.
    pub(super) const NONE: Self = Self { steps: u64::MAX, deadline: Deadline::NEVER };

    pub(super) fn step(&mut self) -> Result<(), AllocationError> {
        self.steps = self.steps.checked_sub(1).ok_or(AllocationError::TimedOut)?;
        let is_over = self.steps.is_multiple_of(STEPS_BETWEEN_LOOKS_AT_THE_CLOCK) && self.is_over();
        if is_over { Err(AllocationError::TimedOut) } else { Ok(()) }
    }

    /// Whether the moment has come. A selector can take longer than many steps, so this is asked after each.
    pub(in crate::dynamic_resources) fn is_over(&self) -> bool {
        self.deadline.is_over()
    }
}
