//! The output of the scheduler: actions in order, measurements, and the time that all steps of one turn share.

use std::{collections::BTreeMap, panic::Location, sync::Arc, time::Duration, vec::Drain};

use berth_explain::{DecisionRecord, NotBound};
use berth_framework::{Clock, TraceSampling};
use berth_model::{PodUid, Time};

use crate::{
    action::{Action, Level, Notice},
    effect_bytes::{EffectBytes, HeldBytes},
    metrics::{AttemptResult, ByProfile, Observation},
    occurrence::Occurrences,
};

/// The results of every machine of the scheduler.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    now: Time,
    actions: Vec<Action>,
    observations: Vec<Observation>,
    decisions: Vec<DecisionRecord>,
    /// The attempts that ended after a decision without a binding, with the reason.
    not_bound: Vec<NotBoundAttempt>,
    records_decisions: bool,
    /// The occurrences for the log.
    occurrences: Occurrences,
    attempts: ByProfile<AttemptResult>,
    /// The labels of the event that is being handled, once they are known.
    labels: Vec<Arc<str>>,
    /// The bytes of effects that wait to be carried out.
    effect_bytes: EffectBytes,
    /// A clock for steps that are shorter than the unit of [`Time`].
    clock: Option<Arc<dyn Clock>>,
    /// The share of attempts that is traced.
    tracing: TraceSampling,
}

/// An attempt that chose a node and did not bind the pod.
#[derive(Debug)]
pub struct NotBoundAttempt {
    /// `metadata.uid` of the pod.
    pub uid: PodUid,
    /// The number of the attempt, as in its [`DecisionRecord`].
    pub attempt: u32,
    /// The reason.
    pub reason: NotBound,
}

/// The number of measurements, and of records of decisions, that are kept until the host takes them. Further values are
/// dropped.
const MAX_KEPT: usize = 16_384;

impl Outbox {
    /// The time of the event that is being handled.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    pub(crate) fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    pub(crate) fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    pub(crate) fn notice(&mut self, notice: Notice) {
        self.act(Action::Notice(notice));
    }

    /// Counts bytes of the plugin's effects until the value is dropped.
    pub(crate) fn hold_bytes(&mut self, plugin: &Arc<str>, bytes: usize) -> HeldBytes {
        self.effect_bytes.hold(plugin, bytes)
    }

    /// Whether `bytes` more bytes of the plugin's effects may wait to be carried out.
    pub(crate) fn has_room_for_bytes(&self, plugin: &str, bytes: usize) -> bool {
        self.effect_bytes.has_room_for(plugin, bytes)
    }

    /// Writes a log line that concerns no plugin.
    #[track_caller]
    pub(crate) fn log(&mut self, level: Level, message: String) {
        self.log_of("", level, message);
    }

    /// Writes a log line that a plugin caused. Lines from one place in the code about one plugin differ only in their
    /// details.
    #[track_caller]
    pub(crate) fn log_of(&mut self, plugin: &str, level: Level, message: String) {
        self.notice(Notice::Log { level, plugin: Arc::from(plugin), place: Location::caller().into(), message });
    }

    pub(crate) fn observe(&mut self, observation: Observation) {
        self.observations.push(observation);
    }

    pub(crate) fn set_clock(&mut self, clock: Arc<dyn Clock>) {
        self.clock = Some(clock);
    }

    pub(crate) fn set_tracing(&mut self, tracing: TraceSampling) {
        self.tracing = tracing;
    }

    /// The share of attempts that is traced.
    pub(crate) fn tracing(&self) -> TraceSampling {
        self.tracing
    }

    /// The current time, for measurements; `None` without a clock.
    pub(crate) fn instant(&self) -> Option<Duration> {
        self.clock.as_ref().map(|clock| clock.now())
    }

    /// Observes the time since `start`.
    pub(crate) fn observe_since(&mut self, start: Option<Duration>, observation: impl FnOnce(Duration) -> Observation) {
        if let (Some(start), Some(now)) = (start, self.instant())
            && self.observations.len() < MAX_KEPT
        {
            self.observations.push(observation(now.saturating_sub(start)));
        }
    }

    /// Gives the event that is being handled this label, unless the event has a label already.
    pub(crate) fn handling(&mut self, label: &Arc<str>) {
        if self.labels.is_empty() {
            self.also_handling(label);
        }
    }

    /// Adds this label to the labels of the event that is being handled.
    pub(crate) fn also_handling(&mut self, label: &Arc<str>) {
        if !self.labels.contains(label) {
            self.labels.push(Arc::clone(label));
        }
    }

    /// Notes that the event, whose handling began at `start`, has been handled. The time is observed under each of the
    /// event's labels.
    pub(crate) fn event_handled(&mut self, start: Option<Duration>) {
        let mut labels = std::mem::take(&mut self.labels);
        for event in labels.drain(..) {
            self.observe_since(start, |duration| Observation::EventHandled { event, duration });
        }
        self.labels = labels;
    }

    pub(crate) fn set_records_decisions(&mut self, records_decisions: bool) {
        self.records_decisions = records_decisions;
    }

    /// Records why an attempt did not bind the pod, if decisions are recorded and there is room.
    pub(crate) fn record_not_bound(&mut self, not_bound: NotBoundAttempt) {
        if self.records_decisions && self.not_bound.len() < MAX_KEPT {
            self.not_bound.push(not_bound);
        }
    }

    pub(crate) fn drain_not_bound(&mut self) -> Drain<'_, NotBoundAttempt> {
        self.not_bound.drain(..)
    }

    /// Records a decision, if there is room.
    pub(crate) fn record_decision(&mut self, record: DecisionRecord) {
        if self.decisions.len() < MAX_KEPT {
            self.decisions.push(record);
        }
    }

    pub(crate) fn occurrences(&self) -> &Occurrences {
        &self.occurrences
    }

    pub(crate) fn occurrences_mut(&mut self) -> &mut Occurrences {
        &mut self.occurrences
    }

    pub(crate) fn drain_decisions(&mut self) -> Drain<'_, DecisionRecord> {
        self.decisions.drain(..)
    }

    pub(crate) fn count_attempt(&mut self, profile: &str, result: AttemptResult) {
        self.attempts.count(profile, result);
    }

    pub(crate) fn drain_actions(&mut self) -> Drain<'_, Action> {
        self.actions.drain(..)
    }

    pub(crate) fn take_observations(&mut self) -> Vec<Observation> {
        std::mem::take(&mut self.observations)
    }

    pub(crate) fn attempts(&self) -> BTreeMap<(String, AttemptResult), u64> {
        self.attempts.totals()
    }
}
