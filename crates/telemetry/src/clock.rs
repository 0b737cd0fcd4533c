//! The time that the scheduler and the plugin registry get.
//!
//! The time equals the wall clock at the start of the process, and then runs steadily. A step of the wall clock
//! therefore neither delays backoffs and deadlines nor ends them all. [`wall`] converts such a time to the wall clock.

use std::{
    sync::LazyLock,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use berth_model::Time;
use jiff::Timestamp;

static CLOCK: LazyLock<Clock<System>> = LazyLock::new(|| Clock::start(System));

/// The current time.
pub fn now() -> Time {
    CLOCK.now()
}

/// The wall clock's value at `time`, in milliseconds since 1970, if the clock is not changed before.
pub fn wall(time: Time) -> u64 {
    CLOCK.wall(time)
}

/// The time at which the wall clock will show this value, if the clock is not changed before.
pub fn at_wall(wall: Timestamp) -> Time {
    CLOCK.at_wall(u64::try_from(wall.as_millisecond()).unwrap_or_default())
}

/// Milliseconds since 1970 as a timestamp. Values beyond the last possible timestamp become the last possible
/// timestamp.
pub fn timestamp(milliseconds: u64) -> Timestamp {
    let time = i64::try_from(milliseconds).ok().and_then(|it| Timestamp::from_millisecond(it).ok());
    time.unwrap_or(Timestamp::MAX)
}

/// Milliseconds since 1970 in the form for people and logs: `2026-01-02T03:04:05.678Z`.
pub fn rfc3339(milliseconds: u64) -> String {
    format!("{:.3}", timestamp(milliseconds))
}

/// The nanoseconds since 1970 at which the [`Stopwatch`] showed this value. They follow from the wall clock at the
/// start of the process, so that the differences between them equal the stopwatch's differences.
pub fn unix_nanos(stopwatch: Duration) -> u64 {
    let at_start = CLOCK.wall_at_start.saturating_mul(1_000_000);
    at_start.saturating_add(u64::try_from(stopwatch.as_nanos()).unwrap_or(u64::MAX))
}

/// Measures the time of the scheduler's steps.
#[derive(Debug)]
pub struct Stopwatch;

impl berth_framework::Clock for Stopwatch {
    fn now(&self) -> Duration {
        System.monotonic().saturating_duration_since(CLOCK.start)
    }
}

/// The clocks of a machine.
trait Clocks {
    /// The wall clock, which jumps when it is set.
    fn wall(&self) -> SystemTime;
    /// The monotonic clock, which never jumps.
    fn monotonic(&self) -> Instant;
}

struct System;

impl Clocks for System {
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn monotonic(&self) -> Instant {
        Instant::now()
    }
}

struct Clock<C> {
    clocks: C,
    start: Instant,
    wall_at_start: u64,
}

impl<C: Clocks> Clock<C> {
    fn start(clocks: C) -> Self {
        let (start, wall_at_start) = (clocks.monotonic(), since_1970(clocks.wall()));
        Self { clocks, start, wall_at_start }
    }

    fn now(&self) -> Time {
        let elapsed = self.clocks.monotonic().saturating_duration_since(self.start);
        Time(self.wall_at_start) + milliseconds(elapsed)
    }

    fn wall(&self, time: Time) -> u64 {
        let (now, wall) = (self.now(), since_1970(self.clocks.wall()));
        wall.saturating_add(time.since(now)).saturating_sub(now.since(time))
    }

    fn at_wall(&self, time: u64) -> Time {
        let (now, wall) = (self.now(), since_1970(self.clocks.wall()));
        Time(now.0.saturating_add(time.saturating_sub(wall)).saturating_sub(wall.saturating_sub(time)))
    }
}

fn since_1970(wall: SystemTime) -> u64 {
    milliseconds(wall.duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    struct Machine {
        booted: Instant,
        uptime: Cell<Duration>,
        wall: Cell<SystemTime>,
    }

    impl Clocks for &Machine {
        fn wall(&self) -> SystemTime {
            self.wall.get()
        }

        fn monotonic(&self) -> Instant {
            self.booted + self.uptime.get()
        }
    }

    #[test]
    fn a_step_of_the_wall_clock_is_not_seen() {
        let noon = UNIX_EPOCH + Duration::from_hours(12);
        let machine = Machine { booted: Instant::now(), uptime: Cell::default(), wall: Cell::new(noon) };
        let clock = Clock::start(&machine);
        let start = clock.now();
        assert_eq!(start, Time(12 * 3600 * 1000));
        for wall in [UNIX_EPOCH, noon + Duration::from_hours(48)] {
            machine.wall.set(wall);
            machine.uptime.update(|uptime| uptime + Duration::from_millis(1500));
            assert_eq!(clock.now().since(start), milliseconds(machine.uptime.get()));
        }
        assert_eq!(clock.wall(start), (60 * 3600 - 3) * 1000, "the start, as the wall clock counts now");
        assert_eq!(clock.wall(clock.now() + 500), 60 * 3600 * 1000 + 500);
        for time in [start, clock.now(), clock.now() + 500] {
            assert_eq!(clock.at_wall(clock.wall(time)), time);
        }
    }
}
