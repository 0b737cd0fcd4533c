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

/// The client of a cluster that does not answer.
fn client() -> Client {
    let config = kube::Config::new("http://127.0.0.1:1".parse().expect("an address"));
    kube::Client::try_from(config).expect("a client")
}

fn informers() -> Arc<Informers> {
    Arc::new(Informers::new(Arc::new(Metrics::default())))
}

/// The watches of a cluster that does not answer. The test says what the watches see.
fn watching() -> Watching {
    Watching::start(&client(), WatchPlan::new(false, Features::default(), &[], None), informers())
}

fn is_unlisted(event: &Event) -> bool {
    matches!(event, Event::KindUnlisted { kind, .. } if kind.kind == "Ox")
}

#[tokio::test]
async fn extenders_are_waited_for_until_their_kinds_are_listed() {
    let mut watching = watching();
    drop(watching.take_request(WatchRequest::Extenders(vec![reads_oxen()])));
    let (answer, mut answered) = oneshot::channel();
    drop(watching.take_request(WatchRequest::ExtendersListed(answer)));
    drop(watching.take(WatchEvent::Synced { kind: Arc::new(KindRef::of_kind("v1", "Service")), missing: None }));
    assert!(answered.try_recv().is_err(), "another kind is listed");
    let kind = Arc::new(KindRef::of_kind("example.com/v1", "Ox"));
    drop(watching.take(WatchEvent::Synced { kind, missing: None }));
    assert_eq!(answered.try_recv(), Ok(()));

    let (answer, mut answered) = oneshot::channel();
    drop(watching.take_request(WatchRequest::ExtendersListed(answer)));
    assert_eq!(answered.try_recv(), Ok(()), "the kinds are listed");
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

/// A plugin that comes later must not judge pods before it sees the objects.
#[tokio::test]
async fn a_kind_is_unlisted_until_its_first_list_if_a_plugin_reads_it() {
    let mut watching = watching();
    let events = watching.take_request(WatchRequest::Upcoming(vec![reads_oxen()]));
    assert!(events.len() == 1 && is_unlisted(&events[0]));
    assert!(watching.take_request(WatchRequest::Serving(vec![reads_oxen()])).is_empty(), "the scheduler knows it");
    let named = Arc::new(KindRef { plural: "oxen".to_owned(), ..KindRef::of_kind("example.com/v1", "Ox") });
    let listed = watching.take(WatchEvent::Synced { kind: Arc::clone(&named), missing: None });
    assert!(matches!(listed, Some(Event::KindListed(kind)) if kind.kind == "Ox"));

    let another = Manifest { name: "Another".to_owned(), ..reads_oxen() };
    let upcoming = watching.take_request(WatchRequest::Upcoming(vec![another]));
    assert!(upcoming.is_empty(), "the objects are known");
    assert!(watching.take(WatchEvent::Synced { kind: named, missing: None }).is_none());
}

#[tokio::test]
async fn a_kind_of_the_first_plugins_is_waited_for_and_holds_no_pods() {
    let mut plan = WatchPlan::new(false, Features::default(), &[], None);
    plan.take(WatchRequest::Upcoming(vec![reads_oxen()]));
    let mut watching = Watching::start(&client(), plan, informers());
    let another = Manifest { name: "Another".to_owned(), ..reads_oxen() };
    assert!(watching.take_request(WatchRequest::Upcoming(vec![another])).is_empty());
    assert_eq!(watching.unlisted.len(), 1);
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
