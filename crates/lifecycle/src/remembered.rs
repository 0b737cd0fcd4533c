//! What of a plugin outlasts the process: an operator's order, a quarantine, and a binary that failed.
//!
//! Everything else is found out again at each start: which files there are, and whether they may serve.

use berth_model::{Digest, Time};

/// What is remembered of one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// An operator switched it off.
    pub is_disabled: bool,
    /// The component that is out of service.
    pub quarantine: Option<RememberedQuarantine>,
    /// The bytes of its file that are not tried again: they failed on probation, or an operator went back from them.
    pub failed: Option<FailedBinary>,
}

/// Which component is out of service, why and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantineRecord {
    /// The component's.
    pub digest: Digest,
    /// When the binary is back in service.
    pub until: Time,
    /// The faults that led to it.
    pub reason: String,
}

/// A quarantine that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberedQuarantine {
    /// What is quarantined, until when and why.
    pub record: QuarantineRecord,
    /// How many there were in a row, this one included: the next one is longer.
    pub n_in_a_row: u32,
}

/// A binary that gave way to the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedBinary {
    /// The binary's.
    pub digest: Digest,
    /// Reads on from the file's name.
    pub reason: String,
    /// The binary before, if it is what serves.
    pub serving: Option<Digest>,
}

impl Remembered {
    /// Whether there is nothing to remember.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
