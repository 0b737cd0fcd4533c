//! What the scheduler measures when it has a clock.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use berth_framework::{Clock, Point};

use super::kit::{Bench, bind_finished, node, pod};
use crate::{Event, Observation, metrics::AttemptResult};

/// Each look at the clock is a millisecond after the one before.
#[derive(Debug, Default)]
struct Ticks(AtomicU64);

impl Clock for Ticks {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

fn measured_bench() -> Bench {
    let mut bench = Bench::with_nodes(2, 4);
    bench.scheduler = bench.scheduler.with_clock(Arc::new(Ticks::default()), 0);
    bench
}

#[test]
fn an_attempt_is_measured_from_its_cycle_to_its_binding() {
    let mut bench = measured_bench();
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
    for point in
        ["PreEnqueue", "PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "PreBind", "Bind", "PostBind"]
    {
        assert!(points.contains(point), "{point} is missing from {points:?}");
    }
    assert_eq!(asked, 2, "one plugin about two nodes");
    bench.scheduler.drain_measured(|_, measured| assert!(measured.points.is_empty()));
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
    let is_hint = |it: &Observation| matches!(it, Observation::QueueingHint { plugin, event, queues: true, .. } if &**plugin == "Fake" && &**event == "NodeAdd");
    assert!(observations.iter().any(is_hint), "{observations:?}");
}

#[test]
fn without_a_clock_nothing_is_timed() {
    let mut bench = Bench::with_nodes(2, 4);
    bench.apply(pod("a", 1));
    bench.settle();
    assert!(bench.scheduler.drain_observations().is_empty());
}
