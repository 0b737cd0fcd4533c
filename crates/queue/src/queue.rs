//! The queue's places, and how pods enter and leave them.

use std::{collections::BTreeMap, sync::Arc};

use berth_model::{Pod, PodUid, Sym, Time};
use rustc_hash::FxHashMap;

use crate::{
    backoff::{Backoff, is_over, over_at},
    in_flight::InFlight,
    metrics::{PendingPods, QueueMetrics, SubQueue},
    nominator::Nominator,
    policy::{Gate, Policy},
    registrations::{PluginEvents, Registrations},
};

/// What an operator can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub backoff: Backoff,
    /// Milliseconds after which a pod is tried again although nothing happened.
    pub max_in_unschedulable_pool: u64,
}

impl Default for Settings {
    /// Kubernetes' five minutes: hints that miss an event cost that much at most.
    fn default() -> Self {
        Self { backoff: Backoff::default(), max_in_unschedulable_pool: 5 * 60 * 1000 }
    }
}

/// A pod with the history of its attempts.
#[must_use]
#[derive(Clone, Debug)]
pub struct QueuedPod {
    pub pod: Arc<Pod>,
    /// When it last came from outside an attempt, or out of a failed one.
    pub queued_at: Time,
    /// When it first got past PreEnqueue.
    pub first_queued_at: Option<Time>,
    /// The current one included.
    pub attempts: u32,
    /// Plugins that turned it down in the last attempt, or keep it out of activeQ.
    pub rejectors: Vec<Arc<str>>,
    /// Plugins that wait for something outside the scheduler.
    pub pending: Vec<Arc<str>>,
    /// The plugin that keeps it out of activeQ.
    pub gated_by: Option<Arc<str>>,
    /// Tried only because it had waited too long: a sign that a hint missed an event.
    pub was_flushed: bool,
    pub(crate) unschedulable_count: u32,
    pub(crate) consecutive_errors: u32,
}

impl QueuedPod {
    pub(crate) fn new(pod: Arc<Pod>, now: Time) -> Self {
        Self {
            pod,
            queued_at: now,
            first_queued_at: None,
            attempts: 0,
            rejectors: Vec::new(),
            pending: Vec::new(),
            gated_by: None,
            was_flushed: false,
            unschedulable_count: 0,
            consecutive_errors: 0,
        }
    }

    pub(crate) fn is_rejected(&self) -> bool {
        !self.rejectors.is_empty() || !self.pending.is_empty()
    }

    fn backoff_expiry(&self, backoff: Backoff) -> Option<Time> {
        let count = if self.consecutive_errors > 0 { self.consecutive_errors } else { self.unschedulable_count };
        backoff.expiry(self.queued_at, count)
    }
}

/// Arrival in a place: breaks ties.
type Arrival = u64;
type SortKey = (i64, i64);

/// Where a queued pod is, with the key under which it is found there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Active(SortKey, Arrival),
    /// Turned down: taken early when nothing else is ready.
    Backoff(Time, SortKey, Arrival),
    /// Its attempt broke: never taken early.
    ErrorBackoff(Time, Arrival),
    Unschedulable(Arrival),
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) record: QueuedPod,
    pub(crate) place: Place,
}

/// All pods that wait for their turn.
#[derive(Debug, Default)]
pub struct Queue {
    pub(crate) entries: FxHashMap<PodUid, Entry>,
    active: BTreeMap<(SortKey, Arrival), PodUid>,
    backoff: BTreeMap<(Time, SortKey, Arrival), PodUid>,
    error_backoff: BTreeMap<(Time, Arrival), PodUid>,
    pub(crate) unschedulable: BTreeMap<Arrival, PodUid>,
    n_gated: usize,
    arrivals: Arrival,
    pub(crate) in_flight: InFlight,
    pub(crate) nominator: Nominator,
    pub(crate) registrations: Registrations,
    pub(crate) settings: Settings,
    pub(crate) next_leftover_flush: Time,
    pub(crate) metrics: QueueMetrics,
}

impl Queue {
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Takes effect at the next failure.
    pub fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// The events that the plugins of each profile want to hear of, by `schedulerName`.
    pub fn register(&mut self, registrations: impl IntoIterator<Item = (Sym, Vec<PluginEvents>)>) {
        self.registrations.set(registrations);
    }

