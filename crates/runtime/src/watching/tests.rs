//! Tests of what the scheduler learns about kinds whose watches end and begin again.

use berth_framework::{ClusterEvent, Needs};
use berth_telemetry::metrics::Metrics;

use super::*;

const PLURAL: &str = "oxen.v1.example.com";

fn hears_oxen() -> Manifest {
    let event = ClusterEvent::new(PLURAL, ClusterEvent::ADD);
    Manifest { name: "Hears".to_owned(), events_to_register: Some(vec![event]), ..Manifest::default() }
}

fn reads_oxen() -> Manifest {
    let objects = vec![ObjectKind { api_version: "example.com/v1".to_owned(), kind: "Ox".to_owned() }];
    Manifest {
        name: "Reads".to_owned(),
        needs: Needs { objects, ..Needs::default() },
        events_to_register: Some(Vec::new()),
        ..Manifest::default()
    }
}

/// The watches of a cluster that does not answer. The test says what the watches see.
fn watching() -> Watching {
    let config = kube::Config::new("http://127.0.0.1:1".parse().expect("an address"));
    let client = kube::Client::try_from(config).expect("a client");
    let plan = WatchPlan::new(false, Features::default(), &[], None);
    Watching::start(&client, plan, Arc::new(Informers::new(Arc::new(Metrics::default()))))
}

fn is_unlisted(event: &Event) -> bool {
    matches!(event, Event::KindUnlisted { kind, .. } if kind.kind == "Ox")
}

#[tokio::test]
async fn a_kind_that_may_not_be_listed_is_forgotten_with_its_watch() {
    let mut watching = watching();
    let by_plural = KindRef::of_resource(PLURAL).expect("a kind");
    let named = Arc::new(KindRef { kind: "Ox".to_owned(), ..by_plural.clone() });
    assert!(watching.take_request(WatchRequest::Serving(vec![hears_oxen()])).is_empty());
    let refused = watching.take(WatchEvent::Forbidden { kind: Arc::clone(&named), rule: "list".to_owned() });
    assert!(refused.is_some_and(|event| is_unlisted(&event)));
    assert_eq!(watching.n_listed(), 2, "pods and nodes");

    let events = watching.take_request(WatchRequest::Serving(vec![]));
    assert!(events.len() == 1 && is_unlisted(&events[0]));
    assert!(watching.take(WatchEvent::Ended { kind: Arc::new(by_plural) }).is_none());
    assert_eq!((watching.n_listed(), watching.forbidden.len()), (2, 0));
}

/// Another plugin may read the kind later under its name. This plugin must not judge pods without the objects.
#[tokio::test]
async fn a_kind_that_was_named_by_its_plural_is_unlisted_when_its_watch_ends() {
    let mut watching = watching();
    let by_plural = KindRef::of_resource(PLURAL).expect("a kind");
    let named = Arc::new(KindRef { kind: "Ox".to_owned(), ..by_plural.clone() });
    assert!(watching.take_request(WatchRequest::Serving(vec![hears_oxen()])).is_empty());
    assert!(watching.take(WatchEvent::Synced { kind: Arc::clone(&named), missing: None }).is_none());

    let events = watching.take_request(WatchRequest::Serving(vec![]));
    assert!(events.len() == 1 && is_unlisted(&events[0]));
    assert!(watching.take(WatchEvent::Ended { kind: Arc::new(by_plural) }).is_none());

    assert!(watching.take_request(WatchRequest::Serving(vec![reads_oxen()])).is_empty());
    // The objects of the list before were dropped, so they do not count as known.
    let refused = watching.take(WatchEvent::Forbidden { kind: Arc::clone(&named), rule: "list".to_owned() });
    assert!(refused.is_some_and(|event| is_unlisted(&event)));
    let listed = watching.take(WatchEvent::Synced { kind: named, missing: None });
    assert!(matches!(listed, Some(Event::KindListed(kind)) if kind.kind == "Ox"));
}
