//! One version of a stored object.
//!
//! An object is stored without `kind` and `apiVersion`. The formats add both fields in front of the serialised text, so
//! that the same text serves lists, watches and both versions of a group.

use bytes::Bytes;
use serde_json::Value;

use super::key::key;
use super::version::ResourceVersion;
use crate::fields::json::{metadata_mut, text, uid};

/// One version of a stored object, which never changes.
#[derive(Debug)]
pub(crate) struct Object {
    /// The object without type meta.
    pub(crate) value: Value,
    /// `value` as JSON text.
    pub(crate) json: Bytes,
    /// The version that `metadata.resourceVersion` holds as text.
    pub(crate) version: ResourceVersion,
}

impl Object {
    /// Writes the version into the object and serialises it.
    pub(crate) fn new(mut value: Value, version: ResourceVersion) -> Self {
        metadata_mut(&mut value).insert("resourceVersion".to_owned(), version.to_string().into());
        let json = Bytes::from(value.to_string());
        Self { value, json, version }
    }

    /// The object's name.
    pub(crate) fn name(&self) -> &str {
        text(&self.value, "/metadata/name")
    }

    /// The object's namespace; empty for cluster-scoped objects.
    pub(crate) fn namespace(&self) -> &str {
        text(&self.value, "/metadata/namespace")
    }

    /// The object's uid, which distinguishes it from an earlier object of the same name.
    pub(crate) fn uid(&self) -> &str {
        uid(&self.value)
    }

    /// The key under which the object is stored in its collection.
    pub(crate) fn key(&self) -> String {
        key(self.namespace(), self.name())
    }
}
