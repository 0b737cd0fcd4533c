//! Unknown fields and custom resource schemas.
//!
//! A built-in body is decoded as its type and encoded again; fields that the copy lacks are unknown. A custom resource
//! is pruned, defaulted and checked with the structural schema of its definition (types, required fields, enums,
//! bounds, list keys). CEL rules are not evaluated.

use serde_json::{Map, Value};

use crate::fields::FieldError;
use crate::fields::json::{as_map, items, text};

/// The structural schema of one version of a custom resource.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    /// `openAPIV3Schema`; null if the definition keeps all fields.
    pub(crate) root: Value,
    /// Fields for field selectors, such as `spec.size`.
    pub(crate) selectable_fields: Vec<String>,
    /// Columns in addition to name and age.
    pub(crate) printer_columns: Vec<Value>,
}

impl Schema {
    /// Removes fields that the schema doesn't know and collects their paths.
    pub(crate) fn prune(&self, body: &mut Value, unknown: &mut Vec<String>) {
        let Some(members) = body.as_object_mut() else { return };
        let keeps_all = keeps_unknown(&self.root);
        members.retain(|key, member| {
            if matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
                return true;
            }
            retain(member, self.root.pointer("/properties").and_then(|all| all.get(key)), keeps_all, key, unknown)
        });
    }

    /// Fills in the defaults of the schema.
    pub(crate) fn fill_defaults(&self, body: &mut Value) {
        fill_defaults(body, &self.root);
    }

    /// All parts of the body that violate the schema.
    pub(crate) fn check(&self, body: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        check(body, &self.root, "", &mut errors);
        errors
    }
}

/// Removes the fields from `body` that are missing in `known`, its re-encoded copy, and collects their paths.
pub(crate) fn prune_unknown(body: &mut Value, known: &Value, path: &str, unknown: &mut Vec<String>) {
    match (body, known) {
        (Value::Object(members), Value::Object(known)) => members.retain(|key, member| {
            let path = join(path, key);
            match known.get(key) {
                Some(known) => {
                    prune_unknown(member, known, &path, unknown);
                    true
                }
                None => {
                    if !member.is_null() {
                        unknown.push(path);
                    }
                    false
                }
            }
        }),
        (Value::Array(elements), Value::Array(known)) => {
            for (position, (element, known)) in elements.iter_mut().zip(known).enumerate() {
                prune_unknown(element, known, &format!("{path}[{position}]"), unknown);
            }
        }
        _ => {}
    }
}

fn retain(member: &mut Value, schema: Option<&Value>, keeps_all: bool, path: &str, unknown: &mut Vec<String>) -> bool {
    let Some(schema) = schema else {
        if !keeps_all {
            unknown.push(path.to_owned());
        }
        return keeps_all;
    };
    prune(member, schema, path, unknown);
    true
}

fn prune(value: &mut Value, schema: &Value, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            let properties = schema.get("properties");
            let additional = schema.get("additionalProperties").filter(|schema| schema.is_object());
            let keeps_all = keeps_unknown(schema)
                || schema.get("additionalProperties") == Some(&Value::Bool(true))
                || (properties.is_none() && additional.is_none() && text(schema, "/type") != "object");
            members.retain(|key, member| {
                let schema = properties.and_then(|all| all.get(key)).or(additional);
                retain(member, schema, keeps_all, &join(path, key), unknown)
            });
        }
        Value::Array(elements) => {
            let Some(schema) = schema.get("items") else { return };
            for (position, element) in elements.iter_mut().enumerate() {
                prune(element, schema, &format!("{path}[{position}]"), unknown);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn fill_defaults(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(_) => {
            let members = as_map(value);
            for (key, schema) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
                if let Some(default) = schema.get("default")
                    && members.get(key).is_none_or(Value::is_null)
                {
                    members.insert(key.clone(), default.clone());
                }
                if let Some(member) = members.get_mut(key) {
                    fill_defaults(member, schema);
                }
            }
        }
        Value::Array(elements) => {
            let Some(schema) = schema.get("items") else { return };
            elements.iter_mut().for_each(|element| fill_defaults(element, schema));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn check(value: &Value, schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let wanted = text(schema, "/type");
    let int_or_string = schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true));
    if !wanted.is_empty() && !int_or_string && !has_type(value, wanted) {
        let found = type_name(value);
        let detail = format!("{path} in body must be of type {wanted}: \"{found}\"");
        errors.push(FieldError::wrong_type(path, &found.into(), &detail));
    }
    let allowed = items(schema, "/enum");
    if !allowed.is_empty() && !allowed.contains(value) {
        let allowed: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
        errors.push(FieldError::not_supported(path, value, &allowed));
    }
    check_bounds(value, schema, path, errors);
    match value {
        Value::Object(members) => check_members(members, schema, path, errors),
        Value::Array(elements) => check_elements(elements, schema, path, errors),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn check_bounds(value: &Value, schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(number) = value.as_f64() else { return };
    if let Some(minimum) = schema.get("minimum").filter(|minimum| minimum.as_f64().is_some_and(|bound| number < bound))
    {
        let detail = format!("{path} in body should be greater than or equal to {minimum}");
        errors.push(FieldError::invalid(path, value, &detail));
    }
    if let Some(maximum) = schema.get("maximum").filter(|maximum| maximum.as_f64().is_some_and(|bound| number > bound))
    {
        let detail = format!("{path} in body should be less than or equal to {maximum}");
        errors.push(FieldError::invalid(path, value, &detail));
    }
}

fn check_members(members: &Map<String, Value>, schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for required in items(schema, "/required").iter().filter_map(Value::as_str) {
        if !members.contains_key(required) {
            errors.push(FieldError::required(join(path, required), ""));
        }
    }
    let properties = schema.get("properties");
    let additional = schema.get("additionalProperties").filter(|schema| schema.is_object());
    for (key, member) in members {
        let is_meta = path.is_empty() && matches!(key.as_str(), "apiVersion" | "kind" | "metadata");
        if let Some(schema) = properties.and_then(|all| all.get(key)).or(additional).filter(|_| !is_meta) {
            check(member, schema, &join(path, key), errors);
        }
    }
}

fn check_elements(elements: &[Value], schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let keys: Vec<&str> = items(schema, "/x-kubernetes-list-map-keys").iter().filter_map(Value::as_str).collect();
    let mut seen: Vec<Value> = Vec::new();
    for (position, element) in elements.iter().enumerate() {
        let path = format!("{path}[{position}]");
        if !keys.is_empty() {
            let identity: Value = keys
                .iter()
                .map(|&key| (key.to_owned(), element.get(key).cloned().unwrap_or(Value::Null)))
                .collect::<Map<_, _>>()
                .into();
            if seen.contains(&identity) {
                errors.push(FieldError::duplicate(path.clone(), &identity.to_string()));
            }
            seen.push(identity);
        }
        if let Some(schema) = schema.get("items") {
            check(element, schema, &path, errors);
        }
    }
}

fn has_type(value: &Value, wanted: &str) -> bool {
    match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => true,
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn keeps_unknown(schema: &Value) -> bool {
    schema.is_null() || schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
