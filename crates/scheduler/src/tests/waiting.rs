//! PreBind plugins that wait until the cluster has answered.

use berth_model::ObjectKey;
use std::sync::Arc;

use berth_framework::{DeltaSource as _, Effect, Grants, ObjectRef, PatchType};

use super::kit::{Bench, Shared, awaited, bind_finished, binds, effects_finished, events, node, pod, terminating};
use crate::{Action, Event, PodRequest, Request, StatusChange};

fn claim() -> ObjectKey {
    ObjectKey {
        api_version: "v1".to_owned(),
        kind: "PersistentVolumeClaim".to_owned(),
        namespace: "default".to_owned(),
        name: "data".to_owned(),
    }
}

pub(super) fn claim_applied(json: &str) -> Event {
    let json = Arc::from(json.as_bytes());
    Event::ObjectApplied { resource: "PersistentVolumeClaim".to_owned(), key: claim(), json }
}

fn claim_changes(bench: &mut Bench, json: &str) {
    bench.event(claim_applied(json));
}

pub(super) fn wait(timeout_ms: u64) -> Effect {
    let object = ObjectRef {
        kind: "v1/PersistentVolumeClaim".to_owned(),
        namespace: "default".to_owned(),
        name: "data".to_owned(),
    };
    Effect::Wait { objects: vec![object], timeout_ms, timeout_message: "the claim is not bound".to_owned() }
}

pub(super) fn patch() -> Effect {
    Effect::Patch {
        kind: "v1/PersistentVolumeClaim".to_owned(),
        namespace: "default".to_owned(),
        name: "data".to_owned(),
        subresource: None,
        patch: b"{}".to_vec(),
        patch_type: PatchType::Merge,
    }
}

/// A bench with a pod whose plugin patched a claim and waits for the claim. The patch is not answered yet.
fn patching() -> (Bench, Vec<Action>) {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.pre_bind = vec![patch(), wait(10_000)]);
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    assert_eq!(awaited(&actions), [patch()], "the wait is the scheduler's own");
    (bench, actions)
}

fn waiting() -> Bench {
    let (mut bench, actions) = patching();
    bench.event(effects_finished(&actions, Ok(())));
    assert!(bench.settle().is_empty());
    bench
}

#[test]
fn a_change_of_the_object_ends_the_wait() {
    let mut bench = waiting();
    bench.script(|script| script.pre_bind = Vec::new());
    claim_changes(&mut bench, "1");
    assert_eq!(binds(&bench.settle()).len(), 1);
    assert!(bench.scheduler.next_wakeup().is_none(), "no deadline is left behind");
    claim_changes(&mut bench, "2");
    assert!(bench.settle().is_empty());
}

#[test]
fn the_plugin_may_wait_on() {
    let mut bench = waiting();
    bench.script(|script| script.pre_bind = vec![wait(10_000)]);
    claim_changes(&mut bench, "1");
    assert!(binds(&bench.settle()).is_empty());
    bench.script(|script| script.pre_bind = Vec::new());
    claim_changes(&mut bench, "2");
    assert_eq!(binds(&bench.settle()).len(), 1);
}

#[test]
fn a_change_that_comes_too_early_is_not_missed() {
    let (mut bench, actions) = patching();
    claim_changes(&mut bench, "1");
    bench.script(|script| script.pre_bind = Vec::new());
    assert!(bench.settle().is_empty(), "the patch is still on its way");
    bench.event(effects_finished(&actions, Ok(())));
    assert_eq!(binds(&bench.settle()).len(), 1);
}

#[test]
fn a_wait_without_effects_begins_at_once() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.pre_bind = vec![wait(10_000)]);
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    assert!(binds(&actions).is_empty() && awaited(&actions).is_empty());
    let shown = |action: &Action| matches!(action, Action::Pod(PodRequest { request: Request::PatchStatus(StatusChange { nominated_node_name: Some(node), .. }), .. }) if node == "n0");
    assert!(actions.iter().any(shown), "users see where the pod will go");
    bench.script(|script| script.pre_bind = Vec::new());
    claim_changes(&mut bench, "1");
    assert_eq!(binds(&bench.settle()).len(), 1);
}

#[test]
fn waiting_ends_with_the_deadline_however_often_it_is_renewed() {
    let mut bench = waiting();
    bench.script(|script| script.pre_bind = vec![wait(10_000)]);
    bench.advance(6_000);
    claim_changes(&mut bench, "1");
    bench.advance(3_999);
    assert!(events(&bench.settle()).is_empty());
    assert_eq!(bench.scheduler.next_wakeup(), Some(bench.now + 1));
    bench.advance(1);
    let note = "running PreBind plugin \"Fake\": the claim is not bound";
    assert_eq!(events(&bench.settle())[0].1, note);
    let unreserved = bench.script(|script| script.calls.iter().any(|call| call.contains("unreserve a")));
    assert!(unreserved);
}

