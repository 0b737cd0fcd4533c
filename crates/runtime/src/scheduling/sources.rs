//! Everything that wakes the scheduling thread: events, faults of components, and requests from copies of the state.

use std::time::{Duration, Instant};

use berth_scheduler::{Event, Scheduler};
use berth_wasm_host::FaultReport;
use tokio::{runtime::Handle, sync::mpsc};

use crate::follower::FollowRequest;

/// The channels into the thread.
#[derive(Debug)]
pub(crate) struct Sources {
    /// Events of the cluster, answers of the host, and plugins that are ready.
    pub events: mpsc::Receiver<Event>,
    /// The faults of components, one report for each instance that was lost. Calls on this thread send them.
    pub faults: mpsc::UnboundedReceiver<FaultReport>,
    /// Requests from the copy that follows.
    pub follow: mpsc::Receiver<FollowRequest>,
}

/// An input of the thread.
#[derive(Debug)]
pub(super) enum Input {
    Event(Event),
    Fault(FaultReport),
    Follow(FollowRequest),
}

/// The reason why there is no input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoInput {
    /// The turn has taken its maximum, no input is waiting, or something else is due.
    Due,
    /// No further event can arrive.
    Closed,
}

/// The amount of input that a turn may still take.
#[derive(Debug)]
pub(super) struct Turn {
    until: Instant,
    events: usize,
    /// The number of requests from copies of the state that may still be answered. The limit is one per turn, because
    /// each answer is a whole batch of changes.
    follow: usize,
}

impl Turn {
    pub(super) fn begin(now: Instant) -> Self {
        Self { until: now + Scheduler::TURN, events: Scheduler::EVENTS_PER_TURN, follow: 1 }
    }
}

impl Sources {
    /// The next waiting input, as long as the turn has room for it. Faults come first, because later work must not ask
    /// a plugin that was lost.
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

    /// Whether events are waiting for which the turn had no room.
    pub(super) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Sleeps until an input arrives or there is `room`, for at most `idle`.
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
