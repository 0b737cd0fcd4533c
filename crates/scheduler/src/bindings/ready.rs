//! The pods that continue once the plugins of their profile have time. The profiles take turns.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use berth_model::Sym;

use super::binding::PodAttempt;

/// The pods by profile, in the order in which they became ready. The list may contain a pod whose attempt has ended.
#[derive(Debug, Default)]
pub(crate) struct ReadyPods {
    profiles: BTreeMap<Sym, VecDeque<PodAttempt>>,
    /// The profile that had the last turn.
    last: Option<Sym>,
    /// The profiles that have no time in this round.
    passed_over: BTreeSet<Sym>,
}

impl ReadyPods {
    pub(super) fn push(&mut self, scheduler_name: Sym, pod: PodAttempt) {
        self.profiles.entry(scheduler_name).or_default().push_back(pod);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.profiles.is_empty()
    }

    /// Begins a round. In a new round, every profile may have time.
    pub(super) fn begin_round(&mut self) {
        self.passed_over.clear();
    }

    /// Notes that the profile has no time in this round.
    pub(super) fn pass_over(&mut self, scheduler_name: Sym) {
        self.passed_over.insert(scheduler_name);
    }

    /// The profile whose turn it is.
    pub(super) fn next_profile(&self) -> Option<Sym> {
        let mut waiting = self.profiles.keys().copied().filter(|profile| !self.passed_over.contains(profile));
        let first = waiting.clone().next();
        waiting.find(|profile| self.last.is_none_or(|last| last < *profile)).or(first)
    }

    /// Takes the next pod of the profile. The call counts as the profile's turn.
    pub(super) fn pop(&mut self, scheduler_name: Sym) -> Option<PodAttempt> {
        self.last = Some(scheduler_name);
        let pods = self.profiles.get_mut(&scheduler_name)?;
        let pod = pods.pop_front();
        if pods.is_empty() {
            self.profiles.remove(&scheduler_name);
        }
        pod
    }
}
