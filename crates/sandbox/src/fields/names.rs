//! The syntax of names, labels and annotations, with the API server's explanations.

use serde_json::Value;

use super::field_error::FieldError;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Checks `metadata.name` for most kinds.
pub(crate) fn subdomain_errors(name: &str) -> Vec<String> {
    let mut errors = too_long(name, 253);
    let is_label = |label: &str| is_dns_label(label);
    if name.is_empty() || !name.split('.').all(is_label) {
        errors.push(SUBDOMAIN.to_owned());
    }
    errors
}

/// Checks names that may have capitals and underscores, such as the names of LeaseCandidates.
pub(crate) fn config_key_errors(name: &str) -> Vec<String> {
    let mut errors = too_long(name, 253);
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !name.bytes().all(is_allowed) {
        errors.push(CONFIG_KEY.to_owned());
    }
    errors
}

/// Checks names that become parts of host names, such as namespaces and containers.
pub(crate) fn label_errors(name: &str) -> Vec<String> {
    let mut errors = too_long(name, 63);
    if !is_dns_label(name) {
        errors.push(LABEL.to_owned());
    }
    errors
}

/// Checks keys of labels, annotations and taints: `[prefix/]name`.
pub(crate) fn qualified_name_errors(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match key.split_once('/') {
        Some((prefix, name)) => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(subdomain_errors(prefix).into_iter().map(|why| format!("prefix part {why}")));
            }
            name
        }
        None => key,
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_word(name) {
        errors.push(NAME_PART.to_owned());
    }
    errors
}

/// Checks the value of a label.
pub(crate) fn label_value_errors(value: &str) -> Vec<String> {
    let mut errors = too_long(value, 63);
    if !value.is_empty() && !is_word(value) {
        errors.push(LABEL_VALUE.to_owned());
    }
    errors
}

/// Checks a map of labels at `field`.
pub(crate) fn check_labels(labels: Option<&Value>, field: &str, errors: &mut Vec<FieldError>) {
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        let from_key = qualified_name_errors(key);
        errors.extend(from_key.iter().map(|why| FieldError::invalid(field, &key.as_str().into(), why)));
        let from_value = label_value_errors(value.as_str().unwrap_or_default());
        errors.extend(from_value.iter().map(|why| FieldError::invalid(field, value, why)));
    }
}

fn too_long(text: &str, limit: usize) -> Vec<String> {
    if text.len() > limit { vec![format!("must be no more than {limit} bytes")] } else { Vec::new() }
}

fn is_dns_label(label: &str) -> bool {
    let ends_well = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    ends_well(label.chars().next())
        && ends_well(label.chars().last())
        && label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

fn is_word(text: &str) -> bool {
    let ends_well = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    ends_well(text.chars().next())
        && ends_well(text.chars().last())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}
