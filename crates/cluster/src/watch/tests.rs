//! Watches with an API server that the test plays. Time is paused, so waiting costs nothing.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{sync::mpsc, time::Instant};

use crate::test_server::{self, Server, Stream};

use super::*;

fn pod(name: &str, uid: &str, resource_version: &str) -> Value {
    json!({"kind": "Pod", "apiVersion": "v1", "metadata": {
        "namespace": "default", "name": name, "uid": uid, "resourceVersion": resource_version,
        "managedFields": [{"manager": "kubectl"}],
    }, "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Pending"}})
}

fn expired() -> Value {
    json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (411)"})
}

/// An event as short text: the kind of event, name, uid and version.
fn brief(event: &WatchEvent) -> String {
    match event {
        WatchEvent::PodApplied(pod) => {
            let m = &pod.metadata;
            format!("+{} {} {}", m.name, m.uid, m.resource_version)
        }
        WatchEvent::PodDeleted(pod) => format!("-{} {}", pod.metadata.name, pod.metadata.uid),
        WatchEvent::PodsSynced { .. } => "synced".into(),
        other => format!("{other:?}"),
    }
}

struct Watch {
    server: Server,
    events: mpsc::Receiver<WatchEvent>,
    handle: WatchHandle,
}

impl Watch {
    fn of(watches: Watches) -> Self {
        let (client, server) = test_server::server();
        let (sink, events) = mpsc::channel(16);
        let handle = spawn_watches(&client, watches, &sink);
        Self { server, events, handle }
    }

    fn pods() -> Self {
        Self::of(Watches { pods: true, ..Watches::default() })
    }

    /// Answers the client with a streamed list at version 10.
    async fn listed(&mut self, pods: &[Value]) -> Stream {
        let mut stream = self.server.next().await.stream();
        for pod in pods {
            stream.send("ADDED", pod).await;
        }
        stream.end_list("10").await;
        for _ in 0..=pods.len() {
            self.next().await;
        }
        stream
    }

    async fn next(&mut self) -> String {
        brief(&self.events.recv().await.expect("watches never end"))
    }

