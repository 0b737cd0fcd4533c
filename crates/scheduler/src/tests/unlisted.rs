//! Kinds that may not be listed. Pods that need a plugin which reads such a kind stay pending.

use berth_framework::{ObjectKind, UnlistedKind};

use super::kit::{Bench, binds, events, pod};
use crate::Event;

fn services() -> ObjectKind {
    ObjectKind { api_version: "v1".to_owned(), kind: "Service".to_owned() }
}

fn unlisted(dispensable_for: &[&str]) -> Event {
    let dispensable_for = dispensable_for.iter().map(|name| (*name).to_owned()).collect();
    let reason = "the scheduler may not list services".to_owned();
    Event::KindUnlisted { kind: services(), unlisted: UnlistedKind { reason, dispensable_for } }
}

/// A scheduler whose plugin reads services, or whose next plugin does.
fn bench() -> Bench {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.reads_services = true);
    bench.swap("2");
    bench.settle();
    bench
}

#[test]
fn pods_wait_until_the_kind_is_listed() {
    let mut bench = bench();
    bench.event(unlisted(&[]));
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    let note = "0/1 nodes are available: plugin \"Fake\" cannot decide about this pod: the scheduler may not list \
                services.";
    assert_eq!(events(&actions)[0].1, note);
    bench.swap("3");
    bench.advance(15_000);
    assert!(binds(&bench.settle()).is_empty(), "another binary sees no more");
    bench.event(Event::KindListed(services()));
    bench.advance(15_000);
    assert_eq!(binds(&bench.settle()).len(), 1);
}

#[test]
fn a_gate_that_cannot_see_does_not_hide_why_the_pod_waits() {
    let mut bench = bench();
    bench.script(|script| script.gate = true);
    bench.apply(pod("a", 1));
    assert!(events(&bench.settle()).is_empty(), "the gate is closed");
    bench.event(unlisted(&[]));
    assert!(events(&bench.settle())[0].1.ends_with("the scheduler may not list services."));
}

#[test]
fn whoever_can_do_without_goes_on() {
    let mut bench = bench();
    bench.event(unlisted(&["Fake"]));
    bench.apply(pod("a", 1));
    assert_eq!(binds(&bench.settle()).len(), 1);
}
