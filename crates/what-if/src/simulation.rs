//! The scheduling core and an API server. They run as in a real process, but with the clock of the simulation.

mod known;

use std::sync::Arc;

use berth_framework::Profile;
use berth_model::Time;
use berth_scheduler::{Action, Event, Scheduler, SearchState, Settings};
use serde_json::Value;

use self::known::Known;
use crate::api_server::{ApiServer, ApiServerError, Change};

/// A scheduler and its API server. Only the caller changes the time.
pub struct Simulation<'a> {
    scheduler: Scheduler,
    server: ApiServer,
    /// A function that gets the scheduler's time. Components need the time.
    tell_time: Box<dyn Fn(Time) + 'a>,
    now: Time,
    /// The scheduler's requests that the API server has not carried out yet.
    actions: Vec<Action>,
    /// A buffer for events. It is empty between two calls.
    events: Vec<Event>,
    /// The data about a scheduler that is followed.
    known: Known,
}

impl std::fmt::Debug for Simulation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simulation").field("now", &self.now).finish_non_exhaustive()
    }
}

impl<'a> Simulation<'a> {
    /// The time of the scheduler's clock at the start.
    pub const START: Time = Time(1_000_000_000);

    /// A simulation with an empty cluster. Cycles begin after [`Event::Synced`].
    #[must_use]
    pub fn new(settings: Settings, profiles: Vec<Profile>) -> Self {
        Self {
            scheduler: Scheduler::new(settings, profiles),
            server: ApiServer::default(),
            tell_time: Box::new(|_| ()),
            now: Self::START,
            actions: Vec::new(),
            events: Vec::new(),
            known: Known::default(),
        }
    }

    /// `tell_time` is called before the scheduler works.
    #[must_use]
    pub fn telling_time(self, tell_time: impl Fn(Time) + 'a) -> Self {
        Self { tell_time: Box::new(tell_time), ..self }
    }

    /// The scheduler.
    #[must_use]
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Restores an earlier search state. Before this call, all changes since that state must be reverted by events in
    /// the opposite order.
    pub fn restore_search_state(&mut self, state: SearchState) {
        self.scheduler.restore_search_state(state);
    }

    /// The API server. The events that it returns must be passed to [`Self::handle`].
    pub fn server_mut(&mut self) -> &mut ApiServer {
        &mut self.server
    }

    /// The time of the scheduler's clock.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Sets the time. The time never goes back.
    pub fn set_now(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// Passes an event to the scheduler.
    pub fn handle(&mut self, event: Event) {
        self.known.note(&event, &self.scheduler);
        self.scheduler.handle(event, self.now);
    }

    /// Creates an object, and shows it to the scheduler.
    ///
    /// # Errors
    /// The object cannot be read.
    pub fn create(&mut self, object: &Value) -> Result<(), ApiServerError> {
        let event = self.server.create(object)?;
        self.handle(event);
        Ok(())
    }

    /// Passes the time to components, before they get any data.
    pub fn tell_time(&self) {
        (self.tell_time)(self.now);
    }

    /// Makes the scheduler do the work that is due and try the next pod. Returns whether the scheduler did anything.
    /// After `true`, call [`Self::confirm`].
    pub fn decide(&mut self) -> bool {
        self.tell_time();
        let is_busy = self.scheduler.run(self.now, false);
        let n_before = self.actions.len();
        self.actions.extend(self.scheduler.drain_actions());
        is_busy || self.actions.len() > n_before
    }

    /// The scheduler's requests since the last [`Self::confirm`].
    #[must_use]
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }

    /// Carries out the scheduler's requests in the API server, and shows the results to the scheduler. Changes of pods
    /// are added to `changes`.
    ///
    /// # Errors
    /// Fails as [`ApiServer::perform`] does.
    pub fn confirm(&mut self, changes: &mut Vec<Change>) -> Result<(), ApiServerError> {
        let Self { scheduler, server, actions, events, now, known, .. } = self;
        for action in actions.drain(..) {
            if known.bind(&action, scheduler, *now, changes) {
                continue;
            }
            if known.is_forked() {
                server.take_over(&action, &|key| scheduler.cache().object(key).map(Arc::clone))?;
            }
            server.perform(action, scheduler.objects(), events, changes)?;
            for event in events.drain(..) {
                known.note(&event, scheduler);
                scheduler.handle(event, *now);
            }
        }
        Ok(())
    }

    /// Drops the scheduler's measurements, which would otherwise accumulate.
    pub fn drop_observations(&mut self) {
        self.scheduler.drain_observations();
    }

    /// Moves the clock to the time at which the scheduler has work without an event. Returns `false` if the scheduler
    /// waits for an event.
    pub fn sleep(&mut self) -> bool {
        let due = self.scheduler.next_wakeup().filter(|due| *due > self.now);
        self.now = due.unwrap_or(self.now);
        due.is_some()
    }
}
