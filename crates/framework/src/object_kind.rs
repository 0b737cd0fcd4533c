//! Kinds of objects, as manifests and grants name them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The `apiVersion` of the facts that plugins share ([`ShareFacts`](crate::ShareFacts)). The `kind` is the name of the plugin that
/// publishes the facts. Only the scheduler has these objects; the API server knows nothing of them.
pub const FACTS_API_VERSION: &str = "facts.berth.dev/v1alpha1";

/// A kind of object, as in `apiVersion` and `kind`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKind {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
}

impl ObjectKind {
    /// Whether the objects are facts that plugins share, so that the API server has no such objects.
    #[must_use]
    pub fn is_of_facts(&self) -> bool {
        self.api_version == FACTS_API_VERSION
    }
}

/// `apiVersion/kind`, as configurations name it.
impl fmt::Display for ObjectKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.api_version, self.kind)
    }
}
