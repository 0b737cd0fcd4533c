//! What leaves the scheduler: actions in order, measurements, and the time that all of one turn shares.

use std::{collections::BTreeMap, panic::Location, sync::Arc, time::Duration, vec::Drain};

use berth_framework::Clock;
use berth_model::Time;

use crate::{
    action::{Action, Level, Notice, PodRef, PodRequest, Request},
    metrics::{AttemptResult, ByProfile, Observation},
};

/// Where every machine of the scheduler leaves its results.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    now: Time,
    actions: Vec<Action>,
    observations: Vec<Observation>,
    attempts: ByProfile<AttemptResult>,
    /// Times steps that are shorter than a [`Time`] can say.
    clock: Option<Arc<dyn Clock>>,
}

/// Measurements that are kept until the host takes them; more are dropped.
const MAX_KEPT: usize = 16_384;

impl Outbox {
    /// The time of the event that is being handled.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    pub(crate) fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    pub(crate) fn push(&mut self, action: Action) {
        self.actions.push(action);
    }

    pub(crate) fn request(&mut self, pod: PodRef, request: Request) {
        self.actions.push(Action::Pod(PodRequest { pod, request }));
    }

    pub(crate) fn notice(&mut self, notice: Notice) {
        self.actions.push(Action::Notice(notice));
    }

    /// Writes a line for the log that is about no plugin.
    #[track_caller]
    pub(crate) fn log(&mut self, level: Level, message: String) {
        self.log_of("", level, message);
    }

    /// Writes a line for the log that a plugin caused. Lines from one place in the code about one plugin are alike.
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

    /// The moment at which something begins that is to be timed; `None` without a clock.
    pub(crate) fn instant(&self) -> Option<Duration> {
        self.clock.as_ref().map(|clock| clock.now())
    }

    /// Observes how long it took since `start`.
    pub(crate) fn time(&mut self, start: Option<Duration>, observation: impl FnOnce(Duration) -> Observation) {
        if let (Some(start), Some(now)) = (start, self.instant())
            && self.observations.len() < MAX_KEPT
        {
            self.observations.push(observation(now.saturating_sub(start)));
        }
    }

    pub(crate) fn count_attempt(&mut self, profile: &str, result: AttemptResult) {
        self.attempts.count(profile, result);
    }

    pub(crate) fn actions(&self) -> &[Action] {
        &self.actions
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
