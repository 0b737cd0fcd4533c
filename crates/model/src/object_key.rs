//! The identity of an object of any kind.

use std::sync::Arc;

use crate::delta::ObjectChange;

/// Which object: empty namespace for kinds without namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl ObjectKey {
    /// The object as a delta sends it.
    #[must_use]
    pub fn change(&self, json: Option<Arc<[u8]>>) -> ObjectChange {
        ObjectChange {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            json,
        }
    }
}
