//! Waits for a state that no event announces, and for the end of a test.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, MissedTickBehavior, interval},
};

/// The time is much longer than any single step of a test, even on a slow machine.
pub const DEADLINE: Duration = Duration::from_secs(90);

/// The time between two checks.
const PERIOD: Duration = Duration::from_millis(50);

/// Repeats the check until it returns a value. Fails with `what` after the [`DEADLINE`], and immediately with the error
/// of a check.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let begin = Instant::now();
    let mut every = interval(PERIOD);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while begin.elapsed() < DEADLINE {
        every.tick().await;
        if let Some(seen) = look().await? {
            return Ok(seen);
        }
    }
    bail!("{what}: timed out after {DEADLINE:?}")
}

/// Does the work of a test program. If the program is asked to end (SIGINT, SIGTERM), the processes that it started
/// also end.
pub async fn interruptible<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        done = work => done,
        _ = interrupt.recv() => bail!("interrupted"),
        _ = terminate.recv() => bail!("told to end"),
    }
}
