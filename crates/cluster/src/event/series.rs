//! Which events are sent, and which only counted.
//!
//! The first event of its kind is posted. The second makes it a series, which is patched onto the first. Further ones
//! are counted here and sent with the refresh every half hour or when the series ends, six minutes after its last
//! event. The note is not part of the key: users read that of the first occurrence.
//!
//! Pure: times come in, [`Request`]s go out.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::clock::{self, Span, Time};

use super::{EventType, NewEvent, ObjectReference};

/// A series that has not been added to for this long is over.
const SERIES_END: Span = Span::from_mins(6);

/// The API server's bound on a note, in bytes.
const MAX_NOTE: usize = 1024;
const CUT_OFF: &str = " ...";

/// Names may have 253 bytes, of which a point and the time take 17.
const MAX_NAME: usize = 236;

/// A request to the API server about one event.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) action: Action,
    /// The whole event, for posting.
    pub(super) event: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Post,
    /// Patch the event's series onto the one posted before.
    PatchSeries,
}

/// The events told lately.
#[derive(Debug)]
pub(super) struct SeriesTable {
    hostname: String,
    told: HashMap<Key, Told>,
}

/// What makes two events the same but for their time.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    type_: EventType,
    action: String,
    reason: String,
    reporting_controller: String,
    regarding: ObjectReference,
    related: Option<ObjectReference>,
}

#[derive(Debug)]
struct Told {
    request: Request,
    last_seen: Time,
    /// One, until it becomes a series.
    count: u32,
}

impl SeriesTable {
    pub(super) fn new(hostname: String) -> Self {
        Self { hostname, told: HashMap::new() }
    }

    /// Takes an event in; returns what to send because of it.
    pub(super) fn observe(&mut self, event: &NewEvent, now: Time) -> Option<Request> {
        let key = Key {
            type_: event.type_,
            action: event.action.clone(),
            reason: event.reason.clone(),
            reporting_controller: event.reporting_controller.clone(),
            regarding: event.regarding.clone(),
            related: event.related.clone(),
        };
        if let Some(told) = self.told.get_mut(&key) {
            told.count += 1;
            told.last_seen = now;
            return (told.count == 2).then(|| told.series());
        }
        let request = self.first(event, now);
        self.told.insert(key, Told { request: request.clone(), last_seen: now, count: 1 });
        Some(request)
    }

    /// Ends the series that nothing was added to lately; returns their final counts.
    pub(super) fn end_old(&mut self, now: Time) -> Vec<Request> {
        let ended = self.told.extract_if(|_, told| now.duration_since(told.last_seen) > SERIES_END);
        ended.filter(|(_, told)| told.count > 1).map(|(_, told)| told.series()).collect()
    }

    /// The present count of each series.
    pub(super) fn refresh(&self) -> Vec<Request> {
        self.told.values().filter(|told| told.count > 1).map(Told::series).collect()
    }

    fn first(&self, event: &NewEvent, now: Time) -> Request {
        let regarding = &event.regarding;
        let namespace = if regarding.namespace.is_empty() { "default" } else { &regarding.namespace };
        let name = format!("{}.{:x}", cut(&regarding.name, MAX_NAME), now.as_nanosecond());
        let mut body = json!({
            "kind": "Event",
            "apiVersion": "events.k8s.io/v1",
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": clock::micros(now),
            "reportingController": event.reporting_controller,
            "reportingInstance": format!("{}-{}", event.reporting_controller, self.hostname),
            "action": event.action,
            "reason": event.reason,
            "regarding": reference(regarding),
            "note": note(&event.note),
            "type": match event.type_ {
                EventType::Normal => "Normal",
                EventType::Warning => "Warning",
            },
            "deprecatedSource": {},
            "deprecatedFirstTimestamp": null,
            "deprecatedLastTimestamp": null,
        });
        if let Some(related) = &event.related {
            body["related"] = reference(related);
        }
        Request { namespace: namespace.to_owned(), name, action: Action::Post, event: body }
    }
}

impl Told {
    fn series(&self) -> Request {
        let mut request = self.request.clone();
        request.event["series"] = json!({"count": self.count, "lastObservedTime": clock::micros(self.last_seen)});
        request.action = Action::PatchSeries;
        request
    }
}

/// The API leaves empty fields out.
fn reference(object: &ObjectReference) -> Value {
    let fields = [
        ("kind", &object.kind),
        ("namespace", &object.namespace),
        ("name", &object.name),
        ("uid", &object.uid),
        ("apiVersion", &object.api_version),
        ("resourceVersion", &object.resource_version),
    ];
    fields.into_iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| (key, value.as_str())).collect()
}

fn note(text: &str) -> String {
    if text.len() <= MAX_NOTE {
        return text.to_owned();
    }
    format!("{}{CUT_OFF}", cut(text, MAX_NOTE - CUT_OFF.len()))
}

