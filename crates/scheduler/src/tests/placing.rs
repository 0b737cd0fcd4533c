//! The way from a pending pod to a node, and the messages for users if no node is found.

use std::sync::Arc;

use berth_framework::Status;
use berth_model::{Release, api};
use berth_queue::SubQueue;

use super::kit::{Bench, assigned, bind_finished, binds, events, node, pod, pod_maker, tally};
use crate::{Action, Event, Notice, PodRequest, Request, StatusChange, metrics::AttemptResult};

#[test]
fn a_pod_is_bound_and_its_owner_told() {
    let mut bench = Bench::with_nodes(2, 4);
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    assert_eq!(binds(&actions), [("a".to_owned(), "n0".to_owned())]);
    assert!(bench.scheduler.cache().pod("uid-a").is_some_and(|pod| pod.is_assumed()));
    assert_eq!(bench.scheduler.outstanding(), 1);
    bench.event(bind_finished(&actions, "a", Ok(())));
    let actions = bench.settle();
    let note = "Successfully assigned default/a to n0".to_owned();
    assert_eq!(events(&actions), [("Scheduled".to_owned(), note)]);
    bench.apply(assigned("a", 1, "n0"));
    assert!(bench.settle().is_empty());
    assert!(bench.scheduler.cache().pod("uid-a").is_some_and(|pod| !pod.is_assumed()));
    assert_eq!(bench.script(|script| script.calls.clone()), ["1 reserve a 0", "permit a ", "1 post-bind a", "end 1"]);
    let metrics = bench.scheduler.metrics();
    assert_eq!(metrics.attempts.get(&("berth".to_owned(), AttemptResult::Scheduled)), Some(&1));
    assert_eq!(metrics.queue.in_flight_pods, 0);
}

#[test]
fn a_waiting_pod_gets_the_json_that_the_watch_keeps_later() {
    let mut bench = Bench::with_nodes(1, 1);
    bench.apply(pod("large", 2));
    assert!(binds(&bench.settle()).is_empty());
    let mut whole = pod("large", 2);
    whole.json = Some(Arc::from(*b"{}"));
    bench.apply(whole);
    let waiting = bench.scheduler.queue().iter().map(|(record, place)| (record.pod.json.as_deref(), place));
    assert_eq!(waiting.collect::<Vec<_>>(), [(Some(&b"{}"[..]), SubQueue::Unschedulable)]);
}

#[test]
fn nothing_is_placed_before_the_lists_are_complete() {
    let mut bench = Bench::new();
    bench.event(Event::NodeApplied(Box::new(node("n", 4))));
    bench.apply(pod("a", 1));
    assert!(bench.settle().is_empty());
    bench.event(Event::Synced);
    assert_eq!(binds(&bench.settle()).len(), 1);
}

#[test]
fn a_pod_that_fits_nowhere_gets_a_reason_and_waits_for_a_node() {
    let mut bench = Bench::with_nodes(3, 1);
    bench.apply(pod("big", 2));
    let actions = bench.settle();
    let message = "0/3 nodes are available: 3 Insufficient cpu.";
    assert_eq!(events(&actions), [("FailedScheduling".to_owned(), message.to_owned())]);
    let Some(Action::Pod(PodRequest {
        request: Request::PatchStatus(StatusChange { condition: Some(condition), nominated_node_name: None, .. }),
        ..
    })) = actions.last()
    else {
        panic!("no condition: {actions:?}");
    };
    assert_eq!((condition.reason.as_str(), condition.observed_generation), ("Unschedulable", 1));
    assert_eq!(condition.message, message);
    assert_eq!(bench.scheduler.metrics().pending_pods.unschedulable, 1);
    bench.event(Event::NodeApplied(Box::new(node("large", 4))));
    bench.advance(1);
    assert_eq!(binds(&bench.settle()), [("big".to_owned(), "large".to_owned())], "backoff is skipped when idle");
}

#[test]
fn an_empty_cluster_is_a_reason_too() {
    let mut bench = Bench::with_nodes(0, 0);
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    assert_eq!(events(&actions)[0].1, "no nodes available to schedule pods");
    assert_eq!(bench.scheduler.metrics().pending_pods.backoff, 1);
    bench.event(Event::NodeApplied(Box::new(node("n", 4))));
    assert!(binds(&bench.settle()).is_empty(), "no event shortens the backoff of an attempt that broke");
    bench.now = bench.scheduler.next_wakeup().expect("backoff ends");
    assert_eq!(binds(&bench.settle()).len(), 1);
}

