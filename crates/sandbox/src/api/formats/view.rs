//! Stored objects and lists as JSON: with type meta, and with the field names of the requested group.

use serde_json::{Value, json};

use crate::fields::json::as_map;
use crate::kinds::{Kind, events};
use crate::storage::Object;

/// The object with type meta, as a value that can be changed.
pub(crate) fn value(kind: &Kind, stored: &Value) -> Value {
    let mut shown = if shows_events_v1(kind) { events::to_events_v1(stored) } else { stored.clone() };
    let members = as_map(&mut shown);
    members.insert("apiVersion".to_owned(), kind.api_version().into());
    members.insert("kind".to_owned(), kind.kind.as_str().into());
    shown
}

/// Appends the object as JSON text with type meta.
pub(crate) fn write_object(kind: &Kind, object: &Object, out: &mut Vec<u8>) {
    if shows_events_v1(kind) {
        out.extend_from_slice(value(kind, &object.value).to_string().as_bytes());
        return;
    }
    out.extend_from_slice(kind.type_meta_json().as_bytes());
    out.extend_from_slice(object.json.get(1..).unwrap_or_default());
}

/// Appends the object as an element of a list. Built-in kinds leave out the type meta there.
pub(crate) fn write_item(kind: &Kind, object: &Object, out: &mut Vec<u8>) {
    if kind.is_custom() {
        write_object(kind, object, out);
    } else if shows_events_v1(kind) {
        out.extend_from_slice(events::to_events_v1(&object.value).to_string().as_bytes());
    } else {
        out.extend_from_slice(&object.json);
    }
}

/// The JSON text of a list. It is assembled from the existing texts of the objects.
pub(crate) fn list_json(kind: &Kind, objects: &[&Object], metadata: &Value) -> Vec<u8> {
    let size: usize = objects.iter().map(|object| object.json.len() + 1).sum();
    let mut out = Vec::with_capacity(size + 256);
    let head = format!(
        "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
        kind.list_kind,
        kind.api_version()
    );
    out.extend_from_slice(head.as_bytes());
    for (position, object) in objects.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write_item(kind, object, &mut out);
    }
    out.extend_from_slice(b"]}");
    out
}

/// Only the metadata of an object.
pub(crate) fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata"),
    })
}

fn shows_events_v1(kind: &Kind) -> bool {
    kind.is("events.k8s.io", "events")
}
