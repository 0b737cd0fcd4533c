//! The words that a case expects of a plugin that explains its answers.

use serde::{Deserialize, Serialize};
use serde_json::json;

/// A plugin's words for people: the whole text, or `contains` with a part of the text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged, expecting = "expected a text, or `contains` with a part of the text")]
pub enum CaseWords {
    /// The whole text.
    Text(String),
    /// A part of the text.
    Part(PartOfWords),
}

/// A part of a plugin's words.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PartOfWords {
    /// The part.
    contains: String,
}

impl CaseWords {
    /// The expected words if the text is as expected, otherwise the text. An expected answer thus equals the
    /// expectation, and `--update` does not change the author's text.
    pub(crate) fn or_said(&self, text: String) -> Self {
        let is_expected = match self {
            Self::Text(expected) => *expected == text,
            Self::Part(PartOfWords { contains }) => text.contains(contains.as_str()),
        };
        if is_expected { self.clone() } else { Self::Text(text) }
    }

    /// The words in a message.
    fn shown(&self) -> String {
        match self {
            Self::Text(text) if text.is_empty() => "nothing".to_owned(),
            Self::Text(text) => json!(text).to_string(),
            Self::Part(PartOfWords { contains }) => format!("a text with {}", json!(contains)),
        }
    }
}

/// The difference between the plugin's words and the expected words. `what` names the subject of the words. A plugin
/// without words does not implement the point.
pub(crate) fn difference(what: &str, said: Option<&CaseWords>, expected: Option<&CaseWords>) -> Option<String> {
    if said == expected {
        return None;
    }
    let absent = "the plugin does not implement this point";
    let said = said.map_or_else(|| absent.to_owned(), CaseWords::shown);
    Some(format!("{what}: {said}, expected {}", expected.map_or_else(|| "no words".to_owned(), CaseWords::shown)))
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for CaseWords {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CaseWords".into()
    }

    fn json_schema(_generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [
                { "type": "string" },
                {
                    "additionalProperties": false,
                    "properties": { "contains": { "type": "string" } },
                    "required": ["contains"],
                    "type": "object",
                },
            ],
            "description": "A plugin's words for people: the whole text, or `contains` with a part of the text.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> serde_json::Result<CaseWords> {
        serde_json::from_str(text)
    }

    #[test]
    fn words_are_expected_in_full_or_in_part() {
        let full = words(r#""4 GPUs left""#).expect("a text");
        let part = words(r#"{"contains": "GPUs"}"#).expect("a part");
        for expected in [&full, &part] {
            assert_eq!(expected.or_said("4 GPUs left".to_owned()), *expected);
            let other = expected.or_said("no room".to_owned());
            assert_eq!(other, CaseWords::Text("no room".to_owned()));
            assert!(difference("Explain", Some(&other), Some(expected)).is_some());
        }
        assert_eq!(
            difference("Explain", None, Some(&part)).as_deref(),
            Some("Explain: the plugin does not implement this point, expected a text with \"GPUs\"")
        );
        let refused = words(r#"{"contain": "GPUs"}"#).expect_err("a misspelt key");
        assert_eq!(refused.to_string(), "expected a text, or `contains` with a part of the text");
    }
}