/// The first `max` bytes, or a few less where they would split a character.
fn cut(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Time {
        format!("2026-11-21T{text}Z").parse().unwrap()
    }

    fn failed(resource_version: &str, note: &str) -> NewEvent {
        NewEvent {
            type_: EventType::Warning,
            reason: "FailedScheduling".into(),
            action: "Scheduling".into(),
            note: note.into(),
            regarding: ObjectReference {
                kind: "Pod".into(),
                api_version: "v1".into(),
                namespace: "default".into(),
                name: "big-1".into(),
                uid: "16a7a695-1634-4a26-8cf3-9851fbb468f0".into(),
                resource_version: resource_version.into(),
            },
            related: None,
            reporting_controller: "default-scheduler".into(),
        }
    }

    fn series(request: &Request) -> (u64, &str) {
        let series = &request.event["series"];
        (series["count"].as_u64().unwrap(), series["lastObservedTime"].as_str().unwrap())
    }

    #[test]
    fn a_first_event_has_kube_schedulers_shape() {
        let mut table = SeriesTable::new("vm".into());
        let posted = table.observe(&failed("105", "0/2 nodes are available."), time("03:12:04.633376"));
        let posted = posted.unwrap();
        let expected = json!({
            "kind": "Event", "apiVersion": "events.k8s.io/v1",
            "metadata": {"name": format!("big-1.{:x}", 1_795_230_724_633_376_000_u64), "namespace": "default"},
            "eventTime": "2026-11-21T03:12:04.633376Z",
            "reportingController": "default-scheduler", "reportingInstance": "default-scheduler-vm",
            "action": "Scheduling", "reason": "FailedScheduling",
            "regarding": {
                "kind": "Pod", "namespace": "default", "name": "big-1",
                "uid": "16a7a695-1634-4a26-8cf3-9851fbb468f0", "apiVersion": "v1", "resourceVersion": "105",
            },
            "note": "0/2 nodes are available.", "type": "Warning",
            "deprecatedSource": {}, "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null,
        });
        assert_eq!((posted.action, posted.event), (Action::Post, expected));
    }

    #[test]
    fn the_second_of_a_series_is_patched_and_later_ones_only_counted() {
        let mut table = SeriesTable::new("vm".into());
        let first = table.observe(&failed("105", "one"), time("03:00:00")).unwrap();
        let second = table.observe(&failed("105", "another note"), time("03:00:10")).unwrap();
        assert_eq!((second.action, &second.name), (Action::PatchSeries, &first.name));
        assert_eq!(series(&second), (2, "2026-11-21T03:00:10.000000Z"));
        assert_eq!(second.event["note"], "one");
        assert_eq!(table.observe(&failed("105", "one"), time("03:00:20")), None);
        assert_eq!(series(&table.refresh()[0]), (3, "2026-11-21T03:00:20.000000Z"));
    }

    #[test]
    fn a_changed_object_starts_anew() {
        let mut table = SeriesTable::new("vm".into());
        table.observe(&failed("105", "m"), time("03:00:00"));
        let next = table.observe(&failed("107", "m"), time("03:00:01")).unwrap();
        assert_eq!(next.action, Action::Post);
    }

    #[test]
    fn a_series_ends_after_six_quiet_minutes_with_its_final_count() {
        let mut table = SeriesTable::new("vm".into());
        table.observe(&failed("1", "single"), time("03:00:00"));
        for second in ["00", "10", "20"] {
            table.observe(&failed("2", "repeated"), time(&format!("03:00:{second}")));
        }
        assert_eq!(table.end_old(time("03:06:00")), []);
        let ended = table.end_old(time("03:06:21"));
        assert_eq!(ended.iter().map(series).collect::<Vec<_>>(), [(3, "2026-11-21T03:00:20.000000Z")]);
        let again = table.observe(&failed("2", "repeated"), time("03:06:22")).unwrap();
        assert_eq!(again.action, Action::Post);
    }

    #[test]
    fn long_notes_are_cut_between_characters() {
        assert_eq!(note(&"x".repeat(1024)).len(), 1024);
        let long = note(&"x".repeat(1025));
        assert_eq!((long.len(), &long[1018..]), (1024, "xx ..."));
        assert_eq!(note(&"é".repeat(600)), format!("{} ...", "é".repeat(510)));
        assert!(note(&format!("x{}", "é".repeat(600))).len() < 1024);
    }

    #[test]
    fn a_related_object_is_named_and_makes_another_series() {
        let mut table = SeriesTable::new("vm".into());
        let mut event = failed("104", "Preempted by pod 2 on node n1");
        table.observe(&event, time("03:00:00"));
        event.related = Some(ObjectReference { uid: "2".into(), name: "mid-1".into(), ..event.regarding.clone() });
        let posted = table.observe(&event, time("03:00:01")).unwrap();
        let expected = json!({
            "kind": "Pod", "namespace": "default", "name": "mid-1", "uid": "2", "apiVersion": "v1",
            "resourceVersion": "104",
        });
        assert_eq!((posted.action, &posted.event["related"]), (Action::Post, &expected));
    }

    #[test]
    fn an_event_about_a_node_goes_to_the_default_namespace() {
        let mut event = failed("1", "m");
        event.regarding.namespace.clear();
        let posted = SeriesTable::new("vm".into()).observe(&event, time("03:00:00")).unwrap();
        assert_eq!(posted.namespace, "default");
        assert!(posted.event["regarding"].get("namespace").is_none());
    }
}
