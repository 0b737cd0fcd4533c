//! Pods that evict other pods.

use berth_framework::{Effect, Grants, PermitVerdict, Point, PostFilterOutcome, Status};
use berth_model::NodeIdx;

use super::kit::{Bench, Shared, assigned, awaited, binds, effects_finished, events, node, pod, pod_maker};
use crate::{Action, Event, Observation, PluginEffects, PodRequest, Request, Settings, StatusChange};

fn evict(name: &str) -> Effect {
    Effect::Evict {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        message: "berth: preempting to accommodate a higher priority pod".to_owned(),
    }
}

fn preempt(bench: &mut Bench, effects: Vec<Effect>) {
    let outcome = PostFilterOutcome { status: Status::success(), nominate: Some(Some(NodeIdx(0))), effects };
    bench.script(|script| script.post_filter = Some(outcome));
}

fn deleted(name: &str) -> Event {
    Event::PodDeleted { namespace: "default".to_owned(), name: name.to_owned(), uid: format!("uid-{name}") }
}

/// The nodes that were requested for the pod's `nominatedNodeName`.
fn nominations(actions: &[Action], name: &str) -> Vec<String> {
    let nomination = |action: &Action| match action {
        Action::Pod(PodRequest { pod, request: Request::PatchStatus(change), .. }) if *pod.name == *name => {
            change.nominated_node_name.clone()
        }
        _ => None,
    };
    actions.iter().filter_map(nomination).collect()
}

/// Two pods fill the node. A third pod evicts both pods.
fn preempting() -> Bench {
    let mut bench = Bench::with_nodes(1, 4);
    bench.apply(assigned("first", 2, "n0"));
    bench.apply(assigned("last", 2, "n0"));
    preempt(&mut bench, vec![evict("first"), evict("last")]);
    bench.apply(pod("high", 4));
    bench
}

/// DefaultPreemption gives this text from 1.37 on, and none in 1.36.
#[test]
fn what_a_preemption_found_ends_the_event_and_the_condition() {
    let found = "preemption: found a potential placement for pod on node n2, preempting 1 victims";
    let with_text = Status { reasons: vec![found.to_owned()], ..Status::success() };
    for (status, end) in [(Status::success(), String::new()), (with_text, format!(" {found}"))] {
        let mut bench = Bench::with_nodes(3, 1);
        for node in ["n0", "n1", "n2"] {
            bench.apply(assigned(&format!("low-on-{node}"), 1, node));
        }
        let effects = vec![evict("low-on-n2")];
        let outcome = PostFilterOutcome { status, nominate: Some(Some(NodeIdx(2))), effects };
        bench.script(|script| script.post_filter = Some(outcome));
        bench.apply(pod("high", 1));
        let actions = bench.settle();
        let text = format!("0/3 nodes are available: 3 Insufficient cpu.{end}");
        assert_eq!(events(&actions)[0], ("FailedScheduling".to_owned(), text.clone()));
        let condition = actions.iter().find_map(|action| match action {
            Action::Pod(PodRequest { request: Request::PatchStatus(change), .. }) => change.condition.clone(),
            _ => None,
        });
        assert_eq!(condition.map(|condition| condition.message), Some(text));
    }
}

#[test]
fn a_node_that_there_is_not_is_not_nominated() {
    let mut bench = Bench::with_nodes(1, 4);
    let nominate = |node: &str| Effect::Nominate { uid: "uid-high".to_owned(), node: Some(node.to_owned()) };
    let effects = vec![nominate("made-up"), nominate("n0")];
    let outcome = PostFilterOutcome { status: Status::unschedulable("no"), nominate: None, effects };
    bench.script(|script| script.post_filter = Some(outcome));
    bench.apply(pod("high", 5));
    assert_eq!(nominations(&bench.settle(), "high"), ["n0"]);
}

