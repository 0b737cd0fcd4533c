//! The parts of the queue, and how pods enter and leave its places.
//!
//! A pod waits in activeQ, in backoffQ or in the unschedulable pool ([`Places`]), or it is in flight: in the middle of
//! an attempt ([`InFlight`]). `moves` has the moves of waiting pods for each cause, and `requeue` the place after a
//! failed attempt. A [`Policy`] answers for the plugins.
//!
//! # Default
//! The backoff is one to ten seconds. A pod leaves the unschedulable pool after five minutes even if no event came.
//!
//! # Surprises
//! - A pod stays in flight until it is bound. If its attempt fails, the events since the attempt began count as well.
//! - PreEnqueue is called when a pod enters activeQ. A gated pod waits in the unschedulable pool, which it leaves after
//!   five minutes only if the plugin that gates it registered for every event.
//! - While activeQ is empty, [`Queue::pop`] takes rejected pods before their backoff is over.

mod follow;
mod moves;
mod requeue;

use std::sync::Arc;

use berth_model::{ChangedKeys, Features, Pod, PodUid, Sym, Time};
use serde::{Deserialize, Serialize};

pub use self::{follow::Waiting, requeue::RejectedBy};
use crate::{
    backoff::Backoff,
    in_flight::InFlight,
    metrics::{PendingPods, QueueMetrics, SubQueue},
    movement::{MoveReason, Movement},
    nominator::Nominator,
    object_event::PodEventLabels,
    places::{Place, Places, WaitingPod},
    policy::{Gate, Policy},
    record::QueuedPod,
    registrations::{PluginEvents, Registrations},
};

/// The settings of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The backoff of a pod after a failed attempt.
    pub backoff: Backoff,
    /// The milliseconds after which an unschedulable pod is tried again although no event moved it.
    pub max_in_unschedulable_pool: u64,
    /// The feature gate SchedulerPopFromBackoffQ: when no other pod is ready, rejected pods are tried before their
    /// backoff is over.
    pub pops_from_backoff: bool,
    /// The behaviour that depends on the Kubernetes release and its feature gates. It is fixed at the start.
    pub features: Features,
}

impl Default for Settings {
    /// The default time in the pool is five minutes, as in kube-scheduler. If a queueing hint misses an event, the pod
    /// waits no longer than this time.
    fn default() -> Self {
        Self {
            backoff: Backoff::default(),
            max_in_unschedulable_pool: 5 * 60 * 1000,
            pops_from_backoff: true,
            features: Features::default(),
        }
    }
}

impl Settings {
    /// The milliseconds after which a pod that entered the unschedulable pool has certainly been tried again.
    #[must_use]
    pub fn flushed_after(self) -> u64 {
        self.max_in_unschedulable_pool + moves::LEFTOVER_PERIOD
    }

    /// Rounds the end of a backoff, or the current time that is compared with such an end. If pods may be taken early,
    /// the time is rounded to whole seconds, so that QueueSort sorts the pods of one second. Otherwise the time is not
    /// changed.
    fn window(self, time: Time) -> Time {
        if self.pops_from_backoff { time.whole_second() } else { time }
    }
}

/// All pods that wait for a node, and pods in the middle of an attempt
/// (`pkg/scheduler/backend/queue/scheduling_queue.go` in kube-scheduler).
#[derive(Debug, Default)]
pub struct Queue {
    places: Places,
    in_flight: InFlight,
    nominator: Nominator,
    registrations: Registrations,
    settings: Settings,
    next_leftover_flush: Time,
    metrics: QueueMetrics,
    /// Pods that entered or left a place.
    changed: ChangedKeys<PodUid>,
}

impl Queue {
    /// An empty queue.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Replaces the settings. The backoff of a pod that is already in backoffQ does not change.
    pub fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Sets the events for which the plugins of each profile registered, by `schedulerName`.
    pub fn register(&mut self, registrations: impl IntoIterator<Item = (Sym, Vec<PluginEvents>)>) {
        self.registrations.set(registrations);
    }

    /// The next pod to try. The pod is in flight until [`Queue::done`] or [`Queue::requeue`]. When activeQ is empty, a
    /// rejected pod is taken out of backoffQ early (`SchedulerPopFromBackoffQ`). A pod is not taken in the millisecond
    /// of its rejection: pods that keep moving each other would otherwise prevent the caller from receiving events.
    pub fn pop(&mut self, now: Time) -> Option<QueuedPod> {
        self.pop_unless(now, |_| false)
    }

    /// Like [`Self::pop`], but skips pods for which `is_to_wait` holds, and returns `None` if `is_to_wait` holds for
    /// every pod. The skipped pods keep their places. While a skipped pod is in activeQ, no pod is taken out of
    /// backoffQ early.
    pub fn pop_unless(&mut self, now: Time, mut is_to_wait: impl FnMut(&QueuedPod) -> bool) -> Option<QueuedPod> {
        let uid = if self.places.first_active().is_some() {
            self.places.active().find(|record| !is_to_wait(record))?.pod.uid.clone()
        } else {
            self.early_at().filter(|&early| early <= now)?;
            let first = self.places.first_rejected().filter(|record| !is_to_wait(record))?;
            let uid = first.pod.uid.clone();
            self.metrics.count_incoming(SubQueue::Active, &Arc::from("PopFromBackoffQ"));
            uid
        };
        self.begin_attempt(&uid)
    }

