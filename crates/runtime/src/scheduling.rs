//! The thread that owns queue, cache and plugins, and its channels.
//!
//! Events arrive over one bounded channel, and actions leave over other channels ([`Outlets`]). If a channel for
//! actions is full, no cycle starts, but events are still received. Events include the answers of the executor and the
//! supervisor, so the threads cannot wait for each other forever.

mod outlets;
mod sources;

use std::{
    panic::{self, AssertUnwindSafe},
    sync::{Arc, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use berth_framework::Manifest;
use berth_model::Time;
use berth_scheduler::{Event, Reconfiguration, Scheduler};
use berth_serving::Health;
use berth_telemetry::{clock, metrics::Metrics, notices::PluginHistory};
use berth_wasm_host::FaultReport;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
};

use self::sources::{Input, NoInput, Turn};
pub(crate) use self::{outlets::Outlets, sources::Sources};
use crate::{
    explain::Decisions,
    log_lines::LogLines,
    placement_reason::PlacementReasons,
    score_lines::ScoreLines,
    tasks::EndedEarly,
    tasks::panic_if_asked,
    traces::Traces,
    watching::{self, WatchRequest},
};

/// The capacity for actions: the bindings, patches and events of some hundred pods.
pub(crate) const ACTIONS_BOUND: usize = 1024;

/// The time between two updates of the gauges. Gauges are cheap, but need not follow each pod.
const GAUGES_EVERY: Duration = Duration::from_secs(1);

/// The number of turns after which measurements are recorded. The scheduler keeps only a limited number of
/// measurements.
const OBSERVED_TURNS: u32 = 16;

/// The name of the scheduling thread in the message that the thread ended too early.
const PART: &str = "the scheduling thread";

/// The data of the thread.
pub(crate) struct Parts {
    pub scheduler: Scheduler,
    pub sources: Sources,
    pub outlets: Outlets,
    pub metrics: Arc<Metrics>,
    /// The past of plugins, which keeps the stacks of faults.
    pub history: PluginHistory,
    /// Receives a beat at each turn of the loop.
    pub health: Health,
    /// The engine, which gets the current time for plugins.
    pub plugins: berth_wasm_host::Engine,
    /// Sends the reasons of placements, if they are requested.
    pub reasons: PlacementReasons,
    /// The ring for decisions.
    pub decisions: Decisions,
    /// The log lines about events, attempts and moves in the queue.
    pub log_lines: LogLines,
    /// The log lines about scores.
    pub score_lines: ScoreLines,
    /// The way of traced attempts to the collector.
    pub traces: Traces,
    /// The time that swaps took since the last cycle. The next cycle was delayed by this time.
    pub pause: Duration,
    /// The channel for requests to watch further kinds, because of later plugins or other profiles.
    pub watch_requests: mpsc::UnboundedSender<WatchRequest>,
}

/// The running thread.
#[derive(Debug)]
pub(crate) struct SchedulingThread {
    finished: oneshot::Receiver<Finished>,
}

/// The number of bindings without an answer, or the content of the thread's panic.
type Finished = thread::Result<usize>;

impl SchedulingThread {
    /// Starts the thread. This must be called inside a tokio runtime.
    pub(crate) fn spawn(parts: Parts) -> Result<Self> {
        let runtime = Handle::current();
        Self::start(move || {
            panic_if_asked(PART);
            run(parts, &runtime)
        })
    }

    fn start(work: impl FnOnce() -> usize + Send + 'static) -> Result<Self> {
        let (done, finished) = oneshot::channel();
        thread::Builder::new()
            .name("scheduling".to_owned())
            .stack_size(8 * berth_wasm_host::MAX_STACK)
            .spawn(move || {
                berth_threads::begin_scheduling();
                // The process ends after a panic, so the thread's data is not used again.
                let outcome = panic::catch_unwind(AssertUnwindSafe(work));
                // The receiver no longer exists if the process does not wait.
                let _ = done.send(outcome);
            })
            .context("cannot start the scheduling thread")?;
        Ok(Self { finished })
    }

    /// Waits for an unexpected end of the thread. The future can be dropped without loss.
    pub(crate) async fn ended_early(&mut self) -> EndedEarly {
        match (&mut self.finished).await {
            Ok(Err(panic)) => EndedEarly::panicked(PART, panic.as_ref()),
            Ok(Ok(_)) | Err(_) => EndedEarly::Returned { part: PART },
        }
    }

    /// Waits for the end of the thread after [`Event::Shutdown`], for at most `limit`. Returns the number of bindings
    /// without an answer.
    pub(crate) async fn finished(&mut self, limit: Duration) -> Option<usize> {
        tokio::time::timeout(limit, &mut self.finished).await.ok()?.ok()?.ok()
    }
}

fn run(mut parts: Parts, runtime: &Handle) -> usize {
    let n_outstanding = turn_until_told(&mut parts, runtime);
    // The spans of the last attempts have not been sent yet.
    observe(&mut parts);
    n_outstanding
}

/// Schedules until the process stops. Returns the number of bindings without an answer.
fn turn_until_told(parts: &mut Parts, runtime: &Handle) -> usize {
    let mut gauges_at = Instant::now();
    let mut stopping = false;
    let mut n_turns = 0_u32;
    loop {
        let now = Instant::now();
        parts.health.beat(now);
        LogLines::ask(&mut parts.scheduler);
        let mut turn = Turn::begin(now);
        loop {
            match parts.sources.next(&mut turn) {
                Ok(input) => take(parts, input, &mut stopping),
                Err(NoInput::Due) => break,
                Err(NoInput::Closed) => return parts.scheduler.outstanding(),
            }
        }
        let worked = parts.outlets.is_empty() && cycle(parts);
        let retired = parts.scheduler.drain_retired();
        if !retired.is_empty() {
            drop(runtime.spawn_blocking(move || drop(retired)));
        }
        for answer in parts.outlets.hand_over(parts.scheduler.drain_actions()) {
            take_event(parts, answer, &mut stopping);
        }
        n_turns = n_turns.wrapping_add(1);
        if n_turns.is_multiple_of(OBSERVED_TURNS) {
            observe(parts);
        }
        if gauges_at.elapsed() >= GAUGES_EVERY {
            observe(parts);
            publish(parts);
            gauges_at = Instant::now();
        }
        if stopping && parts.outlets.is_empty() && parts.scheduler.outstanding() == 0 {
            return 0;
        }
        if worked {
            continue;
        }
        let idle = idle(parts);
        match parts.sources.wait(runtime, idle, parts.outlets.room()) {
            Ok(input) => take(parts, input, &mut stopping),
            Err(NoInput::Due) => {}
            Err(NoInput::Closed) => return parts.scheduler.outstanding(),
        }
    }
}

/// The time until something is due. While actions wait for room, the thread waits only for that room.
fn idle(parts: &Parts) -> Duration {
    let is_blocked = !parts.outlets.is_empty();
    match parts.scheduler.next_wakeup() {
        Some(due) if !is_blocked => Duration::from_millis(due.0.saturating_sub(clock::now().0)).min(GAUGES_EVERY),
        Some(_) | None => GAUGES_EVERY,
    }
}

fn take(parts: &mut Parts, input: Input, stopping: &mut bool) {
    match input {
        Input::Event(event) => take_event(parts, event, stopping),
        Input::Fault(FaultReport { plugin, digest, kind: _, reason, took, pod, stack }) => {
            parts.history.keep_stack(&plugin, stack);
            let now = tell_time(parts);
            handle(parts, Event::PluginFaulted { plugin, digest, reason, took, pod }, now);
        }
        Input::Follow(request) => request.answer(&mut parts.scheduler, clock::now()),
    }
}

fn take_event(parts: &mut Parts, event: Event, stopping: &mut bool) {
    *stopping |= matches!(event, Event::Shutdown);
    let upcoming = watching::upcoming_plugins(&event, parts.scheduler.objects());
    let has_other_profiles = matches!(&event, Event::Reconfigured(Reconfiguration { profiles: Some(_), .. }));
    let now = tell_time(parts);
    if !matches!(event, Event::PluginReady { .. } | Event::PluginPrepared { .. } | Event::Reconfigured(_)) {
        return handle(parts, event, now);
    }
    // The measurements of plugins are lost together with the plugins.
    observe(parts);
    let start = Instant::now();
    handle(parts, event, now);
    let pause = start.elapsed();
    parts.metrics.swap_pause(pause);
    parts.pause += pause;
    request_watches(parts, upcoming, has_other_profiles);
}

/// Requests the watches that the plugins need after an event that may have replaced plugins. `upcoming` are the plugins
/// that the event brought.
fn request_watches(parts: &Parts, upcoming: Vec<Manifest>, has_other_profiles: bool) {
    let needs = match parts.scheduler.serving_manifests() {
        Some(serving) => WatchRequest::Serving(serving),
        None => WatchRequest::Upcoming(upcoming),
    };
    let pods = has_other_profiles.then_some(WatchRequest::PodsAgain);
    for request in [needs].into_iter().chain(pods) {
        // The receiver no longer exists when the process ends.
        let _ = parts.watch_requests.send(request);
    }
}

/// Handles the event, and writes the log lines about the event.
fn handle(parts: &mut Parts, event: Event, now: Time) {
    parts.scheduler.handle(event, now);
    parts.log_lines.write(&mut parts.scheduler);
}

/// The current time, which components also get.
fn tell_time(parts: &Parts) -> Time {
    let now = clock::now();
    parts.plugins.set_now(now.0);
    now
}

/// Runs one turn of the scheduler. Returns whether there was a pod to try.
fn cycle(parts: &mut Parts) -> bool {
    let now = tell_time(parts);
    let start = Instant::now();
    let worked = parts.scheduler.run(now, parts.sources.has_events());
    parts.log_lines.write(&mut parts.scheduler);
    let pause = std::mem::take(&mut parts.pause);
    keep_decisions(parts);
    keep_why_not_bound(parts);
    if worked {
        parts.score_lines.write(&parts.scheduler);
        parts.metrics.cycle(start.elapsed(), pause);
        parts.reasons.send(&parts.scheduler);
    }
    worked
}

/// Adds the decisions to the ring.
fn keep_decisions(parts: &mut Parts) {
    let mut decisions = parts.scheduler.drain_decisions().peekable();
    if decisions.peek().is_some() {
        let mut ring = parts.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        for mut decision in decisions {
            decision.trace = parts.traces.trace_of(decision.cycle).map(|trace| trace.to_string().into());
            ring.push(decision);
        }
    }
}

/// Adds to the decisions in the ring why the pods were not bound. A pod that is rejected at Reserve is so in the turn of
/// its decision, so the ring must have that first.
fn keep_why_not_bound(parts: &mut Parts) {
    let mut not_bound = parts.scheduler.drain_not_bound().peekable();
    if not_bound.peek().is_some() {
        let mut ring = parts.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        not_bound.for_each(|it| ring.not_bound(&it.uid, it.attempt, it.reason));
    }
}

/// Publishes counters and gauges.
fn publish(parts: &Parts) {
    let figures = parts.scheduler.metrics();
    parts.metrics.set_held_owners(&figures.held_owners);
    let symbols = &parts.scheduler.cache().table().symbols;
    parts.metrics.scheduler.set(&figures, symbols);
    parts.metrics.set_symbols(symbols.len());
}

/// Records the measurements since the last call.
fn observe(parts: &mut Parts) {
    let (metrics, traces) = (&parts.metrics.scheduler, &parts.traces);
    for observation in parts.scheduler.drain_observations() {
        metrics.observe(&observation, &parts.scheduler.cache().table().symbols);
    }
    parts.scheduler.drain_measured(|profile, measured| {
        metrics.measured(profile, measured);
        traces.measured(profile, measured);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_of_the_thread_is_told() {
        let mut thread = SchedulingThread::start(|| panic!("a node of no cluster")).expect("a thread");
        let message = "a node of no cluster".to_owned();
        assert_eq!(thread.ended_early().await, EndedEarly::Panicked { part: "the scheduling thread", message });
    }
}
