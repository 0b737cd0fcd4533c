//! `LabelSelector` objects, as in specs.

use serde_json::Value;

use crate::fields::json::{items, text};

/// Whether the selector object selects an object by its labels. An empty selector selects everything.
pub(crate) fn matches(selector: &Value, object: &Value) -> bool {
    let label = |key: &str| object.pointer("/metadata/labels").and_then(|labels| labels.get(key));
    let wanted = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let mut exact = wanted.map(|(key, value)| label(key) == Some(value));
    exact.all(|holds| holds)
        && items(selector, "/matchExpressions").iter().all(|requirement| {
            let found = label(text(requirement, "/key"));
            let listed = |value: &Value| items(requirement, "/values").contains(value);
            match text(requirement, "/operator") {
                "In" => found.is_some_and(listed),
                "NotIn" => found.is_none_or(|value| !listed(value)),
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

/// The selector object in the form of a query, for tables and `scale`.
pub(crate) fn to_query(selector: &Value) -> String {
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let direct = selector.as_object().filter(|_| labels.is_none() && selector.get("matchExpressions").is_none());
    let exact = labels.or(direct).into_iter().flatten();
    let mut terms: Vec<String> =
        exact.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    for requirement in items(selector, "/matchExpressions") {
        let key = text(requirement, "/key");
        let values: Vec<&str> = items(requirement, "/values").iter().filter_map(Value::as_str).collect();
        let values = values.join(",");
        terms.push(match text(requirement, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    terms.join(",")
}
