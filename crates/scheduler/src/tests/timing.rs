//! The measurements of a scheduler with a clock.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use berth_framework::{Clock, Point, PreFlight, Status};
use berth_model::{ObjectKey, api};
use serde_json::json;

use super::kit::{Bench, bind_finished, node, pod, pod_maker};
use crate::{
    Action, AttemptOutcome, Event, Notice, Observation,
    metrics::{AttemptResult, HintAnswer},
};

/// A clock that advances by a fixed number of milliseconds at each reading.
#[derive(Debug)]
struct Ticks {
    now: AtomicU64,
    step: u64,
}

impl Clock for Ticks {
    fn now(&self) -> Duration {
        Duration::from_millis(self.now.fetch_add(self.step, Ordering::Relaxed))
    }
}

fn measured_bench() -> Bench {
    bench_with_step(1)
}

fn bench_with_step(step: u64) -> Bench {
    let mut bench = Bench::with_nodes(2, 4);
    bench.scheduler = bench.scheduler.with_clock(Arc::new(Ticks { now: AtomicU64::default(), step }), 0);
    bench
}

/// The pods whose searches were slow, with the steps.
fn slow_searches(actions: &[Action]) -> Vec<(String, Vec<String>)> {
    let slow = |action: &Action| match action {
        Action::Notice(Notice::SlowSearch { pod, total, steps, .. }) => {
            assert!(steps.iter().map(|(_, duration)| *duration).sum::<Duration>() <= *total);
            Some((pod.name.to_string(), steps.iter().map(|(step, _)| step.to_string()).collect()))
        }
        _ => None,
    };
    actions.iter().filter_map(slow).collect()
}

#[test]
fn a_slow_search_is_told_with_its_steps() {
    let mut bench = bench_with_step(30);
    bench.apply(pod("placed", 1));
    let filtered_and_scored = vec!["Computing predicates done".to_owned(), "Prioritizing done".to_owned()];
    assert_eq!(slow_searches(&bench.settle()), [("placed".to_owned(), filtered_and_scored)]);
    bench.apply(pod("big", 5));
    assert_eq!(slow_searches(&bench.settle()), [("big".to_owned(), vec!["Computing predicates done".to_owned()])]);
    let mut bench = bench_with_step(1);
    bench.apply(pod("placed", 1));
    assert_eq!(slow_searches(&bench.settle()), []);
}

#[test]
fn each_attempt_says_what_became_of_the_pod() {
    let outcomes = |actions: &[Action]| -> Vec<AttemptOutcome> {
        let outcome = |action: &Action| match action {
            Action::Notice(Notice::Attempted { outcome, .. }) => Some(outcome.clone()),
            _ => None,
        };
        actions.iter().filter_map(outcome).collect()
    };
    let mut bench = Bench::with_nodes(2, 4);
    bench.apply(pod("a", 3));
    let sent = bench.settle();
    assert_eq!(outcomes(&sent), []);
    bench.event(bind_finished(&sent, "a", Ok(())));
    let node = super::kit::binds(&sent)[0].1.as_str().into();
    assert_eq!(outcomes(&bench.settle()), [AttemptOutcome::Bound { node, n_evaluated: 2, n_feasible: 2 }]);
    bench.apply(pod("b", 2));
    let sent = bench.settle();
    bench.event(bind_finished(&sent, "b", Err("no")));
    let message = "running Bind plugin \"Fake\": no".to_owned();
    assert_eq!(outcomes(&bench.settle()), [AttemptOutcome::Failed { message, is_fault: false }]);
    bench.apply(pod("big", 5));
    let message = "0/2 nodes are available: 2 Insufficient cpu.".to_owned();
    assert_eq!(outcomes(&bench.settle()), [AttemptOutcome::Unschedulable { message }]);
}

#[test]
fn an_attempt_is_measured_from_its_cycle_to_its_binding() {
    let mut bench = measured_bench();
    bench.script(|script| script.pre_flight = Some(Ok(PreFlight::default())));
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    bench.event(bind_finished(&actions, "a", Ok(())));
    let observations = bench.scheduler.drain_observations();
    let is_attempt = |it: &&Observation| matches!(it, Observation::Attempt { .. });
    let attempts: Vec<&Observation> = observations.iter().filter(is_attempt).collect();
    let [Observation::Attempt { result: AttemptResult::Scheduled, duration, .. }] = attempts.as_slice() else {
        panic!("{observations:?}");
    };
    assert!(*duration > Duration::from_millis(10), "{duration:?}");
    assert!(observations.iter().any(|it| matches!(it, Observation::Algorithm { .. })), "{observations:?}");
    assert!(
        observations
            .iter()
            .any(|it| matches!(it, Observation::EventHandled { event, .. } if &**event == "UnschedulablePodAdd")),
        "{observations:?}"
    );
    let mut points = BTreeSet::new();
    let mut asked = 0;
    bench.scheduler.drain_measured(|profile, measured| {
        points.extend(measured.points.iter().map(|time| time.point));
        asked += profile.find("Fake").map_or(0, |plugin| measured.calls(Point::Filter, plugin));
    });
    let in_cycle = ["PreEnqueue", "PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit"];
    for point in in_cycle.into_iter().chain(["PreBindPreFlight", "PreBind", "Bind", "PostBind"]) {
        assert!(points.contains(point), "{point} is missing from {points:?}");
    }
    assert_eq!(asked, 2, "one plugin about two nodes");
    bench.scheduler.drain_measured(|_, measured| assert!(measured.points.is_empty()));
}

