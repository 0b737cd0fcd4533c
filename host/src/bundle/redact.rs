//! Names and free texts of a bundle as digests.
//!
//! Only the texts of the fields below are words. All other texts count as names, so a new field is hidden until a
//! developer lists it.

use anyhow::{Context as _, Result};
use berth_what_if::Redaction;
use serde_json::Value;

/// Fields with words of Kubernetes or of Berth, as `FIELD`, or as `PARENT.FIELD` if other parents hold names. The parent
/// of a document's own fields is empty.
const WORDS: &[&str] = &[
    ".reason",
    "apiVersion",
    "asOf",
    "code",
    "columns",
    "componentconfig.kind",
    "defaultingType",
    "digest",
    "disabled.name",
    "effects",
    "enabled.name",
    "events",
    "exports",
    "failurePolicy",
    "gatedBy",
    "leaseDuration",
    "phase",
    "plugin",
    "pluginConfig.name",
    "plugins",
    "plugins.name",
    "point",
    "points.name",
    "previousDigest",
    "queue",
    "refusedDigest",
    "rejectedBy",
    "renewDeadline",
    "resourceLock",
    "result",
    "retryPeriod",
    "schedulerName",
    "schedulerNames",
    "source",
    "state",
    "until",
    "version",
];

/// The labels of metrics whose values are words.
const METRIC_LABELS: &[&str] = &[
    "attempts",
    "binary",
    "call_type",
    "code",
    "component",
    "effect",
    "emulation",
    "event",
    "extension_point",
    "hint",
    "hinted",
    "kind",
    "le",
    "method",
    "min_compat",
    "name",
    "operation",
    "plugin",
    "point",
    "profile",
    "queue",
    "reason",
    "resource",
    "result",
    "stability_level",
    "stage",
    "status",
    "type",
    "username",
    "verb",
    "version",
    "work",
];

/// Replaces names by digests. A name always has the same digest.
pub(super) struct Redactor(Redaction);

impl Redactor {
    /// Draws the salt of the digests, which is never shown.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub(super) fn new() -> Result<Self> {
        let mut salt = [0; 32];
        getrandom::fill(&mut salt).context("cannot generate the salt of the digests")?;
        Ok(Self(Redaction::new(&salt)))
    }

    pub(super) fn name(&self, name: &str) -> String {
        self.0.name(name)
    }

    /// Replaces the texts of a document.
    pub(super) fn document(&self, document: &mut Value) {
        // The list of plugins has no name, and the name of a plugin is a word.
        let field = if document.is_array() { "plugins" } else { "" };
        self.value(document, "", field);
    }

    /// `field` holds the value, and `parent` holds the object with that field.
    fn value(&self, value: &mut Value, parent: &str, field: &str) {
        match value {
            Value::Object(map) => {
                // The arguments of a plugin have their own keys and values, which may be names.
                if let Some(args) = map.get_mut("args") {
                    *args = Value::String(self.name(&args.to_string()));
                }
                for (key, value) in map.iter_mut() {
                    self.value(value, field, key);
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|item| self.value(item, parent, field)),
            Value::String(text) if !is_word(parent, field, text) => *text = self.name(text),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// The lines of `/readyz` about single checks. Other lines are free text.
    pub(super) fn health(text: &str) -> String {
        text.lines().filter(|line| line.starts_with('[')).map(|line| line.to_owned() + "\n").collect()
    }

    /// Replaces the values of labels in the text of `/metrics`. Numbers and the names of metrics stay.
    pub(super) fn metrics(&self, text: &str) -> String {
        text.lines().map(|line| self.sample(line) + "\n").collect()
    }

    fn sample(&self, line: &str) -> String {
        let (Some((name, rest)), false) = (line.split_once('{'), line.starts_with('#')) else { return line.to_owned() };
        let Some((labels, value)) = rest.rsplit_once('}') else { return name.to_owned() };
        let labels: Vec<String> = labels_of(labels)
            .map(|(label, value)| {
                let is_word = METRIC_LABELS.contains(&label) && !value.contains('/');
                let shown = if is_word { value.to_owned() } else { self.name(value) };
                format!("{label}=\"{shown}\"")
            })
            .collect();
        format!("{name}{{{}}}{value}", labels.join(","))
    }
}

/// Whether the text of a field is a word. Resources with a prefix have names that users chose.
fn is_word(parent: &str, field: &str, text: &str) -> bool {
    if field == "resource" {
        return !text.contains('/');
    }
    WORDS.iter().any(|word| match word.split_once('.') {
        Some(path) => path == (parent, field),
        None => *word == field,
    })
}

/// The labels of `a="b",c="d"`. A quote within a value is escaped.
fn labels_of(mut text: &str) -> impl Iterator<Item = (&str, &str)> {
    std::iter::from_fn(move || {
        let (label, rest) = text.split_once("=\"")?;
        let mut is_escaped = false;
        let end = rest.find(|character| {
            let ends = character == '"' && !is_escaped;
            is_escaped = character == '\\' && !is_escaped;
            ends
        })?;
        text = rest[end + 1..].trim_start_matches(',');
        Some((label, &rest[..end]))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn redactor() -> Redactor {
        Redactor(Redaction::new(b"salt"))
    }

    #[test]
    fn a_field_that_is_not_listed_is_a_name() {
        let redactor = redactor();
        let mut document = json!({
            "pod": { "namespace": "payroll", "name": "secret-project-1" },
            "decision": { "result": "placed", "node": "rack-7", "best": [{ "plugin": "NodeName", "raw": 7 }] },
            "message": "0/5 nodes are available: 5 node(s) had untolerated taint(s).",
            "pluginConfig": [{ "name": "Mine", "args": { "payroll": ["rack-7"] } }],
        });
        redactor.document(&mut document);
        let text = document.to_string();
        for hidden in ["payroll", "secret-project", "rack-7", "taint"] {
            assert!(!text.contains(hidden), "{text}");
        }
        for kept in ["\"placed\"", "\"NodeName\"", "\"Mine\"", "7"] {
            assert!(text.contains(kept), "{text}");
        }
        assert_eq!(document["decision"]["node"], redactor.name("rack-7"), "the same name has the same digest");
    }

    #[test]
    fn the_plugins_of_a_list_keep_their_names() {
        let mut document = json!([{ "name": "Mine", "state": "serving", "reason": "no rack-7" }]);
        redactor().document(&mut document);
        assert_eq!((&document[0]["name"], &document[0]["state"]), (&json!("Mine"), &json!("serving")));
        assert!(!document.to_string().contains("rack-7"));
    }

    #[test]
    fn labels_of_metrics_are_names_unless_they_are_listed() {
        let redactor = redactor();
        let text = "# HELP x A {word}\nx_total{namespace=\"pay\\\"roll\",plugin=\"Mine\"} 7\ny 1\n";
        let expected = format!(
            "# HELP x A {{word}}\nx_total{{namespace=\"{}\",plugin=\"Mine\"}} 7\ny 1\n",
            redactor.name("pay\\\"roll")
        );
        assert_eq!(redactor.metrics(text), expected);
    }
}
