//! Decodes the pods and nodes of files of cases. An error names the place of the object and its name.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

/// An object does not have the form of its kind.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {}: {}{}", .reason.path(), .reason.inner(), quoting(.reason.inner()))]
pub struct WrongForm {
    /// Such as `pods[0] (web)`.
    place: String,
    reason: serde_path_to_error::Error<serde_json::Error>,
}

impl WrongForm {
    /// The key whose value has another form.
    pub(crate) fn key(&self) -> Option<&str> {
        match self.reason.path().iter().next_back()? {
            Segment::Map { key } => Some(key.as_str()),
            Segment::Seq { .. } | Segment::Enum { .. } | Segment::Unknown => None,
        }
    }
}

/// # Errors
/// The object does not have the form of `T`.
pub(crate) fn object<T: DeserializeOwned>(object: &Value, place: &str) -> Result<T, WrongForm> {
    serde_path_to_error::deserialize(object).map_err(|reason| {
        let name = object["metadata"]["name"].as_str().map(|name| format!(" ({name})")).unwrap_or_default();
        WrongForm { place: format!("{place}{name}"), reason }
    })
}

/// The advice about a label that YAML does not read as a text.
fn quoting(reason: &serde_json::Error) -> &'static str {
    let reason = reason.to_string();
    if reason.starts_with("invalid type: boolean `true`") {
        " (YAML reads true, yes, on and y as booleans: quote the string)"
    } else if reason.starts_with("invalid type: boolean `false`") {
        " (YAML reads false, no, off and n as booleans: quote the string)"
    } else {
        ""
    }
}