#[test]
fn pre_bind_is_measured_also_when_nobody_has_something_to_do() {
    let mut bench = measured_bench();
    bench.script(|script| script.pre_flight = Some(Err(Status::skip())));
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    bench.event(bind_finished(&actions, "a", Ok(())));
    let mut points = BTreeSet::new();
    bench.scheduler.drain_measured(|_, measured| points.extend(measured.points.iter().map(|time| time.point)));
    assert!(points.contains("PreBind"), "{points:?}");
}

#[test]
fn a_rejected_pod_and_the_event_that_wakes_it_are_measured() {
    let mut bench = measured_bench();
    bench.apply(pod("big", 5));
    bench.settle();
    bench.event(Event::NodeApplied(Box::new(node("large", 8))));
    let observations = bench.scheduler.drain_observations();
    let is_rejection =
        |it: &Observation| matches!(it, Observation::Attempt { result: AttemptResult::Unschedulable, .. });
    assert!(observations.iter().any(is_rejection), "{observations:?}");
    let is_hint = |it: &Observation| matches!(it, Observation::QueueingHint { plugin, event, answer: HintAnswer::Queue, .. } if &**plugin == "Fake" && &**event == "NodeAdd");
    assert!(observations.iter().any(is_hint), "{observations:?}");
}

#[test]
fn a_plugin_that_cannot_be_asked_for_its_hint_counts_as_an_error() {
    let mut bench = measured_bench();
    bench.apply(pod("big", 5));
    bench.settle();
    bench.scheduler.drain_observations();
    bench.script(|script| (script.hints, script.has_no_time) = (true, true));
    bench.event(Event::NodeApplied(Box::new(node("large", 8))));
    let observations = bench.scheduler.drain_observations();
    let is_error = |it: &Observation| matches!(it, Observation::QueueingHint { answer: HintAnswer::Error, .. });
    assert!(observations.iter().any(is_error), "{observations:?}");
}

#[test]
fn without_a_clock_nothing_is_timed() {
    let mut bench = Bench::with_nodes(2, 4);
    bench.apply(pod("a", 1));
    bench.settle();
    assert!(bench.scheduler.drain_observations().is_empty());
}

#[test]
fn only_events_that_a_plugin_registered_for_are_measured() {
    let mut bench = measured_bench();
    bench.scheduler.drain_observations();
    let [api_version, namespace, name] = ["v1", "default", "web"].map(str::to_owned);
    for (kind, is_event) in [("Service", true), ("Namespace", false)] {
        let (api_version, namespace, name) = (api_version.clone(), namespace.clone(), name.clone());
        let key = ObjectKey { api_version, kind: kind.to_owned(), namespace, name };
        bench.event(Event::ObjectApplied { resource: kind.to_owned(), key, json: Arc::from(*b"{}") });
        let observations = bench.scheduler.drain_observations();
        let is_handled = observations.iter().any(|it| matches!(it, Observation::EventHandled { .. }));
        assert_eq!(is_handled, is_event, "{kind}");
    }
}

#[test]
fn an_event_is_measured_under_each_of_its_labels() {
    let mut bench = measured_bench();
    let gated = pod_maker("a", 1).spec("schedulingGates", json!([{"name": "example.com/wait"}])).build();
    bench.apply(gated);
    bench.scheduler.drain_observations();
    bench.apply(pod_maker("a", 1).resource_version("2").build());
    assert_eq!(handled(&mut bench), ["UnschedulablePodUpdate", "UnschedulablePodUpdatePodSchedulingGatesEliminated"]);
    bench.apply(pod_maker("a", 1).resource_version("3").on("n0").build());
    assert_eq!(handled(&mut bench), ["AssignedPodAdd", "UnschedulablePodDelete"]);
}

/// As in kube-scheduler, which compares the conditions as a map from types to statuses.
#[test]
fn only_types_and_statuses_of_a_nodes_conditions_are_compared() {
    let mut bench = measured_bench();
    let mut apply = |conditions: &[(&str, &str)]| {
        let condition = |&(type_, status): &(&str, &str)| api::Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            ..api::Condition::default()
        };
        let mut changed = node("n0", 4);
        changed.status.conditions = conditions.iter().map(condition).collect();
        bench.event(Event::NodeApplied(Box::new(changed)));
        handled(&mut bench)
    };
    assert!(apply(&[("Ready", "False"), ("DiskPressure", "True")]).contains(&"NodeUpdateNodeCondition".to_owned()));
    assert_eq!(apply(&[("DiskPressure", "True"), ("Ready", "False")]), [""; 0], "the order does not matter");
    assert_eq!(apply(&[("DiskPressure", "True"), ("Ready", "True")]), ["NodeUpdateNodeCondition"]);
    assert_eq!(
        apply(&[("Ready", "False"), ("DiskPressure", "True"), ("Ready", "True")]),
        [""; 0],
        "the last one counts"
    );
}

fn handled(bench: &mut Bench) -> Vec<String> {
    let observations = bench.scheduler.drain_observations();
    let labels = observations.into_iter().filter_map(|it| match it {
        Observation::EventHandled { event, .. } => Some(event.to_string()),
        _ => None,
    });
    labels.collect()
}
