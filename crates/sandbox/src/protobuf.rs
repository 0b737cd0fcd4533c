//! Reads the few protobuf bodies that `kubectl create` sends for simple kinds, whatever the server says it accepts.
//!
//! A body is an envelope around a message. Only kinds listed here are read; others are refused like any unknown format.

use serde_json::{Map, Value};

const MAGIC: &[u8] = b"k8s\0";

/// How a field of a message becomes JSON.
#[derive(Clone, Copy)]
enum Field {
    Text,
    Number,
    Truth,
    TextMap,
    Message(&'static [(u64, &'static str, Field)]),
}

type Fields = &'static [(u64, &'static str, Field)];

const OBJECT_META: Fields = &[
    (1, "name", Field::Text),
    (2, "generateName", Field::Text),
    (3, "namespace", Field::Text),
    (11, "labels", Field::TextMap),
    (12, "annotations", Field::TextMap),
];
const NAMESPACE: Fields = &[(1, "metadata", Field::Message(OBJECT_META))];
const CONFIG_MAP: Fields =
    &[(1, "metadata", Field::Message(OBJECT_META)), (2, "data", Field::TextMap), (4, "immutable", Field::Truth)];
const SERVICE_ACCOUNT: Fields = &[(1, "metadata", Field::Message(OBJECT_META))];
const PRIORITY_CLASS: Fields = &[
    (1, "metadata", Field::Message(OBJECT_META)),
    (2, "value", Field::Number),
    (3, "globalDefault", Field::Truth),
    (4, "description", Field::Text),
    (5, "preemptionPolicy", Field::Text),
];
const LABEL_SELECTOR: Fields = &[(1, "matchLabels", Field::TextMap)];
const INT_OR_STRING: Fields = &[(1, "type", Field::Number), (2, "intVal", Field::Number), (3, "strVal", Field::Text)];
const BUDGET_SPEC: Fields = &[
    (1, "minAvailable", Field::Message(INT_OR_STRING)),
    (2, "selector", Field::Message(LABEL_SELECTOR)),
    (3, "maxUnavailable", Field::Message(INT_OR_STRING)),
];
const BUDGET: Fields = &[(1, "metadata", Field::Message(OBJECT_META)), (2, "spec", Field::Message(BUDGET_SPEC))];
const DELETE_OPTIONS: Fields = &[(1, "gracePeriodSeconds", Field::Number)];
const EVICTION: Fields =
    &[(1, "metadata", Field::Message(OBJECT_META)), (2, "deleteOptions", Field::Message(DELETE_OPTIONS))];

/// The body as JSON, or nothing if it isn't one of the messages known here.
pub(crate) fn decode(body: &[u8]) -> Option<Value> {
    let envelope = body.strip_prefix(MAGIC)?;
    let type_meta = Message(envelope).fields().find_map(|(number, value)| (number == 1).then_some(value))?;
    let raw = Message(envelope).fields().find_map(|(number, value)| (number == 2).then_some(value))?;
    let (Wire::Bytes(type_meta), Wire::Bytes(raw)) = (type_meta, raw) else { return None };
    let mut api_version = String::new();
    let mut kind = String::new();
    for (number, value) in Message(type_meta).fields() {
        match (number, value) {
            (1, Wire::Bytes(text)) => api_version = String::from_utf8_lossy(text).into_owned(),
            (2, Wire::Bytes(text)) => kind = String::from_utf8_lossy(text).into_owned(),
            _ => {}
        }
    }
    let fields = match kind.as_str() {
        "Namespace" => NAMESPACE,
        "ConfigMap" => CONFIG_MAP,
        "ServiceAccount" => SERVICE_ACCOUNT,
        "PriorityClass" => PRIORITY_CLASS,
        "PodDisruptionBudget" => BUDGET,
        "Eviction" => EVICTION,
        _ => return None,
    };
    let mut object = message(raw, fields);
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    Some(object)
}

fn message(bytes: &[u8], fields: Fields) -> Value {
    let mut members = Map::new();
    for (number, wire) in Message(bytes).fields() {
        let Some((_, name, field)) = fields.iter().find(|(known, _, _)| *known == number) else { continue };
        let value = match (field, wire) {
            (Field::Text, Wire::Bytes(text)) => Value::from(String::from_utf8_lossy(text).into_owned()),
            (Field::Number, Wire::Varint(number)) => Value::from(number.cast_signed()),
            (Field::Truth, Wire::Varint(number)) => Value::from(number != 0),
            (Field::TextMap, Wire::Bytes(entry)) => {
                let map = members.entry(*name).or_insert_with(|| Value::Object(Map::new()));
                add_entry(map, entry);
                continue;
            }
            (Field::Message(inner), Wire::Bytes(bytes)) => simplified(message(bytes, inner)),
            _ => continue,
        };
        let is_empty = value == "" || value == false || value.as_object().is_some_and(Map::is_empty);
        if !is_empty {
            members.insert((*name).to_owned(), value);
        }
    }
    Value::Object(members)
}

/// A number-or-text message becomes the one that it holds.
fn simplified(value: Value) -> Value {
    match value.get("type").and_then(Value::as_i64) {
        Some(0) => value.get("intVal").cloned().unwrap_or_else(|| 0.into()),
        Some(1) => value.get("strVal").cloned().unwrap_or_default(),
        _ => value,
    }
}

fn add_entry(map: &mut Value, entry: &[u8]) {
    let mut key = String::new();
    let mut text = String::new();
    for (number, wire) in Message(entry).fields() {
        if let Wire::Bytes(bytes) = wire {
            let part = String::from_utf8_lossy(bytes).into_owned();
            if number == 1 { key = part } else { text = part }
        }
    }
    map[key] = text.into();
}

/// A value as it stands in a message.
#[derive(Clone, Copy)]
enum Wire<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
}

/// An encoded message; iteration ends at the first malformed field.
#[derive(Clone, Copy)]
struct Message<'a>(&'a [u8]);

impl<'a> Message<'a> {
    fn fields(mut self) -> impl Iterator<Item = (u64, Wire<'a>)> {
        std::iter::from_fn(move || {
            let tag = self.varint()?;
            let value = match tag & 7 {
                0 => Wire::Varint(self.varint()?),
                2 => {
                    let length = usize::try_from(self.varint()?).ok()?;
                    let (bytes, rest) = self.0.split_at_checked(length)?;
                    self.0 = rest;
                    Wire::Bytes(bytes)
                }
                _ => return None,
            };
            Some((tag >> 3, value))
        })
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::decode;

    #[test]
    fn a_namespace_is_read() {
        let body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12\x08\x0a\x06\x0a\x04team\x1a\x00\x22\x00";
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
        assert_eq!(decode(body), Some(namespace));
        assert_eq!(decode(b"{}"), None);
    }
}