#[test]
fn a_broken_plugin_costs_an_attempt() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.broken_filter = true);
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    assert_eq!(events(&actions)[0].1, "running \"Fake\" filter plugin: boom");
    let reason = actions.iter().find_map(|action| match action {
        Action::Pod(PodRequest {
            request: Request::PatchStatus(StatusChange { condition: Some(condition), .. }),
            ..
        }) => Some(condition.reason.clone()),
        _ => None,
    });
    assert_eq!(reason.as_deref(), Some("SchedulerError"));
    bench.script(|script| script.broken_filter = false);
    bench.advance(3000);
    assert_eq!(binds(&bench.settle()).len(), 1);
}

#[test]
fn a_reason_is_written_once_although_the_watch_is_late() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.broken_filter = true);
    bench.apply(pod("a", 1));
    let n_patches = |actions: &[Action]| {
        let is_patch = |it: &&Action| matches!(it, Action::Pod(it) if matches!(it.request, Request::PatchStatus(_)));
        actions.iter().filter(is_patch).count()
    };
    assert_eq!(n_patches(&bench.settle()), 1);
    bench.advance(3000);
    let actions = bench.settle();
    assert_eq!((events(&actions).len(), n_patches(&actions)), (1, 0));
    // The API server did not accept the patch.
    bench.event(Event::StatusPatchFailed { uid: "uid-a".into() });
    bench.advance(10_000);
    assert_eq!(n_patches(&bench.settle()), 1);
}

/// The watch shows the earlier reason, while a later reason is being written. The last reason must remain.
#[test]
fn a_reason_that_comes_back_is_written_over_the_one_on_its_way() {
    let mut bench = Bench::with_nodes(1, 4);
    let asked = |actions: &[Action]| {
        actions.iter().find_map(|action| match action {
            Action::Pod(PodRequest { request: Request::PatchStatus(change), .. }) => Some(change.clone()),
            _ => None,
        })
    };
    bench.script(|script| script.broken_filter = true);
    bench.apply(pod("a", 9));
    let first = asked(&bench.settle()).and_then(|change| change.condition).expect("a condition");
    let shown = |resource_version: &str| {
        let mut shown = pod_maker("a", 9).resource_version(resource_version).build();
        shown.status.conditions = vec![first.clone()];
        shown
    };
    bench.apply(shown("2"));
    bench.script(|script| script.broken_filter = false);
    bench.advance(3000);
    let second = asked(&bench.settle()).and_then(|change| change.condition).expect("another condition");
    assert_ne!(second.reason, first.reason);
    // Another part of the pod changed.
    bench.apply(shown("3"));
    bench.script(|script| script.broken_filter = true);
    bench.event(Event::NodeApplied(Box::new(node("large", 16))));
    bench.advance(10_000);
    let third = asked(&bench.settle()).expect("the first condition once more");
    assert_eq!(third.condition, Some(first.clone()));
    let [old] = &third.old_conditions[..] else { panic!("{:?}", third.old_conditions) };
    assert_eq!((old.status.as_str(), old.reason.as_str(), old.message.as_str()), ("False", "", ""));
}

#[test]
fn a_failed_binding_gives_everything_back_and_is_tried_again() {
    let mut bench = Bench::with_nodes(1, 1);
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    bench.event(bind_finished(&actions, "a", Err("conflict")));
    let actions = bench.settle();
    assert_eq!(events(&actions)[0].1, "running Bind plugin \"Fake\": conflict");
    assert!(bench.scheduler.cache().pod("uid-a").is_none());
    assert_eq!(bench.script(|script| script.calls.clone()), ["1 reserve a 0", "permit a ", "1 unreserve a 0", "end 1"]);
    bench.advance(3000);
    assert_eq!(binds(&bench.settle()).len(), 1);
}

#[test]
fn a_lost_answer_binds_nothing_twice() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    bench.event(bind_finished(&actions, "a", Err("timeout")));
    bench.settle();
    bench.apply(assigned("a", 1, "n0"));
    bench.advance(10_000);
    assert!(binds(&bench.settle()).is_empty());
    assert_eq!(bench.scheduler.cache().sizes().pods, 1);
    assert_eq!(bench.scheduler.metrics().pending_pods, Default::default());
}

#[test]
fn the_api_servers_word_counts_before_the_answer() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.apply(pod("a", 1));
    let sent = bench.settle();
    bench.apply(assigned("a", 1, "n0"));
    assert_eq!(events(&bench.settle())[0].0, "Scheduled");
    bench.event(bind_finished(&sent, "a", Err("late")));
    assert!(bench.settle().is_empty());
    assert_eq!(bench.scheduler.metrics().bindings, 0);
}

