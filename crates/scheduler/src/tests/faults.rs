//! Plugins that fault, and plugins that have used up their time.

use std::{sync::Arc, time::Duration};

use berth_framework::{
    BuildError, DeltaSource, Grants, Hosted, Manifest, Plugin, PluginFactory, PluginVersion, Point, Points, Status,
};
use berth_model::{BinaryId, Digest, PodUid, api};
use serde_json::json;

use super::kit::{Bench, Fake, Shared, binds, bound, events, pod, pod_maker};
use crate::{Action, Event, HeldPods, PodRequest, Request, StatusChange, Supervision};

fn owned(name: &str, owner: &str) -> api::Pod {
    let owner =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true}]);
    pod_maker(name, 1).metadata("ownerReferences", owner).build()
}

/// Reports a fault of the plugin over this pod. Returns the time for which pods of its owner are held.
fn fault(bench: &mut Bench, digest: u8, pod: Option<&str>) -> Option<u64> {
    held(bench, digest, pod).map(|held| held.milliseconds)
}

/// Reports a fault of the plugin over this pod. Returns the pods that are held.
fn held(bench: &mut Bench, digest: u8, pod: Option<&str>) -> Option<HeldPods> {
    let (plugin, reason) = ("Fake".to_owned(), "trapped in filter".to_owned());
    let (took, pod) = (Duration::from_millis(3), pod.map(|name| PodUid::from(format!("uid-{name}"))));
    bench.event(Event::PluginFaulted { plugin, digest: Digest::new([digest; 32]), reason, took, pod });
    let held = bench.scheduler.drain_actions().find_map(|action| match action {
        Action::Supervise(Supervision::Faulted { held, .. }) => Some(held),
        _ => None,
    });
    held.expect("a notice")
}

/// A plugin without extension points. Without a binary, it stands for a plugin that an operator disabled.
#[derive(Clone, Debug)]
struct Idle {
    manifest: Manifest,
    binary: Option<BinaryId>,
}

impl Idle {
    /// Lets this binary, or none, answer for `Fake` in all profiles.
    fn swap(bench: &mut Bench, binary: Option<BinaryId>) {
        let manifest = Manifest { name: "Fake".to_owned(), ..Manifest::default() };
        let factory = Arc::new(Self { manifest, binary });
        let ready = Event::plugin_ready(bench.scheduler.objects(), "Fake".to_owned(), None, factory, None);
        bench.event(ready);
    }
}

impl PluginFactory for Idle {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }
    fn points(&self) -> Points {
        Points::default()
    }
    fn version(&self) -> PluginVersion {
        Plugin::version(self)
    }
    fn build(&self, _args: &str) -> Result<Box<dyn Plugin>, BuildError> {
        Ok(Box::new(self.clone()))
    }
}

impl Plugin for Idle {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }
    fn version(&self) -> PluginVersion {
        PluginVersion { binary: self.binary, ..PluginVersion::native(&self.manifest) }
    }
    berth_framework::points!();
    berth_framework::hooks!(Hosted);
}

impl Hosted for Idle {
    fn sync(&mut self, _source: &dyn DeltaSource) -> Result<(), Status> {
        Ok(())
    }
    fn out_of_service(&self) -> Option<Status> {
        None
    }
    fn answered_badly(&mut self, _reason: &str) {}
}

fn conditions(actions: &[Action]) -> Vec<(String, String)> {
    let condition = |action: &Action| match action {
        Action::Pod(PodRequest { request: Request::PatchStatus(StatusChange { condition, .. }), .. }) => {
            condition.as_ref().map(|condition| (condition.reason.clone(), condition.message.clone()))
        }
        _ => None,
    };
    actions.iter().filter_map(condition).collect()
}

#[test]
fn pods_of_an_owner_are_held_after_the_second_fault_and_others_are_not() {
    let mut bench = Bench::with_nodes(1, 8);
    bench.script(|script| script.broken_filter = true);
    bench.apply(owned("a1", "a"));
    bench.settle();
    assert_eq!(fault(&mut bench, 1, Some("a1")), None, "one is forgiven");
    bench.advance(15_000);
    bench.settle();
    assert_eq!(fault(&mut bench, 1, Some("a1")), Some(60_000));
    bench.script(|script| script.broken_filter = false);
    bench.apply(owned("a2", "a"));
    bench.apply(owned("b1", "b"));
    bench.apply(pod("alone", 1));
    let actions = bench.settle();
    let mut bound: Vec<String> = binds(&actions).into_iter().map(|(pod, _)| pod).collect();
    bound.sort();
    assert_eq!(bound, ["alone", "b1"]);
    let message = "0/1 nodes are available: plugin \"Fake\" faulted 2 times over pods of this owner, the last time it \
        trapped in filter; they are held back for a while.";
    assert!(conditions(&actions).contains(&("Unschedulable".to_owned(), message.to_owned())), "{actions:?}");
    assert!(events(&actions).contains(&("FailedScheduling".to_owned(), message.to_owned())));
    assert_eq!(bench.scheduler.metrics().held_owners["Fake"], 1);
    bench.advance(59_999);
    assert!(binds(&bench.settle()).is_empty());
    bench.advance(1);
    let mut bound: Vec<String> = binds(&bench.settle()).into_iter().map(|(pod, _)| pod).collect();
    bound.sort();
    assert_eq!(bound, ["a1", "a2"], "the hold is over");
    assert_eq!(fault(&mut bench, 1, Some("a2")), Some(120_000), "the next one is twice as long");
}