    fn begin_attempt(&mut self, uid: &PodUid) -> Option<QueuedPod> {
        let mut record = self.take(uid)?.record;
        self.in_flight.begin(uid);
        record.attempts += 1;
        Some(record)
    }

    /// Ends the attempt of a pod that succeeded or is gone.
    pub fn done(&mut self, uid: &str) {
        self.in_flight.end(uid);
    }

    /// The time from which [`Queue::pop`] returns a pod, unless an event comes before that time.
    #[must_use]
    pub fn ready_at(&self) -> Option<Time> {
        if self.places.first_active().is_none() { self.early_at() } else { Some(Time(0)) }
    }

    /// The time from which the first rejected pod in backoffQ may be taken early.
    fn early_at(&self) -> Option<Time> {
        let first = self.places.first_rejected().filter(|_| self.settings.pops_from_backoff);
        first.map(|record| record.queued_at + 1)
    }

    /// The time at which [`Queue::flush`] next has pods to move, or pods to check.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Time> {
        let leftover = (!self.places.pool().is_empty()).then_some(self.next_leftover_flush);
        let window = if self.settings.pops_from_backoff { 1000 } else { 1 };
        let backoff_over = self.places.next_backoff_end().map(|end| end + window);
        backoff_over.into_iter().chain(leftover).min()
    }

    /// Orders the waiting pods by QueueSort again. Pods with equal keys stay in the order of their arrival.
    pub fn sort(&mut self, policy: &mut dyn Policy) {
        let sorted = |place| matches!(place, SubQueue::Active | SubQueue::Backoff);
        let uids: Vec<_> =
            self.iter().filter(|(_, place)| sorted(*place)).map(|(record, _)| record.pod.uid.clone()).collect();
        for uid in uids {
            if let Some(WaitingPod { record, place }) = self.take(&uid) {
                self.put_back(record, place, policy);
            }
        }
    }

    /// The behaviour that depends on the Kubernetes release and its feature gates.
    #[must_use]
    pub fn features(&self) -> Features {
        self.settings.features
    }

    /// The labels that metrics and log lines use for events of pending pods.
    #[must_use]
    pub fn pod_event_labels(&self) -> &'static PodEventLabels {
        PodEventLabels::of(self.settings.features)
    }

    /// Whether the pod waits in the queue. A pod in flight does not wait.
    #[must_use]
    pub fn contains(&self, uid: &str) -> bool {
        self.places.get(uid).is_some()
    }

    /// Whether the pod is in the middle of an attempt.
    #[must_use]
    pub fn is_in_flight(&self, uid: &str) -> bool {
        self.in_flight.contains(uid)
    }

    /// The waiting pods with their places, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&QueuedPod, SubQueue)> {
        self.places.iter().map(|pod| (&pod.record, pod.place.sub_queue()))
    }

    /// The number of pods that wait in each part of the queue.
    #[must_use]
    pub fn pending_pods(&self) -> PendingPods {
        self.places.sizes()
    }

    /// The earliest [`QueuedPod::queued_at`] of the waiting pods. The pod with this time has waited longest since it
    /// was added or last tried.
    #[must_use]
    pub fn longest_waits_since(&self) -> Option<Time> {
        self.places.earliest_queued_at()
    }

    /// The current counters and gauges.
    #[must_use]
    pub fn metrics(&self) -> QueueMetrics {
        QueueMetrics {
            in_flight_events: self.in_flight.n_events(),
            in_flight_pods: self.in_flight.n_pods(),
            ..self.metrics.clone()
        }
    }

    /// The pods that are nominated to nodes.
    #[must_use]
    pub fn nominator(&self) -> &Nominator {
        &self.nominator
    }

    /// The nominator, for changes.
    pub fn nominator_mut(&mut self) -> &mut Nominator {
        &mut self.nominator
    }
}

/// Methods that move records between places.
impl Queue {
    /// Asks PreEnqueue again about the pods in activeQ and backoffQ for which `concerns` holds. The caller does this
    /// when a plugin serves again that could not be asked about these pods before.
    pub fn check_gates(&mut self, concerns: impl Fn(&Pod) -> bool, policy: &mut dyn Policy) {
        let past = self.iter().filter(|(record, place)| *place != SubQueue::Unschedulable && concerns(&record.pod));
        let mut uids: Vec<PodUid> = past.map(|(record, _)| record.pod.uid.clone()).collect();
        uids.sort_unstable();
        let label = Arc::from("PluginReplaced");
        for uid in uids {
            let Some(WaitingPod { mut record, place }) = self.take(&uid) else { continue };
            if passes_gate(&mut record, policy) {
                self.put(record, place);
            } else {
                self.enter_pool(record, MoveReason::event(&label), true, policy);
            }
        }
    }

