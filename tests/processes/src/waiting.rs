//! Waits for a state that no event announces, and for the end of a test.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, MissedTickBehavior, interval},
};

/// The time is much longer than any single step of a test, even on a slow machine that stands still for half a minute.
pub const DEADLINE: Duration = Duration::from_secs(240);

/// The time between two checks.
const PERIOD: Duration = Duration::from_millis(50);

/// The time that [`within`] counts at a time.
const STEP: Duration = Duration::from_millis(20);

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

/// Waits for the work, and returns its result; `None` if it takes longer than `limit`. This is for limits that belong to
/// what a test shows. The time in which the machine stands still does not count: it passes for the work as well, and it
/// would end a timer at once.
pub async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let mut work = Box::pin(work);
    let mut every = interval(STEP);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let counting = async {
        let mut counted = Duration::ZERO;
        while counted < limit {
            every.tick().await;
            counted += STEP;
        }
    };
    tokio::select! {
        biased;
        done = &mut work => Some(done),
        () = counting => None,
    }
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

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_in_which_the_machine_stands_still_does_not_count() {
        let limit = Duration::from_secs(2);
        let begin = Instant::now();
        assert_eq!(within(limit, pending::<()>()).await, None);
        assert!(begin.elapsed() < 2 * limit, "{:?}", begin.elapsed());
        let stands_still = async {
            for _ in 0..10 {
                advance(Duration::from_secs(30)).await;
            }
            "done"
        };
        assert_eq!(within(limit, stands_still).await, Some("done"));
    }
}
