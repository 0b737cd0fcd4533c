//! Decides which events are sent, and which are only counted.
//!
//! The first event of its kind is posted. The second event makes a series, which is patched onto the first event. This
//! module counts further events. The count of these events is sent every half hour, and when the series ends: six
//! minutes after its last event, or when too many other events were recorded since. The note is part of the key only if
//! the event says so; otherwise users read the note of the first occurrence.
//!
//! The module is pure: times come in, [`Request`]s go out.

use std::{borrow::Cow, num::NonZeroUsize, sync::Arc};

use lru::LruCache;

use crate::{
    clock::{self, Span, Time},
    fair_queue::Flow,
};

use super::{
    EventType, NewEvent, ObjectReference,
    body::{Body, Metadata, Nothing, Reference, Series},
};

/// A series that got no event for this long is over.
const SERIES_END: Span = Span::from_mins(6);

/// The number of events that are remembered, about 800 bytes each. A busy scheduler records a hundred thousand events
/// in six minutes, and few events repeat.
const MAX_SEEN: NonZeroUsize = NonZeroUsize::new(8192).expect("not zero");

/// The API server's bounds on a note, a reason and an action, in bytes (`pkg/apis/core/validation/events.go`).
const MAX_NOTE: usize = 1024;
const MAX_WORD: usize = 128;
const CUT_OFF: &str = " ...";

/// Names may have 253 bytes, of which a point and the time take 17.
const MAX_NAME: usize = 236;

/// A request to the API server about one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// The profile that sends the event, and the event's namespace.
    pub(super) flow: Flow,
    pub(super) name: String,
    pub(super) action: Action,
    /// The whole event as JSON, for posting.
    pub(super) event: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Post,
    /// Patch the event's series onto the event that was posted before.
    PatchSeries(Series),
}

/// The latest events, the newest last.
#[derive(Debug)]
pub(super) struct SeriesTable {
    hostname: String,
    seen: LruCache<Key, SeenEvent>,
}

/// The parts that two equal events have in common.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    type_: EventType,
    action: Cow<'static, str>,
    reason: Cow<'static, str>,
    reporting_controller: Arc<str>,
    regarding: ObjectReference,
    related: Option<ObjectReference>,
    /// The note; empty if notes do not distinguish events.
    note: String,
}

#[derive(Debug)]
struct SeenEvent {
    /// The note of the first occurrence.
    note: String,
    first_seen: Time,
    last_seen: Time,
    /// The number of times that the event happened: 1 for an event that is not a series.
    count: u32,
}

impl SeriesTable {
    pub(super) fn new(hostname: String) -> Self {
        Self::with_capacity(hostname, MAX_SEEN)
    }

    fn with_capacity(hostname: String, max_seen: NonZeroUsize) -> Self {
        Self { hostname, seen: LruCache::new(max_seen) }
    }