/// The event appears in `kubectl describe pod`.
#[test]
fn a_pod_that_waits_for_an_object_is_told_so() {
    let mut bench = waiting();
    bench.script(|script| script.is_component = true);
    let until = (bench.now + 10_000).to_rfc3339();
    bench.advance(1_000);
    let claim = "v1/PersistentVolumeClaim default/data";
    let note = format!(
        "waits before it can be bound to node n0: plugin \"Fake\" waits until {until} to see {claim} changed: the \
         claim is not bound"
    );
    assert_eq!(events(&bench.settle()), [("WaitingOnPreBind".to_owned(), note)]);
}

#[test]
fn effects_that_fail_end_the_attempt() {
    let (mut bench, actions) = patching();
    bench.event(effects_finished(&actions, Err("the object has been modified")));
    let note = "running PreBind plugin \"Fake\": the object has been modified";
    assert_eq!(events(&bench.settle())[0].1, note);
    claim_changes(&mut bench, "1");
    assert!(binds(&bench.settle()).is_empty());
}

#[test]
fn a_pod_that_is_deleted_waits_no_more() {
    let mut bench = waiting();
    let deleted = Event::PodDeleted { namespace: "default".to_owned(), name: "a".to_owned(), uid: "uid-a".to_owned() };
    bench.event(deleted);
    claim_changes(&mut bench, "1");
    assert!(bench.settle().is_empty());
    assert!(bench.scheduler.next_wakeup().is_none());
}

#[test]
fn a_pod_that_is_being_deleted_gives_its_node_back_at_once() {
    let (patching, _) = patching();
    for mut bench in [waiting(), patching] {
        bench.apply(terminating("a", 1));
        let actions = bench.settle();
        assert_eq!(events(&actions)[0].1, "the pod is being deleted");
        assert!(bench.script(|script| script.calls.contains(&"1 unreserve a 0".to_owned())));
        assert_eq!((bench.scheduler.cache().sizes().pods, bench.scheduler.metrics().bindings), (0, 0));
        bench.advance(2_000);
        assert_eq!(events(&bench.settle())[0].1, "skip schedule deleting pod: default/a");
    }
}

#[test]
fn a_binding_on_the_wire_is_awaited_though_the_pod_is_being_deleted() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    bench.apply(terminating("a", 1));
    assert!(bench.settle().is_empty());
    assert_eq!(bench.scheduler.outstanding(), 1);
    bench.event(bind_finished(&actions, "a", Err("pod a is being deleted, cannot be assigned to a host")));
    assert_eq!(bench.scheduler.cache().sizes().pods, 0);
}

#[test]
fn plugins_are_up_to_date_when_they_are_asked_after_effects() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.pre_bind = vec![patch()]);
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    claim_changes(&mut bench, "1");
    bench.event(effects_finished(&actions, Ok(())));
    assert_eq!(binds(&bench.settle()).len(), 1);
    assert_eq!(bench.script(|script| script.bound_at), bench.scheduler.cache().generation());
}

#[test]
fn a_shutdown_does_not_wait_for_it() {
    let mut bench = waiting();
    bench.event(Event::Shutdown);
    assert_eq!(bench.scheduler.outstanding(), 0);
    bench.script(|script| script.pre_bind = Vec::new());
    claim_changes(&mut bench, "1");
    assert!(binds(&bench.settle()).is_empty(), "no binding begins any more");
}

#[test]
fn hints_are_shown_only_what_the_plugin_reads() {
    for (reads_services, shown) in [(false, "hidden"), (true, "{}")] {
        let mut bench = big_pod_waits_with_hints(reads_services);
        let [api_version, kind, namespace, name] = ["v1", "Service", "default", "web"].map(str::to_owned);
        let key = ObjectKey { api_version, kind, namespace, name };
        bench.event(Event::ObjectApplied { resource: "Service".to_owned(), key, json: Arc::from(*b"{}") });
        let calls = bench.script(|script| script.calls.clone());
        assert_eq!(calls.last().expect("calls"), &format!("hint big Service {shown}"));
    }
}

#[test]
fn a_plugin_that_registered_for_new_nodes_is_not_asked_about_taints() {
    let mut bench = big_pod_waits_with_hints(false);
    let attempts = |bench: &Bench| bench.scheduler.metrics().attempts.values().sum::<u64>();
    let before = attempts(&bench);
    let tainted = berth_testing::node("n0").allocatable("cpu", "4").taint("dedicated", "", "NoSchedule").build();
    bench.event(Event::NodeApplied(Box::new(tainted)));
    bench.settle();
    bench.advance(10_000);
    bench.settle();
    assert_eq!(attempts(&bench), before + 1);
}

/// A pod that fits on no node, rejected by a plugin with a queueing hint.
fn big_pod_waits_with_hints(reads_services: bool) -> Bench {
    let script = Shared::default();
    {
        let mut script = script.lock().expect("one thread");
        script.reads_services = reads_services;
        script.hints = true;
    }
    let mut bench = Bench::with_profiles(vec![Bench::profile("berth", &script, Grants::ALL)], script);
    bench.event(Event::NodeApplied(Box::new(node("n0", 4))));
    bench.event(Event::Synced);
    bench.apply(pod("big", 5));
    bench.settle();
    bench
}
