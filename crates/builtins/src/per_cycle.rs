//! Results of PreFilter or PreScore for later calls in the same scheduling cycle.

use berth_framework::CycleId;

/// A value that is valid for one scheduling cycle. The value is not dropped between cycles, so its buffers are reused.
#[derive(Debug, Default)]
pub(crate) struct PerCycle<T> {
    value: T,
    /// The cycle that `value` was prepared for.
    cycle: Option<CycleId>,
}

impl<T> PerCycle<T> {
    /// The value, if it was prepared for `cycle`.
    pub(crate) fn get(&self, cycle: CycleId) -> Option<&T> {
        (self.cycle == Some(cycle)).then_some(&self.value)
    }

    /// Makes the value valid for `cycle`, and returns it. The caller must prepare it.
    pub(crate) fn begin(&mut self, cycle: CycleId) -> &mut T {
        self.cycle = Some(cycle);
        &mut self.value
    }

    /// The value. `prepare` prepares it for `cycle` unless it is prepared already.
    pub(crate) fn get_or_prepare(&mut self, cycle: CycleId, prepare: impl FnOnce(&mut T)) -> &mut T {
        if self.cycle != Some(cycle) {
            prepare(self.begin(cycle));
        }
        &mut self.value
    }

    /// Makes the value invalid for every cycle.
    pub(crate) fn clear(&mut self) {
        self.cycle = None;
    }
}
