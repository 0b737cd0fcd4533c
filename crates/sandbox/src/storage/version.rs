//! Resource versions: the store's number of changes, which is an opaque text for clients.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

/// A point in the history of the whole store. Zero is the time before the first change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ResourceVersion(u64);

/// The source of resource versions. All collections of a store share one source.
#[derive(Debug, Default)]
pub(super) struct VersionCounter(AtomicU64);

/// A text that is not a resource version. The message has the API server's words.
#[derive(Debug, thiserror::Error)]
#[error("resourceVersion: Invalid value: \"{0}\": strconv.ParseUint: parsing \"{0}\": invalid syntax")]
pub(crate) struct InvalidResourceVersion(String);

impl ResourceVersion {
    /// The version that clients write if any version is acceptable.
    pub(crate) const ZERO: Self = Self(0);

    /// The version with this number.
    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number behind the version.
    pub(crate) const fn number(self) -> u64 {
        self.0
    }
}

impl VersionCounter {
    /// The version that was returned last.
    pub(super) fn current(&self) -> ResourceVersion {
        ResourceVersion(self.0.load(Ordering::SeqCst))
    }

    /// The next version. Each version is returned only once.
    pub(super) fn next(&self) -> ResourceVersion {
        ResourceVersion(self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for ResourceVersion {
    type Err = InvalidResourceVersion;

    /// Reads the text of a request. An empty text stands for zero.
    fn from_str(text: &str) -> Result<Self, InvalidResourceVersion> {
        if text.is_empty() {
            return Ok(Self::ZERO);
        }
        text.parse().map(Self).map_err(|_| InvalidResourceVersion(text.to_owned()))
    }
}
