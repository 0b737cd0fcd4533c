//! When the component in charge of a plugin faulted lately, and how often it was quarantined for it.

use std::collections::VecDeque;

use berth_model::{Time, plugin_policy::Quarantine};

use crate::policy::milliseconds;

/// Quarantines grow no longer than this, in milliseconds.
const LONGEST_QUARANTINE: u64 = 60 * 60 * 1000;

/// Belongs to one binary: another one starts with an empty history.
#[derive(Debug, Default)]
pub(crate) struct FaultHistory {
    /// Faults within the window, oldest first.
    recent: VecDeque<Time>,
    /// Quarantines in a row.
    n_quarantines: u32,
    /// When the last quarantine ended.
    released: Option<Time>,
}

impl FaultHistory {
    /// Counts a fault. How many there were within the window, this one included.
    pub(crate) fn add(&mut self, now: Time, policy: &Quarantine) -> usize {
        let window = milliseconds(policy.window);
        self.recent.push_back(now);
        self.recent.retain(|fault| now.since(*fault) <= window);
        self.recent.len()
    }

    /// A quarantine begins. For how many milliseconds: twice as long as the one before, unless the component has done
    /// well since.
    pub(crate) fn begin_quarantine(&mut self, now: Time, policy: &Quarantine) -> u64 {
        let backoff = milliseconds(policy.backoff);
        let last = doubled(backoff, self.n_quarantines.saturating_sub(1));
        let good_conduct = last.max(milliseconds(policy.window));
        if self.released.is_some_and(|released| now.since(released) > good_conduct) {
            self.n_quarantines = 0;
        }
        let length = doubled(backoff, self.n_quarantines);
        self.n_quarantines = self.n_quarantines.saturating_add(1);
        self.recent.clear();
        length
    }

    /// The quarantine is over.
    pub(crate) fn end_quarantine(&mut self, now: Time) {
        self.released = Some(now);
    }
}

fn doubled(backoff: u64, times: u32) -> u64 {
    let factor = 1_u64.checked_shl(times).unwrap_or(u64::MAX);
    backoff.saturating_mul(factor).min(LONGEST_QUARANTINE.max(backoff))
}
