//! Short functions to read and write the JSON of objects.
//!
//! Reading never fails: an absent value, or a value of another type, is read as empty. Writing creates the maps that
//! are missing.

use serde_json::{Map, Value};

/// The text at a JSON pointer; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The elements of the list at a JSON pointer; empty if there is none.
pub(crate) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The object's `metadata`, which is created if it is missing.
pub(crate) fn metadata_mut(value: &mut Value) -> &mut Map<String, Value> {
    child_mut(value, "metadata")
}

/// The member `key` as a map. If the member is not a map, an empty map replaces it.
pub(crate) fn child_mut<'a>(value: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    as_map(as_map(value).entry(key).or_insert(Value::Null))
}

/// `value` as a map. Any other value is replaced.
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

/// Sets `key` if it is absent or null.
pub(crate) fn default_to(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    if map.get(key).is_none_or(Value::is_null) {
        map.insert(key.to_owned(), value.into());
    }
}

/// Copies the member `key` from one object to another. Removes the member if the source lacks it.
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

/// The object's `metadata.uid`; empty if there is none.
pub(crate) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// Whether the object has a `metadata.deletionTimestamp`.
pub(crate) fn is_being_deleted(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

/// The value of an annotation; empty if there is none.
pub(crate) fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    let annotations = object.pointer("/metadata/annotations");
    annotations.and_then(|annotations| annotations.get(name)).and_then(Value::as_str).unwrap_or_default()
}

/// Sets an annotation.
pub(crate) fn annotate(object: &mut Value, name: &str, value: &str) {
    let annotations = as_map(metadata_mut(object).entry("annotations").or_insert(Value::Null));
    annotations.insert(name.to_owned(), value.into());
}

/// Removes an annotation. If the map of annotations is then empty, also removes the map.
pub(crate) fn remove_annotation(object: &mut Value, name: &str) {
    let metadata = metadata_mut(object);
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    annotations.remove(name);
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}
