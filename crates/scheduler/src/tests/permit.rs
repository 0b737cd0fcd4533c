//! Pods that wait on Permit, and PreBind plugins that wait for the host.

use berth_framework::{DeltaSource as _, Effect, ObjectRef, PatchType, PermitVerdict, Point, Status};

use super::{
    kit::{Bench, Factory, awaited, bind_finished, binds, effects_finished, events, pod, pod_maker},
    waiting::{claim_applied, wait},
};
use crate::{Action, Event, Observation, PodRequest, Request, Settings, StatusChange};

fn waiting() -> Bench {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.permit = Some(PermitVerdict::Wait(10_000)));
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    assert!(binds(&actions).is_empty());
    let published = actions
        .iter()
        .any(|action| matches!(action, Action::Pod(PodRequest { request: Request::PatchStatus(StatusChange { nominated_node_name: Some(node), .. }), .. }) if node == "n0"));
    assert!(published, "users see where the pod will go");
    assert_eq!(bench.scheduler.metrics().waiting_pods, 1);
    bench
}

#[test]
fn without_its_gate_nobody_sees_where_the_pod_will_go() {
    let mut bench = Bench::with_nodes(1, 4);
    let settings = Settings { publishes_expected_node: false, ..Settings::default() };
    bench.event(Event::reconfigured(bench.scheduler.objects(), settings, None, None));
    bench.script(|script| script.permit = Some(PermitVerdict::Wait(10_000)));
    bench.apply(pod("a", 1));
    let is_patch = |action: &Action| matches!(action, Action::Pod(PodRequest { request: Request::PatchStatus(_), .. }));
    assert!(!bench.settle().iter().any(is_patch));
    assert_eq!(bench.scheduler.metrics().waiting_pods, 1);
}

#[test]
fn another_pod_may_let_it_go() {
    let mut bench = waiting();
    bench.script(|script| {
        script.permit = None;
        script.permit_effects = vec![Effect::Allow { uid: "uid-a".to_owned() }];
    });
    bench.advance(500);
    bench.apply(pod("b", 1));
    assert_eq!(binds(&bench.settle()).len(), 2);
    let waited = Observation::PermitWait { result: "Success", milliseconds: 500 };
    assert!(bench.scheduler.drain_observations().contains(&waited));
}

/// An effect that waits for updates of the pod itself.
fn own_updates(timeout_ms: u64) -> Effect {
    let pod = ObjectRef { kind: "v1/Pod".to_owned(), namespace: "default".to_owned(), name: "a".to_owned() };
    Effect::Wait { objects: vec![pod], timeout_ms, timeout_message: "the approval is missing".to_owned() }
}

/// A bench with a pod that Permit holds for ten seconds. Permit asks to be called again after some change.
fn waiting_for(change: Effect) -> Bench {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| {
        script.permit = Some(PermitVerdict::Wait(10_000));
        script.permit_effects = vec![change];
    });
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    assert!(binds(&actions).is_empty());
    let is_effect = |action: &Action| matches!(action, Action::Pod(PodRequest { request: Request::Effects(_), .. }));
    assert!(!actions.iter().any(is_effect), "the wait is the scheduler's own");
    assert_eq!(bench.scheduler.metrics().waiting_pods, 1);
    bench
}

/// Changes the pod, so that it differs from the pod at the beginning.
fn approve(bench: &mut Bench, label: &str) {
    bench.apply(pod_maker("a", 1).resource_version(label).label("approved", label).build());
}

#[test]
fn an_update_of_the_pod_itself_lets_it_go_at_once() {
    let mut bench = waiting_for(own_updates(10_000));
    bench.script(|script| script.permit = None);
    bench.advance(2_000);
    approve(&mut bench, "yes");
    assert_eq!(binds(&bench.settle()).len(), 1);
    let calls = bench.script(|script| script.calls.clone());
    let asked: Vec<&str> = calls.iter().map(String::as_str).filter(|it| !it.starts_with('1')).take(4).collect();
    assert_eq!(asked[..3], ["permit a ", "changed a yes", "permit a yes"], "{calls:?}");
    let waited = Observation::PermitWait { result: "Success", milliseconds: 2_000 };
    assert!(bench.scheduler.drain_observations().contains(&waited));
}

