//! Writes with an API server that the test plays. Time is paused, so waiting between tries costs nothing.

use tokio::task::JoinHandle;

use crate::test_server::{self, Server};

use super::*;

fn pod() -> PodRef {
    PodRef { namespace: "default".into(), name: "basic-1".into(), uid: "18fbdd53-4a98-402b-92be-64e1aac13e9d".into() }
}

fn bind_to(node: &'static str) -> (Server, JoinHandle<Result<(), WriteError>>) {
    let (client, server) = test_server::server();
    let writer = Writer::new(client);
    (server, tokio::spawn(async move { writer.bind(&pod(), node).await }))
}

fn bound_to(node: &str, uid: &str) -> Value {
    json!({"kind": "Pod", "metadata": {"name": "basic-1", "uid": uid}, "spec": {"nodeName": node}})
}

const TAKEN: &str = "Operation cannot be fulfilled on pods/binding \"basic-1\": pod basic-1 is already assigned to \
                     node \"n1\"";
const BINDING_PATH: &str = "POST /api/v1/namespaces/default/pods/basic-1/binding";

#[tokio::test(start_paused = true)]
async fn a_binding_looks_like_kube_schedulers() {
    let (mut server, outcome) = bind_to("n1");
    let call = server.next().await;
    assert_eq!((call.line().as_str(), call.query.as_str()), (BINDING_PATH, ""));
    assert_eq!(call.content_type.as_deref(), Some("application/json"));
    let expected = json!({
        "kind": "Binding", "apiVersion": "v1",
        "metadata": {"name": "basic-1", "namespace": "default", "uid": "18fbdd53-4a98-402b-92be-64e1aac13e9d"},
        "target": {"kind": "Node", "name": "n1"},
    });
    assert_eq!(call.body, expected);
    call.answer(201, &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}));
    assert_eq!(outcome.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_binding_whose_answer_was_lost_is_found_to_have_succeeded() {
    let (mut server, outcome) = bind_to("n1");
    let mut n_bound = 0;

    // The first try takes effect, but its answer is lost.
    let first = server.next().await;
    assert_eq!(first.line(), BINDING_PATH);
    n_bound += 1;
    first.lose();
    // A real server refuses the second.
    let second = server.next().await;
    assert_eq!(second.line(), BINDING_PATH);
    second.refuse(409, "Conflict", TAKEN);

    let look = server.next().await;
    assert_eq!(look.line(), "GET /api/v1/namespaces/default/pods/basic-1");
    look.answer(200, &bound_to("n1", &pod().uid));
    assert_eq!(outcome.await.unwrap(), Ok(()));
    assert_eq!(n_bound, 1);
    assert!(server.is_idle());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_somebody_else_bound_is_a_conflict() {
    for found in [bound_to("n2", &pod().uid), bound_to("n1", "another pod of that name")] {
        let (mut server, outcome) = bind_to("n1");
        server.next().await.refuse(500, "InternalError", "etcdserver: request timed out");
        server.next().await.refuse(409, "Conflict", TAKEN);
        server.next().await.answer(200, &found);
        assert_eq!(outcome.await.unwrap(), Err(WriteError::Conflict { message: TAKEN.into() }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_answer_of_conflict_is_believed() {
    let (mut server, outcome) = bind_to("n1");
    server.next().await.refuse(409, "Conflict", TAKEN);
    assert_eq!(outcome.await.unwrap(), Err(WriteError::Conflict { message: TAKEN.into() }));
    assert!(server.is_idle());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_being_deleted_is_told_from_other_conflicts() {
    let message = "Operation cannot be fulfilled on pods/binding \"basic-1\": pod basic-1 is being deleted, cannot be \
                   assigned to a host";
    let (mut server, outcome) = bind_to("n1");
    server.next().await.refuse(409, "Conflict", message);
    assert_eq!(outcome.await.unwrap(), Err(WriteError::Leaving { message: message.into() }));

    let causes = json!([{"reason": "NamespaceTerminating", "message": "namespace dying is being terminated"}]);
    let forbidden = json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "pods \"d1\" is forbidden",
        "details": {"causes": causes}});
    let (mut server, outcome) = bind_to("n1");
    server.next().await.answer(403, &forbidden);
    assert_eq!(outcome.await.unwrap(), Err(WriteError::Leaving { message: "pods \"d1\" is forbidden".into() }));
}

#[tokio::test(start_paused = true)]
async fn requests_that_hang_hold_up_only_their_own_kind() {
    let (client, mut server) = test_server::server();
    let writer = Writer::new(client);
    let mut hanging = Vec::new();
    for _ in 0..2 * MAX_OPEN_OBJECTS {
        let writer = writer.clone();
        tokio::spawn(async move { writer.delete_object(&pod().object(), None).await });
    }
    for _ in 0..MAX_OPEN_OBJECTS {
        hanging.push(server.next().await);
    }
    let binding = tokio::spawn(async move { writer.bind(&pod(), "n1").await });
    let call = server.next().await;
    assert_eq!(call.line(), BINDING_PATH);
    call.answer(201, &json!({}));
    assert_eq!(binding.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_missing_pod_is_told_from_other_refusals() {
    let (mut server, outcome) = bind_to("n1");
    server.next().await.refuse(404, "NotFound", "pods \"basic-1\" not found");
    assert_eq!(outcome.await.unwrap(), Err(WriteError::NotFound { message: "pods \"basic-1\" not found".into() }));

    let (mut server, outcome) = bind_to("n1");
    server.next().await.refuse(403, "Forbidden", "no");
    assert_eq!(outcome.await.unwrap(), Err(WriteError::Rejected { code: 403, message: "no".into() }));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_time_gets_it() {
    let (mut server, outcome) = bind_to("n1");
    let began = tokio::time::Instant::now();
    let busy = json!({"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "later",
        "details": {"retryAfterSeconds": 7}});
    server.next().await.answer(429, &busy);
    for _ in 0..9 {
        server.next().await.turn_away(3);
    }
    server.next().await.answer(201, &json!({"kind": "Status", "status": "Success"}));
    assert_eq!(outcome.await.unwrap(), Ok(()));
    let seconds = began.elapsed().as_secs();
    assert!((34..36).contains(&seconds), "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_overloaded_is_given_up() {
    let (mut server, outcome) = bind_to("n1");
    for _ in 0..11 {
        server.next().await.turn_away(1);
    }
    let message = "Too many requests, please try again later.".to_owned();
    assert_eq!(outcome.await.unwrap(), Err(WriteError::Unavailable { message }));
    assert!(server.is_idle());
}

#[tokio::test(start_paused = true)]
async fn tries_are_bounded_and_the_last_word_is_a_look() {
    let (mut server, outcome) = bind_to("n1");
    for _ in 0..BINDING.retries.tries {
        server.next().await.lose();
    }
    server.next().await.answer(200, &bound_to("", &pod().uid));
    let error = outcome.await.unwrap().unwrap_err();
    assert_eq!(error, WriteError::Unavailable { message: "connection reset by peer".into() });
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_not_waited_for_for_ever() {
    let (mut server, outcome) = bind_to("n1");
    let _silent = server.next().await;
    server.next().await.answer(201, &json!({}));
    assert_eq!(outcome.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_victim_is_marked_then_deleted() {
    let (client, mut server) = test_server::server();
    let message = "default-scheduler: preempting to accommodate a higher priority pod";
    let outcome = tokio::spawn(async move { Writer::new(client).evict(&pod(), message).await });
    let call = server.next().await;
    assert_eq!(call.line(), "GET /api/v1/namespaces/default/pods/basic-1");
    let scheduled = json!({"type": "PodScheduled", "status": "True"});
    call.answer(200, &victim(json!({"generation": 1}), &[scheduled]));
    let call = server.next().await;
    assert_eq!(call.line(), "PATCH /api/v1/namespaces/default/pods/basic-1/status");
    assert_eq!(call.content_type.as_deref(), Some("application/strategic-merge-patch+json"));
    let mut patch = call.body.clone();
    assert!(patch["status"]["conditions"][0]["lastTransitionTime"].take().is_string());
    let expected = json!({"status": {
        "$setElementOrder/conditions": [{"type": "PodScheduled"}, {"type": "DisruptionTarget"}],
        "conditions": [{
            "lastProbeTime": null, "lastTransitionTime": null, "message": message, "observedGeneration": 1,
            "reason": "PreemptionByScheduler", "status": "True", "type": "DisruptionTarget",
        }],
    }});
    assert_eq!(patch, expected);
    call.answer(200, &json!({"kind": "Pod"}));
    let call = server.next().await;
    assert_eq!(call.line(), "DELETE /api/v1/namespaces/default/pods/basic-1");
    let uid = pod().uid;
    assert_eq!(call.body, json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}));
    call.answer(200, &json!({"kind": "Pod"}));
    let evicted = Evicted::Deleted { node: "n1".into(), resource_version: "7".into() };
    assert_eq!(outcome.await.unwrap(), Ok(evicted));
}

fn victim(mut metadata: Value, conditions: &[Value]) -> Value {
    metadata["resourceVersion"] = json!("7");
    if metadata["uid"].is_null() {
        metadata["uid"] = json!(pod().uid);
    }
    json!({"kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n1"}, "status": {"conditions": conditions}})
}

#[tokio::test(start_paused = true)]
async fn a_victim_that_leaves_or_was_replaced_is_left_alone() {
    for metadata in [json!({"uid": "another"}), json!({"deletionTimestamp": "2026-11-21T03:12:04Z"})] {
        let (client, mut server) = test_server::server();
        let outcome = tokio::spawn(async move { Writer::new(client).evict(&pod(), "go").await });
        server.next().await.answer(200, &victim(metadata, &[]));
        assert_eq!(outcome.await.unwrap(), Ok(Evicted::AlreadyGone));
        assert!(server.is_idle());
    }
    let (client, mut server) = test_server::server();
    let outcome = tokio::spawn(async move { Writer::new(client).evict(&pod(), "go").await });
    server.next().await.answer(200, &victim(json!({}), &[]));
    server.next().await.answer(200, &json!({"kind": "Pod"}));
    server.next().await.refuse(404, "NotFound", "gone");
    assert_eq!(outcome.await.unwrap(), Ok(Evicted::AlreadyGone));
}

#[tokio::test(start_paused = true)]
async fn after_a_conflict_a_victim_counts_as_gone_only_if_it_is() {
    let conflict = Err(WriteError::Conflict { message: "try again".into() });
    let left = json!({"deletionTimestamp": "2026-11-21T03:12:04Z"});
    let cases = [(json!({}), conflict), (left, Ok(Evicted::AlreadyGone))];
    for (metadata, expected) in cases {
        let (client, mut server) = test_server::server();
        let outcome = tokio::spawn(async move { Writer::new(client).evict(&pod(), "go").await });
        server.next().await.answer(200, &victim(json!({}), &[]));
        for _ in 0..STATUS.retries.tries {
            let call = server.next().await;
            assert_eq!(call.line(), "PATCH /api/v1/namespaces/default/pods/basic-1/status");
            call.refuse(409, "Conflict", "try again");
        }
        server.next().await.answer(200, &victim(metadata, &[]));
        assert_eq!(outcome.await.unwrap(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_victim_whose_name_another_pod_has_taken_is_gone() {
    let (client, mut server) = test_server::server();
    let outcome = tokio::spawn(async move { Writer::new(client).evict(&pod(), "go").await });
    server.next().await.answer(200, &victim(json!({}), &[]));
    server.next().await.answer(200, &json!({"kind": "Pod"}));
    let deletion = server.next().await;
    assert_eq!(deletion.body["preconditions"], json!({"uid": pod().uid}));
    deletion.refuse(409, "Conflict", "the UID in the precondition does not match");
    server.next().await.answer(200, &victim(json!({"uid": "another"}), &[]));
    assert_eq!(outcome.await.unwrap(), Ok(Evicted::AlreadyGone));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_went_with_a_lost_answer_was_deleted_by_us() {
    let (client, mut server) = test_server::server();
    let outcome = tokio::spawn(async move { Writer::new(client).delete_pod(&pod()).await });
    server.next().await.lose();
    server.next().await.refuse(404, "NotFound", "pods \"basic-1\" not found");
    assert_eq!(outcome.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn nothing_to_write_makes_no_request() {
    let (client, mut server) = test_server::server();
    assert_eq!(Writer::new(client).patch_status(&pod(), &StatusPatch::default()).await, Ok(()));
    assert!(server.is_idle());
}

#[tokio::test(start_paused = true)]
async fn any_object_can_be_replaced_and_patched() {
    let (client, mut server) = test_server::server();
    let claim = ObjectRef {
        group: String::new(),
        version: "v1".into(),
        plural: "persistentvolumeclaims".into(),
        namespace: Some("default".into()),
        name: "data".into(),
    };
    let outcome = tokio::spawn(async move {
        let writer = Writer::new(client);
        let put = writer.put_object(&claim, None, &json!({"a": 1})).await;
        let patch = writer.patch_object(&claim, Some("status"), PatchType::Merge, &json!({"b": 2})).await;
        (put, patch)
    });
    let call = server.next().await;
    assert_eq!(call.line(), "PUT /api/v1/namespaces/default/persistentvolumeclaims/data");
    call.refuse(409, "Conflict", "the object has been modified");
    let call = server.next().await;
    assert_eq!(call.line(), "PATCH /api/v1/namespaces/default/persistentvolumeclaims/data/status");
    assert_eq!(call.content_type.as_deref(), Some("application/merge-patch+json"));
    call.answer(200, &json!({"b": 2}));
    let (put, patch) = outcome.await.unwrap();
    assert_eq!(put, Err(WriteError::Conflict { message: "the object has been modified".into() }));
    assert_eq!(patch, Ok(json!({"b": 2})));
}

#[tokio::test(start_paused = true)]
async fn any_object_can_be_created_and_deleted() {
    let (client, mut server) = test_server::server();
    let claim = ObjectRef {
        group: "resource.k8s.io".into(),
        version: "v1".into(),
        plural: "resourceclaims".into(),
        namespace: Some("default".into()),
        name: "gpu".into(),
    };
    let outcome = tokio::spawn(async move {
        let writer = Writer::new(client);
        (writer.create_object(&claim, &json!({"a": 1})).await, writer.delete_object(&claim, None).await)
    });
    let call = server.next().await;
    assert_eq!(call.line(), "POST /apis/resource.k8s.io/v1/namespaces/default/resourceclaims");
    assert_eq!(call.body, json!({"a": 1}));
    call.refuse(409, "AlreadyExists", "resourceclaims \"gpu\" already exists");
    let call = server.next().await;
    assert_eq!(call.line(), "DELETE /apis/resource.k8s.io/v1/namespaces/default/resourceclaims/gpu");
    assert_eq!(call.body, json!({"kind": "DeleteOptions", "apiVersion": "v1"}));
    call.answer(200, &json!({"kind": "Status"}));
    let (created, deleted) = outcome.await.unwrap();
    assert_eq!(created, Err(WriteError::Conflict { message: "resourceclaims \"gpu\" already exists".into() }));
    assert_eq!(deleted, Ok(()));
}
