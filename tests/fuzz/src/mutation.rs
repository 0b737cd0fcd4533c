//! Changes the values of fields in JSON documents, instead of the bytes of the text.

use serde_json::{Map, Number, Value, json};

use self::words::{FIELDS, TEXTS};
use crate::random::Random;

mod words;

/// Changes a document a little. The change depends only on `seed`. `None` if the document is not JSON, or if bytes
/// should be changed instead, which finds mistakes in decoders.
#[must_use]
pub fn mutate(document: &[u8], seed: u64, max_len: usize) -> Option<Vec<u8>> {
    let mut random = Random::of_state(seed);
    if random.below(16) == 0 {
        return None;
    }
    let mut root: Value = serde_json::from_slice(document).ok()?;
    for _ in 0..=random.below(4) {
        change(&mut root, &mut random);
    }
    let text = serde_json::to_vec(&root).ok()?;
    (text.len() <= max_len).then_some(text)
}

/// [`mutate`] for the first `size` bytes of a buffer. Returns their new number.
pub fn mutate_in_place(buffer: &mut [u8], size: usize, max_size: usize, seed: u32) -> Option<usize> {
    // The generator needs more than a few low bits at the start.
    let seed = u64::from(seed).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let text = mutate(buffer.get(..size)?, seed, max_size)?;
    buffer.get_mut(..text.len())?.copy_from_slice(&text);
    Some(text.len())
}

fn change(root: &mut Value, random: &mut Random) {
    let n_places = count(root);
    let donor = nth(root, &mut random.below(n_places)).map(|value| value.clone()).unwrap_or_default();
    let Some(place) = nth(root, &mut random.below(n_places)) else { return };
    match random.below(8) {
        0 => *place = odd(random),
        1 => *place = donor,
        _ => match place {
            Value::Array(items) => change_items(items, donor, random),
            Value::Object(fields) => change_fields(fields, donor, random),
            Value::String(text) => change_text(text, &donor, random),
            Value::Number(number) => *place = change_number(number, random),
            Value::Bool(flag) => *flag = !*flag,
            Value::Null => *place = odd(random),
        },
    }
}

fn change_items(items: &mut Vec<Value>, donor: Value, random: &mut Random) {
    let (one, other) = (random.below(items.len()), random.below(items.len()));
    match random.below(5) {
        0 => items.push(donor),
        1 if !items.is_empty() => items.swap(one, other),
        2 if !items.is_empty() => drop(items.remove(one)),
        3 => items.push(odd(random)),
        _ => {
            if let Some(item) = items.get(one).cloned() {
                items.insert(other, item);
            }
        }
    }
}

fn change_fields(fields: &mut Map<String, Value>, donor: Value, random: &mut Random) {
    let key = fields.keys().nth(random.below(fields.len())).cloned().unwrap_or_default();
    match random.below(5) {
        0 => drop(fields.remove(&key)),
        1 => {
            let value = fields.remove(&key).unwrap_or_default();
            fields.insert(random.word(&FIELDS).to_owned(), value);
        }
        2 => drop(fields.insert(random.word(&FIELDS).to_owned(), donor)),
        3 => drop(fields.insert(key, donor)),
        _ => drop(fields.insert(random.word(&FIELDS).to_owned(), odd(random))),
    }
}

fn change_text(text: &mut String, donor: &Value, random: &mut Random) {
    match random.below(6) {
        0 => random.word(&TEXTS).clone_into(text),
        1 => text.push_str(random.word(&TEXTS)),
        2 => {
            if let Some(other) = donor.as_str() {
                other.clone_into(text);
            }
        }
        3 => drop(text.pop()),
        4 => *text = text.chars().rev().collect(),
        _ => {
            let at = random.below(text.chars().count());
            let characters = ['0', '9', '-', '.', '/', 'e', 'i', 'A', ' ', 'é', '\u{0}', '"', '(', '['];
            let new = characters.get(random.below(characters.len())).copied().unwrap_or('x');
            *text = text.chars().enumerate().map(|(here, old)| if here == at { new } else { old }).collect();
        }
    }
}

fn change_number(number: &Number, random: &mut Random) -> Value {
    let value = number.as_i64().unwrap_or(i64::MAX);
    match random.below(6) {
        0 => json!(value.wrapping_add(1)),
        1 => json!(value.wrapping_sub(1)),
        2 => json!(value.wrapping_neg()),
        3 => json!(value.wrapping_mul(2)),
        4 => json!(value.to_string()),
        _ => odd_number(random),
    }
}

fn odd(random: &mut Random) -> Value {
    match random.below(8) {
        0 => Value::Null,
        1 => json!({}),
        2 => json!([]),
        3 => json!(random.below(2) == 0),
        4 | 5 => odd_number(random),
        _ => json!(random.word(&TEXTS)),
    }
}

fn odd_number(random: &mut Random) -> Value {
    match random.below(12) {
        0 => json!(0),
        1 => json!(1),
        2 => json!(-1),
        3 => json!(i32::MAX),
        4 => json!(i32::MIN),
        5 => json!(i64::MAX),
        6 => json!(i64::MIN),
        7 => json!(u64::MAX),
        8 => json!(1.5),
        9 => json!(1e300),
        10 => json!(100),
        _ => json!(65_536),
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// The value at a place, counted from the root.
fn nth<'a>(value: &'a mut Value, left: &mut usize) -> Option<&'a mut Value> {
    if *left == 0 {
        return Some(value);
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, left)),
        Value::Object(fields) => fields.values_mut().find_map(|field| nth(field, left)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_stay_documents_and_change() {
        let document = br#"{"pod":{"spec":{"priority":1,"containers":[{"name":"main"},{"name":"other"}]}}}"#;
        let changed: Vec<Vec<u8>> = (0..500).filter_map(|seed| mutate(document, seed, 4096)).collect();
        assert!(changed.len() > 400);
        assert!(changed.iter().all(|text| serde_json::from_slice::<Value>(text).is_ok()));
        let n_same = changed.iter().filter(|text| **text == document).count();
        assert!(n_same < changed.len() / 4, "{n_same} of {} are as before", changed.len());
        assert_eq!(mutate(b"no JSON", 2, 4096), None);
    }
}
