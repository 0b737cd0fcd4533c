//! Reads the protobuf bodies that `kubectl create` and `kubectl drain` send even if the server accepts only JSON.
//!
//! A body is an envelope around a message. Only kinds and fields in `messages` are read. A body with other fields is
//! refused like any unknown format, because the object would lose those fields.

mod messages;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use messages::{Field, Fields};

use crate::fields::json::text;

const MAGIC: &[u8] = b"k8s\0";
/// The maximum nesting of an empty message.
const MAX_DEPTH: u32 = 16;
/// The fields of the envelope that describe the message.
const TYPE_META: Fields = &[(1, "apiVersion", Field::Text), (2, "kind", Field::Text)];

/// The body as JSON; `None` if the message is unknown.
pub(crate) fn decode(body: &[u8]) -> Option<Value> {
    let envelope = EncodedMessage(body.strip_prefix(MAGIC)?);
    let type_meta = message(envelope.bytes(1)?, TYPE_META)?;
    let mut object = message(envelope.bytes(2)?, messages::of_kind(text(&type_meta, "/kind"))?)?;
    object["apiVersion"] = type_meta.get("apiVersion")?.clone();
    object["kind"] = type_meta.get("kind")?.clone();
    Some(object)
}

fn message(bytes: &[u8], fields: Fields) -> Option<Value> {
    let mut members = Map::new();
    let mut rest = EncodedMessage(bytes);
    while let Some((number, wire)) = rest.next_field() {
        match fields.iter().find(|(known, _, _)| *known == number) {
            Some((_, name, field)) => add(&mut members, name, *field, wire)?,
            None if wire.is_blank(MAX_DEPTH) => {}
            None => return None,
        }
    }
    rest.0.is_empty().then_some(Value::Object(members))
}

/// Adds the JSON form of a field. Repeated fields and maps arrive as several fields with the same number.
fn add(members: &mut Map<String, Value>, name: &str, field: Field, wire: WireValue<'_>) -> Option<()> {
    let (value, is_absent) = match (field, wire) {
        (Field::Text, WireValue::Bytes(bytes)) => (utf8(bytes), bytes.is_empty()),
        (Field::OptionalNumber, WireValue::Varint(number)) => (number.cast_signed().into(), false),
        (Field::Number, WireValue::Varint(number)) => (number.cast_signed().into(), number == 0),
        (Field::Flag, WireValue::Varint(number)) => ((number != 0).into(), number == 0),
        (Field::OptionalFlag, WireValue::Varint(number)) => ((number != 0).into(), false),
        (Field::NumberOrText, WireValue::Bytes(bytes)) => (number_or_text(bytes), false),
        (Field::One(fields), WireValue::Bytes(bytes)) => {
            let value = message(bytes, fields)?;
            let is_absent = value.as_object().is_some_and(Map::is_empty);
            (value, is_absent)
        }
        (Field::Texts, WireValue::Bytes(bytes)) => return push(members, name, utf8(bytes)),
        (Field::Many(fields), WireValue::Bytes(bytes)) => return push(members, name, message(bytes, fields)?),
        (Field::TextMap, WireValue::Bytes(entry)) => return insert(members, name, entry, utf8),
        (Field::BytesMap, WireValue::Bytes(entry)) => {
            return insert(members, name, entry, |bytes| STANDARD.encode(bytes).into());
        }
        (Field::QuantityMap, WireValue::Bytes(entry)) => {
            return insert(members, name, entry, |bytes| EncodedMessage(bytes).bytes(1).map_or(Value::Null, utf8));
        }
        (_, WireValue::Varint(_) | WireValue::Bytes(_)) => return None,
    };
    if !is_absent {
        members.insert(name.to_owned(), value);
    }
    Some(())
}

fn push(members: &mut Map<String, Value>, name: &str, element: Value) -> Option<()> {
    members.entry(name).or_insert_with(|| Value::Array(Vec::new())).as_array_mut()?.push(element);
    Some(())
}

/// Adds an entry of a map, which is a message with a key and a value.
fn insert(members: &mut Map<String, Value>, name: &str, entry: &[u8], read: impl Fn(&[u8]) -> Value) -> Option<()> {
    let key = String::from_utf8_lossy(EncodedMessage(entry).bytes(1).unwrap_or_default()).into_owned();
    let value = read(EncodedMessage(entry).bytes(2).unwrap_or_default());
    members.entry(name).or_insert_with(|| Value::Object(Map::new())).as_object_mut()?.insert(key, value);
    Some(())
}

/// Reads a message that contains a number or a text, and says which.
fn number_or_text(bytes: &[u8]) -> Value {
    let message = EncodedMessage(bytes);
    let number = |wanted: u64| {
        message.fields().find_map(|(number, wire)| match wire {
            WireValue::Varint(value) if number == wanted => Some(value.cast_signed()),
            WireValue::Bytes(_) | WireValue::Varint(_) => None,
        })
    };
    match number(1) {
        Some(1) => utf8(message.bytes(3).unwrap_or_default()),
        Some(_) | None => number(2).unwrap_or(0).into(),
    }
}

fn utf8(bytes: &[u8]) -> Value {
    String::from_utf8_lossy(bytes).into_owned().into()
}

/// The value of one field, still encoded.
#[derive(Clone, Copy)]
enum WireValue<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
}

impl WireValue<'_> {
    /// Whether the value is the encoding of an absent field: zero, an empty text, or a message of such fields.
    fn is_blank(self, depth: u32) -> bool {
        match self {
            Self::Varint(number) => number == 0,
            Self::Bytes(_) if depth == 0 => false,
            Self::Bytes(bytes) => {
                let mut rest = EncodedMessage(bytes);
                while let Some((_, wire)) = rest.next_field() {
                    if !wire.is_blank(depth - 1) {
                        return false;
                    }
                }
                rest.0.is_empty()
            }
        }
    }
}

/// An encoded message. Iteration ends at the first malformed field.
#[derive(Clone, Copy)]
struct EncodedMessage<'a>(&'a [u8]);

impl<'a> EncodedMessage<'a> {
    fn fields(mut self) -> impl Iterator<Item = (u64, WireValue<'a>)> {
        std::iter::from_fn(move || self.next_field())
    }

    /// The first field with this number that consists of bytes.
    fn bytes(self, wanted: u64) -> Option<&'a [u8]> {
        self.fields().find_map(|(number, wire)| match wire {
            WireValue::Bytes(bytes) if number == wanted => Some(bytes),
            WireValue::Bytes(_) | WireValue::Varint(_) => None,
        })
    }

    fn next_field(&mut self) -> Option<(u64, WireValue<'a>)> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => WireValue::Varint(self.varint()?),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                let (bytes, rest) = self.0.split_at_checked(length)?;
                self.0 = rest;
                WireValue::Bytes(bytes)
            }
            _ => return None,
        };
        Some((tag >> 3, value))
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

    #[test]
    fn a_field_that_is_not_listed_may_only_be_empty() {
        let with_status = |phase: &[u8]| {
            let namespace = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12".to_vec();
            let message =
                [b"\x0a\x06\x0a\x04team\x1a".to_vec(), vec![u8::try_from(phase.len()).unwrap_or(0)], phase.to_vec()]
                    .concat();
            [namespace, vec![u8::try_from(message.len()).unwrap_or(0)], message].concat()
        };
        assert!(decode(&with_status(b"\x0a\x00")).is_some());
        assert_eq!(decode(&with_status(b"\x0a\x06Active")), None);
    }
}