#[test]
fn a_pod_bound_elsewhere_meanwhile_is_let_go() {
    let mut bench = Bench::with_nodes(2, 4);
    bench.apply(pod("a", 1));
    let sent = bench.settle();
    bench.apply(assigned("a", 1, "n1"));
    bench.event(bind_finished(&sent, "a", Err("conflict")));
    assert!(events(&bench.settle()).is_empty());
    assert_eq!(bench.scheduler.cache().table().pod_counts(), [0, 1]);
    assert!(bench.script(|script| script.calls.contains(&"1 unreserve a 0".to_owned())));
}

#[test]
fn a_pod_deleted_in_flight_is_forgotten_and_its_successor_placed() {
    let mut bench = Bench::with_nodes(1, 1);
    bench.apply(pod("a", 1));
    let sent = bench.settle();
    bench.apply(pod_maker("a", 1).uid("uid-second").build());
    let actions = bench.settle();
    assert_eq!(binds(&actions).len(), 1, "the name is enough to know that the first is gone");
    bench.event(bind_finished(&sent, "a", Ok(())));
    assert!(bench.settle().is_empty());
    let gone =
        Event::PodDeleted { namespace: "default".to_owned(), name: "a".to_owned(), uid: "uid-second".to_owned() };
    bench.event(gone);
    bench.settle();
    assert_eq!(bench.scheduler.cache().sizes().pods, 0);
    assert_eq!(bench.scheduler.metrics().bindings, 0);
}

#[test]
fn a_refused_reservation_names_the_one_node() {
    let mut bench = Bench::with_nodes(2, 4);
    bench.script(|script| script.refuse_reserve = Some(Status::unschedulable("taken")));
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    assert_eq!(events(&actions)[0].1, "0/1 nodes are available: 1 taken.");
    let calls = bench.script(|script| script.calls.clone());
    assert_eq!(tally(&calls).get("1 unreserve a 0"), Some(&1));
}

#[test]
fn gated_pods_wait_for_their_plugin() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.gate = true);
    bench.apply(pod("a", 1));
    assert!(bench.settle().is_empty());
    assert_eq!(bench.scheduler.metrics().pending_pods.gated, 1);
    bench.script(|script| script.gate = false);
    bench.event(Event::NodeApplied(Box::new(node("m", 4))));
    assert_eq!(binds(&bench.settle()).len(), 1);
}

#[test]
fn a_pod_about_which_no_plugin_could_be_asked_says_so_and_is_tried_again() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.broken_sync = Some("it asked for 300 MB of memory".to_owned()));
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    let told = "syncing plugin \"Fake\": it asked for 300 MB of memory";
    assert_eq!(events(&actions), [("FailedScheduling".to_owned(), told.to_owned())]);
    let is_log =
        |action: &Action| matches!(action, Action::Notice(Notice::Log { message, .. }) if message.contains(told));
    let is_condition = |action: &Action| {
        let Action::Pod(PodRequest { request: Request::PatchStatus(change), .. }) = action else { return false };
        change.condition.as_ref().is_some_and(|it| it.reason == "SchedulerError" && it.message == told)
    };
    assert!(actions.iter().any(is_log) && actions.iter().any(is_condition), "{actions:?}");
    bench.advance(10_000);
    assert!(bench.settle().is_empty(), "nothing new is to be told");
    bench.script(|script| script.broken_sync = None);
    assert!(bench.scheduler.next_wakeup().is_some_and(|at| at <= bench.now + 10_000));
    bench.advance(10_000);
    assert_eq!(binds(&bench.settle()).len(), 1);
}

#[test]
fn the_start_moves_on_by_the_nodes_that_were_looked_at() {
    let mut bench = Bench::with_nodes(250, 4);
    bench.apply(pod("a", 1));
    bench.settle();
    let found = |bench: &Bench| bench.scheduler.last_decision().expect("a decision").findings.clone();
    assert_eq!((found(&bench).sample().n_visited, found(&bench).feasible_order()[0].0), (120, 0));
    bench.apply(pod("b", 1));
    bench.settle();
    assert_eq!(found(&bench).feasible_order()[0].0, 120);
    bench.apply(pod("c", 1));
    bench.settle();
    assert_eq!(found(&bench).feasible_order()[0].0, 240);
    assert_eq!(found(&bench).feasible_order()[10].0, 0);
}

