//! How much may be spent on finding out whether bytes are a plugin.
//!
//! A caller with many files to load tries all of them with little effort first, and those that need more once more: a file that
//! compiles slowly, on purpose or not, then holds up no file that does not.

use std::{thread, time::Duration};

use crate::compiler_process::CompileLimits;

/// What one attempt to load a binary may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoadEffort {
    /// Nothing is compiled: the artefact of the same bytes is taken, or what is remembered of them.
    Cached,
    /// A second of processor time, and a part of the memory. Several such attempts may go on at a time.
    Small,
    /// Four seconds.
    Medium,
    /// All the time that the limits allow.
    Full,
}

/// Most plugins that no interpreter comes with are smaller; what is larger takes longer than [`LoadEffort::Small`] allows.
const SMALL_FILE: usize = 8 << 20;

/// How many small attempts may go on at a time on any machine, and no more: each may have a compiler's process.
const AT_A_TIME: std::ops::RangeInclusive<usize> = 2..=4;

impl LoadEffort {
    /// What is tried first.
    pub const FIRST: Self = Self::Cached;

    /// What is tried next; `None` after all that the limits allow.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        match self {
            Self::Cached => Some(Self::Small),
            Self::Small => Some(Self::Medium),
            Self::Medium => Some(Self::Full),
            Self::Full => None,
        }
    }

    /// Whether several attempts of this kind may go on at a time.
    #[must_use]
    pub fn is_small(self) -> bool {
        self <= Self::Small
    }

    /// How many small attempts may go on at a time: as many as there are processors, but at least two.
    #[must_use]
    pub fn small_at_a_time() -> usize {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        processors.clamp(*AT_A_TIME.start(), *AT_A_TIME.end())
    }

    /// What is left of a limit of the component's own time.
    pub(crate) fn cut(self, limit: Duration) -> Duration {
        match self {
            Self::Cached => limit.min(Duration::from_millis(100)),
            Self::Small => limit.min(Duration::from_secs(1)),
            Self::Medium => limit.min(Duration::from_secs(4)),
            Self::Full => limit,
        }
    }

    /// What compiling so many bytes may take, where `whole` is what the limits allow; `None`: they are not compiled.
    pub(crate) fn compile_limits(self, bytes: usize, whole: CompileLimits) -> Option<CompileLimits> {
        let cpu_time = self.cut(whole.cpu_time);
        match self {
            Self::Cached => None,
            Self::Small if bytes > SMALL_FILE => None,
            Self::Small => {
                // Together they have half of what the one has that is not small.
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