    /// The next pod to try; it is in flight until [`Queue::done`] or [`Queue::requeue`]. When nothing is ready, a pod
    /// that was turned down is taken out of its backoff, though not in the millisecond in which it was: pods that keep
    /// moving each other must not keep the caller from hearing of anything else.
    pub fn pop(&mut self, now: Time) -> Option<QueuedPod> {
        let uid = match self.active.first_key_value() {
            Some((_, uid)) => uid.clone(),
            None => {
                let uid = self.backoff.first_key_value()?.1.clone();
                self.early_at().filter(|&early| early <= now)?;
                self.metrics.count_incoming(SubQueue::Active, &Arc::from("PopFromBackoffQ"));
                uid
            }
        };
        let mut record = self.take(&uid)?;
        self.in_flight.begin(&uid);
        record.attempts += 1;
        Some(record)
    }

    /// The attempt ended well, or its pod is gone.
    pub fn done(&mut self, uid: &str) {
        self.in_flight.end(uid);
    }

    /// From when on [`Queue::pop`] gives a pod, if nothing else happens.
    #[must_use]
    pub fn ready_at(&self) -> Option<Time> {
        if self.active.is_empty() { self.early_at() } else { Some(Time(0)) }
    }

    /// When the first pod in backoff may be taken early.
    fn early_at(&self) -> Option<Time> {
        let (_, uid) = self.backoff.first_key_value()?;
        self.entries.get(uid).map(|entry| entry.record.queued_at + 1)
    }

    /// When [`Queue::flush`] next has something to do.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Time> {
        let backoff = self.backoff.first_key_value().map(|((expiry, ..), _)| over_at(*expiry));
        let error = self.error_backoff.first_key_value().map(|((expiry, _), _)| over_at(*expiry));
        let leftover = (!self.unschedulable.is_empty()).then_some(self.next_leftover_flush);
        [backoff, error, leftover].into_iter().flatten().min()
    }

    /// Whether the pod waits here; a pod in flight does not.
    #[must_use]
    pub fn contains(&self, uid: &str) -> bool {
        self.entries.contains_key(uid)
    }

    #[must_use]
    pub fn is_in_flight(&self, uid: &str) -> bool {
        self.in_flight.contains(uid)
    }

    /// The waiting pods with their places, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&QueuedPod, SubQueue)> {
        self.entries.values().map(|entry| (&entry.record, entry.place.sub_queue()))
    }

    #[must_use]
    pub fn pending_pods(&self) -> PendingPods {
        PendingPods {
            active: self.active.len(),
            backoff: self.backoff.len() + self.error_backoff.len(),
            unschedulable: self.unschedulable.len() - self.n_gated,
            gated: self.n_gated,
        }
    }

    #[must_use]
    pub fn metrics(&self) -> QueueMetrics {
        QueueMetrics {
            in_flight_events: self.in_flight.n_events(),
            in_flight_pods: self.in_flight.n_pods(),
            ..self.metrics.clone()
        }
    }

    #[must_use]
    pub fn nominator(&self) -> &Nominator {
        &self.nominator
    }

    pub fn nominator_mut(&mut self) -> &mut Nominator {
        &mut self.nominator
    }
}

/// Moving records between places.
impl Queue {
    /// Takes a waiting pod out of wherever it is.
    pub(crate) fn take(&mut self, uid: &str) -> Option<QueuedPod> {
        let Entry { record, place } = self.entries.remove(uid)?;
        match place {
            Place::Active(key, arrival) => drop(self.active.remove(&(key, arrival))),
            Place::Backoff(expiry, key, arrival) => drop(self.backoff.remove(&(expiry, key, arrival))),
            Place::ErrorBackoff(expiry, arrival) => drop(self.error_backoff.remove(&(expiry, arrival))),
            Place::Unschedulable(arrival) => drop(self.unschedulable.remove(&arrival)),
        }
        self.n_gated -= usize::from(record.gated_by.is_some());
        let rejectors = record.rejectors.iter().chain(&record.pending);
        self.metrics.count_rejectors(rejectors, record.pod.scheduler_name, -1);
        Some(record)
    }

    fn put(&mut self, record: QueuedPod, place: Place) {
        let uid = record.pod.uid.clone();
        match place {
            Place::Active(key, arrival) => drop(self.active.insert((key, arrival), uid.clone())),
            Place::Backoff(expiry, key, arrival) => {
                drop(self.backoff.insert((expiry, key, arrival), uid.clone()));
            }
            Place::ErrorBackoff(expiry, arrival) => {
                drop(self.error_backoff.insert((expiry, arrival), uid.clone()));
            }
            Place::Unschedulable(arrival) => drop(self.unschedulable.insert(arrival, uid.clone())),
        }
        self.n_gated += usize::from(record.gated_by.is_some());
        let rejectors = record.rejectors.iter().chain(&record.pending);
        self.metrics.count_rejectors(rejectors, record.pod.scheduler_name, 1);
        self.entries.insert(uid, Entry { record, place });
    }

