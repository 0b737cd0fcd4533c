//! Pods in the middle of an attempt, and what happened meanwhile.

use berth_model::PodUid;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use rustc_hash::FxHashMap;

use crate::occurrence::Occurrence;

/// The log of occurrences since the oldest attempt began.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// Position in the log at which each attempt began.
    since: FxHashMap<PodUid, u64>,
    begun: BTreeSet<(u64, PodUid)>,
    events: VecDeque<Arc<Occurrence>>,
    /// Position of the first event that is still held.
    first: u64,
}

impl InFlight {
    /// `false` when the pod is in flight already.
    pub(crate) fn begin(&mut self, uid: &PodUid) -> bool {
        if self.since.contains_key(uid) {
            return false;
        }
        let position = self.first + self.events.len() as u64;
        self.since.insert(uid.clone(), position);
        self.begun.insert((position, uid.clone()));
        true
    }

    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.since.contains_key(uid)
    }

    pub(crate) fn record(&mut self, occurrence: &Arc<Occurrence>) {
        if !self.since.is_empty() {
            self.events.push_back(Arc::clone(occurrence));
        }
    }

    /// Everything that happened since the attempt began.
    pub(crate) fn events_since(&self, uid: &str) -> Vec<Arc<Occurrence>> {
        let Some(&since) = self.since.get(uid) else { return Vec::new() };
        let skip = usize::try_from(since.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.events.iter().skip(skip).cloned().collect()
    }

    /// The attempt is over; events that no attempt can ask for are dropped. Nothing happens if the pod is not in flight: an
    /// attempt is over before PreBind, and the pod leaves the scheduler later.
    pub(crate) fn end(&mut self, uid: &str) {
        let Some((uid, since)) = self.since.remove_entry(uid) else { return };
        self.begun.remove(&(since, uid));
        let needed = self.begun.first().map_or(self.first + self.events.len() as u64, |(position, _)| *position);
        while self.first < needed {
            self.events.pop_front();
            self.first += 1;
        }
    }

    pub(crate) fn n_pods(&self) -> usize {
        self.since.len()
    }

    /// How many events are held, by label.
    pub(crate) fn n_events(&self) -> BTreeMap<Arc<str>, usize> {
        let mut by_label = BTreeMap::new();
        for event in &self.events {
            *by_label.entry(Arc::clone(&event.label)).or_default() += 1;
        }
        by_label
    }
}