#[test]
fn a_change_of_another_object_has_it_asked_again() {
    let mut bench = waiting_for(wait(10_000));
    bench.script(|script| script.permit = Some(PermitVerdict::Deny(Status::unschedulable("the claim is lost"))));
    approve(&mut bench, "yes");
    assert!(bench.settle().is_empty(), "it does not wait for the pod");
    bench.event(claim_applied("1"));
    assert_eq!(events(&bench.settle())[0].1, "0/1 nodes are available: 1 the claim is lost.");
    assert_eq!(bench.scheduler.metrics().waiting_pods, 0);
}

#[test]
fn asked_again_it_may_wait_on_until_its_first_deadline() {
    let mut bench = waiting_for(own_updates(20_000));
    bench.script(|script| script.permit_effects = vec![own_updates(20_000)]);
    bench.advance(6_000);
    approve(&mut bench, "no");
    assert!(bench.settle().is_empty());
    bench.advance(3_999);
    assert!(bench.settle().is_empty());
    bench.script(|script| script.permit = None);
    bench.advance(1);
    let note = "0/1 nodes are available: 1 rejected due to timeout after waiting 10s at plugin Fake.";
    assert_eq!(events(&bench.settle())[0].1, note);
}

#[test]
fn a_plugin_says_itself_what_it_waited_for_in_vain() {
    let mut bench = waiting_for(own_updates(10_000));
    bench.script(|script| script.permit = None);
    bench.advance(10_000);
    assert_eq!(events(&bench.settle())[0].1, "0/1 nodes are available: 1 the approval is missing.");
}

#[test]
fn a_hold_without_a_wait_ends_what_was_waited_for() {
    let mut bench = waiting_for(own_updates(10_000));
    approve(&mut bench, "no");
    assert!(bench.settle().is_empty());
    bench.script(|script| script.permit = None);
    approve(&mut bench, "yes");
    assert!(bench.settle().is_empty(), "it is not asked any more");
    bench.advance(10_000);
    assert_eq!(events(&bench.settle()).len(), 1);
}

#[test]
fn a_plugin_that_lets_the_pod_go_waits_for_nothing() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.permit_effects = vec![own_updates(10_000)]);
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    assert_eq!(binds(&actions).len(), 1);
    let said = "plugin Fake asked for a wait at Permit but does not hold the pod; the wait is ignored";
    assert!(format!("{actions:?}").contains(said), "{actions:?}");
}

/// Replaces the binary of the plugin that holds the pod.
fn replace_plugin(bench: &mut Bench) {
    let factory = Factory::new("2", &bench.script, true);
    let ready = Event::plugin_ready(bench.scheduler.objects(), "Fake".to_owned(), None, factory, None);
    bench.event(ready);
}

#[test]
fn it_goes_on_waiting_for_another_binary_of_the_plugin() {
    let mut bench = waiting();
    replace_plugin(&mut bench);
    assert!(binds(&bench.settle()).is_empty());
    assert_eq!(bench.scheduler.metrics().waiting_pods, 1);
}

#[test]
fn a_binary_that_holds_no_pods_lets_it_go() {
    let mut bench = waiting();
    bench.script(|script| script.without = vec![Point::Permit]);
    replace_plugin(&mut bench);
    let actions = bench.settle();
    assert_eq!(binds(&actions).len(), 1);
    let said = "plugin Fake no longer holds pods at Permit: 1 pod goes on without its answer";
    let actions = format!("{actions:?}");
    assert!(actions.contains(said) && actions.contains("n_released: 1"), "{actions}");
}

#[test]
fn it_is_rejected_when_the_plugin_goes_out_of_service() {
    let mut bench = waiting();
    bench.script(|script| {
        script.out_of_service = Some("plugin \"Fake\" is withdrawn".to_owned());
        script.without = Point::ALL.into();
    });
    replace_plugin(&mut bench);
    let actions = bench.settle();
    assert_eq!(events(&actions)[0].1, "node n0 was chosen, but plugin \"Fake\" is withdrawn");
    assert!(format!("{actions:?}").contains("n_released: 0"), "no pod goes on");
    assert_eq!(bench.scheduler.metrics().waiting_pods, 0);
}