/// People know controllers and pods by their names, not by their uids.
#[test]
fn held_pods_are_named() {
    let mut bench = Bench::with_nodes(1, 8);
    bench.script(|script| script.broken_filter = true);
    let mut told = |pod: api::Pod| {
        let name = pod.metadata.name.clone();
        bench.apply(pod);
        bench.settle();
        fault(&mut bench, 1, Some(&name));
        held(&mut bench, 1, Some(&name)).map(|held| held.to_string()).unwrap_or_default()
    };
    assert_eq!(told(owned("a1", "web")), "the pods of ReplicaSet default/web are held back for 60 s");
    assert_eq!(told(pod("alone", 1)), "pod default/alone is held back for 60 s");
    assert_eq!(told(owned("b1", "b\nERROR")), "the pods of ReplicaSet default/b\\nERROR are held back for 60 s");
}

#[test]
fn what_one_binary_faults_over_another_is_asked_about() {
    let mut bench = Bench::with_nodes(1, 8);
    bench.script(|script| script.broken_filter = true);
    bench.apply(pod("a", 1));
    bench.settle();
    fault(&mut bench, 1, Some("a"));
    assert_eq!(fault(&mut bench, 1, Some("a")), Some(60_000));
    bench.advance(15_000);
    let message = "0/1 nodes are available: plugin \"Fake\" faulted 2 times over this pod, the last time it trapped in \
        filter; the pod is held back for a while.";
    let actions = bench.settle();
    assert!(conditions(&actions).contains(&("Unschedulable".to_owned(), message.to_owned())), "{actions:?}");
    bench.script(|script| script.broken_filter = false);
    bench.swap("2");
    assert_eq!(binds(&bench.settle()).len(), 1);
    assert_eq!(fault(&mut bench, 1, Some("a")), None, "a record of its own");
}

#[test]
fn faults_hold_no_pods_while_the_plugin_is_disabled() {
    let script = Shared::default();
    let mut profile = Bench::profile("berth", &script, Grants::ALL);
    let binder = profile.add(Box::new(Fake::new("Binder", "1", &script)), "null", Grants::ALL);
    Point::ALL.into_iter().for_each(|point| profile.want(point, binder));
    let mut bench = Bench::with_profiles(vec![profile], script).and_nodes(1, 8);
    let binary = BinaryId::Component(Digest::new([1; 32]));
    Idle::swap(&mut bench, Some(binary));
    bench.script(|script| script.broken_filter = true);
    bench.apply(owned("a1", "a"));
    bench.settle();
    fault(&mut bench, 1, Some("a1"));
    assert_eq!(fault(&mut bench, 1, Some("a1")), Some(60_000));
    bench.script(|script| script.broken_filter = false);
    bench.advance(15_000);
    assert!(binds(&bench.settle()).is_empty(), "the pod is held");
    assert_eq!(bench.scheduler.metrics().held_owners["Fake"], 1);
    Idle::swap(&mut bench, None);
    assert_eq!(bound(&bench.settle()), ["a1"], "the pod is tried at once");
    assert!(!bench.scheduler.metrics().held_owners.contains_key("Fake"));
    // The same binary would fault over these pods again.
    Idle::swap(&mut bench, Some(binary));
    bench.apply(owned("a2", "a"));
    assert!(binds(&bench.settle()).is_empty(), "the pod is held");
    bench.advance(45_000);
    assert_eq!(bound(&bench.settle()), ["a2"], "the hold is over");
}

#[test]
fn a_fault_outside_of_cycles_holds_nobody() {
    let mut bench = Bench::with_nodes(1, 8);
    for _ in 0..5 {
        assert_eq!(fault(&mut bench, 1, None), None);
    }
    bench.apply(pod("a", 1));
    assert_eq!(binds(&bench.settle()).len(), 1);
}

#[test]
fn a_pod_waits_for_a_plugin_that_has_used_up_its_time() {
    let mut bench = Bench::with_nodes(1, 8);
    bench.apply(pod("early", 1));
    bench.script(|script| script.has_no_time = true);
    bench.advance(1000);
    let actions = bench.settle();
    assert!(binds(&actions).is_empty());
    assert_eq!(conditions(&actions), [("SchedulerError".to_owned(), "no time".to_owned())]);
    // The plugin's gate stays closed for a pod about which the plugin was not asked.
    bench.apply(pod("late", 1));
    assert!(bench.settle().is_empty());
    bench.script(|script| script.has_no_time = false);
    bench.advance(15_000);
    let mut bound: Vec<String> = binds(&bench.settle()).into_iter().map(|(pod, _)| pod).collect();
    bench.advance(15_000);
    bound.extend(binds(&bench.settle()).into_iter().map(|(pod, _)| pod));
    bound.sort();
    assert_eq!(bound, ["early", "late"]);
}

#[test]
fn pods_that_came_past_a_placeholder_are_asked_about_when_the_plugin_is_back() {
    let mut bench = Bench::with_nodes(1, 8);
    bench.script(|script| {
        script.out_of_service = Some("restarting".to_owned());
        script.without = Point::ALL.into();
    });
    bench.swap("2");
    bench.apply(pod("a", 1));
    bench.script(|script| {
        script.without.clear();
        script.gate = true;
    });
    bench.swap("3");
    bench.script(|script| script.out_of_service = None);
    bench.advance(15_000);
    assert!(binds(&bench.settle()).is_empty(), "the gate is closed to it");
    bench.script(|script| script.gate = false);
    bench.swap("4");
    assert_eq!(binds(&bench.settle()).len(), 1);
}
