//! The rules by which a recorded answer and the sandbox's answer count as equal.

use serde_json::{Map, Value};

/// Members that differ between runs, or that the sandbox never shows, with the reasons.
const IGNORED: [(&str, &str); 16] = [
    ("managedFields", "ownership of fields is not shown"),
    ("uid", "varies"),
    ("resourceVersion", "varies"),
    ("creationTimestamp", "varies"),
    ("deletionTimestamp", "varies"),
    ("continue", "holds a version"),
    ("storageVersionHash", "says nothing to clients of one server"),
    ("description", "prose of the API documentation"),
    ("serverAddressByClientCIDRs", "differs with the address"),
    ("gitCommit", "describes the build"),
    ("goVersion", "describes the build"),
    ("compiler", "describes the build"),
    ("platform", "describes the build"),
    ("serviceAccountName", "the recorded server ran without the ServiceAccount admission"),
    ("serviceAccount", "the recorded server ran without the ServiceAccount admission"),
    ("paths", "lists every endpoint of a real server"),
];

/// The lists of discovery. The sandbox serves fewer kinds, so only the served kinds are compared.
const DISCOVERED: [&str; 5] = ["resources", "groups", "subresources", "items/versions", "groups/versions"];

/// All differences between two JSON values, as texts.
pub(crate) fn differences(recorded: &Value, answered: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", recorded, answered, &mut found);
    found
}

fn compare(path: &str, recorded: &Value, answered: &Value, found: &mut Vec<String>) {
    match (recorded, answered) {
        (Value::Object(a), Value::Object(b))
            if recorded["type"] == "BOOKMARK" && recorded["object"]["kind"] != "Table" =>
        {
            // A bookmark contains its metadata and the empty form of the kind, which has no meaning.
            compare(&format!("{path}/type"), &recorded["type"], &answered["type"], found);
            compare(&format!("{path}/object/kind"), &a["object"]["kind"], &b["object"]["kind"], found);
            compare(&format!("{path}/object/metadata"), &a["object"]["metadata"], &b["object"]["metadata"], found);
        }
        (Value::Object(a), Value::Object(b)) => compare_members(path, a, b, found),
        (Value::Array(a), Value::Array(b)) if path.ends_with("/causes") => {
            let (a, b) = (as_set(a), as_set(b));
            compare_elements(path, &a, &b, found);
        }
        (Value::Array(a), Value::Array(b)) if is_discovery(path, a) => compare_served(path, a, b, found),
        (Value::Array(a), Value::Array(b)) => compare_elements(path, a, b, found),
        (Value::String(a), Value::String(b)) if plain(a) == plain(b) => {}
        (a, b) if a == b || is_nothing(a) && is_nothing(b) => {}
        (a, b) => found.push(format!("{path}: recorded {} but got {}", short(a), short(b))),
    }
}

/// Clients treat an empty list or map like an absent list or map.
fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
}

fn compare_members(path: &str, a: &Map<String, Value>, b: &Map<String, Value>, found: &mut Vec<String>) {
    let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        if IGNORED.iter().any(|(ignored, _)| ignored == key) {
            continue;
        }
        if key == "subresources" && b.get(key).is_none() {
            continue;
        }
        let (a, b) = (a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null));
        compare(&format!("{path}/{key}"), a, b, found);
    }
}

fn compare_elements(path: &str, a: &[Value], b: &[Value], found: &mut Vec<String>) {
    if a.len() != b.len() {
        found.push(format!("{path}: recorded {} elements but got {}: {} / {}", a.len(), b.len(), names(a), names(b)));
        return;
    }
    for (position, (a, b)) in a.iter().zip(b).enumerate() {
        compare(&format!("{path}/{position}"), a, b, found);
    }
}

/// Compares the elements that both sides have, by name. Elements that only the sandbox has are differences.
fn compare_served(path: &str, recorded: &[Value], answered: &[Value], found: &mut Vec<String>) {
    for element in answered {
        match recorded.iter().find(|other| identity(other) == identity(element)) {
            Some(other) => compare(&format!("{path}/{}", identity(element)), other, element, found),
            None => found.push(format!("{path}: {} isn't recorded", identity(element))),
        }
    }
}

fn is_discovery(path: &str, elements: &[Value]) -> bool {
    let known = DISCOVERED.iter().any(|name| path.ends_with(&format!("/{name}")));
    known && elements.iter().all(|element| !identity(element).is_empty())
        || path == "/items" && elements.iter().any(|element| element.pointer("/versions/0/freshness").is_some())
}

fn identity(element: &Value) -> String {
    let at = |pointer: &str| element.pointer(pointer).and_then(Value::as_str);
    let name = at("/name").or(at("/resource")).or(at("/subresource")).or(at("/metadata/name"));
    name.or(at("/version")).unwrap_or("core").to_owned()
}

fn as_set(causes: &[Value]) -> Vec<Value> {
    let mut set: Vec<Value> = Vec::new();
    for cause in causes {
        if !set.contains(cause) {
            set.push(cause.clone());
        }
    }
    set
}

/// A text without the parts that vary: uids, versions, times, ages, generated suffixes.
fn plain(text: &str) -> String {
    let is_age = text.len() < 8
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text.ends_with(['s', 'm', 'h', 'd'])
        && text.chars().all(|c| c.is_ascii_digit() || "smhd".contains(c));
    if is_age {
        return "<age>".to_owned();
    }
    if let Some(prefix) = text.strip_prefix("gen-") {
        return format!("gen-<{}>", prefix.len());
    }
    let is_time = text.len() >= 20 && text.as_bytes().get(10) == Some(&b'T') && text.ends_with('Z');
    if is_time {
        return "<time>".to_owned();
    }
    without_numbers(text)
}

/// Replaces uids and long numbers.
fn without_numbers(text: &str) -> String {
    let mut plain = String::new();
    for word in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
        let (body, end) = word.split_at(word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '-').len());
        let is_uid = body.len() == 36 && body.matches('-').count() == 4;
        let is_number = body.len() >= 2 && body.chars().all(|c| c.is_ascii_digit());
        plain.push_str(if is_uid {
            "<uid>"
        } else if is_number {
            "<number>"
        } else {
            body
        });
        plain.push_str(end);
    }
    plain
}

fn names(elements: &[Value]) -> String {
    let names: Vec<String> = elements
        .iter()
        .map(|element| {
            let name =
                element.pointer("/metadata/name").or(element.pointer("/object/metadata/name")).or(element.get("name"));
            let name = name.or(element.get("type")).or(element.get("field")).and_then(Value::as_str);
            name.map_or_else(|| short(element), str::to_owned)
        })
        .collect();
    names.join(" ")
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(300).collect()
}