#[test]
fn plugins_are_up_to_date_when_it_goes_on() {
    let mut bench = waiting();
    bench.script(|script| {
        script.permit = None;
        script.permit_effects = vec![Effect::Allow { uid: "uid-a".to_owned() }];
    });
    bench.apply(pod("b", 1));
    assert_eq!(binds(&bench.settle()), [("b", "n0"), ("a", "n0")].map(|(pod, node)| (pod.to_owned(), node.to_owned())));
    // The plugins know b's place on the node as well.
    assert_eq!(bench.script(|script| script.bound_at), bench.scheduler.cache().generation());
}

#[test]
fn another_pod_may_turn_it_down() {
    let mut bench = waiting();
    bench.script(|script| {
        script.permit = None;
        script.permit_effects = vec![Effect::Reject { uid: "uid-a".to_owned(), reason: "no quorum".to_owned() }];
    });
    bench.apply(pod("b", 1));
    let actions = bench.settle();
    assert_eq!(binds(&actions)[0].0, "b");
    assert_eq!(events(&actions)[0].1, "0/1 nodes are available: 1 no quorum.");
}

#[test]
fn waiting_ends_when_time_is_up() {
    let mut bench = waiting();
    bench.advance(9_999);
    assert!(bench.settle().is_empty());
    assert_eq!(bench.scheduler.next_wakeup(), Some(bench.now + 1));
    bench.script(|script| script.permit = None);
    bench.advance(1);
    let actions = bench.settle();
    let note = "0/1 nodes are available: 1 rejected due to timeout after waiting 10s at plugin Fake.";
    assert_eq!(events(&actions)[0].1, note);
    let cleared = actions
        .iter()
        .any(|action| matches!(action, Action::Pod(PodRequest { request: Request::PatchStatus(StatusChange { nominated_node_name: Some(node), .. }), .. }) if node.is_empty()));
    assert!(cleared, "the expectation is taken back");
    assert_eq!(bench.scheduler.cache().sizes().pods, 0);
    assert!(bench.script(|script| script.calls.contains(&"1 unreserve a 0".to_owned())));
}

/// The event appears in `kubectl describe pod`.
#[test]
fn a_pod_that_waits_is_told_for_what_and_until_when() {
    let mut bench = waiting();
    bench.script(|script| script.is_component = true);
    let until = (bench.now + 10_000).to_rfc3339();
    bench.advance(999);
    assert!(bench.settle().is_empty(), "it may be over soon");
    bench.advance(1);
    let told = events(&bench.settle());
    let note = format!("waits before it can be bound to node n0: plugin \"Fake\" waits until {until}");
    assert_eq!(told, [("WaitingOnPermit".to_owned(), note)]);
    bench.advance(1000);
    assert!(bench.settle().is_empty(), "once");
    assert_eq!(bench.scheduler.next_wakeup(), Some(bench.now + 8000));
}

#[test]
fn deletion_ends_the_wait() {
    let mut bench = waiting();
    let gone = Event::PodDeleted { namespace: "default".to_owned(), name: "a".to_owned(), uid: "uid-a".to_owned() };
    bench.event(gone);
    assert!(events(&bench.settle()).is_empty());
    assert_eq!(bench.scheduler.metrics().queue.in_flight_pods, 0);
    assert_eq!(bench.scheduler.cache().sizes().pods, 0);
    bench.advance(20_000);
    assert!(bench.settle().is_empty());
}

#[test]
fn binding_waits_for_the_effects_of_pre_bind() {
    let patch = Effect::Patch {
        kind: "PersistentVolumeClaim".to_owned(),
        namespace: "default".to_owned(),
        name: "claim".to_owned(),
        subresource: None,
        patch: b"{}".to_vec(),
        patch_type: PatchType::Merge,
    };
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.pre_bind = vec![patch.clone()]);
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    assert_eq!(awaited(&actions), [patch]);
    bench.event(effects_finished(&actions, Ok(())));
    let actions = bench.settle();
    assert_eq!(binds(&actions).len(), 1);
}

#[test]
fn failed_effects_of_pre_bind_fail_the_binding() {
    let mut bench = Bench::with_nodes(1, 4);
    let evict = Effect::Evict {
        namespace: "default".to_owned(),
        name: "v".to_owned(),
        uid: "uid-v".to_owned(),
        message: String::new(),
    };
    bench.script(|script| script.pre_bind = vec![evict]);
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    bench.event(effects_finished(&actions, Err("denied")));
    assert_eq!(events(&bench.settle())[0].1, "running PreBind plugin \"Fake\": denied");
    assert_eq!(bench.scheduler.metrics().pending_pods.backoff, 1);
}

