//! The state of a file that was loaded before, and the time at which the file is loaded again.
//!
//! A load can fail although nothing is wrong with the file: the kernel kills the compiler for lack of memory, or the
//! compiler gets no processor time. Such a file is loaded again after [`FIRST_WAIT`]. The wait doubles with each
//! failure in a row, up to [`LONGEST_WAIT`]. The kubelet uses the same times for images that cannot be pulled.

use std::time::{Duration, Instant};

use super::{
    file_load::{Content, LoadEnd},
    files::Fingerprint,
};

/// The wait after the first failure.
const FIRST_WAIT: Duration = Duration::from_secs(10);

/// The longest wait between two attempts.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(5 * 60);

/// The knowledge about a file.
#[derive(Debug)]
pub(super) enum Known {
    /// The file was loaded with this content. The file is loaded again when its content changes.
    Content { fingerprint: Fingerprint, content: Content },
    /// The load failed for a reason that may have gone by the time `due`. The file is loaded again at that time, or
    /// when its fingerprint differs.
    Failed { fingerprint: Fingerprint, failures: Failures, due: Instant },
    /// The file must be loaded, even if its content did not change.
    Forgotten,
}

/// The number of failures in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Failures(u32);

impl Known {
    /// The knowledge about a file after a load that began when the file had this fingerprint. `failures` were before
    /// the load.
    pub(super) fn after(end: LoadEnd, fingerprint: Fingerprint, failures: Failures, now: Instant) -> Self {
        match end {
            LoadEnd::Content(content) => Self::Content { fingerprint, content },
            LoadEnd::Failed => {
                let due = now + failures.wait();
                Self::Failed { fingerprint, failures: failures.and_one_more(), due }
            }
        }
    }

    /// Whether the last load of the file still counts at `now`, so that the file is not loaded again. `file` is the
    /// present fingerprint of the file.
    pub(super) fn is_current(&self, file: Fingerprint, now: Instant) -> bool {
        match self {
            Self::Content { fingerprint, .. } => *fingerprint == file,
            Self::Failed { fingerprint, due, .. } => *fingerprint == file && now < *due,
            Self::Forgotten => false,
        }
    }

    /// The number of failures in a row of a file with this fingerprint.
    pub(super) fn failures(&self, file: Fingerprint) -> Failures {
        match self {
            Self::Failed { fingerprint, failures, .. } if *fingerprint == file => *failures,
            Self::Failed { .. } | Self::Content { .. } | Self::Forgotten => Failures::default(),
        }
    }

    /// The time at which the file is loaded again even without a change.
    pub(super) fn due(&self) -> Option<Instant> {
        match self {
            Self::Failed { due, .. } => Some(*due),
            Self::Content { .. } | Self::Forgotten => None,
        }
    }
}

impl Failures {
    fn and_one_more(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The wait after one more failure.
    fn wait(self) -> Duration {
        FIRST_WAIT.saturating_mul(1 << self.0.min(16)).min(LONGEST_WAIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_five_minutes() {
        let mut failures = Failures::default();
        let mut waits = Vec::new();
        for _ in 0..40 {
            waits.push(failures.wait().as_secs());
            failures = failures.and_one_more();
        }
        assert_eq!(waits[..7], [10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(waits.last(), Some(&300));
    }
}
