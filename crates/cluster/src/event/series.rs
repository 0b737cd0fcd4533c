//! Which events are sent, and which only counted.
//!
//! The first event of its kind is posted. The second makes it a series, which is patched onto the first. Further ones
//! are counted here and sent with the refresh every half hour or when the series ends: six minutes after its last
//! event, or when too many others were recorded since. The note is part of the key only if the event says
//! so: elsewhere users read that of the first occurrence.
//!
//! Pure: times come in, [`Request`]s go out.

use std::num::NonZeroUsize;

use lru::LruCache;
use serde_json::{Value, json};

use crate::clock::{self, Span, Time};

use super::{EventType, NewEvent, ObjectReference};

/// A series that has not been added to for this long is over.
const SERIES_END: Span = Span::from_mins(6);

/// Events remembered, some 800 bytes each. A busy scheduler records a hundred thousand in six minutes, of which few repeat.
const MAX_SEEN: NonZeroUsize = NonZeroUsize::new(8192).expect("not zero");

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

/// The latest events, the newest last.
#[derive(Debug)]
pub(super) struct SeriesTable {
    hostname: String,
    seen: LruCache<Key, SeenEvent>,
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
    /// Empty where it does not count.
    note: String,
}

#[derive(Debug)]
struct SeenEvent {
    /// Of the first occurrence.
    note: String,
    first_seen: Time,
    last_seen: Time,
    /// One, until it becomes a series.
    count: u32,
}

impl SeriesTable {
    pub(super) fn new(hostname: String) -> Self {
        Self::with_capacity(hostname, MAX_SEEN)
    }

    fn with_capacity(hostname: String, max_seen: NonZeroUsize) -> Self {
        Self { hostname, seen: LruCache::new(max_seen) }
    }

    /// Takes an event in; returns what to send because of it.
    pub(super) fn observe(&mut self, event: NewEvent, now: Time) -> Vec<Request> {
        let NewEvent { type_, reason, action, note, note_counts, regarding, related, reporting_controller } = event;
        let note = shorten(note);
        let key_note = if note_counts { note.clone() } else { String::new() };
        let key = Key { type_, action, reason, reporting_controller, regarding, related, note: key_note };
        if let Some(seen) = self.seen.get_mut(&key) {
            seen.count += 1;
            seen.last_seen = now;
            let second = if seen.count == 2 { self.seen.peek(&key) } else { None };
            return second.map(|seen| self.request(&key, seen)).into_iter().collect();
        }
        let seen = SeenEvent { note, first_seen: now, last_seen: now, count: 1 };
        let post = self.request(&key, &seen);
        let forgotten = self.seen.push(key, seen).filter(|(_, seen)| seen.count > 1);
        forgotten.map(|(key, seen)| self.request(&key, &seen)).into_iter().chain([post]).collect()
    }

    /// Ends the series that nothing was added to lately; returns their final counts.
    pub(super) fn end_old(&mut self, now: Time) -> Vec<Request> {
        let mut ended = Vec::new();
        while self.seen.peek_lru().is_some_and(|(_, seen)| now.duration_since(seen.last_seen) > SERIES_END) {
            ended.extend(self.seen.pop_lru().filter(|(_, seen)| seen.count > 1));
        }
        ended.iter().map(|(key, seen)| self.request(key, seen)).collect()
    }

    /// The present count of each series.
    pub(super) fn refresh(&self) -> Vec<Request> {
        let series = self.seen.iter().filter(|(_, seen)| seen.count > 1);
        series.map(|(key, seen)| self.request(key, seen)).collect()
    }