#[test]
fn binding_comes_after_what_else_the_bind_plugin_asked_for() {
    let patch = Effect::Patch {
        kind: "v1/ConfigMap".to_owned(),
        namespace: "default".to_owned(),
        name: "map".to_owned(),
        subresource: None,
        patch: b"{}".to_vec(),
        patch_type: PatchType::Merge,
    };
    for result in [Ok(()), Err("denied")] {
        let mut bench = Bench::with_nodes(1, 4);
        bench.script(|script| script.bind = vec![patch.clone()]);
        bench.apply(pod("a", 1));
        let actions = bench.settle();
        assert_eq!(awaited(&actions), std::slice::from_ref(&patch));
        assert!(binds(&actions).is_empty());
        bench.event(effects_finished(&actions, result));
        let actions = bench.settle();
        assert_eq!(binds(&actions).len(), usize::from(result.is_ok()));
        if result.is_ok() {
            bench.event(bind_finished(&actions, "a", Ok(())));
            assert_eq!(events(&bench.settle())[0].0, "Scheduled");
        } else {
            assert_eq!(events(&actions)[0].1, "running Bind plugin \"Fake\": denied");
        }
    }
}

#[test]
fn a_pod_on_its_way_does_not_pass_a_plugin_that_went_out_of_service() {
    let mut bench = Bench::with_nodes(1, 4);
    let event = Effect::Create { kind: "v1/Event".to_owned(), namespace: "default".to_owned(), body: b"{}".to_vec() };
    bench.script(|script| script.pre_bind = vec![event]);
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    bench.script(|script| script.out_of_service = Some("it is missing".to_owned()));
    bench.event(effects_finished(&actions, Ok(())));
    let actions = bench.settle();
    assert!(binds(&actions).is_empty(), "{actions:?}");
    assert_eq!(events(&actions)[0].1, "it is missing");
    assert_eq!(bench.scheduler.metrics().pending_pods.gated, 1, "it waits for the plugin");
}

#[test]
fn what_permit_waits_to_see_is_told_too() {
    let mut bench = waiting_for(own_updates(20_000));
    bench.script(|script| script.is_component = true);
    let until = (bench.now + 10_000).to_rfc3339();
    bench.advance(1000);
    let told = events(&bench.settle());
    let note = format!(
        "waits before it can be bound to node n0: plugin \"Fake\" waits until {until} to see v1/Pod default/a \
         changed: the approval is missing"
    );
    assert_eq!(told, [("WaitingOnPermit".to_owned(), note)]);
}

#[test]
fn pods_that_one_answer_releases_go_on_some_at_a_time() {
    let mut bench = Bench::with_nodes(1, 30_000);
    bench.script(|script| script.permit = Some(PermitVerdict::Wait(60_000)));
    let n_held = crate::Scheduler::EVENTS_PER_TURN + 100;
    for number in 0..n_held {
        bench.apply(pod(&format!("held-{number}"), 1));
    }
    bench.settle();
    bench.script(|script| {
        script.permit = None;
        let allow = |number| Effect::Allow { uid: format!("uid-held-{number}") };
        script.permit_effects = (0..n_held).map(allow).collect();
    });
    bench.apply(pod("releases", 1));
    bench.apply(pod("other", 1));
    let mut sent: Vec<Action> = Vec::new();
    let names = |sent: &[Action]| binds(sent).into_iter().map(|(pod, _)| pod).collect::<Vec<String>>();
    while !names(&sent).contains(&"other".to_owned()) {
        assert!(bench.scheduler.run(bench.now, false));
        sent.extend(bench.scheduler.drain_actions());
    }
    assert!(binds(&sent).len() < 50, "the other pod's binding need not wait behind all of them");
    let mut n_answered = 0;
    while n_answered < n_held + 2 {
        sent.extend(bench.settle());
        let unanswered = names(&sent).split_off(n_answered);
        assert!(!unanswered.is_empty(), "answers have more of them go on");
        n_answered += unanswered.len();
        for name in unanswered {
            bench.event(bind_finished(&sent, &name, Ok(())));
        }
    }
}
