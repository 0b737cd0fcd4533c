//! Kubernetes' rules for the names of labels and resources and for the values of labels, with its error messages.
//!
//! The source of rules and messages is the API conventions on labels (an optional DNS subdomain, `/`, a short name).

const NAME_REGEX: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const VALUE_REGEX: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const SUBDOMAIN_REGEX: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
/// The longest name, in bytes.
const MAX_NAME_LENGTH: usize = 63;
/// The longest subdomain, in bytes.
const MAX_SUBDOMAIN_LENGTH: usize = 253;

/// The errors in a qualified name such as `example.com/gpu`; empty if the name is valid.
#[must_use]
pub fn problems(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut parts = name.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(prefix), Some(name), None) => {
            problems.extend(prefix_problems(prefix));
            name
        }
        _ => {
            let rule = alphanumeric_rule("a valid label key", NAME_REGEX, &["MyName", "my.name", "123-abc"]);
            return vec![format!("{rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')")];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > MAX_NAME_LENGTH {
        problems.push(format!("name part {}", too_long(MAX_NAME_LENGTH)));
    }
    if !is_short_name(name) {
        problems.push(alphanumeric_rule("name part", NAME_REGEX, &["MyName", "my.name", "123-abc"]));
    }
    problems
}

/// The errors in a label's value; empty if the value is valid. The empty value is valid.
#[must_use]
pub fn value_problems(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > MAX_NAME_LENGTH {
        problems.push(too_long(MAX_NAME_LENGTH));
    }
    if !value.is_empty() && !is_short_name(value) {
        let subject = "a valid label must be an empty string or consist of";
        problems.push(rule(subject, VALUE_REGEX, &["MyValue", "my_value", "12345"]));
    }
    problems
}

fn prefix_problems(prefix: &str) -> Vec<String> {
    if prefix.is_empty() {
        return vec!["prefix part must be non-empty".to_owned()];
    }
    let mut problems = Vec::new();
    if prefix.len() > MAX_SUBDOMAIN_LENGTH {
        problems.push(format!("prefix part {}", too_long(MAX_SUBDOMAIN_LENGTH)));
    }
    if !prefix.split('.').all(is_dns_label) {
        problems.push(format!(
            "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
             '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
             validation is '{SUBDOMAIN_REGEX}')"
        ));
    }
    problems
}

fn is_short_name(name: &str) -> bool {
    let ends_well = |end: Option<u8>| end.is_some_and(|byte| byte.is_ascii_alphanumeric());
    ends_well(name.bytes().next())
        && ends_well(name.bytes().last())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn is_dns_label(label: &str) -> bool {
    let is_lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    label.bytes().next().is_some_and(is_lower)
        && label.bytes().last().is_some_and(is_lower)
        && label.bytes().all(|byte| is_lower(byte) || byte == b'-')
}

fn alphanumeric_rule(subject: &str, regex: &str, examples: &[&str]) -> String {
    rule(&format!("{subject} must consist of"), regex, examples)
}

fn rule(subject: &str, regex: &str, examples: &[&str]) -> String {
    // The double space is in Kubernetes' message, too.
    let examples = examples.iter().map(|example| format!("'{example}'")).collect::<Vec<_>>().join(",  or ");
    format!(
        "{subject} alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
         (e.g. {examples}, regex used for validation is '{regex}')"
    )
}

fn too_long(max_length: usize) -> String {
    format!("must be no more than {max_length} bytes")
}