    /// The post of a single event, the patch of a series.
    fn request(&self, key: &Key, seen: &SeenEvent) -> Request {
        let regarding = &key.regarding;
        let namespace = if regarding.namespace.is_empty() { "default" } else { &regarding.namespace };
        let name = format!("{}.{:x}", cut(&regarding.name, MAX_NAME), seen.first_seen.as_nanosecond());
        let mut event = json!({
            "kind": "Event",
            "apiVersion": "events.k8s.io/v1",
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": clock::micros(seen.first_seen),
            "reportingController": key.reporting_controller,
            "reportingInstance": format!("{}-{}", key.reporting_controller, self.hostname),
            "action": key.action,
            "reason": key.reason,
            "regarding": reference(regarding),
            "note": seen.note,
            "type": match key.type_ {
                EventType::Normal => "Normal",
                EventType::Warning => "Warning",
            },
            "deprecatedSource": {},
            "deprecatedFirstTimestamp": null,
            "deprecatedLastTimestamp": null,
        });
        if let Some(related) = &key.related {
            event["related"] = reference(related);
        }
        let mut action = Action::Post;
        if seen.count > 1 {
            event["series"] = json!({"count": seen.count, "lastObservedTime": clock::micros(seen.last_seen)});
            action = Action::PatchSeries;
        }
        Request { namespace: namespace.to_owned(), name, action, event }
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

/// The note as the API takes it.
fn shorten(note: String) -> String {
    if note.len() <= MAX_NOTE {
        return note;
    }
    format!("{}{CUT_OFF}", cut(&note, MAX_NOTE - CUT_OFF.len()))
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
            note_counts: false,
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

    fn only(requests: Vec<Request>) -> Request {
        <[Request; 1]>::try_from(requests).unwrap().into_iter().next().unwrap()
    }

    fn series(request: &Request) -> (u64, &str) {
        let series = &request.event["series"];
        (series["count"].as_u64().unwrap(), series["lastObservedTime"].as_str().unwrap())
    }

    #[test]
    fn messages_count_where_the_event_says_so() {
        let told = |note: &str| NewEvent { note_counts: true, ..failed("105", note) };
        let mut table = SeriesTable::new("vm".into());
        for note in ["one", "two"] {
            let posted = only(table.observe(told(note), time("03:12:04.6")));
            assert_eq!((posted.action, &posted.event["note"]), (Action::Post, &json!(note)));
        }
        assert_eq!(only(table.observe(told("one"), time("03:12:05"))).action, Action::PatchSeries);
    }

    #[test]
    fn a_first_event_has_kube_schedulers_shape() {
        let mut table = SeriesTable::new("vm".into());
        let posted = only(table.observe(failed("105", "0/2 nodes are available."), time("03:12:04.633376")));
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
        let first = only(table.observe(failed("105", "one"), time("03:00:00")));
        let second = only(table.observe(failed("105", "another note"), time("03:00:10")));
        assert_eq!((second.action, &second.name), (Action::PatchSeries, &first.name));
        assert_eq!(series(&second), (2, "2026-11-21T03:00:10.000000Z"));
        assert_eq!(second.event["note"], "one");
        assert_eq!(table.observe(failed("105", "one"), time("03:00:20")), []);
        assert_eq!(series(&table.refresh()[0]), (3, "2026-11-21T03:00:20.000000Z"));
    }

    #[test]
    fn a_changed_object_starts_anew() {
        let mut table = SeriesTable::new("vm".into());
        table.observe(failed("105", "m"), time("03:00:00"));
        let next = only(table.observe(failed("107", "m"), time("03:00:01")));
        assert_eq!(next.action, Action::Post);
    }

    #[test]
    fn a_series_ends_after_six_quiet_minutes_with_its_final_count() {
        let mut table = SeriesTable::new("vm".into());
        table.observe(failed("1", "single"), time("03:00:00"));
        for second in ["00", "10", "20"] {
            table.observe(failed("2", "repeated"), time(&format!("03:00:{second}")));
        }
        assert_eq!(table.end_old(time("03:06:00")), []);
        let ended = table.end_old(time("03:06:21"));
        assert_eq!(ended.iter().map(series).collect::<Vec<_>>(), [(3, "2026-11-21T03:00:20.000000Z")]);
        let again = only(table.observe(failed("2", "repeated"), time("03:06:22")));
        assert_eq!(again.action, Action::Post);
    }

    #[test]
    fn the_longest_unheard_of_is_forgotten_when_there_are_too_many() {
        let mut table = SeriesTable::with_capacity("vm".into(), NonZeroUsize::new(2).unwrap());
        table.observe(failed("1", "repeated"), time("03:00:00"));
        table.observe(failed("2", "repeated too"), time("03:00:01"));
        for second in ["02", "03"] {
            table.observe(failed("1", "repeated"), time(&format!("03:00:{second}")));
        }
        table.observe(failed("2", "repeated too"), time("03:00:04"));
        let requests = table.observe(failed("3", "one too many"), time("03:00:05"));
        let [last, posted] = <[Request; 2]>::try_from(requests).unwrap();
        assert_eq!((last.action, series(&last)), (Action::PatchSeries, (3, "2026-11-21T03:00:03.000000Z")));
        assert_eq!((posted.action, &posted.event["note"]), (Action::Post, &json!("one too many")));
        assert_eq!(only(table.observe(failed("1", "repeated"), time("03:00:06")).split_off(1)).action, Action::Post);
    }

    #[test]
    fn long_notes_are_cut_between_characters() {
        assert_eq!(shorten("x".repeat(1024)).len(), 1024);
        let long = shorten("x".repeat(1025));
        assert_eq!((long.len(), &long[1018..]), (1024, "xx ..."));
        assert_eq!(shorten("é".repeat(600)), format!("{} ...", "é".repeat(510)));
        assert!(shorten(format!("x{}", "é".repeat(600))).len() < 1024);
    }

    #[test]
    fn a_related_object_is_named_and_makes_another_series() {
        let mut table = SeriesTable::new("vm".into());
        let mut event = failed("104", "Preempted by pod 2 on node n1");
        table.observe(event.clone(), time("03:00:00"));
        event.related = Some(ObjectReference { uid: "2".into(), name: "mid-1".into(), ..event.regarding.clone() });
        let posted = only(table.observe(event.clone(), time("03:00:01")));
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
        let posted = only(SeriesTable::new("vm".into()).observe(event, time("03:00:00")));
        assert_eq!(posted.namespace, "default");
        assert!(posted.event["regarding"].get("namespace").is_none());
    }
}
