//! The `conditions` list of a status: at most one condition of each type.

use serde_json::{Map, Value, json};

/// Adds a condition, or replaces the condition of the same type.
pub(crate) fn set_condition(status: &mut Map<String, Value>, condition: Value) {
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(list) = conditions.as_array_mut() else {
        *conditions = json!([condition]);
        return;
    };
    match list.iter_mut().find(|other| other.get("type") == condition.get("type")) {
        Some(other) => *other = condition,
        None => list.push(condition),
    }
}

/// The condition of this type; `None` if the status lacks it.
pub(crate) fn find_condition<'a>(status: &'a Map<String, Value>, condition_type: &str) -> Option<&'a Value> {
    let conditions = status.get("conditions").and_then(Value::as_array)?;
    conditions.iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some(condition_type))
}
