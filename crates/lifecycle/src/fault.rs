//! What is known of a fault, and when a plugin has had too many of them.
//!
//! Pods of one owner count once within the window, however often a component faults in their cycles: the scheduler
//! holds those pods back, and a plugin that serves all others well is not taken from them. What a fault took is summed as
//! well, from the first call of the instance that it cost: few slow ones weigh as much as many quick ones, and a component
//! that starts slowly cannot fault often. The window is one of time in
//! service: else restarts, which come later and later, would space the faults of a component that faults at its first call
//! so far that they never are too many, and its pods would wait for ever. A probation is measured in that time as well.

use std::collections::VecDeque;

use berth_model::{Digest, OwnerId, Time, plugin_policy::Quarantine};

use crate::policy::milliseconds;

/// Quarantines grow no longer than this, in milliseconds.
const LONGEST_QUARANTINE: u64 = 60 * 60 * 1000;

/// The second restart within the window waits so long, in milliseconds, each further one twice as long.
const RESTART_DELAY: u64 = 1000;

/// A fault of a component in service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The component's.
    pub digest: Digest,
    /// Reads on from the plugin's name.
    pub reason: String,
    /// Processor time of the call, and of the start of the instance that it cost.
    pub milliseconds: u64,
    /// The owner of the pod that the call was about, if it was about one.
    pub owner: Option<OwnerId>,
    /// The profiles that lost their instance by it.
    pub scheduler_names: Vec<String>,
}

/// The recent faults of a plugin's components, and how often the plugin was quarantined. Another file starts with both:
/// only the binary that takes the place of one that failed is not charged with the other's faults.
#[derive(Debug, Default)]
pub(crate) struct FaultHistory {
    /// Faults within the window, oldest first.
    recent: VecDeque<CountedFault>,
    /// Quarantines in a row.
    n_quarantines: u32,
    /// When the last quarantine ended.
    released: Option<Time>,
    /// Since when the component waits for its restart.
    out_since: Option<Time>,
    /// How many milliseconds it has waited so far.
    waited: u64,
}

#[derive(Debug)]
struct CountedFault {
    /// When the fault was, in time of service.
    at: Time,
    milliseconds: u64,
    owner: Option<OwnerId>,
}

/// How a fault counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tally {
    /// The fault does not count: there was one about a pod of the same owner.
    Repeated,
    /// How many faults there were within the window, and how many milliseconds they took.
    Counted { n_faults: usize, milliseconds: u64 },
}

impl FaultHistory {
    /// Counts a fault, if it does.
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

    /// The moment as it would be had the component never waited for a restart.
    pub(crate) fn time_in_service(&self, now: Time) -> Time {
        let waits = self.out_since.map_or(0, |since| now.since(since));
        Time(now.0.saturating_sub(self.waited).saturating_sub(waits))
    }

    /// When a moment in time of service comes, if the component waits for no further restart until then.
    pub(crate) fn in_real_time(&self, moment: Time) -> Time {
        moment + self.waited
    }

    /// The component waits for its restart from here on.
    pub(crate) fn begin_wait(&mut self, now: Time) {
        self.out_since.get_or_insert(now);
    }

    /// The component serves.
    pub(crate) fn end_wait(&mut self, now: Time) {
        if let Some(since) = self.out_since.take() {
            self.waited = self.waited.saturating_add(now.since(since));
        }
    }

    /// How many milliseconds the component waits for its restart, for the faults that counted lately. None the first time.
    pub(crate) fn restart_delay(&self, policy: &Quarantine) -> u64 {
        let times = u32::try_from(self.recent.len()).unwrap_or(u32::MAX);
        let backoff = milliseconds(policy.backoff);
        times.checked_sub(2).map_or(0, |times| doubled(RESTART_DELAY, times).min(backoff))
    }

    /// The file is another one, is gone, or gets another chance. The faults of the one before still count: a plugin whose
    /// file is replaced all the time must not get away with them.
    pub(crate) fn begin_file(&mut self, now: Time) {
        self.out_since = None;
        self.released = (self.n_quarantines > 0).then_some(now);
    }

    /// A binary that did nothing wrong takes the place of one that did.
    pub(crate) fn begin_fallback(&mut self, now: Time) {
        self.recent.clear();
        self.begin_file(now);
    }

    /// A quarantine begins. For how many milliseconds: twice as long as the one before, unless the plugin has done well
    /// since.
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

    /// The history of a component that was quarantined so many times in a row when the process ended.
    pub(crate) fn with_quarantines(n_quarantines: u32) -> Self {
        Self { n_quarantines, ..Self::default() }
    }

    /// Quarantines in a row, the present one included.
    pub(crate) fn n_quarantines(&self) -> u32 {
        self.n_quarantines
    }

    /// The quarantine is over.
    pub(crate) fn end_quarantine(&mut self, now: Time) {
        self.released = Some(now);
    }
}

impl Tally {
    /// Why the plugin is to be taken out of service, if it is. `last` is the reason of the last fault.
    pub(crate) fn is_too_much(self, policy: &Quarantine, last: &str) -> Option<String> {
        let Tally::Counted { n_faults, milliseconds: lost } = self else { return None };
        let seconds = policy.window.as_secs();
        if n_faults >= usize::try_from(policy.faults).unwrap_or(usize::MAX) {
            return Some(format!("{n_faults} faults within {seconds} s, the last: {last}"));
        }
        let is_lost = lost > milliseconds(policy.lost);
        is_lost.then(|| format!("its faults took {lost} ms within {seconds} s, the last: {last}"))
    }
}

/// No quarantine lasts longer, in milliseconds.
pub(crate) fn longest_quarantine(policy: &Quarantine) -> u64 {
    LONGEST_QUARANTINE.max(milliseconds(policy.backoff))
}

fn doubled(backoff: u64, times: u32) -> u64 {
    let factor = 1_u64.checked_shl(times).unwrap_or(u64::MAX);
    backoff.saturating_mul(factor).min(LONGEST_QUARANTINE.max(backoff))
}
