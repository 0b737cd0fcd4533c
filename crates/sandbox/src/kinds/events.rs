//! The conversion of events between core/v1 and `events.k8s.io/v1`. Events are stored once and served by both APIs.

use serde_json::{Map, Value};

/// Pairs of names (core, events.k8s.io) for members that only have another name.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Converts `events.k8s.io/v1` to core/v1, which is the stored form.
pub(crate) fn to_core(event: Value) -> Value {
    rename(event, |key| RENAMED.iter().find(|(_, new)| *new == key).map(|(core, _)| *core))
}

/// Converts the stored form to `events.k8s.io/v1`.
pub(crate) fn to_events_v1(event: &Value) -> Value {
    rename(event.clone(), |key| RENAMED.iter().find(|(core, _)| *core == key).map(|(_, new)| *new))
}

fn rename(event: Value, name_of: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(members) = event else { return event };
    let renamed = members.into_iter().map(|(key, member)| (name_of(&key).map_or(key, str::to_owned), member));
    Value::Object(renamed.collect::<Map<_, _>>())
}
