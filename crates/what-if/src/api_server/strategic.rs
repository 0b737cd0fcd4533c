//! Strategic merge patches, as far as a simulation needs them.
//!
//! The API server knows for each list whether its elements are merged. This module knows only the lists that plugins
//! usually patch, and only the directive `$patch: delete`.

use serde_json::{Map, Value};

/// The lists whose elements are merged, each with the member that identifies an element. Other lists are replaced, except
/// `finalizers`, to which a patch adds.
const MERGE_KEYS: [(&str, &str); 4] =
    [("conditions", "type"), ("containers", "name"), ("ownerReferences", "uid"), ("reservedFor", "uid")];

/// Applies a strategic merge patch to an object.
pub fn merge_strategically(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(members) = target else { return };
    for (name, change) in changes {
        if change.is_null() {
            members.remove(name);
            continue;
        }
        let member = members.entry(name.clone()).or_insert(Value::Null);
        let key = MERGE_KEYS.iter().find(|(list, _)| *list == name.as_str());
        match (change, key) {
            (Value::Array(changes), Some((_, key))) => merge_list(member, changes, key),
            (Value::Array(additions), None) if name == "finalizers" => add_to_list(member, additions),
            (change, _) => merge_strategically(member, change),
        }
    }
}

fn merge_list(target: &mut Value, changes: &[Value], key: &str) {
    if !target.is_array() {
        *target = Value::Array(Vec::new());
    }
    let Value::Array(elements) = target else { return };
    for change in changes {
        let position = elements.iter().position(|element| element[key] == change[key]);
        if change["$patch"] == "delete" {
            if let Some(position) = position {
                elements.remove(position);
            }
        } else if let Some(element) = position.and_then(|position| elements.get_mut(position)) {
            merge_strategically(element, change);
        } else {
            elements.push(change.clone());
        }
    }
}

fn add_to_list(target: &mut Value, additions: &[Value]) {
    if !target.is_array() {
        *target = Value::Array(Vec::new());
    }
    let Value::Array(elements) = target else { return };
    for addition in additions {
        if !elements.contains(addition) {
            elements.push(addition.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn elements_are_merged_by_their_keys() {
        let mut object = json!({"metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x"]},
            "status": {"reservedFor": [{"uid": "p", "name": "x"}, {"uid": "q"}], "list": [1, 2]}});
        let patch = json!({"metadata": {"labels": {"a": null}, "finalizers": ["y", "x"]}, "status": {"list": [3],
            "reservedFor": [{"$patch": "delete", "uid": "p"}, {"$patch": "delete", "uid": "absent"}, {"uid": "r"}],
            "conditions": [{"type": "Ready"}]}});
        merge_strategically(&mut object, &patch);
        let expected = json!({"metadata": {"labels": {"b": "2"}, "finalizers": ["x", "y"]},
            "status": {"reservedFor": [{"uid": "q"}, {"uid": "r"}], "list": [3], "conditions": [{"type": "Ready"}]}});
        assert_eq!(object, expected);
        merge_strategically(&mut object, &json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
        assert_eq!(object["status"]["conditions"], json!([{"type": "Ready", "status": "True"}]));
    }
}
