//! The data of a plugin that outlasts the process: an operator's order, a quarantine, and a binary that failed.
//!
//! All other facts are checked again at each start: which files exist, and whether they may serve.

use berth_model::{Digest, Time};

/// The remembered facts about one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Whether an operator switched the plugin off.
    pub is_disabled: bool,
    /// The component that is out of service.
    pub quarantine: Option<RememberedQuarantine>,
    /// The content of the plugin's file that is not tried again. It failed on probation, or an operator went back to an
    /// earlier binary.
    pub failed: Option<FailedBinary>,
}

/// A component that is out of service, with the reason and the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantineRecord {
    /// The digest of the component.
    pub digest: Digest,
    /// The time at which the component is back in service.
    pub until: Time,
    /// The faults that led to the quarantine.
    pub reason: String,
}

/// A quarantine that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberedQuarantine {
    /// The component, the end and the reason.
    pub record: QuarantineRecord,
    /// The number of quarantines in a row, including the present quarantine. The next quarantine is longer.
    pub n_in_a_row: u32,
}

/// A binary that was replaced by the previous binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedBinary {
    /// The digest of the binary.
    pub digest: Digest,
    /// The reason, as a text that follows the file's name.
    pub reason: String,
    /// The previous binary; `None` if the previous binary does not serve.
    pub serving: Option<Digest>,
}

impl Remembered {
    /// Whether nothing needs to be remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
