//! Pods in the middle of an attempt, and the events since the attempt began.
//!
//! An attempt may wait at Permit for minutes, so its data is bounded. One activation is kept for each pod, and the names
//! of the plugins that changed during the attempt. The latest cluster events are kept, up to [`MAX_EVENTS`] and
//! [`MAX_BYTES`]. If an attempt fails and events of its time are no longer kept, the pod is tried again after its
//! backoff, as if a missing event had concerned the pod.

use berth_model::PodUid;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, LazyLock},
};

use rustc_hash::FxHashMap;

use crate::object_event::ObjectEvent;

/// The number of events that are kept for all running attempts together. During an attempt that does not wait at
/// Permit, only a few events come.
pub(crate) const MAX_EVENTS: usize = 8_192;

/// The number of bytes that the objects of these events may hold: enough for a few thousand pods of usual size.
pub(crate) const MAX_BYTES: usize = 32 << 20;

/// The label under which metrics count activations.
pub(crate) static FORCE_ACTIVATE: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("ForceActivate"));

/// The running attempts, and the log of events since the oldest running attempt began.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    attempts: FxHashMap<PodUid, Attempt>,
    begun: BTreeSet<(u64, PodUid)>,
    events: VecDeque<Arc<ObjectEvent>>,
    /// Bytes that the events hold.
    bytes: usize,
    /// The position of the first event that is still held.
    first: u64,
}

#[derive(Debug)]
struct Attempt {
    /// The position in the log at which the attempt began.
    since: u64,
    /// Whether the pod was activated during the attempt.
    is_activated: bool,
    /// The plugins that would give another answer than at the beginning of the attempt.
    changed_plugins: Vec<Arc<str>>,
}

/// What happened since an attempt began.
#[derive(Debug, Default)]
pub(crate) struct Meanwhile {
    pub(crate) events: Vec<Arc<ObjectEvent>>,
    /// Whether the pod is tried again regardless of the remaining events. This is so if the pod was activated, or if
    /// the log no longer holds every event since its attempt began.
    pub(crate) tries_again: bool,
    /// The plugins that would give another answer than at the beginning of the attempt. If one of them rejected the
    /// pod, the pod is tried again.
    pub(crate) changed_plugins: Vec<Arc<str>>,
}

impl InFlight {
    /// Begins an attempt. Returns `false` when the pod is in flight already.
    pub(crate) fn begin(&mut self, uid: &PodUid) -> bool {
        if self.attempts.contains_key(uid) {
            return false;
        }
        let since = self.end_of_log();
        self.attempts.insert(uid.clone(), Attempt { since, is_activated: false, changed_plugins: Vec::new() });
        self.begun.insert((since, uid.clone()));
        true
    }

    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.attempts.contains_key(uid)
    }

    pub(crate) fn record(&mut self, object_event: &Arc<ObjectEvent>) {
        if self.attempts.is_empty() {
            return;
        }
        self.bytes += object_event.bytes();
        self.events.push_back(Arc::clone(object_event));
        while self.events.len() > MAX_EVENTS || self.bytes > MAX_BYTES {
            self.drop_first();
        }
    }

    /// Notes that the pod was activated. A pod that is not in flight is ignored. Several activations count as one
    /// activation.
    pub(crate) fn activate(&mut self, uid: &str) {
        if let Some(attempt) = self.attempts.get_mut(uid) {
            attempt.is_activated = true;
        }
    }

    /// Notes for all running attempts that the plugin would give another answer from this time on.
    pub(crate) fn plugin_changed(&mut self, plugin: &str) {
        if self.attempts.is_empty() {
            return;
        }
        let plugin: Arc<str> = Arc::from(plugin);
        for attempt in self.attempts.values_mut() {
            if !attempt.changed_plugins.contains(&plugin) {
                attempt.changed_plugins.push(Arc::clone(&plugin));
            }
        }
    }

    /// The events since the attempt began.
    pub(crate) fn meanwhile(&self, uid: &str) -> Meanwhile {
        let Some(attempt) = self.attempts.get(uid) else { return Meanwhile::default() };
        let skip = usize::try_from(attempt.since.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let events = self.events.iter().skip(skip).cloned().collect();
        let tries_again = attempt.is_activated || attempt.since < self.first;
        Meanwhile { events, tries_again, changed_plugins: attempt.changed_plugins.clone() }
    }

    /// Ends the attempt, and drops events that no other attempt needs. A pod that is not in flight is ignored: the
    /// attempt of a pod ends before PreBind, and the pod leaves the scheduler later.
    pub(crate) fn end(&mut self, uid: &str) {
        let Some((uid, attempt)) = self.attempts.remove_entry(uid) else { return };
        self.begun.remove(&(attempt.since, uid));
        let needed = self.begun.first().map_or_else(|| self.end_of_log(), |(position, _)| *position);
        while self.first < needed {
            self.drop_first();
        }
    }

    fn end_of_log(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    fn drop_first(&mut self) {
        let bytes = self.events.pop_front().map_or(0, |object_event| object_event.bytes());
        self.bytes = self.bytes.saturating_sub(bytes);
        self.first += 1;
    }

    pub(crate) fn n_pods(&self) -> usize {
        self.attempts.len()
    }

    /// The numbers of events and activations that are held, by label.
    pub(crate) fn n_events(&self) -> BTreeMap<Arc<str>, usize> {
        let mut by_label = BTreeMap::new();
        for event in &self.events {
            *by_label.entry(Arc::clone(&event.label)).or_default() += 1;
        }
        let n_activated = self.attempts.values().filter(|attempt| attempt.is_activated).count();
        if n_activated > 0 {
            *by_label.entry(Arc::clone(&FORCE_ACTIVATE)).or_default() += n_activated;
        }
        by_label
    }
}
