//! The faults of a plugin: the data about each fault, and the rule when a plugin has had too many faults.
//!
//! Faults over pods of one owner count once within the window, however often a component faults in the cycles of these
//! pods. The scheduler holds these pods back, so that the plugin stays in service for all other pods. The time that
//! faults cost is summed as well, from the first call of the lost instance. A few slow faults therefore weigh as much
//! as many quick faults, and a component that starts slowly cannot fault often. The window is measured in time in
//! service. Otherwise, the growing delays of restarts would keep the number of faults in the window low for a component
//! that faults at its first call, and its pods would wait forever. A probation is measured in time in service as well.

use std::collections::VecDeque;

use berth_model::{Digest, OwnerId, Time, plugin_policy::Quarantine};

use crate::policy::milliseconds;

/// The longest quarantine, in milliseconds.
const LONGEST_QUARANTINE: u64 = 60 * 60 * 1000;

/// The delay before the second restart within the window, in milliseconds. Each further restart waits twice as long as
/// the restart before it.
const RESTART_DELAY: u64 = 1000;

/// A fault of a component in service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The digest of the component.
    pub digest: Digest,
    /// The reason, as a text that follows the plugin's name.
    pub reason: String,
    /// The processor time of the call and of the start of the lost instance.
    pub milliseconds: u64,
    /// The owner of the call's pod; `None` if the call was not about a pod.
    pub owner: Option<OwnerId>,
    /// The profiles that lost their instance through the fault.
    pub scheduler_names: Vec<String>,
}

/// The recent faults of a plugin's components, and the number of the plugin's quarantines. A new file keeps both. Only
/// a fallback that replaces a failed binary is not charged with the earlier faults.
#[derive(Debug, Default)]
pub(crate) struct FaultHistory {
    /// Faults within the window, the oldest first.
    recent: VecDeque<CountedFault>,
    /// The number of quarantines in a row.
    n_quarantines: u32,
    /// The time at which the last quarantine ended.
    released: Option<Time>,
    /// The time since which the component waits for its restart.
    out_since: Option<Time>,
    /// The milliseconds for which the component has waited so far.
    waited: u64,
}

#[derive(Debug)]
struct CountedFault {
    /// The time of the fault, in time in service.
    at: Time,
    milliseconds: u64,
    owner: Option<OwnerId>,
}

/// The result of adding a fault to the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tally {
    /// The fault does not count, because a recent fault was about a pod of the same owner.
    Repeated,
    /// The number of faults within the window, and the milliseconds that they took.
    Counted { n_faults: usize, milliseconds: u64 },
}

impl FaultHistory {
    /// Adds a fault to the history, unless it is repeated.
    pub(crate) fn add(&mut self, fault: &Fault, now: Time, policy: &Quarantine) -> Tally {
        let window = milliseconds(policy.window);
        let now = self.time_in_service(now);
        self.recent.retain(|fault| now.since(fault.at) <= window);
        if fault.owner.is_some() && self.recent.iter().any(|recent| recent.owner == fault.owner) {
            return Tally::Repeated;
        }
        let (milliseconds, owner) = (fault.milliseconds, fault.owner.clone());
        self.recent.push_back(CountedFault { at: now, milliseconds, owner });
        let milliseconds = self.recent.iter().fold(0_u64, |sum, fault| sum.saturating_add(fault.milliseconds));
        Tally::Counted { n_faults: self.recent.len(), milliseconds }
    }

    /// The moment in time in service. This time stands still while the component waits for a restart.
    pub(crate) fn time_in_service(&self, now: Time) -> Time {
        let waits = self.out_since.map_or(0, |since| now.since(since));
        Time(now.0.saturating_sub(self.waited).saturating_sub(waits))
    }

    /// The real time of a moment in time in service, if the component waits for no further restart before that moment.
    pub(crate) fn in_real_time(&self, moment: Time) -> Time {
        moment + self.waited
    }

    /// Notes that the component waits for its restart from now on.
    pub(crate) fn begin_wait(&mut self, now: Time) {
        self.out_since.get_or_insert(now);
    }

    /// Notes that the component serves.
    pub(crate) fn end_wait(&mut self, now: Time) {
        if let Some(since) = self.out_since.take() {
            self.waited = self.waited.saturating_add(now.since(since));
        }
    }

    /// The milliseconds for which the component waits for its restart. The wait depends on the number of faults that
    /// counted within the window. The first restart does not wait.
    pub(crate) fn restart_delay(&self, policy: &Quarantine) -> u64 {
        let times = u32::try_from(self.recent.len()).unwrap_or(u32::MAX);
        let backoff = milliseconds(policy.backoff);
        times.checked_sub(2).map_or(0, |times| doubled(RESTART_DELAY, times).min(backoff))
    }

    /// Notes that the file changed, is gone, or gets another chance. Faults of the previous file still count, because a
    /// plugin must not avoid their consequences by replacing its file all the time.
    pub(crate) fn begin_file(&mut self, now: Time) {
        self.out_since = None;
        self.released = (self.n_quarantines > 0).then_some(now);
    }

    /// Notes that a fallback replaces a binary that failed. The fallback is not charged with the faults of this binary.
    pub(crate) fn begin_fallback(&mut self, now: Time) {
        self.recent.clear();
        self.begin_file(now);
    }

    /// Begins a quarantine and returns its length in milliseconds. A quarantine is twice as long as the previous
    /// quarantine, unless the previous quarantine ended long enough ago.
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

    /// The history of a component that had been quarantined this many times in a row when the process ended.
    pub(crate) fn with_quarantines(n_quarantines: u32) -> Self {
        Self { n_quarantines, ..Self::default() }
    }

    /// The number of quarantines in a row, including the present quarantine.
    pub(crate) fn n_quarantines(&self) -> u32 {
        self.n_quarantines
    }

    /// Notes that the quarantine ended.
    pub(crate) fn end_quarantine(&mut self, now: Time) {
        self.released = Some(now);
    }
}

impl Tally {
    /// The reason to take the plugin out of service, if there were too many faults. `last` is the reason of the last
    /// fault.
    pub(crate) fn is_too_much(self, policy: &Quarantine, last: &str) -> Option<String> {
        let Tally::Counted { n_faults, milliseconds: lost } = self else { return None };
        let seconds = policy.window.as_secs();
        if n_faults >= usize::try_from(policy.faults).unwrap_or(usize::MAX) {
            return Some(format!("{n_faults} faults within {seconds} s; the last was: {last}"));
        }
        let is_lost = lost > milliseconds(policy.lost);
        is_lost.then(|| format!("its faults took {lost} ms within {seconds} s; the last was: {last}"))
    }
}

/// The longest quarantine under this policy, in milliseconds.
pub(crate) fn longest_quarantine(policy: &Quarantine) -> u64 {
    LONGEST_QUARANTINE.max(milliseconds(policy.backoff))
}

fn doubled(backoff: u64, times: u32) -> u64 {
    let factor = 1_u64.checked_shl(times).unwrap_or(u64::MAX);
    backoff.saturating_mul(factor).min(LONGEST_QUARANTINE.max(backoff))
}
