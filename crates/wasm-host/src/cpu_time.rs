//! The processor time of a call, and whether the call exceeded it.
//!
//! On a busy machine, the wall clock includes the time for which a thread waited for a processor. So limits count the
//! processor time of the calling thread. Reading that time is a system call. A call that ends within the tick in which
//! it began needs no system call.

use std::time::Duration;

use wasmtime::{Trap, UpdateDeadline};

use crate::ticker::{TICK, ticks};

/// The processor time that the calling thread has used since it began.
#[cfg(unix)]
pub(crate) fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    #[expect(unsafe_code, reason = "the standard library does not know the time of a thread")]
    // SAFETY: the call writes one `timespec` to the given place. If the call fails, the value stays 0.
    unsafe {
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time);
    }
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), nanoseconds)
}

/// The time since the first call, on systems whose threads have no clocks.
#[cfg(not(unix))]
pub(crate) fn thread_time() -> Duration {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed()
}

/// The time of the call that an instance is in.
#[derive(Debug)]
pub(crate) struct CallTime {
    limit: Duration,
    /// The thread's time at the first check, at most a tick after the call began.
    first_look: Option<Duration>,
    /// The time for which the thread waited for an answer that the component had asked for.
    waited: Duration,
}

impl CallTime {
    /// The time of a call that begins now.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, first_look: None, waited: Duration::ZERO }
    }

    /// The limit of the call.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// The remaining time; `None` if the call has used up its time.
    pub(crate) fn left(&mut self) -> Option<Duration> {
        let now = thread_time();
        let used = now.saturating_sub(*self.first_look.get_or_insert(now));
        self.limit.checked_sub(used).filter(|left| !left.is_zero())
    }

    /// Whether the call may ask another party, such as an extender. The wait for the answer uses no processor time, but
    /// blocks the thread.
    pub(crate) fn may_wait(&mut self) -> bool {
        self.left().is_some_and(|left| self.waited < left)
    }

    /// Adds time for which the thread waited.
    pub(crate) fn add_wait(&mut self, waited: Duration) {
        self.waited = self.waited.saturating_add(waited);
    }

    /// Checks the time at a tick that came while the component ran.
    pub(crate) fn at_tick(&mut self) -> wasmtime::Result<UpdateDeadline> {
        match self.left() {
            Some(left) => Ok(UpdateDeadline::Continue(ticks(left))),
            None => Err(Trap::Interrupt.into()),
        }
    }

    /// The approximate time that the call used, including waits. The call has just ended and took `elapsed` by the wall
    /// clock.
    pub(crate) fn used(&self, elapsed: Duration) -> Duration {
        let before = elapsed.saturating_sub(self.waited).min(TICK);
        let worked = self.first_look.map_or(before, |first_look| before + thread_time().saturating_sub(first_look));
        worked.saturating_add(self.waited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_others_are_counted_and_end() {
        let mut time = CallTime::new(Duration::from_secs(1));
        assert!(time.may_wait());
        time.add_wait(Duration::from_millis(900));
        assert!(time.may_wait());
        time.add_wait(Duration::from_millis(900));
        assert!(!time.may_wait());
        assert!(time.left().is_some(), "the call itself has used no processor time");
        assert!(time.used(Duration::from_secs(2)) >= Duration::from_millis(1800), "the thread was held up");
    }

    #[test]
    fn waiting_uses_no_time_and_working_does() {
        let mut time = CallTime::new(Duration::from_millis(20));
        assert!(time.left().is_some());
        let (ended, wait) = std::sync::mpsc::channel::<()>();
        assert!(wait.recv_timeout(Duration::from_millis(60)).is_err(), "nobody answers");
        assert!(time.left().is_some(), "it waited");
        let mut number = 1_u64;
        while time.left().is_some() {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        assert!(time.used(Duration::from_secs(1)) >= Duration::from_millis(20));
        drop(ended);
    }
}
