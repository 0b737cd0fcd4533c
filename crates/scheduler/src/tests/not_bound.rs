//! For explanations, the scheduler records why a pod was not bound to its chosen node.

use berth_explain::NotBound;
use berth_framework::{PermitVerdict, Status};

use super::kit::{Bench, bind_finished, pod};
use crate::{Event, Settings};

/// A bench that records decisions.
fn recording() -> Bench {
    let mut bench = Bench::with_nodes(1, 4);
    let settings = Settings { records_decisions: true, ..Settings::default() };
    bench.event(Event::reconfigured(bench.scheduler.objects(), settings, None, None));
    bench
}

/// The recorded reasons, each with its pod and attempt. The decisions of the attempts were recorded, too.
fn recorded(bench: &mut Bench) -> Vec<(String, u32, NotBound)> {
    let decided: Vec<_> = bench.scheduler.drain_decisions().map(|record| (record.uid, record.attempt)).collect();
    let mut reasons = Vec::new();
    for not_bound in bench.scheduler.drain_not_bound() {
        assert!(decided.contains(&(not_bound.uid.clone(), not_bound.attempt)), "{decided:?}");
        reasons.push((not_bound.uid.to_string(), not_bound.attempt, not_bound.reason));
    }
    reasons
}

fn at(point: &str, message: &str) -> Vec<(String, u32, NotBound)> {
    let reason =
        NotBound { point: Some(point.to_owned()), plugin: Some("Fake".to_owned()), message: message.to_owned() };
    vec![("uid-a".to_owned(), 1, reason)]
}

#[test]
fn a_plugin_that_rejects_the_pod_is_recorded_with_its_point() {
    let mut bench = recording();
    bench.script(|script| script.refuse_reserve = Some(Status::unschedulable("no share")));
    bench.apply(pod("a", 1));
    bench.settle();
    assert_eq!(recorded(&mut bench), at("Reserve", "no share"));

    let mut bench = recording();
    bench.script(|script| script.permit = Some(PermitVerdict::Deny(Status::unschedulable("not today"))));
    bench.apply(pod("a", 1));
    bench.settle();
    assert_eq!(recorded(&mut bench), at("Permit", "not today"));

    let mut bench = recording();
    bench.script(|script| script.permit = Some(PermitVerdict::Wait(10_000)));
    bench.apply(pod("a", 1));
    bench.settle();
    assert_eq!(bench.scheduler.drain_not_bound().count(), 0, "it waits");
    bench.advance(10_000);
    bench.settle();
    let message = "rejected due to timeout after waiting 10s at plugin Fake";
    assert_eq!(recorded(&mut bench), at("Permit", message));
}

#[test]
fn a_plugin_that_fails_is_recorded_with_its_point() {
    let mut bench = recording();
    bench.script(|script| {
        script.pre_flight = Some(Ok(Default::default()));
        script.refuse_pre_bind = Some(Status::error("no volume"));
    });
    bench.apply(pod("a", 1));
    bench.settle();
    assert_eq!(recorded(&mut bench), at("PreBind", "running PreBind plugin \"Fake\": no volume"));

    let mut bench = recording();
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    bench.event(bind_finished(&actions, "a", Err("the API server is full")));
    bench.settle();
    let message = "running Bind plugin \"Fake\": the API server is full";
    assert_eq!(recorded(&mut bench), at("Bind", message));
}

#[test]
fn nothing_is_recorded_unless_decisions_are() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.refuse_reserve = Some(Status::unschedulable("no share")));
    bench.apply(pod("a", 1));
    bench.settle();
    assert_eq!(bench.scheduler.drain_not_bound().count(), 0);
}