    async fn expect(&mut self, events: &[&str]) {
        for event in events {
            assert_eq!(self.next().await, *event);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_is_streamed_as_kube_scheduler_asks_for_it() {
    let mut watch = Watch::pods();
    let call = watch.server.next().await;
    assert_eq!(call.line(), "GET /api/v1/pods");
    for query in [
        "watch=true",
        "allowWatchBookmarks=true",
        "sendInitialEvents=true",
        "resourceVersionMatch=NotOlderThan",
        "resourceVersion=",
        "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed",
    ] {
        assert!(call.has(query), "{query} is missing from {}", call.query);
    }
    let mut stream = call.stream();
    stream.send("ADDED", &pod("a", "1", "7")).await;
    stream.end_list("10").await;
    stream.send("MODIFIED", &pod("a", "1", "11")).await;
    stream.send("DELETED", &pod("a", "1", "12")).await;
    watch.expect(&["+a 1 7", "synced", "+a 1 11", "-a 1"]).await;
    watch.handle.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_goes_on_from_the_last_version() {
    let mut watch = Watch::pods();
    let mut stream = watch.listed(&[pod("a", "1", "7")]).await;
    stream.send("MODIFIED", &pod("a", "1", "14")).await;
    watch.expect(&["+a 1 14"]).await;
    stream.break_off();

    let call = watch.server.next().await;
    assert!(call.has("resourceVersion=14") && !call.has("sendInitialEvents=true"), "{}", call.query);
    let mut stream = call.stream();
    stream.send("BOOKMARK", &json!({"metadata": {"resourceVersion": "20"}})).await;
    stream.send("ADDED", &pod("b", "2", "21")).await;
    watch.expect(&["+b 2 21"]).await;
    drop(stream);
    assert!(watch.server.next().await.has("resourceVersion=21"));
}

/// The API server ends the watch of a client that reads more slowly than changes come.
#[tokio::test(start_paused = true)]
async fn a_watch_that_told_something_is_opened_anew_at_once() {
    let mut watch = Watch::pods();
    let mut stream = watch.listed(&[]).await;
    let begun = Instant::now();
    stream.send("ADDED", &pod("a", "1", "14")).await;
    watch.expect(&["+a 1 14"]).await;
    drop(stream);
    assert!(watch.server.next().await.has("resourceVersion=14"));
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_relist_after_410_reports_what_vanished_and_repeats_nothing() {
    let mut watch = Watch::pods();
    let pods = [pod("kept", "1", "5"), pod("changed", "2", "6"), pod("gone", "3", "7"), pod("replaced", "4", "8")];
    let mut stream = watch.listed(&pods).await;
    stream.send("ERROR", &expired()).await;

    let call = watch.server.next().await;
    assert!(call.has("sendInitialEvents=true") && call.has("resourceVersion="), "{}", call.query);
    let mut stream = call.stream();
    let pods = [pod("kept", "1", "5"), pod("changed", "2", "30"), pod("replaced", "9", "31"), pod("new", "5", "32")];
    for pod in pods {
        stream.send("ADDED", &pod).await;
    }
    stream.end_list("40").await;
    watch.expect(&["+changed 2 30", "-replaced 4", "+replaced 9 31", "+new 5 32", "-gone 3"]).await;

    stream.send("MODIFIED", &pod("new", "5", "41")).await;
    watch.expect(&["+new 5 41"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_asked_for_tells_what_a_silent_watch_kept_back() {
    let mut watch = Watch::pods();
    let _silent = watch.listed(&[pod("a", "1", "5"), pod("b", "2", "6")]).await;
    watch.handle.relist();
    let call = watch.server.next().await;
    assert!(call.has("sendInitialEvents=true") && call.has("resourceVersion="), "{}", call.query);
    let mut half = call.stream();
    half.send("ADDED", &pod("a", "1", "5")).await;
    // A list that is older than the second request answers neither request.
    watch.handle.relist();
    let mut list = watch.server.next().await.stream();
    list.send("ADDED", &pod("a", "1", "5")).await;
    list.send("ADDED", &pod("c", "3", "9")).await;
    list.end_list("20").await;
    watch.expect(&["+c 3 9", "-b 2", "synced"]).await;
    list.send("MODIFIED", &pod("a", "1", "21")).await;
    watch.expect(&["+a 1 21"]).await;
    assert!(watch.server.is_idle());
}

#[tokio::test(start_paused = true)]
async fn pods_are_told_again_to_a_reader_that_did_not_keep_them() {
    let mut watch = Watch::pods();
    let _silent = watch.listed(&[pod("a", "1", "5"), pod("b", "2", "6")]).await;
    watch.handle.tell_pods_again();
    let mut list = watch.server.next().await.stream();
    list.send("ADDED", &pod("a", "1", "5")).await;
    list.end_list("20").await;
    watch.expect(&["+a 1 5", "-b 2", "synced"]).await;
    watch.handle.relist();
    let mut list = watch.server.next().await.stream();
    list.send("ADDED", &pod("a", "1", "5")).await;
    list.end_list("21").await;
    watch.expect(&["synced"]).await;
}

#[tokio::test(start_paused = true)]
async fn pods_come_whole_from_the_list_on_that_is_asked_for() {
    let mut watch = Watch::pods();
    let mut stream = watch.server.next().await.stream();
    stream.send("ADDED", &pod("a", "1", "5")).await;
    stream.end_list("10").await;
    let is_whole = |event: Option<WatchEvent>| match event {
        Some(WatchEvent::PodApplied(pod)) => pod.json.is_some(),
        Some(WatchEvent::PodsSynced { with_json }) => with_json,
        other => panic!("{other:?}"),
    };
    for _ in 0..2 {
        assert!(!is_whole(watch.events.recv().await));
    }
    watch.handle.keep_pod_json();
    // A list that breaks off does not answer the request.
    let mut half = watch.server.next().await.stream();
    half.send("ADDED", &pod("a", "1", "5")).await;
    assert!(is_whole(watch.events.recv().await));
    drop(half);
    let mut list = watch.server.next().await.stream();
    list.send("ADDED", &pod("a", "1", "5")).await;
    list.send("ADDED", &pod("b", "2", "9")).await;
    list.end_list("20").await;
    list.send("MODIFIED", &pod("a", "1", "21")).await;
    for _ in 0..3 {
        assert!(is_whole(watch.events.recv().await), "b, the end of the list, and a change of a");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_off_deletes_nothing() {
    let mut watch = Watch::pods();
    let mut stream = watch.listed(&[pod("a", "1", "7"), pod("b", "2", "8")]).await;
    stream.send("ERROR", &expired()).await;
    let mut stream = watch.server.next().await.stream();
    stream.send("ADDED", &pod("a", "1", "7")).await;
    drop(stream);

    let mut stream = watch.server.next().await.stream();
    stream.send("ADDED", &pod("b", "2", "8")).await;
    stream.end_list("50").await;
    watch.expect(&["-a 1"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_may_not_be_listed_is_told_once_and_synced_once_it_may() {
    let kind = KindRef::of_kind("storage.k8s.io/v1", "CSINode");
    let mut watch = Watch::of(Watches { kinds: vec![kind], ..Watches::default() });
    for _ in 0..3 {
        watch.server.next().await.refuse(403, "Forbidden", "csinodes is forbidden");
    }
    let Some(WatchEvent::Forbidden { kind, rule }) = watch.events.recv().await else { panic!("nothing is told") };
    assert_eq!(kind.kind, "CSINode");
    assert_eq!(rule, r#"{apiGroups: ["storage.k8s.io"], resources: ["csinodes"], verbs: [list, watch]}"#);
    // A request for new lists reports every object again.
    watch.handle.relist();
    watch.server.next().await.refuse(403, "Forbidden", "csinodes is forbidden");
    assert!(matches!(watch.events.recv().await, Some(WatchEvent::Forbidden { .. })));
    let mut stream = watch.server.next().await.stream();
    stream.end_list("10").await;
    assert!(matches!(watch.events.recv().await, Some(WatchEvent::Synced { .. })));
}

fn claim(name: &str, uid: &str, resource_version: &str) -> Value {
    json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {
        "namespace": "default", "name": name, "uid": uid, "resourceVersion": resource_version,
    }})
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_takes_its_objects_back_and_may_begin_again() {
    let kind = KindRef::of_kind("v1", "PersistentVolumeClaim");
    let mut watch = Watch::of(Watches { kinds: vec![kind.clone()], ..Watches::default() });
    let mut stream = watch.listed(&[claim("a", "1", "5"), claim("b", "2", "6")]).await;
    stream.send("DELETED", &claim("a", "1", "11")).await;
    stream.send("ADDED", &claim("c", "3", "12")).await;
    for _ in 0..2 {
        watch.next().await;
    }
    watch.handle.end(&kind);
    let named = Arc::new(kind.clone());
    let gone = |name: &str| WatchEvent::ObjectDeleted {
        kind: Arc::clone(&named),
        namespace: "default".to_owned(),
        name: name.to_owned(),
    };
    for expected in [gone("b"), gone("c"), WatchEvent::Ended { kind: Arc::clone(&named) }] {
        assert_eq!(watch.events.recv().await, Some(expected));
    }
    watch.handle.add(kind);
    let call = watch.server.next().await;
    assert!(call.has("sendInitialEvents=true") && call.has("resourceVersion="), "{}", call.query);
    let mut stream = call.stream();
    stream.send("ADDED", &claim("c", "3", "12")).await;
    stream.end_list("20").await;
    let Some(WatchEvent::ObjectApplied { name, .. }) = watch.events.recv().await else {
        panic!("no object was applied")
    };
    assert_eq!(name, "c");
    assert!(matches!(watch.events.recv().await, Some(WatchEvent::Synced { missing: None, .. })));
}

/// A kind that is not served is asked for again after a wait, and a silent server answers late or never.
#[tokio::test(start_paused = true)]
async fn a_watch_ends_while_it_waits() {
    let kind = KindRef::of_kind("example.com/v1", "Ox");
    let mut watch = Watch::of(Watches { kinds: vec![kind.clone()], ..Watches::default() });
    let silent = watch.server.next().await;
    let begun = Instant::now();
    watch.handle.end(&kind);
    assert_eq!(watch.events.recv().await, Some(WatchEvent::Ended { kind: Arc::new(kind.clone()) }));
    drop(silent);
    watch.handle.add(kind.clone());
    watch.server.next().await.refuse(404, "NotFound", "the server could not find the requested resource");
    assert!(matches!(watch.events.recv().await, Some(WatchEvent::Synced { missing: Some(_), .. })));
    watch.handle.end(&kind);
    assert_eq!(watch.events.recv().await, Some(WatchEvent::Ended { kind: Arc::new(kind) }));
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_stream_lists_is_asked_for_pages() {
    let mut watch = Watch::pods();
    watch.server.next().await.refuse(422, "Invalid", "sendInitialEvents is forbidden for watch");

    let call = watch.server.next().await;
    assert!(call.has("limit=500") && !call.has("watch=true"), "{}", call.query);
    let page = |token: Option<&str>, items: Value| {
        let metadata = json!({"resourceVersion": "10", "continue": token});
        json!({"kind": "PodList", "metadata": metadata, "items": items})
    };
    // One item of the page cannot be decoded. All other items count.
    let broken = json!({"metadata": {"name": "broken", "namespace": "default", "uid": "x"}, "spec": 3});
    call.answer(200, &page(Some("more"), json!([pod("a", "1", "7"), broken])));
    let call = watch.server.next().await;
    assert!(call.has("continue=more"), "{}", call.query);
    call.answer(200, &page(None, json!([pod("b", "2", "8")])));
    watch.expect(&["+a 1 7", "+b 2 8", "synced"]).await;

    let call = watch.server.next().await;
    assert!(call.has("watch=true") && call.has("resourceVersion=10"), "{}", call.query);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_the_wish_for_a_streamed_list_is_asked_for_pages() {
    let mut watch = Watch::pods();
    let mut stream = watch.server.next().await.stream();
    stream.send("ADDED", &pod("a", "1", "7")).await;
    watch.expect(&["+a 1 7"]).await;
    assert!(watch.server.next().await.has("limit=500"));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_decoded_costs_only_itself() {
    let mut watch = Watch::pods();
    let mut stream = watch.listed(&[pod("a", "1", "7")]).await;
    let mut broken = pod("a", "1", "11");
    broken["spec"] = json!("nonsense");
    stream.send("MODIFIED", &broken).await;
    stream.send("ADDED", &pod("b", "2", "12")).await;
    broken["metadata"]["resourceVersion"] = json!("13");
    stream.send("DELETED", &broken).await;
    watch.expect(&["+b 2 12", "-a 1"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_version_that_the_server_keeps_refusing_is_given_up() {
    let mut watch = Watch::pods();
    drop(watch.listed(&[]).await);
    for _ in 0..5 {
        let call = watch.server.next().await;
        assert!(call.has("resourceVersion=10"), "{}", call.query);
        call.refuse(500, "InternalError", "malformed resource version");
    }
    assert!(watch.server.next().await.has("sendInitialEvents=true"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_keeps_hanging_up_is_given_rest() {
    let mut watch = Watch::pods();
    let began = tokio::time::Instant::now();
    for _ in 0..6 {
        watch.server.next().await.lose();
    }
    assert!(began.elapsed() > std::time::Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn other_kinds_come_as_json_without_managed_fields() {
    let kind = KindRef {
        group: "apps".into(),
        version: "v1".into(),
        kind: "StatefulSet".into(),
        plural: "statefulsets".into(),
    };
    let mut watch = Watch::of(Watches { kinds: vec![kind.clone()], ..Watches::default() });
    let call = watch.server.next().await;
    assert_eq!(call.line(), "GET /apis/apps/v1/statefulsets");
    let mut stream = call.stream();
    let object = json!({"kind": "StatefulSet", "metadata": {
        "namespace": "default", "name": "web", "uid": "1", "resourceVersion": "3", "managedFields": [{}],
    }, "spec": {"replicas": 3}});
    stream.send("ADDED", &object).await;
    stream.end_list("4").await;
    stream.send("DELETED", &object).await;

    let (kind, namespace, name) = (Arc::new(kind), "default".to_owned(), "web".to_owned());
    let mut json = object;
    json["metadata"].as_object_mut().unwrap().remove("managedFields");
    for expected in [
        WatchEvent::ObjectApplied { kind: kind.clone(), namespace: namespace.clone(), name: name.clone(), json },
        WatchEvent::Synced { kind: kind.clone(), missing: None },
        WatchEvent::ObjectDeleted { kind, namespace, name },
    ] {
        assert_eq!(watch.events.recv().await, Some(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn watches_end_with_their_reader() {
    let mut watch = Watch::pods();
    let _stream = watch.listed(&[]).await;
    drop(watch.events);
    watch.handle.ended().await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "broken watch")]
async fn the_panic_of_a_watch_is_passed_on() {
    let mut watch = Watch::pods();
    let _stream = watch.listed(&[]).await;
    watch.handle.tasks.spawn(async { panic!("broken watch") });
    watch.handle.ended().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_the_server_lacks_is_not_waited_for_but_tried_again() {
    let kind = KindRef::of_kind("example.com/v1", "Ox");
    let mut watch = Watch::of(Watches { kinds: vec![kind.clone()], ..Watches::default() });
    watch.server.next().await.refuse(404, "NotFound", "the server could not find the requested resource");
    let Some(WatchEvent::Synced { kind: synced, missing: Some(reason) }) = watch.events.recv().await else {
        panic!("the kind is waited for")
    };
    assert_eq!(*synced, kind);
    assert!(reason.contains("could not find the requested resource"), "{reason}");
    let call = watch.server.next().await;
    assert_eq!(call.line(), "GET /apis/example.com/v1");
    let ox = json!({"name": "oxen", "kind": "Ox", "namespaced": true, "singularName": "ox", "verbs": ["watch"]});
    call.answer(200, &json!({"kind": "APIResourceList", "groupVersion": "example.com/v1", "resources": [ox]}));
    let call = watch.server.next().await;
    assert_eq!(call.line(), "GET /apis/example.com/v1/oxen");
    call.refuse(404, "NotFound", "the server could not find the requested resource");
    let mut stream = watch.server.next().await.stream();
    stream
        .send("ADDED", &json!({"kind": "Ox", "metadata": {"name": "bill", "uid": "1", "resourceVersion": "1"}}))
        .await;
    let Some(WatchEvent::ObjectApplied { kind, name, .. }) = watch.events.recv().await else { panic!("no object") };
    assert_eq!((kind.plural.as_str(), name.as_str()), ("oxen", "bill"));
    stream.end_list("2").await;
    let event = watch.events.recv().await;
    assert!(matches!(&event, Some(WatchEvent::Synced { missing: None, .. })), "{event:?}");
    // The definition of the kind is deleted.
    drop(stream);
    watch.server.next().await.refuse(404, "NotFound", "the server could not find the requested resource");
    let event = watch.events.recv().await;
    assert!(matches!(&event, Some(WatchEvent::Synced { missing: Some(_), .. })), "{event:?}");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_defined_later_is_found_within_seconds() {
    let kind = KindRef::of_kind("example.com/v1", "Ox");
    let mut watch = Watch::of(Watches { kinds: vec![kind], ..Watches::default() });
    for _ in 0..8 {
        watch.server.next().await.refuse(404, "NotFound", "the server could not find the requested resource");
    }
    let began = Instant::now();
    assert_eq!(watch.server.next().await.line(), "GET /apis/example.com/v1");
    assert!(began.elapsed() < Duration::from_secs(11), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_404_that_is_no_status_says_the_same() {
    let bare = json!({"paths": ["/api", "/apis"]});
    for kind in [KindRef::of_kind("storage.k8s.io/v1", "CSINode"), KindRef::of_kind("example.com/v1", "Ox")] {
        let mut watch = Watch::of(Watches { kinds: vec![kind.clone()], ..Watches::default() });
        watch.server.next().await.answer(404, &bare);
        let event = watch.events.recv().await;
        let is_it = matches!(&event, Some(WatchEvent::Synced { kind: it, missing: Some(_) }) if **it == kind);
        assert!(is_it, "{event:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_server_says_when_to_come_back() {
    let mut watch = Watch::pods();
    let began = tokio::time::Instant::now();
    watch.server.next().await.turn_away(20);
    watch.listed(&[]).await;
    assert!(began.elapsed() >= std::time::Duration::from_secs(20), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_dies_silently_is_noticed_within_45_seconds() {
    let mut watch = Watch::pods();
    let mut version = 10;
    let mut silent = watch.listed(&[]).await;
    // The first connection began with a list; the others are only watches.
    for _ in 0..3 {
        tokio::time::sleep(std::time::Duration::from_secs(20)).await;
        version += 1;
        silent.send("MODIFIED", &pod("a", "1", &version.to_string())).await;
        watch.expect(&[&format!("+a 1 {version}")]).await;
        let began = tokio::time::Instant::now();
        let call = watch.server.next().await;
        assert!(began.elapsed() <= std::time::Duration::from_secs(45), "{:?}", began.elapsed());
        assert!(call.has(&format!("resourceVersion={version}")), "{}", call.query);
        silent = call.stream();
    }
}

/// Watches over HTTP/2 may last as long as client-go's, since pings show that a connection is dead.
#[tokio::test(start_paused = true)]
async fn over_http2_a_watch_lasts_for_minutes() {
    let mut watch = Watch::pods();
    let mut stream = watch.server.next().await.stream_over(http::Version::HTTP_2);
    stream.end_list("10").await;
    watch.expect(&["synced"]).await;
    for _ in 0..2 {
        let began = tokio::time::Instant::now();
        let call = watch.server.next().await;
        let minutes = began.elapsed().as_secs_f64() / 60.0;
        assert!((5.0..=10.2).contains(&minutes), "{minutes}");
        let seconds = call.query.split('&').find_map(|pair| pair.strip_prefix("timeoutSeconds=")).unwrap_or_default();
        assert!((300..=600).contains(&seconds.parse().unwrap_or(0)), "{}", call.query);
        stream = call.stream_over(http::Version::HTTP_2);
    }
    drop(stream);
}

#[tokio::test(start_paused = true)]
async fn a_kind_may_be_watched_later() {
    let mut watch = Watch::pods();
    let _pods = watch.listed(&[]).await;
    watch.handle.add(KindRef::of_kind("v1", "PersistentVolumeClaim"));
    let call = watch.server.next().await;
    assert_eq!(call.line(), "GET /api/v1/persistentvolumeclaims");
    call.stream().end_list("10").await;
    assert!(matches!(watch.events.recv().await, Some(WatchEvent::Synced { .. })));
}
