//! The identity of an object of any kind.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::delta::ObjectChange;

/// The identity of an object. The namespace is empty for kinds without namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
    /// The key in an object's own `apiVersion`, `kind` and `metadata`. A field that is missing or not a text is empty.
    #[must_use]
    pub fn of(object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            api_version: text("/apiVersion"),
            kind: text("/kind"),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
        }
    }

    /// The key of an object whose kind is written as `apiVersion/kind`, such as `v1/Pod` or `apps/v1/Deployment`. A kind
    /// without a version has an empty `apiVersion`.
    #[must_use]
    pub fn named(kind: &str, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        let (api_version, kind) = kind.rsplit_once('/').unwrap_or(("", kind));
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

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