    /// Through PreEnqueue into activeQ, or into the pool when a plugin closes the gate.
    pub(crate) fn enter_active(&mut self, record: QueuedPod, label: &Arc<str>, now: Time, policy: &mut dyn Policy) {
        match pass_gate(record, policy) {
            Ok(record) => self.enter_active_ungated(record, label, now, policy),
            Err(gated) => self.enter_pool(gated, label),
        }
    }

    /// Into activeQ without asking PreEnqueue again.
    pub(crate) fn enter_active_ungated(
        &mut self,
        mut record: QueuedPod,
        label: &Arc<str>,
        now: Time,
        policy: &mut dyn Policy,
    ) {
        record.first_queued_at.get_or_insert(now);
        let key = policy.sort_key(&record.pod, record.queued_at);
        let arrival = self.arrive();
        self.metrics.count_incoming(SubQueue::Active, label);
        self.put(record, Place::Active(key, arrival));
    }

    /// Into backoff while that lasts, else into activeQ; through PreEnqueue either way.
    pub(crate) fn enter_backoff(&mut self, record: QueuedPod, label: &Arc<str>, now: Time, policy: &mut dyn Policy) {
        let record = match pass_gate(record, policy) {
            Ok(record) => record,
            Err(gated) => return self.enter_pool(gated, label),
        };
        let Some(expiry) = record.backoff_expiry(self.settings.backoff).filter(|&expiry| !is_over(expiry, now)) else {
            return self.enter_active_ungated(record, label, now, policy);
        };
        let arrival = self.arrive();
        let place = if record.is_rejected() {
            Place::Backoff(expiry, policy.sort_key(&record.pod, record.queued_at), arrival)
        } else {
            Place::ErrorBackoff(expiry, arrival)
        };
        self.metrics.count_incoming(SubQueue::Backoff, label);
        self.put(record, place);
    }

    pub(crate) fn enter_pool(&mut self, record: QueuedPod, label: &Arc<str>) {
        let arrival = self.arrive();
        self.metrics.count_incoming(SubQueue::Unschedulable, label);
        self.put(record, Place::Unschedulable(arrival));
    }

    /// Puts the pod back where it was, with the key that its object has now.
    pub(crate) fn put_back(&mut self, record: QueuedPod, place: Place, policy: &mut dyn Policy) {
        let key = |policy: &mut dyn Policy| policy.sort_key(&record.pod, record.queued_at);
        let place = match place {
            Place::Active(_, arrival) => Place::Active(key(policy), arrival),
            Place::Backoff(expiry, _, arrival) => Place::Backoff(expiry, key(policy), arrival),
            Place::ErrorBackoff(..) | Place::Unschedulable(_) => place,
        };
        self.put(record, place);
    }

    /// Pods whose backoff is over, soonest first.
    pub(crate) fn backoff_over(&self, now: Time) -> Vec<PodUid> {
        let rejected = self.backoff.iter().take_while(|((expiry, ..), _)| is_over(*expiry, now));
        let broken = self.error_backoff.iter().take_while(|((expiry, _), _)| is_over(*expiry, now));
        rejected.map(|(_, uid)| uid.clone()).chain(broken.map(|(_, uid)| uid.clone())).collect()
    }

    fn arrive(&mut self) -> Arrival {
        self.arrivals += 1;
        self.arrivals
    }
}

/// Asks PreEnqueue; `Err` is the pod with the plugin that keeps it out.
fn pass_gate(mut record: QueuedPod, policy: &mut dyn Policy) -> Result<QueuedPod, QueuedPod> {
    match policy.pre_enqueue(&record.pod, record.gated_by.as_deref()) {
        Gate::Open => {
            record.gated_by = None;
            Ok(record)
        }
        Gate::Closed(plugin) => {
            if !record.rejectors.contains(&plugin) {
                record.rejectors.push(Arc::clone(&plugin));
            }
            record.gated_by = Some(plugin);
            Err(record)
        }
    }
}

impl Place {
    pub(crate) fn sub_queue(self) -> SubQueue {
        match self {
            Place::Active(..) => SubQueue::Active,
            Place::Backoff(..) | Place::ErrorBackoff(..) => SubQueue::Backoff,
            Place::Unschedulable(_) => SubQueue::Unschedulable,
        }
    }
}
