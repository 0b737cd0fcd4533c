//! Functions for fields of objects that are kept as JSON, and for texts that are made from them.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;
use serde_json::{Map, Value};

/// The letters of names that Kubernetes generates. The letters contain no vowels, so that the names contain no words
/// (`k8s.io/apimachinery/pkg/util/rand`).
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A text at a JSON pointer; empty if there is no text.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The members of a list at a JSON pointer; empty if there is no list.
pub(crate) fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The fields of an object. A value that is not an object becomes an empty object.
pub(crate) fn fields(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(fields) => fields,
        _ => unreachable!("it was made an object"),
    }
}

/// The object in a field of an object. If the field does not exist, it is created.
pub(crate) fn child<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    fields(fields(object).entry(field).or_insert(Value::Null))
}

/// The objects in a list in a field, to be changed.
pub(crate) fn items_mut<'a>(
    object: &'a mut Map<String, Value>,
    field: &str,
) -> impl Iterator<Item = &'a mut Value> + use<'a> {
    object.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

/// `length` letters that depend on `seed`. The letters are the same in each run.
pub(crate) fn letters(seed: impl Hash, length: usize) -> String {
    let mut hasher = FxHasher::default();
    seed.hash(&mut hasher);
    let mut rest = hasher.finish();
    let mut text = String::with_capacity(length);
    for _ in 0..length {
        // The constants are those of SplitMix64. The bits of the hash alone are too few, and its lowest bits hardly
        // differ.
        rest = rest.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (rest ^ rest >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let at = (mixed ^ mixed >> 27) >> 33;
        let letter = usize::try_from(at % LETTERS.len() as u64).ok().and_then(|at| LETTERS.get(at));
        text.push(char::from(*letter.unwrap_or(&b'x')));
    }
    text
}
