//! The bounds of one answer: its time, and the growth of the process's memory during this time.

use std::{
    fs,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use berth_wasm_host::CompileLimits as ProcessLimits;

/// The memory by which the process may grow. It is less if half of the container's or the machine's memory is less.
const MEMORY: u64 = 2 << 30;

/// The size of a page. Linux counts resident pages of at least this size on all machines for which this program is
/// built. With larger pages the bound is reached later.
const PAGE: u64 = 4 << 10;

/// The bounds of one answer. Clones share what has happened.
#[derive(Clone, Debug)]
pub(super) struct Bounds(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    until: Instant,
    limit: u64,
    resident_before: u64,
    is_cancelled: AtomicBool,
    exceeded: OnceLock<String>,
}

/// Ends the work when the caller no longer waits.
#[derive(Debug)]
pub(super) struct CancelOnDrop(pub Bounds);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.is_cancelled.store(true, Ordering::Relaxed);
    }
}

impl Bounds {
    pub(super) fn until(until: Instant) -> Self {
        let limits = ProcessLimits { cpu_time: Duration::ZERO, memory_bytes: MEMORY }.here();
        Self::new(until, limits.memory_bytes)
    }

    fn new(until: Instant, limit: u64) -> Self {
        Self(Arc::new(Shared {
            until,
            limit,
            resident_before: resident(),
            is_cancelled: AtomicBool::new(false),
            exceeded: OnceLock::new(),
        }))
    }

    /// Whether a bound is exceeded, or the caller no longer waits for the answer.
    pub(super) fn are_exceeded(&self) -> bool {
        let Shared { until, limit, resident_before, is_cancelled, exceeded } = &*self.0;
        if is_cancelled.load(Ordering::Relaxed) || exceeded.get().is_some() {
            return true;
        }
        let reason = if Instant::now() > *until {
            format!("more than {} s", super::WALL_TIME.as_secs())
        } else if resident().saturating_sub(*resident_before) > *limit {
            format!("more than {} MiB of memory", limit >> 20)
        } else {
            return false;
        };
        // The first reason stays.
        let _ = exceeded.set(reason);
        true
    }

    /// The bound that was exceeded.
    pub(super) fn exceeded(&self) -> Option<&str> {
        self.0.exceeded.get().map(String::as_str)
    }
}

/// The resident memory of this process in bytes; 0 where the system does not say.
fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * PAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_time_and_callers_that_have_gone_end_an_answer() {
        let in_an_hour = Instant::now() + Duration::from_secs(3600);
        // Other tests of this process take and free memory meanwhile, but less than this.
        let bounds = Bounds::new(in_an_hour, 256 << 20);
        assert!(!bounds.are_exceeded(), "nothing has happened");
        let mut kept = Vec::new();
        while !bounds.are_exceeded() {
            kept.push(vec![1_u8; 64 << 20]);
            assert!(kept.len() <= 16, "a bound of 256 MiB is exceeded long before");
        }
        assert_eq!(bounds.exceeded(), Some("more than 256 MiB of memory"));
        drop(kept);
        assert!(bounds.are_exceeded(), "an exceeded bound stays exceeded");
        let late = Bounds::until(Instant::now());
        while !late.are_exceeded() {}
        assert_eq!(late.exceeded(), Some("more than 60 s"));
        let bounds = Bounds::new(in_an_hour, u64::MAX);
        drop(CancelOnDrop(bounds.clone()));
        assert!(bounds.are_exceeded());
        assert_eq!(bounds.exceeded(), None, "a caller that has gone is no bound");
    }
}
