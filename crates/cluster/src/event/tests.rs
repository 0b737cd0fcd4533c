//! The recorder with an API server that the test plays. Time is paused, so waiting between tries costs nothing.

use serde_json::json;

use crate::test_server;

use super::*;

fn scheduled(pod: &str) -> NewEvent {
    NewEvent {
        type_: EventType::Normal,
        reason: "Scheduled".into(),
        action: "Binding".into(),
        note: format!("Successfully assigned default/{pod} to n1"),
        note_counts: false,
        regarding: ObjectReference {
            kind: "Pod".into(),
            api_version: "v1".into(),
            namespace: "default".into(),
            name: pod.into(),
            uid: "1".into(),
            resource_version: "102".into(),
        },
        related: None,
        reporting_controller: "default-scheduler".into(),
    }
}

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
/// More events than may be in flight in addition to the queue.
const MAX_IN_FLIGHT_AND_MORE: usize = 2000;
const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_repeated_event_is_patched_with_its_series() {
    let (client, mut server) = test_server::server();
    let recorder = EventRecorder::spawn(client, "vm", RequestRate::UNLIMITED);
    recorder.record(scheduled("a"));
    let call = server.next().await;
    assert_eq!(call.line(), format!("POST {EVENTS}"));
    assert_eq!(call.content_type.as_deref(), Some("application/json"));
    let name = call.body["metadata"]["name"].as_str().unwrap().to_owned();
    call.answer(201, &json!({}));

    recorder.record(scheduled("a"));
    let call = server.next().await;
    assert_eq!(call.line(), format!("PATCH {EVENTS}/{name}"));
    assert_eq!(call.content_type.as_deref(), Some("application/strategic-merge-patch+json"));
    let last_observed = call.body["series"]["lastObservedTime"].clone();
    assert_eq!(call.body, json!({"series": {"count": 2, "lastObservedTime": last_observed}}));

    // The event expired in the meantime, so the whole event is posted again.
    call.refuse(404, "NotFound", "events not found");
    let call = server.next().await;
    assert_eq!(call.line(), format!("POST {EVENTS}"));
    assert_eq!(call.body["series"]["count"], 2);
    call.answer(201, &json!({}));
    assert!(recorder.flush(MINUTE).await);
    assert!(server.is_idle());
}

#[tokio::test(start_paused = true)]
async fn events_are_retried_and_refusals_are_final() {
    let (client, mut server) = test_server::server();
    let recorder = EventRecorder::spawn(client, "vm", RequestRate::UNLIMITED);
    recorder.record(scheduled("a"));
    server.next().await.lose();
    server.next().await.refuse(503, "ServiceUnavailable", "later");
    server.next().await.refuse(409, "AlreadyExists", "exists");
    recorder.record(scheduled("b"));
    server.next().await.refuse(403, "Forbidden", "namespace is being terminated");
    assert!(recorder.flush(MINUTE).await);
    assert!(server.is_idle());
}

#[tokio::test(start_paused = true)]
async fn flushing_waits_for_what_is_under_way_but_not_for_ever() {
    let (client, mut server) = test_server::server();
    let recorder = EventRecorder::spawn(client, "vm", RequestRate::UNLIMITED);
    recorder.record(scheduled("a"));
    let call = server.next().await;
    let waiting = recorder.clone();
    let flushed = tokio::spawn(async move { waiting.flush(MINUTE).await });
    call.answer(201, &json!({}));
    assert!(flushed.await.unwrap());

    recorder.record(scheduled("b"));
    let _silent = server.next().await;
    assert!(!recorder.flush(Duration::from_secs(1)).await);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_slower_than_the_bindings_loses_no_event() {
    const EVENTS: usize = 5000;
    let (client, mut server) = test_server::server();
    let recorder = EventRecorder::spawn(client, "vm", RequestRate::UNLIMITED);
    for n in 0..EVENTS {
        recorder.record(scheduled(&n.to_string()));
    }
    assert_eq!((recorder.n_unwritten(), recorder.n_dropped()), (EVENTS, 0));
    for n in 0..EVENTS {
        assert!(recorder.n_unwritten() >= EVENTS - n - 1);
        server.next().await.answer(201, &json!({}));
    }
    assert!(recorder.flush(MINUTE).await);
    assert_eq!(recorder.n_unwritten(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_profile_that_floods_with_events_delays_no_other() {
    let (client, mut server) = test_server::server();
    let recorder = EventRecorder::spawn(client, "vm", RequestRate::UNLIMITED);
    // Two profiles send a flood and fill their shares of the room. The remaining room goes to the profiles in turn.
    for n in 0..10_000 {
        for flood in ["flood-a", "flood-b"] {
            recorder.record(NewEvent { reporting_controller: flood.into(), ..scheduled(&n.to_string()) });
        }
    }
    let first = server.next().await;
    recorder.record(NewEvent { reporting_controller: "other".into(), ..scheduled("quiet") });
    first.answer(201, &json!({}));
    let mut n_before = 0;
    loop {
        let call = server.next().await;
        let is_quiet = call.body["reportingController"] == "other";
        call.answer(201, &json!({}));
        if is_quiet {
            break;
        }
        n_before += 1;
    }
    assert!(n_before <= 128, "{n_before} events of other profiles went first");
}

#[tokio::test(start_paused = true)]
async fn events_that_cannot_be_written_leave_room_to_other_profiles() {
    let (client, mut server) = test_server::server();
    let recorder = EventRecorder::spawn(client, "vm", RequestRate::UNLIMITED);
    for n in 0..5000 {
        recorder.record(scheduled(&n.to_string()));
    }
    let mut open = vec![server.next().await];
    recorder.record(NewEvent { reporting_controller: "other".into(), ..scheduled("quiet") });
    // The webhook of one profile's namespace never answers.
    while open.last().is_some_and(|call| call.body["reportingController"] != "other") {
        open.push(server.next().await);
    }
    assert!(open.len() <= 33, "{} requests are open", open.len());
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_takes_a_few_of_another_profile() {
    let (client, mut server) = test_server::server();
    let recorder = EventRecorder::spawn(client, "vm", RequestRate::UNLIMITED);
    recorder.record(scheduled("first"));
    let _unanswered = server.next().await;
    // A paused clock runs a timer out once no other task can run.
    let settled = || tokio::time::sleep(Duration::from_millis(1));
    for n in 0..QUEUE_LEN {
        recorder.record(scheduled(&n.to_string()));
    }
    settled().await;
    for n in 0..MAX_IN_FLIGHT_AND_MORE {
        recorder.record(scheduled(&format!("late-{n}")));
    }
    settled().await;
    let n_dropped = recorder.n_dropped();
    assert!(n_dropped > 0);
    recorder.record(NewEvent { reporting_controller: "other".into(), ..scheduled("quiet") });
    settled().await;
    assert_eq!(recorder.n_dropped(), n_dropped);
}

#[tokio::test(start_paused = true)]
async fn events_beyond_the_queue_are_counted() {
    let (client, _server) = test_server::server();
    let recorder = EventRecorder::spawn(client, "vm", RequestRate::UNLIMITED);
    for n in 0..QUEUE_LEN + 5 {
        recorder.record(scheduled(&n.to_string()));
    }
    assert_eq!(recorder.n_dropped(), 5);
}
