//! Traced attempts: their ends come as actions, and their steps come with the measurements.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use berth_framework::{
    Clock, CycleId, Effect, PermitVerdict, Point, PostFilterOutcome, Status, TraceSampling, TracedSpan,
};
use berth_model::NodeIdx;

use super::kit::{Bench, assigned, bind_finished, pod};
use crate::{
    Action, AttemptOutcome, Event, PERMIT_WAIT, PluginEffects, PodRequest, Request, StatusChange, TracedAttempt,
    TracedPreemption,
};

/// A clock that advances by a millisecond at each reading.
#[derive(Debug, Default)]
struct Ticks(AtomicU64);

impl Clock for Ticks {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

fn traced_bench(per_million: u32) -> Bench {
    let mut bench = Bench::with_nodes(1, 4);
    let clock = Arc::new(Ticks::default());
    bench.scheduler = bench.scheduler.with_clock(clock, 0).with_traces(TraceSampling::new(0, per_million));
    bench
}

fn ends(actions: &[Action]) -> Vec<TracedAttempt> {
    let end = |action: &Action| match action {
        Action::Traced(attempt) => Some(TracedAttempt::clone(attempt)),
        _ => None,
    };
    actions.iter().filter_map(end).collect()
}

fn spans(bench: &mut Bench) -> Vec<TracedSpan> {
    let mut spans = Vec::new();
    bench.scheduler.drain_measured(|_, measured| spans.extend(&measured.spans));
    spans
}

/// The names of the spans that are no calls, in order.
fn steps(spans: &[TracedSpan]) -> Vec<&'static str> {
    spans.iter().filter(|span| span.call.is_none()).map(|span| span.name).collect()
}

#[test]
fn the_steps_of_a_bound_pod_lie_within_its_attempt() {
    let mut bench = traced_bench(TraceSampling::ALL);
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    assert!(ends(&actions).is_empty(), "the attempt goes on");
    bench.event(bind_finished(&actions, "a", Ok(())));
    let actions = bench.settle();
    let ended = ends(&actions);
    let [attempt] = ended.as_slice() else { panic!("{actions:?}") };
    assert_eq!((attempt.cycle, attempt.number, attempt.node.as_deref()), (CycleId(1), 1, Some("n0")));
    assert!(matches!(attempt.outcome, Some(AttemptOutcome::Bound { n_feasible: 1, .. })), "{attempt:?}");
    let spans = spans(&mut bench);
    let within = |span: &TracedSpan| attempt.start <= span.start && span.start < span.end && span.end <= attempt.end;
    assert!(spans.iter().all(|span| span.cycle == CycleId(1) && within(span)), "{attempt:?} {spans:?}");
    let expected = [
        "Sync",
        "Sign",
        "PreFilter",
        "Filter",
        "StoreResults",
        "Assume",
        "Reserve",
        "Permit",
        "PreBindPreFlight",
        "PreBind",
        "Bind",
        "PostBind",
    ];
    assert_eq!(steps(&spans), expected);
    let calls: Vec<_> = spans.iter().filter_map(|span| Some((span.name, span.call?.within.is_some()))).collect();
    assert!(calls.contains(&("Filter", true)) && calls.contains(&("Bind", false)), "{calls:?}");
}

#[test]
fn a_wait_for_permit_is_a_step() {
    let mut bench = traced_bench(TraceSampling::ALL);
    bench.script(|script| script.permit = Some(PermitVerdict::Wait(10_000)));
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    let cycle = actions.iter().find_map(|action| match action {
        Action::Pod(PodRequest { request: Request::PatchStatus(StatusChange { cycle, .. }), .. }) => *cycle,
        _ => None,
    });
    assert_eq!(cycle, Some(CycleId(1)), "the expected node is published for this attempt");
    bench.script(|script| {
        script.permit = None;
        script.permit_effects = vec![Effect::Allow { uid: "uid-a".to_owned() }];
    });
    bench.apply(pod("b", 1));
    bench.settle();
    let spans = spans(&mut bench);
    let of_a: Vec<TracedSpan> = spans.into_iter().filter(|span| span.cycle == CycleId(1)).collect();
    let steps = steps(&of_a);
    let wait = steps.iter().position(|name| *name == PERMIT_WAIT).expect("a wait");
    assert_eq!(steps.get(wait + 1..), Some(&["Sync", "PreBind"][..]), "{steps:?}");
}

#[test]
fn a_preemption_is_told_with_its_victims() {
    let mut bench = traced_bench(TraceSampling::ALL);
    bench.apply(assigned("low", 2, "n0"));
    let evict = Effect::Evict {
        namespace: "default".to_owned(),
        name: "low".to_owned(),
        uid: "uid-low".to_owned(),
        message: String::new(),
    };
    let outcome =
        PostFilterOutcome { status: Status::success(), nominate: Some(Some(NodeIdx(0))), effects: vec![evict] };
    bench.script(|script| script.post_filter = Some(outcome));
    bench.apply(pod("high", 4));
    let actions = bench.settle();
    let ended = ends(&actions);
    let [attempt] = ended.as_slice() else { panic!("{actions:?}") };
    assert!(matches!(attempt.outcome, Some(AttemptOutcome::Unschedulable { .. })), "{attempt:?}");
    let preemption = TracedPreemption { node: Some("n0".to_owned()), victims: vec!["default/low".to_owned()] };
    assert_eq!(attempt.preemption, Some(preemption));
    let asked = actions.iter().find_map(|action| match action {
        Action::Pod(PodRequest { request: Request::AwaitedEffects(PluginEffects { cycle, point, .. }), .. }) => {
            Some((*cycle, *point))
        }
        _ => None,
    });
    assert_eq!(asked, Some((CycleId(1), Point::PostFilter)));
    let steps = steps(&spans(&mut bench));
    assert!(steps.contains(&"Diagnose") && steps.contains(&"PostFilter"), "{steps:?}");
}

#[test]
fn an_attempt_whose_pod_is_deleted_ends_without_an_outcome() {
    let mut bench = traced_bench(TraceSampling::ALL);
    bench.apply(pod("a", 1));
    bench.settle();
    let [namespace, name, uid] = ["default", "a", "uid-a"].map(str::to_owned);
    bench.event(Event::PodDeleted { namespace, name, uid });
    let ended = ends(&bench.settle());
    assert!(matches!(ended.as_slice(), [TracedAttempt { outcome: None, .. }]), "{ended:?}");
}

#[test]
fn an_attempt_that_is_not_traced_leaves_nothing() {
    let mut bench = traced_bench(0);
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    bench.event(bind_finished(&actions, "a", Ok(())));
    assert!(ends(&bench.settle()).is_empty() && spans(&mut bench).is_empty());
}
