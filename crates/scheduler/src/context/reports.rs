//! The output of the scheduler: actions in order, and measurements.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration, vec::Drain};

use berth_explain::{DecisionRecord, NotBound};
use berth_framework::{CycleId, Profile};
use berth_model::{ClusterTable, Pod, Sym, Time};

use super::Context;
use crate::{
    action::{
        Action, AttemptOutcome, EventRecord, Level, Notice, PodRef, PodRequest, Request, TracedAttempt,
        TracedPreemption,
    },
    effect_bytes::HeldBytes,
    metrics::{AttemptResult, Observation},
    occurrence::{ChangeType, Occurrence, PodName},
    outbox::NotBoundAttempt,
};

/// An event about a pod, without the pod.
pub(crate) struct PodEvent {
    pub(crate) warning: bool,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) action: Cow<'static, str>,
}

/// The cycle of an attempt that ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndingCycle {
    pub(crate) cycle: CycleId,
    /// The time at which the cycle began; `None` without a clock.
    pub(crate) started: Option<Duration>,
    /// The number of the pod's attempt.
    pub(crate) number: u32,
    /// The node that was chosen.
    pub(crate) node: Option<Sym>,
}

/// Each event with its name in the code, whether it is a warning, its reason and its action.
macro_rules! pod_events {
    ($($name:ident: $warning:literal, $reason:literal, $action:literal;)*) => {
        impl PodEvent {
            $(pub(crate) const $name: Self = Self::new($warning, $reason, $action);)*

            /// Whether each event is a warning, and its reason. The guide lists them (`docs/src/running.md`).
            #[cfg(test)]
            pub(crate) const ALL: &'static [(bool, &'static str)] = &[$(($warning, $reason)),*];
        }
    };
}

pod_events! {
    FAILED_SCHEDULING: true, "FailedScheduling", "Scheduling";
    SCHEDULED: false, "Scheduled", "Binding";
    WAITING_ON_PERMIT: false, "WaitingOnPermit", "Scheduling";
    WAITING_ON_PRE_BIND: false, "WaitingOnPreBind", "Binding";
    EFFECT_REFUSED: true, "EffectRefused", "Scheduling";
    PREEMPTED: false, "Preempted", "Preempting";
    SCHEDULED_ALONE: true, "PodGroupIgnored", "Scheduling";
}

impl PodEvent {
    const fn new(warning: bool, reason: &'static str, action: &'static str) -> Self {
        Self { warning, reason: Cow::Borrowed(reason), action: Cow::Borrowed(action) }
    }
}

impl Context {
    /// The time of the event that is being handled.
    pub(crate) fn now(&self) -> Time {
        self.outbox.now()
    }

    pub(crate) fn set_now(&mut self, now: Time) {
        self.outbox.set_now(now);
    }

    /// The current time, for measurements; `None` without a clock.
    pub(crate) fn instant(&self) -> Option<Duration> {
        self.outbox.instant()
    }

    pub(crate) fn act(&mut self, action: Action) {
        self.outbox.act(action);
    }

    pub(crate) fn request(&mut self, pod: &Pod, request: Request) {
        let request = self.pod_request(pod, request);
        self.act(Action::Pod(request));
    }

    /// A request about the pod. The caller sends it later.
    pub(crate) fn pod_request(&self, pod: &Pod, request: Request) -> PodRequest {
        PodRequest { pod: self.pod_ref(pod), profile: self.shared_text(pod.scheduler_name), request }
    }

    pub(crate) fn notice(&mut self, notice: Notice) {
        self.outbox.notice(notice);
    }

    /// Writes a log line that concerns no plugin.
    #[track_caller]
    pub(crate) fn log(&mut self, level: Level, message: String) {
        self.outbox.log(level, message);
    }

    /// Writes a log line that a plugin caused. Lines from one place in the code about one plugin differ only in their
    /// details.
    #[track_caller]
    pub(crate) fn log_of(&mut self, plugin: &str, level: Level, message: String) {
        self.outbox.log_of(plugin, level, message);
    }

