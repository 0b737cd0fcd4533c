//! Kinds of objects, as manifests and grants name them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kind of object, as in `apiVersion` and `kind`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKind {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
}

/// `apiVersion/kind`, as configurations name it.
impl fmt::Display for ObjectKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.api_version, self.kind)
    }
}