/// As in kube-scheduler, a profile without PostFilter plugins clears the nomination.
#[test]
fn without_post_filter_a_pod_that_fits_nowhere_loses_its_nomination() {
    let script = Shared::default();
    script.lock().expect("one thread").without = vec![Point::PostFilter];
    let profile = Bench::profile("berth", &script, Grants::ALL);
    let mut bench = Bench::with_profiles(vec![profile], script).and_nodes(1, 4);
    bench.apply(pod_maker("high", 5).nominated_to("n0").build());
    assert_eq!(nominations(&bench.settle(), "high"), [""]);
    assert!(bench.scheduler.queue().nominator().is_empty());
}

#[test]
fn the_nomination_is_written_before_the_victims_are_told() {
    let mut bench = preempting();
    let actions = bench.settle();
    let nominated = |action: &Action| matches!(action, Action::Pod(PodRequest { request: Request::PatchStatus(StatusChange { nominated_node_name: Some(node), .. }), .. }) if node == "n0");
    let told = |action: &Action| matches!(action, Action::Pod(PodRequest { request: Request::AwaitedEffects(PluginEffects { scheduler_name, .. }), .. }) if scheduler_name == "berth");
    let (nominated, told) = (actions.iter().position(nominated), actions.iter().position(told));
    assert!(nominated.is_some() && nominated < told);
    assert_eq!(awaited(&actions), [evict("first"), evict("last")]);
    assert_eq!(events(&actions)[0].1, "0/1 nodes are available: 1 Insufficient cpu.");
    assert!(bench.scheduler.drain_observations().contains(&Observation::Preemption { victims: 2 }));
}

#[test]
fn a_nomination_that_was_not_written_is_asked_for_again() {
    for is_written in [true, false] {
        let mut bench = preempting();
        let actions = bench.settle();
        assert_eq!(nominations(&actions, "high"), ["n0"]);
        if !is_written {
            bench.event(Event::StatusPatchFailed { uid: "uid-high".into() });
        }
        bench.event(effects_finished(&actions, Err("forbidden")));
        let expected: &[&str] = if is_written { &[] } else { &["n0"] };
        assert_eq!(nominations(&bench.settle(), "high"), expected);
    }
}

#[test]
fn the_preemptor_waits_until_all_were_told() {
    let mut bench = preempting();
    let actions = bench.settle();
    bench.event(deleted("first"));
    bench.advance(60_000);
    assert!(bench.settle().is_empty(), "its turn would come in vain");
    assert_eq!(bench.scheduler.metrics().pending_pods.gated, 1);
    bench.event(effects_finished(&actions, Ok(())));
    assert!(bench.settle().is_empty(), "the deletion of the last victim brings it back");
    bench.event(deleted("last"));
    bench.advance(60_000);
    assert_eq!(binds(&bench.settle()), [("high".to_owned(), "n0".to_owned())]);
}

/// In this case, kube-scheduler evicts the victims in the call of PostFilter.
#[test]
fn without_its_gate_no_pod_is_tried_before_the_victims_are_evicted() {
    for is_asynchronous in [true, false] {
        let mut bench = preempting();
        let settings = Settings { evicts_asynchronously: is_asynchronous, ..Settings::default() };
        bench.event(Event::reconfigured(bench.scheduler.objects(), settings, None, None));
        let actions = bench.settle();
        assert_eq!(awaited(&actions), [evict("first"), evict("last")]);
        bench.script(|script| script.post_filter = None);
        bench.event(deleted("first"));
        bench.advance(60_000);
        assert_eq!(bench.scheduler.metrics().pending_pods.gated == 1, is_asynchronous, "the preemptor");
        bench.apply(pod("large", 5));
        assert_eq!(events(&bench.settle()).len() == 1, is_asynchronous, "the other pod is tried, and fits nowhere");
        bench.event(effects_finished(&actions, Ok(())));
        bench.event(deleted("last"));
        bench.advance(60_000);
        assert_eq!(binds(&bench.settle()), [("high".to_owned(), "n0".to_owned())]);
    }
}

