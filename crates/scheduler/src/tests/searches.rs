//! Searches for nodes that take long, and the pods that wait for them.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use berth_framework::{
    Call, Clock, DryRunCase, Filter, Grants, Hook, HookRef, Manifest, Plugin, PluginVersion, Point, PointRef, Points,
    RejectedNodes, SchedulingTime, Share, Status, TimeBounds,
};
use berth_model::{NodeSet, Pod, api};
use serde_json::json;

use super::kit::{Bench, Shared, bound, node, pod, pod_maker};
use crate::{Action, Event};

/// A clock that plugins advance.
#[derive(Clone, Debug, Default)]
struct Hand(Arc<AtomicU64>);

impl Clock for Hand {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// A plugin whose search for pods called `slow-…` lasts a second, or until the deadline.
struct Searches {
    manifest: Manifest,
    hand: Hand,
    /// The time that each search took, in milliseconds.
    took: Arc<Mutex<Vec<(String, u64)>>>,
}

impl Plugin for Searches {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }
    fn points(&self) -> Points {
        [Point::Filter].into_iter().collect()
    }
    fn version(&self) -> PluginVersion {
        PluginVersion::native(&self.manifest)
    }
    fn at(&mut self, point: Point) -> Option<PointRef<'_>> {
        (point == Point::Filter).then_some(PointRef::Filter(self))
    }
    fn hook(&mut self, _hook: Hook) -> Option<HookRef<'_>> {
        None
    }
}

impl Filter for Searches {
    fn filter(&mut self, call: &Call<'_>, _candidates: &mut NodeSet) -> Result<(), Status> {
        if !call.pod.name.starts_with("slow-") {
            return Ok(());
        }
        let started = self.hand.now();
        while !call.deadline.is_over() && self.hand.now() < started + Duration::from_secs(1) {
            self.hand.0.fetch_add(1, Ordering::Relaxed);
        }
        let took = u64::try_from((self.hand.now() - started).as_millis()).expect("a second");
        self.took.lock().expect("one thread").push((call.pod.name.to_string(), took));
        Err(Status::error("timed out"))
    }
    fn node_to_status(&mut self, _call: &Call<'_>, _rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
        Ok(Vec::new())
    }
    fn dry_run(&mut self, _call: &Call<'_>, _pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        Ok(vec![Status::success(); cases.len()])
    }
}

/// The names of pods with the time that their searches took.
type Took = Arc<Mutex<Vec<(String, u64)>>>;

/// A scheduler, a clock, and the times that searches took. The search for a node for a pod called `slow-…` takes a
/// second, unless the scheduler ends it earlier.
fn searching() -> (Bench, Hand, Took) {
    let (hand, took) = (Hand::default(), Took::default());
    let manifest = Manifest { name: "Searches".to_owned(), ..Manifest::default() };
    let plugin = Searches { manifest, hand: hand.clone(), took: Arc::clone(&took) };
    let mut profile = Bench::profile("berth", &Shared::default(), Grants::ALL);
    let idx = profile.add(Box::new(plugin), "null", Grants::ALL);
    profile.want(Point::Filter, idx);
    let time = SchedulingTime::new(Box::new(hand.clone()));
    let half = Duration::from_millis(500);
    let search = Some(Duration::from_millis(250));
    let namespace = Some(Share { per_second: half, burst: half });
    time.set_bounds(TimeBounds { all_plugins: None, namespace, search });
    let mut bench = Bench::with_profiles(vec![profile], Shared::default());
    bench.scheduler = bench.scheduler.with_time(time).with_clock(Arc::new(hand.clone()), 1);
    bench.event(Event::NodeApplied(Box::new(node("n0", 1000))));
    bench.event(Event::Synced);
    (bench, hand, took)
}

fn in_namespace(name: &str, namespace: &str) -> api::Pod {
    pod_maker(name, 1).metadata("namespace", json!(namespace)).build()
}

#[test]
fn slow_searches_delay_no_pod_of_the_same_or_another_namespace_by_a_second() {
    for namespace in ["default", "other"] {
        for one_each in [false, true] {
            let (mut bench, hand, took) = searching();
            for number in 0..10 {
                let of_slow = if one_each { format!("tenant-{number}") } else { "default".to_owned() };
                bench.apply(in_namespace(&format!("slow-{number}"), &of_slow));
            }
            bench.apply(in_namespace("healthy", namespace));
            let mut sent = Vec::new();
            while bound(&sent).is_empty() {
                assert!(bench.scheduler.run(bench.now, false));
                sent.extend(bench.scheduler.drain_actions());
            }
            assert!(hand.now() < Duration::from_secs(1), "{namespace} {one_each} {:?}: {took:?}", hand.now());
        }
    }
}

#[test]
fn pods_whose_searches_are_cut_wait_until_nobody_else_does_and_get_a_full_one_then() {
    let (mut bench, _, took) = searching();
    (0..4).for_each(|number| bench.apply(pod(&format!("slow-{number}"), 1)));
    bench.settle();
    let lengths = |took: &Mutex<Vec<(String, u64)>>| -> Vec<u64> {
        std::mem::take(&mut *took.lock().expect("one thread")).into_iter().map(|(_, took)| took).collect()
    };
    assert_eq!(lengths(&took), [250, 250, 250, 20]);
    bench.advance(5_000);
    bench.apply(pod("healthy", 1));
    assert!(bench.scheduler.run(bench.now, true));
    let actions: Vec<Action> = bench.scheduler.drain_actions().collect();
    assert_eq!(bound(&actions), ["healthy"], "although they were queued before");
    assert!(!bench.scheduler.run(bench.now, true), "no long search begins while other work may wait");
    assert!(lengths(&took).is_empty());
    bench.settle();
    assert_eq!(lengths(&took), [250, 250, 250, 250]);
}