    /// Takes an event, and returns the requests that it causes.
    pub(super) fn observe(&mut self, event: NewEvent, now: Time) -> Vec<Request> {
        let NewEvent { type_, reason, action, note, note_counts, regarding, related, reporting_controller } =
            shorten(event);
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

    /// Ends the series that got no event lately, and returns their final counts.
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

    /// The request for a single event is a post, that for a series a patch.
    fn request(&self, key: &Key, seen: &SeenEvent) -> Request {
        let regarding = &key.regarding;
        let namespace = if regarding.namespace.is_empty() { Arc::from("default") } else { regarding.namespace.clone() };
        let name = format!("{}.{:x}", cut(&regarding.name, MAX_NAME), seen.first_seen.as_nanosecond());
        let series =
            (seen.count > 1).then(|| Series { count: seen.count, last_observed_time: clock::micros(seen.last_seen) });
        let body = Body {
            kind: "Event",
            api_version: "events.k8s.io/v1",
            metadata: Metadata { name: &name, namespace: &namespace },
            event_time: &clock::micros(seen.first_seen),
            series: series.as_ref(),
            reporting_controller: &key.reporting_controller,
            reporting_instance: &format!("{}-{}", key.reporting_controller, self.hostname),
            action: &key.action,
            reason: &key.reason,
            regarding: regarding.into(),
            related: key.related.as_ref().map(Reference::from),
            note: &seen.note,
            type_: key.type_.as_str(),
            deprecated_source: Nothing::default(),
            deprecated_first_timestamp: None,
            deprecated_last_timestamp: None,
        };
        let event = body.to_json();
        let action = series.map_or(Action::Post, Action::PatchSeries);
        Request { flow: Flow { profile: Arc::clone(&key.reporting_controller), namespace }, name, action, event }
    }
}

/// The event with texts cut to the API's limits. Plugins choose some of the texts, and thousands of events may wait.
pub(super) fn shorten(mut event: NewEvent) -> NewEvent {
    for word in [&mut event.reason, &mut event.action] {
        if word.len() > MAX_WORD {
            *word = cut(word, MAX_WORD).to_owned().into();
        }
    }
    if event.note.len() > MAX_NOTE {
        event.note = format!("{}{CUT_OFF}", cut(&event.note, MAX_NOTE - CUT_OFF.len()));
    }
    event
}

/// The first `max` bytes, or a few bytes less, so that no character is split.
fn cut(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

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

    fn event(request: &Request) -> Value {
        serde_json::from_str(&request.event).unwrap()
    }

    fn series(request: &Request) -> (u32, &str) {
        let Action::PatchSeries(Series { count, last_observed_time }) = &request.action else {
            panic!("{request:?}");
        };
        let posted = &event(request)["series"];
        assert_eq!(*posted, json!({"count": count, "lastObservedTime": last_observed_time}));
        (*count, last_observed_time)
    }

    #[test]
    fn texts_of_plugins_are_as_long_as_the_api_takes_them() {
        let long = NewEvent { reason: "r".repeat(4096).into(), action: "ä".repeat(4096).into(), ..failed("1", "n") };
        let event = shorten(NewEvent { note: "n".repeat(24 << 10), ..long });
        assert_eq!((event.reason.len(), event.action.len(), event.note.len()), (MAX_WORD, MAX_WORD, MAX_NOTE));
        assert_eq!(shorten(failed("1", "n")).note, "n");
    }

    #[test]
    fn messages_count_where_the_event_says_so() {
        let told = |note: &str| NewEvent { note_counts: true, ..failed("105", note) };
        let mut table = SeriesTable::new("vm".into());
        for note in ["one", "two"] {
            let posted = only(table.observe(told(note), time("03:12:04.6")));
            assert_eq!((&posted.action, &event(&posted)["note"]), (&Action::Post, &json!(note)));
        }
        assert_eq!(series(&only(table.observe(told("one"), time("03:12:05")))).0, 2);
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
        assert_eq!((&posted.action, event(&posted)), (&Action::Post, expected));
    }

    #[test]
    fn the_second_of_a_series_is_patched_and_later_ones_only_counted() {
        let mut table = SeriesTable::new("vm".into());
        let first = only(table.observe(failed("105", "one"), time("03:00:00")));
        let second = only(table.observe(failed("105", "another note"), time("03:00:10")));
        assert_eq!(second.name, first.name);
        assert_eq!(series(&second), (2, "2026-11-21T03:00:10.000000Z"));
        assert_eq!(event(&second)["note"], "one");
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
        assert_eq!(series(&last), (3, "2026-11-21T03:00:03.000000Z"));
        assert_eq!((&posted.action, &event(&posted)["note"]), (&Action::Post, &json!("one too many")));
        assert_eq!(only(table.observe(failed("1", "repeated"), time("03:00:06")).split_off(1)).action, Action::Post);
    }

    #[test]
    fn long_notes_are_cut_between_characters() {
        let shorten = |note: String| super::shorten(failed("105", &note)).note;
        assert_eq!(shorten("x".repeat(1024)).len(), 1024);
        let long = shorten("x".repeat(1025));
        assert_eq!((long.len(), &long[1018..]), (1024, "xx ..."));
        assert_eq!(shorten("é".repeat(600)), format!("{} ...", "é".repeat(510)));
        assert!(shorten(format!("x{}", "é".repeat(600))).len() < 1024);
    }

    #[test]
    fn a_related_object_is_named_and_makes_another_series() {
        let mut table = SeriesTable::new("vm".into());
        let mut told = failed("104", "Preempted by pod 2 on node n1");
        table.observe(told.clone(), time("03:00:00"));
        told.related = Some(ObjectReference { uid: "2".into(), name: "mid-1".into(), ..told.regarding.clone() });
        let posted = only(table.observe(told, time("03:00:01")));
        let expected = json!({
            "kind": "Pod", "namespace": "default", "name": "mid-1", "uid": "2", "apiVersion": "v1",
            "resourceVersion": "104",
        });
        assert_eq!((&posted.action, &event(&posted)["related"]), (&Action::Post, &expected));
    }

    #[test]
    fn an_event_about_a_node_goes_to_the_default_namespace() {
        let mut told = failed("1", "m");
        told.regarding.namespace = "".into();
        let posted = only(SeriesTable::new("vm".into()).observe(told, time("03:00:00")));
        assert_eq!(*posted.flow.namespace, *"default");
        assert!(event(&posted)["regarding"].get("namespace").is_none());
    }
}