#[test]
fn the_last_victims_departure_need_not_be_confirmed() {
    let mut bench = preempting();
    bench.settle();
    bench.apply(pod_maker("last", 2).on("n0").resource_version("3").terminating().build());
    bench.script(|script| script.post_filter = None);
    bench.event(deleted("first"));
    bench.advance(60_000);
    let note = "0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(events(&bench.settle())[0].1, note, "it is tried again, though in vain");
    bench.event(deleted("last"));
    bench.advance(60_000);
    assert_eq!(binds(&bench.settle()).len(), 1);
}

#[test]
fn a_preemption_that_failed_is_tried_again() {
    let mut bench = preempting();
    let actions = bench.settle();
    bench.event(effects_finished(&actions, Err("forbidden")));
    let actions = bench.settle();
    assert_eq!(awaited(&actions), [evict("first"), evict("last")]);
    // The answer to the first attempt comes late.
    assert_eq!(bench.scheduler.metrics().pending_pods.unschedulable, 1);
}

#[test]
fn a_preemptor_that_is_gone_is_forgotten() {
    let mut bench = preempting();
    let actions = bench.settle();
    bench.event(deleted("high"));
    bench.event(effects_finished(&actions, Err("forbidden")));
    assert!(bench.settle().is_empty());
}

#[test]
fn a_victim_that_still_waits_leaves_in_memory() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.permit = Some(PermitVerdict::Wait(10_000)));
    bench.apply(pod("low", 4));
    bench.settle();
    bench.script(|script| script.permit = None);
    preempt(&mut bench, vec![evict("low")]);
    bench.apply(pod("high", 4));
    let actions = bench.settle();
    assert!(awaited(&actions).is_empty(), "the API server knows of no node yet");
    let notes = events(&actions);
    let note = "Preempted by pod uid-high on node n0 (in kube-scheduler memory).";
    assert!(notes.contains(&("Preempted".to_owned(), note.to_owned())), "{notes:?}");
    let note = "waiting on permit for pod: preempted";
    assert!(notes.contains(&("FailedScheduling".to_owned(), note.to_owned())), "{notes:?}");
    bench.advance(1000);
    assert_eq!(binds(&bench.settle())[0].0, "high");
}

#[test]
fn a_lesser_pod_loses_its_nomination() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.apply(assigned("victim", 4, "n0"));
    preempt(&mut bench, Vec::new());
    bench.apply(pod("lesser", 4));
    bench.settle();
    preempt(&mut bench, vec![Effect::Nominate { uid: "uid-lesser".to_owned(), node: None }, evict("victim")]);
    bench.apply(pod("high", 4));
    let actions = bench.settle();
    let cleared = actions.iter().any(|action| {
        matches!(action, Action::Pod(PodRequest { pod, request: Request::PatchStatus(StatusChange { nominated_node_name: Some(node), .. }), .. })
            if *pod.name == *"lesser" && node.is_empty())
    });
    assert!(cleared, "{actions:?}");
    assert_eq!(awaited(&actions), [evict("victim")]);
}

#[test]
fn a_nominated_pod_that_somebody_binds_elsewhere_loses_its_nomination() {
    let mut bench = preempting();
    bench.settle();
    bench.script(|script| script.post_filter = None);
    bench.event(deleted("first"));
    bench.apply(pod("low", 2));
    let actions = bench.settle();
    assert_eq!(events(&actions)[0].1, "0/1 nodes are available: 1 Insufficient cpu.", "the place is for the other one");
    assert_eq!(bench.scheduler.queue().nominator().iter().count(), 1);
    bench.event(Event::NodeApplied(Box::new(node("other", 4))));
    bench.apply(assigned("high", 4, "other"));
    assert_eq!(bench.scheduler.queue().nominator().iter().count(), 0);
    bench.advance(60_000);
    assert_eq!(binds(&bench.settle()), [("low".to_owned(), "n0".to_owned())]);
    assert_eq!(bench.scheduler.metrics().pending_pods.gated, 0);
}