    pub(crate) fn observe(&mut self, observation: Observation) {
        self.outbox.observe(observation);
    }

    /// Observes the time since `start`.
    pub(crate) fn observe_since(&mut self, start: Option<Duration>, observation: impl FnOnce(Duration) -> Observation) {
        self.outbox.observe_since(start, observation);
    }

    /// Adds this label to the labels of the event that is being handled.
    pub(crate) fn also_handling(&mut self, label: &Arc<str>) {
        self.outbox.also_handling(label);
    }

    /// Notes that the event, whose handling began at `start`, has been handled.
    pub(crate) fn event_handled(&mut self, start: Option<Duration>) {
        self.outbox.event_handled(start);
    }

    /// Counts bytes of the plugin's effects until the value is dropped.
    pub(crate) fn hold_bytes(&mut self, plugin: &Arc<str>, bytes: usize) -> HeldBytes {
        self.outbox.hold_bytes(plugin, bytes)
    }

    /// Whether `bytes` more bytes of the plugin's effects may wait to be carried out.
    pub(crate) fn has_room_for_bytes(&self, plugin: &str, bytes: usize) -> bool {
        self.outbox.has_room_for_bytes(plugin, bytes)
    }

    pub(crate) fn drain_actions(&mut self) -> Drain<'_, Action> {
        self.outbox.drain_actions()
    }

    pub(crate) fn take_observations(&mut self) -> Vec<Observation> {
        self.outbox.take_observations()
    }

    /// Records a decision about `pod`, if a profile still serves it.
    pub(crate) fn record_decision(
        &mut self,
        pod: &Pod,
        record: impl FnOnce(&Profile, &ClusterTable, Time) -> DecisionRecord,
    ) {
        let now = self.now();
        if let Some(profile) = self.profiles.get(pod.scheduler_name) {
            self.outbox.record_decision(record(profile, self.cache.table(), now));
        }
    }

    /// Records why an attempt that chose a node did not bind `pod`.
    pub(crate) fn record_not_bound(&mut self, pod: &Pod, attempt: u32, reason: NotBound) {
        self.outbox.record_not_bound(NotBoundAttempt { uid: pod.uid.clone(), attempt, reason });
    }

    pub(crate) fn drain_not_bound(&mut self) -> Drain<'_, NotBoundAttempt> {
        self.outbox.drain_not_bound()
    }

    pub(crate) fn drain_decisions(&mut self) -> Drain<'_, DecisionRecord> {
        self.outbox.drain_decisions()
    }

    /// Sets the highest verbosity of the occurrences that are recorded; 0 records no occurrences.
    pub(crate) fn record_occurrences(&mut self, verbosity: u8) {
        self.outbox.occurrences_mut().record_up_to(verbosity);
    }

    pub(crate) fn drain_occurrences(&mut self) -> Drain<'_, Occurrence> {
        self.outbox.occurrences_mut().drain()
    }

    /// Records an occurrence, if occurrences of this verbosity are recorded.
    pub(crate) fn note(&mut self, verbosity: u8, occurrence: impl FnOnce(&Self) -> Occurrence) {
        if self.outbox.occurrences().wants(verbosity) {
            let occurrence = occurrence(self);
            self.outbox.occurrences_mut().add(occurrence);
        }
    }

    /// Notes that the API server showed a change of a pod.
    pub(crate) fn note_pod_event(&mut self, pod: &Pod, change: ChangeType, is_scheduled: bool) {
        self.note(Occurrence::event_verbosity(change), |context| Occurrence::PodEvent {
            pod: context.pod_name(pod),
            change,
            is_scheduled,
        });
    }

    /// Notes that the API server showed a change of a node.
    pub(crate) fn note_node_event(&mut self, node: Sym, change: ChangeType) {
        self.note(Occurrence::event_verbosity(change), |context| Occurrence::NodeEvent {
            node: context.shared_text(node),
            change,
        });
    }

    /// Notes that an attempt begins. `n_cycles` is the number of attempts so far, of all pods.
    pub(crate) fn note_attempt(&mut self, pod: &Pod, n_cycles: u64) {
        self.outbox.occurrences_mut().set_cycles(n_cycles);
        self.note(3, |context| Occurrence::AttemptBegan(context.pod_name(pod)));
    }

    /// The pod as log lines name it.
    pub(crate) fn pod_name(&self, pod: &Pod) -> PodName {
        PodName::of(pod, &self.cache.table().symbols)
    }

    /// Notes that an attempt that began at `started` is over.
    pub(crate) fn count_attempt(&mut self, scheduler_name: Sym, result: AttemptResult, started: Option<Duration>) {
        let profile = self.cache.table().symbols.text(scheduler_name);
        self.outbox.count_attempt(profile, result);
        self.outbox.observe_since(started, |duration| Observation::Attempt { scheduler_name, result, duration });
    }

    /// The current time, if the attempt is traced.
    pub(crate) fn traced_instant(&self, cycle: CycleId) -> Option<Duration> {
        if self.outbox.tracing().takes(cycle) { self.instant() } else { None }
    }

    /// Reports that an attempt of `pod` ended at this [`Self::traced_instant`]. `outcome` is `None` if the pod was
    /// deleted, or bound by another scheduler. An attempt that is not traced is ignored.
    pub(crate) fn trace_end(
        &mut self,
        ending: EndingCycle,
        end: Option<Duration>,
        pod: &Pod,
        outcome: Option<&AttemptOutcome>,
        preemption: Option<TracedPreemption>,
    ) {
        let EndingCycle { cycle, started, number, node } = ending;
        let (Some(start), Some(end)) = (started, end) else { return };
        self.act(Action::Traced(Box::new(TracedAttempt {
            cycle,
            pod: self.pod_ref(pod),
            scheduler_name: self.shared_text(pod.scheduler_name),
            number,
            node: node.map(|node| self.text(node).to_owned()),
            outcome: outcome.cloned(),
            preemption,
            start,
            end,
        })));
    }

    pub(crate) fn attempts(&self) -> BTreeMap<(String, AttemptResult), u64> {
        self.outbox.attempts()
    }

    /// Logs that an event names an object that was taken before. The event has no other consequence.
    pub(crate) fn object_is_gone(&mut self, what: &str) {
        self.log(Level::Error, format!("ignoring an event about {what} that another event already handled"));
    }

    pub(crate) fn pod_ref(&self, pod: &Pod) -> PodRef {
        PodRef {
            namespace: self.shared_text(pod.namespace),
            name: Arc::clone(&pod.name),
            uid: pod.uid.clone(),
            resource_version: self.pending_pods.resource_version(&pod.uid),
        }
    }

    /// Writes an event about `pod`, reported by its profile.
    pub(crate) fn pod_event(&mut self, pod: &Pod, event: PodEvent, note: String) {
        self.record_event(pod, None, event, note);
    }

    /// Writes an event about what happened to `pod` because of `preemptor`. The profile of `preemptor` reports it.
    pub(crate) fn preempted_event(&mut self, pod: &Pod, preemptor: &Pod, note: String) {
        self.record_event(pod, Some(preemptor), PodEvent::PREEMPTED, note);
    }

    fn record_event(&mut self, pod: &Pod, related: Option<&Pod>, event: PodEvent, note: String) {
        let reported_by = related.unwrap_or(pod).scheduler_name;
        let record = EventRecord {
            regarding: self.pod_ref(pod),
            related: related.map(|related| self.pod_ref(related)),
            warning: event.warning,
            reason: event.reason,
            action: event.action,
            note,
            reporting_controller: self.shared_text(reported_by),
        };
        self.outbox.notice(Notice::Event(record));
    }
}