    /// Takes a waiting pod out of its place.
    fn take(&mut self, uid: &str) -> Option<WaitingPod> {
        let pod = self.places.take(uid)?;
        self.metrics.count_rejectors(pod.record.rejected_by(), pod.record.pod.scheduler_name, -1);
        self.changed.note(&pod.record.pod.uid);
        Some(pod)
    }

    fn put(&mut self, record: QueuedPod, place: Place) {
        self.metrics.count_rejectors(record.rejected_by(), record.pod.scheduler_name, 1);
        self.changed.note(&record.pod.uid);
        self.places.put(record, place);
    }

    /// Asks PreEnqueue about the pod. If a plugin keeps the pod out, moves the pod into the pool, and otherwise into
    /// activeQ.
    fn enter_active(&mut self, mut record: QueuedPod, reason: MoveReason<'_>, now: Time, policy: &mut dyn Policy) {
        if passes_gate(&mut record, policy) {
            self.enter_active_ungated(record, reason, now, policy);
        } else {
            self.enter_pool(record, reason, true, policy);
        }
    }

    /// Moves the pod into activeQ without asking PreEnqueue again.
    fn enter_active_ungated(
        &mut self,
        mut record: QueuedPod,
        reason: MoveReason<'_>,
        now: Time,
        policy: &mut dyn Policy,
    ) {
        record.first_queued_at.get_or_insert(now);
        let key = policy.sort_key(&record.pod, record.queued_at);
        let arrival = self.places.arrive();
        self.note_movement(Movement { record: &record, queue: SubQueue::Active, reason, is_gated: false }, policy);
        self.put(record, Place::Active(key, arrival));
    }

    /// Moves the pod into backoffQ while its backoff lasts, and otherwise into activeQ. PreEnqueue is called before
    /// the pod may be tried.
    fn enter_backoff(&mut self, mut record: QueuedPod, reason: MoveReason<'_>, now: Time, policy: &mut dyn Policy) {
        let Some(end) = self.backoff_end(&record, now) else { return self.enter_active(record, reason, now, policy) };
        // If pods are never taken out of backoffQ early, PreEnqueue is called when the backoff is over.
        if self.settings.pops_from_backoff && !passes_gate(&mut record, policy) {
            return self.enter_pool(record, reason, false, policy);
        }
        let arrival = self.places.arrive();
        let place = if record.is_rejected() {
            Place::Backoff(end, policy.sort_key(&record.pod, record.queued_at), arrival)
        } else {
            Place::ErrorBackoff(end, arrival)
        };
        self.note_movement(Movement { record: &record, queue: SubQueue::Backoff, reason, is_gated: false }, policy);
        self.put(record, place);
    }

    /// Moves the pod from backoff into activeQ.
    fn leave_backoff(&mut self, record: QueuedPod, reason: MoveReason<'_>, now: Time, policy: &mut dyn Policy) {
        if self.settings.pops_from_backoff {
            self.enter_active_ungated(record, reason, now, policy);
        } else {
            self.enter_active(record, reason, now, policy);
        }
    }

    /// The end of the pod's backoff; `None` if the pod need not wait.
    fn backoff_end(&self, record: &QueuedPod, now: Time) -> Option<Time> {
        let end = self.settings.window(record.backoff_end(self.settings.backoff)?);
        (end >= self.settings.window(now)).then_some(end)
    }

    /// Moves the pod into the pool. `is_gated` says whether a plugin has just kept the pod out of activeQ.
    fn enter_pool(&mut self, record: QueuedPod, reason: MoveReason<'_>, is_gated: bool, policy: &mut dyn Policy) {
        let arrival = self.places.arrive();
        self.note_movement(Movement { record: &record, queue: SubQueue::Unschedulable, reason, is_gated }, policy);
        self.put(record, Place::Unschedulable(arrival));
    }

    /// Counts the pod that enters a part of the queue, and reports it.
    fn note_movement(&mut self, movement: Movement<'_>, policy: &mut dyn Policy) {
        self.metrics.count_incoming(movement.queue, movement.reason.label);
        policy.moved(movement);
    }

    /// Puts the pod back into its previous place, with the key of its newest object.
    fn put_back(&mut self, record: QueuedPod, place: Place, policy: &mut dyn Policy) {
        let key = |policy: &mut dyn Policy| policy.sort_key(&record.pod, record.queued_at);
        let place = match place {
            Place::Active(_, arrival) => Place::Active(key(policy), arrival),
            Place::Backoff(expiry, _, arrival) => Place::Backoff(expiry, key(policy), arrival),
            Place::ErrorBackoff(..) | Place::Unschedulable(_) => place,
        };
        self.put(record, place);
    }
}

/// Asks PreEnqueue. If a plugin keeps the pod out, the record names that plugin afterwards.
fn passes_gate(record: &mut QueuedPod, policy: &mut dyn Policy) -> bool {
    match policy.pre_enqueue(&record.pod, record.gated_by.as_deref()) {
        Gate::Open => {
            record.gated_by = None;
            true
        }
        Gate::Closed(plugin) => {
            if !record.rejectors.contains(&plugin) {
                record.rejectors.push(Arc::clone(&plugin));
            }
            record.gated_by = Some(plugin);
            false
        }
    }
}