#[test]
fn nominated_pods_hold_their_place_against_lower_priorities() {
    let mut bench = Bench::of_release(Release::V1_37, 1, 1);
    let with = |name: &str, priority: i32, nominated: &str| -> api::Pod {
        pod_maker(name, 1).priority(priority).nominated_to(nominated).build()
    };
    bench.script(|script| script.gate = true);
    bench.apply(with("high", 10, "n0"));
    bench.script(|script| script.gate = false);
    bench.apply(with("low", 1, ""));
    let actions = bench.settle();
    assert!(binds(&actions).is_empty(), "the gated pod of higher priority keeps the node");
    assert_eq!(events(&actions)[0].1, "0/1 nodes are available: 1 Insufficient cpu.");
    bench.apply(with("higher", 11, ""));
    assert_eq!(binds(&bench.settle()), [("higher".to_owned(), "n0".to_owned())]);
}

/// The nomination of a gated pod does not count in 1.36 until the pod changes or reaches activeQ.
#[test]
fn a_gated_pod_holds_no_place_in_1_36() {
    let mut bench = Bench::of_release(Release::V1_36, 1, 1);
    bench.script(|script| script.gate = true);
    bench.apply(pod_maker("high", 1).priority(10).nominated_to("n0").build());
    bench.script(|script| script.gate = false);
    bench.apply(pod_maker("low", 1).priority(1).build());
    assert_eq!(binds(&bench.settle()), [("low".to_owned(), "n0".to_owned())]);
}

/// kube-scheduler looks at the status of the pod that is gone, and not at the nominations that count.
#[test]
fn the_end_of_a_gated_pod_ends_its_nomination() {
    let mut bench = Bench::of_release(Release::V1_36, 1, 1);
    bench.script(|script| script.gate = true);
    bench.apply(pod_maker("high", 1).priority(10).nominated_to("n0").build());
    bench.script(|script| script.gate = false);
    bench.apply(pod_maker("large", 2).priority(1).build());
    assert_eq!(events(&bench.settle()).len(), 1, "it fits on no node");
    bench.advance(60_000);
    assert!(events(&bench.settle()).is_empty());
    let [namespace, name, uid] = ["default", "high", "uid-high"].map(str::to_owned);
    bench.event(Event::PodDeleted { namespace, name, uid });
    assert_eq!(events(&bench.settle()).len(), 1, "it is tried again");
}

#[test]
fn a_node_deleted_before_the_binding_is_sent_fails_it() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.permit = Some(berth_framework::PermitVerdict::Wait(60_000)));
    bench.apply(pod("a", 1));
    bench.settle();
    bench.event(Event::NodeDeleted { name: "n0".to_owned() });
    bench.script(|script| {
        script.permit = None;
        script.permit_effects = vec![berth_framework::Effect::Allow { uid: "uid-a".to_owned() }];
    });
    bench.event(Event::NodeApplied(Box::new(node("n1", 4))));
    bench.apply(pod("b", 1));
    let actions = bench.settle();
    assert!(events(&actions).iter().any(|(_, note)| note == "node \"n0\" not found"), "{actions:?}");
    bench.advance(3000);
    assert_eq!(binds(&bench.settle()), [("a".to_owned(), "n1".to_owned())]);
}

#[test]
fn shutting_down_sends_nothing_more() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.apply(pod("a", 1));
    let sent = bench.settle();
    bench.apply(pod("b", 1));
    bench.event(Event::Shutdown);
    assert!(bench.settle().is_empty());
    assert_eq!((bench.scheduler.outstanding(), bench.scheduler.next_wakeup()), (1, None));
    bench.event(bind_finished(&sent, "a", Ok(())));
    assert_eq!(bench.scheduler.outstanding(), 0);
    assert_eq!(events(&bench.settle())[0].0, "Scheduled");
}

#[test]
fn deleting_pods_are_skipped() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.apply(pod_maker("a", 1).terminating().build());
    let actions = bench.settle();
    assert_eq!(events(&actions)[0].1, "skip schedule deleting pod: default/a");
    assert_eq!(bench.scheduler.metrics().pending_pods, Default::default());
}

#[test]
fn pods_that_move_each_other_do_not_keep_the_scheduler_busy() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.refuse_reserve = Some(Status::unschedulable("taken")));
    for name in ["a", "b", "c"] {
        bench.apply(pod(name, 1));
    }
    bench.settle();
    assert!(bench.scheduler.next_wakeup().is_some_and(|wakeup| wakeup > bench.now));
}

#[test]
fn a_pod_that_lost_its_node_is_scheduled_again() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.apply(assigned("a", 4, "n0"));
    bench.apply(pod("b", 4));
    assert!(binds(&bench.settle()).is_empty());
    // The API server's storage was restored from a backup.
    let mut restored = pod("a", 4);
    restored.metadata.resource_version = "0".to_owned();
    bench.apply(restored);
    assert_eq!(bench.scheduler.cache().sizes().pods, 0);
    assert_eq!(binds(&bench.settle()), [("a".to_owned(), "n0".to_owned())]);
}
