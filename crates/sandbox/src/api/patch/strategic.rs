//! Strategic merge patches. These merges know which lists have keyed elements, and support directives.

use serde_json::{Map, Value};

use crate::fields::json::as_map;
use crate::kinds::Kind;
use crate::kinds::list_type::{ListType, list_type};

const DIRECTIVE: &str = "$patch";
const DELETE_FROM_SET: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";
const RETAIN_KEYS: &str = "$retainKeys";

/// Merges `patch` into `target`, an object of `kind`.
pub(super) fn merge(kind: &Kind, target: &mut Value, patch: &Value) {
    merge_value(MergeContext { kind, appends: false }, &mut Vec::new(), target, patch);
}

/// Merges an applied configuration. New list elements follow the existing elements.
pub(super) fn merge_applied(kind: &Kind, target: &mut Value, configuration: &Value) {
    merge_value(MergeContext { kind, appends: true }, &mut Vec::new(), target, configuration);
}

/// The data that all steps of one merge share.
#[derive(Clone, Copy)]
struct MergeContext<'k> {
    kind: &'k Kind,
    /// Whether new elements follow the existing elements. A strategic merge patch puts them in front.
    appends: bool,
}

fn merge_value<'a>(merge: MergeContext<'_>, path: &mut Vec<&'a str>, target: &mut Value, patch: &'a Value) {
    match patch {
        Value::Object(patch) => merge_object(merge, path, target, patch),
        Value::Array(elements) => merge_list(merge, path, target, elements),
        scalar => *target = scalar.clone(),
    }
}

fn merge_object<'a>(
    merge: MergeContext<'_>,
    path: &mut Vec<&'a str>,
    target: &mut Value,
    patch: &'a Map<String, Value>,
) {
    if patch.get(DIRECTIVE).and_then(Value::as_str) == Some("replace") {
        let mut replacement = patch.clone();
        replacement.remove(DIRECTIVE);
        *target = Value::Object(replacement);
        return;
    }
    let members = as_map(target);
    if let Some(retained) = patch.get(RETAIN_KEYS).and_then(Value::as_array) {
        members.retain(|key, _| retained.iter().any(|retained| retained == key.as_str()));
    }
    for (key, value) in patch.iter().filter(|(key, _)| !key.starts_with('$')) {
        path.push(key);
        merge_member(merge, path, members, key, value);
        path.pop();
    }
    for (key, value) in patch {
        if let (Some(field), Some(gone)) = (key.strip_prefix(DELETE_FROM_SET), value.as_array())
            && let Some(Value::Array(elements)) = members.get_mut(field)
        {
            elements.retain(|element| !gone.contains(element));
        }
        if let (Some(field), Some(order)) = (key.strip_prefix(ELEMENT_ORDER), value.as_array()) {
            path.push(field);
            if let Some(Value::Array(elements)) = members.get_mut(field) {
                reorder(elements, order, &list_type(merge.kind, path));
            }
            path.pop();
        }
    }
}

fn merge_member<'a>(
    merge: MergeContext<'_>,
    path: &mut Vec<&'a str>,
    members: &mut Map<String, Value>,
    key: &str,
    value: &'a Value,
) {
    if value.is_null() {
        members.remove(key);
        return;
    }
    if value.get(DIRECTIVE).and_then(Value::as_str) == Some("delete") {
        members.remove(key);
        return;
    }
    merge_value(merge, path, members.entry(key).or_insert(Value::Null), value);
}

fn merge_list<'a>(merge: MergeContext<'_>, path: &mut Vec<&'a str>, target: &mut Value, patch: &'a [Value]) {
    let replaces = patch.iter().any(|element| element.get(DIRECTIVE).and_then(Value::as_str) == Some("replace"));
    let list_type = if replaces { ListType::Atomic } else { list_type(merge.kind, path) };
    if !target.is_array() {
        *target = Value::Array(Vec::new());
    }
    let Value::Array(elements) = target else { return };
    match list_type {
        ListType::Atomic => {
            let is_directive = |element: &Value| replaces && element.get(DIRECTIVE).is_some();
            *elements = patch.iter().filter(|&element| !is_directive(element)).cloned().collect();
        }
        ListType::Set => {
            for element in patch {
                if !elements.contains(element) {
                    elements.push(element.clone());
                }
            }
        }
        ListType::Map(keys) => merge_elements(merge, path, elements, patch, &keys),
    }
}

fn merge_elements<'a>(
    merge: MergeContext<'_>,
    path: &mut Vec<&'a str>,
    elements: &mut Vec<Value>,
    patch: &'a [Value],
    keys: &[String],
) {
    let mut additions = Vec::new();
    for change in patch {
        let same = |element: &Value| keys.iter().all(|key| element.get(key) == change.get(key));
        let position = elements.iter().position(same);
        if change.get(DIRECTIVE).and_then(Value::as_str) == Some("delete") {
            if let Some(position) = position {
                elements.remove(position);
            }
            continue;
        }
        match position.and_then(|position| elements.get_mut(position)) {
            Some(element) => merge_value(merge, path, element, change),
            None => {
                let mut element = Value::Null;
                merge_value(merge, path, &mut element, change);
                additions.push(element);
            }
        }
    }
    if additions.is_empty() {
        return;
    }
    if merge.appends {
        elements.append(&mut additions);
        return;
    }
    additions.append(elements);
    *elements = additions;
}

/// Sorts the elements named in `order` into that order. Other elements keep their places relative to their
/// predecessors.
fn reorder(elements: &mut Vec<Value>, order: &[Value], list_type: &ListType) {
    let position = |element: &Value| {
        order.iter().position(|wanted| match list_type {
            ListType::Map(keys) => keys.iter().all(|key| element.get(key) == wanted.get(key)),
            ListType::Atomic | ListType::Set => element == wanted,
        })
    };
    let mut anchor = 0;
    let ranked = elements.drain(..).map(|element| match position(&element) {
        Some(rank) => {
            anchor = rank * 2;
            (anchor, element)
        }
        None => (anchor + 1, element),
    });
    let mut ranked: Vec<(usize, Value)> = ranked.collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    elements.extend(ranked.into_iter().map(|(_, element)| element));
}
