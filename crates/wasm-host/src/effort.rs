//! The effort that may be spent on finding out whether bytes are a plugin.
//!
//! A caller with many files first tries all files with little effort. It then tries the files that need more effort
//! again. So a file that compiles slowly does not delay other files.

use std::{thread, time::Duration};

use crate::compiler_process::CompileLimits;

/// The limits of one attempt to load a binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoadEffort {
    /// Nothing is compiled. The artefact of the same bytes is used, or the remembered refusal.
    Cached,
    /// A second of processor time and a part of the memory. Several attempts with this effort may run at a time.
    Small,
    /// Four seconds of processor time.
    Medium,
    /// All the time that the limits allow.
    Full,
}

/// The largest file for which a small attempt is made. Most plugins without an interpreter are smaller. A larger file
/// takes longer than [`LoadEffort::Small`] allows.
const SMALL_FILE: usize = 8 << 20;

/// The range of the number of small attempts that may run at a time. Each may have a compiler's process.
const AT_A_TIME: std::ops::RangeInclusive<usize> = 2..=4;

impl LoadEffort {
    /// The effort of the first attempt.
    pub const FIRST: Self = Self::Cached;

    /// The effort of the next attempt; `None` after the largest.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        match self {
            Self::Cached => Some(Self::Small),
            Self::Small => Some(Self::Medium),
            Self::Medium => Some(Self::Full),
            Self::Full => None,
        }
    }

    /// Whether several attempts with this effort may run at a time.
    #[must_use]
    pub fn is_small(self) -> bool {
        self <= Self::Small
    }

    /// The number of small attempts that may run at a time: the number of processors, but at least two and at most
    /// four.
    #[must_use]
    pub fn small_at_a_time() -> usize {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        processors.clamp(*AT_A_TIME.start(), *AT_A_TIME.end())
    }

    /// Cuts a limit of time to the time that this effort allows.
    pub(crate) fn cut(self, limit: Duration) -> Duration {
        match self {
            Self::Cached => limit.min(Duration::from_millis(100)),
            Self::Small => limit.min(Duration::from_secs(1)),
            Self::Medium => limit.min(Duration::from_secs(4)),
            Self::Full => limit,
        }
    }

    /// The limits for compiling this many bytes, where `whole` are the limits of full effort; `None` if the bytes are
    /// not compiled.
    pub(crate) fn compile_limits(self, bytes: usize, whole: CompileLimits) -> Option<CompileLimits> {
        let cpu_time = self.cut(whole.cpu_time);
        match self {
            Self::Cached => None,
            Self::Small if bytes > SMALL_FILE => None,
            Self::Small => {
                // The small attempts together have half of the memory of the attempt that is not small.
                let parts = 2 * u64::try_from(Self::small_at_a_time()).unwrap_or(1);
                Some(CompileLimits { cpu_time, memory_bytes: whole.memory_bytes / parts })
            }
            Self::Medium | Self::Full => Some(CompileLimits { cpu_time, ..whole }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_effort_is_larger_than_the_one_before_and_the_last_is_all_that_is_allowed() {
        let whole = CompileLimits { cpu_time: Duration::from_secs(120), memory_bytes: 4 << 30 };
        let mut effort = LoadEffort::FIRST;
        assert_eq!(effort.compile_limits(1, whole), None);
        let mut before = Duration::ZERO;
        while let Some(next) = effort.next() {
            effort = next;
            let limits = effort.compile_limits(1, whole).expect("it is compiled");
            assert!(limits.cpu_time > before && limits.memory_bytes <= whole.memory_bytes, "{effort:?}");
            before = limits.cpu_time;
        }
        assert_eq!(effort.compile_limits(usize::MAX, whole), Some(whole));
    }

    #[test]
    fn no_effort_goes_beyond_the_limits() {
        let whole = CompileLimits { cpu_time: Duration::from_secs(2), memory_bytes: 1 << 30 };
        assert_eq!(LoadEffort::Medium.compile_limits(1, whole), Some(whole));
        let small = LoadEffort::Small.compile_limits(1, whole).expect("it is compiled");
        assert!(
            u64::try_from(LoadEffort::small_at_a_time()).expect("a few") * small.memory_bytes <= whole.memory_bytes
        );
        assert_eq!(LoadEffort::Small.compile_limits(SMALL_FILE + 1, whole), None);
    }
}
