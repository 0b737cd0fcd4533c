//! Everything that wakes the scheduling thread, in one list: events, faults of components, requests to look.

use std::time::{Duration, Instant};

use berth_scheduler::{Event, Scheduler};
use berth_wasm_host::FaultReport;
use tokio::{runtime::Handle, sync::mpsc};

use crate::follower::FollowRequest;

/// The channels that lead to the thread.
#[derive(Debug)]
pub(crate) struct Sources {
    /// What happened in the cluster, the host's answers, and plugins that are ready.
    pub events: mpsc::Receiver<Event>,
    /// What components faulted in, one report for each instance that is gone. Calls on this thread send it.
    pub faults: mpsc::UnboundedReceiver<FaultReport>,
    /// Requests of the copy that follows.
    pub follow: mpsc::Receiver<FollowRequest>,
}

/// Something that came.
#[derive(Debug)]
pub(super) enum Input {
    Event(Event),
    Fault(FaultReport),
    Follow(FollowRequest),
}

/// Why there is no input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoInput {
    /// The turn has taken as much as it may, or nothing waits, or something else is due.
    Due,
    /// No event can come any more.
    Closed,
}

/// How much a turn still takes in.
#[derive(Debug)]
pub(super) struct Turn {
    until: Instant,
    events: usize,
    /// Each is answered with a batch: one a turn.
    follow: usize,
}

impl Turn {
    pub(super) fn begin(now: Instant) -> Self {
        Self { until: now + Scheduler::TURN, events: Scheduler::EVENTS_PER_TURN, follow: 1 }
    }
}

impl Sources {
    /// What waits, as long as the turn has room for it. Faults go first: what follows must not ask a plugin that is gone.
    pub(super) fn next(&mut self, turn: &mut Turn) -> Result<Input, NoInput> {
        if let Ok(fault) = self.faults.try_recv() {
            return Ok(Input::Fault(fault));
        }
        if turn.events > 0 && Instant::now() < turn.until {
            match self.events.try_recv() {
                Ok(event) => {
                    turn.events -= 1;
                    return Ok(Input::Event(event));
                }
                Err(mpsc::error::TryRecvError::Empty) => {}
                Err(mpsc::error::TryRecvError::Disconnected) => return Err(NoInput::Closed),
            }
        }
        if turn.follow > 0
            && let Ok(request) = self.follow.try_recv()
        {
            turn.follow -= 1;
            return Ok(Input::Follow(request));
        }
        Err(NoInput::Due)
    }

    /// Whether events wait that the turn had no room for.
    pub(super) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Sleeps until something comes, for at most `idle`. Until there is `room`, as well.
    pub(super) fn wait(
        &mut self,
        runtime: &Handle,
        idle: Duration,
        room: impl Future<Output = ()>,
    ) -> Result<Input, NoInput> {
        let Self { events, faults, follow } = self;
        runtime.block_on(async {
            tokio::select! {
                event = events.recv() => event.map_or(Err(NoInput::Closed), |event| Ok(Input::Event(event))),
                Some(fault) = faults.recv() => Ok(Input::Fault(fault)),
                Some(request) = follow.recv() => Ok(Input::Follow(request)),
                () = room => Err(NoInput::Due),
                () = tokio::time::sleep(idle) => Err(NoInput::Due),
            }
        })
    }
}
