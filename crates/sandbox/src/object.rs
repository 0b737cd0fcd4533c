//! Stored objects and short ways to read and write the JSON they consist of.
//!
//! An object is kept without `kind` and `apiVersion`: the view that serves it puts them in front of the serialised
//! text, so that one text serves lists, watches and both versions of a group.

use bytes::Bytes;
use serde_json::{Map, Value};

/// One version of a stored object. Never changes once made.
#[derive(Debug)]
pub(crate) struct Object {
    /// The object without type meta.
    pub(crate) value: Value,
    /// `value` as JSON text.
    pub(crate) json: Bytes,
    /// The resource version.
    pub(crate) revision: u64,
}

impl Object {
    /// Stamps the revision into the object and serialises it.
    pub(crate) fn new(mut value: Value, revision: u64) -> Self {
        metadata_mut(&mut value).insert("resourceVersion".to_owned(), revision.to_string().into());
        let json = Bytes::from(value.to_string());
        Self { value, json, revision }
    }

    /// The object's name.
    pub(crate) fn name(&self) -> &str {
        text(&self.value, "/metadata/name")
    }

    /// The object's namespace, empty for cluster-scoped ones.
    pub(crate) fn namespace(&self) -> &str {
        text(&self.value, "/metadata/namespace")
    }
}

/// The text at a JSON pointer, or empty.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The elements of the list at a JSON pointer, or none.
pub(crate) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The object's `metadata`, created when missing.
pub(crate) fn metadata_mut(value: &mut Value) -> &mut Map<String, Value> {
    child_mut(value, "metadata")
}

/// The member `key` as a map, created when it isn't one.
pub(crate) fn child_mut<'a>(value: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    as_map(as_map(value).entry(key).or_insert(Value::Null))
}

/// `value` as a map, replacing whatever else it was.
pub(crate) fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            unreachable!("the value was made an object above")
        }
    }
}

/// Sets `key` unless it is there and not null.
pub(crate) fn default_to(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    if map.get(key).is_none_or(Value::is_null) {
        map.insert(key.to_owned(), value.into());
    }
}

/// Copies the member `key` from one object to another, or removes it where the source has none.
pub(crate) fn carry(from: &Value, to: &mut Map<String, Value>, key: &str) {
    match from.get(key) {
        Some(value) => {
            to.insert(key.to_owned(), value.clone());
        }
        None => {
            to.remove(key);
        }
    }
}

/// Removes members that are null, at any depth.
pub(crate) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, member| !member.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
