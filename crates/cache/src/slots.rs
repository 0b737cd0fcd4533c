//! Row numbers of a table. A freed number is used again, so that the table stays dense.

/// Numbers from 0 on, each held by one owner at a time.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// Numbers below `n_used` that are free.
    free: Vec<u32>,
    n_used: u32,
}

impl Slots {
    pub(crate) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.n_used += 1;
            self.n_used - 1
        })
    }

    pub(crate) fn free(&mut self, slot: u32) {
        debug_assert!(slot < self.n_used, "only a number that was given out comes back");
        self.free.push(slot);
    }
}
