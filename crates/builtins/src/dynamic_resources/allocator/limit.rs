//! The limits of the search for devices on one node: steps and time.

use berth_framework::Deadline;

use super::AllocationError;

/// The number of steps between two checks of the clock. A check after every device would take longer than the check of
/// the device.
const STEPS_BETWEEN_LOOKS_AT_THE_CLOCK: u64 = 64;

/// The remaining steps, each a check of one device, and the time at which the search ends in any case.
#[derive(Clone, Copy, Debug)]
pub(in crate::dynamic_resources) struct SearchLimit<'a> {
    pub(in crate::dynamic_resources) steps: u64,
    pub(in crate::dynamic_resources) deadline: Deadline<'a>,
}

impl SearchLimit<'_> {
    /// No limit, for work that checks no device.
    pub(super) const NONE: Self = Self { steps: u64::MAX, deadline: Deadline::NEVER };

    pub(super) fn step(&mut self) -> Result<(), AllocationError> {
        self.steps = self.steps.checked_sub(1).ok_or(AllocationError::TimedOut)?;
        let is_over = self.steps.is_multiple_of(STEPS_BETWEEN_LOOKS_AT_THE_CLOCK) && self.is_over();
        if is_over { Err(AllocationError::TimedOut) } else { Ok(()) }
    }

    /// Whether the time is over. One selector can take longer than many steps, so the time is checked after each
    /// selector.
    pub(in crate::dynamic_resources) fn is_over(&self) -> bool {
        self.deadline.is_over()
    }
}
