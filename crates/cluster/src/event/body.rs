//! An event of `events.k8s.io/v1` as JSON, in the order of kube-scheduler's fields.

use serde::Serialize;

use super::{EventType, ObjectReference};

/// The whole event.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Body<'a> {
    pub(super) kind: &'static str,
    pub(super) api_version: &'static str,
    pub(super) metadata: Metadata<'a>,
    pub(super) event_time: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) series: Option<&'a Series>,
    pub(super) reporting_controller: &'a str,
    pub(super) reporting_instance: &'a str,
    pub(super) action: &'a str,
    pub(super) reason: &'a str,
    pub(super) regarding: Reference<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) related: Option<Reference<'a>>,
    pub(super) note: &'a str,
    #[serde(rename = "type")]
    pub(super) type_: &'static str,
    pub(super) deprecated_source: Nothing,
    pub(super) deprecated_first_timestamp: Option<Nothing>,
    pub(super) deprecated_last_timestamp: Option<Nothing>,
}

/// An empty object, which kube-scheduler also sends.
#[derive(Default, Serialize)]
pub(super) struct Nothing {}

#[derive(Serialize)]
pub(super) struct Metadata<'a> {
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
}

/// The number of times that an event was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Series {
    pub(super) count: u32,
    pub(super) last_observed_time: String,
}

/// A reference to an object. The API omits empty fields.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reference<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    api_version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    resource_version: &'a str,
}

impl<'a> From<&'a ObjectReference> for Reference<'a> {
    fn from(object: &'a ObjectReference) -> Self {
        let ObjectReference { kind, api_version, namespace, name, uid, resource_version } = object;
        Self { kind, namespace, name, uid, api_version, resource_version }
    }
}

impl Body<'_> {
    #[expect(clippy::expect_used, reason = "strings and a number, which JSON can always hold")]
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings are JSON")
    }
}

impl EventType {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}
