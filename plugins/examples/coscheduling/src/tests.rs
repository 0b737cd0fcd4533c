//! Tests of groups at Permit, without wasm.

use std::cell::Cell;

use berth_sdk::{
    model::Pod,
    testing::{TestCluster, node, pod},
};
use serde_json::json;

use super::*;
use crate::groups::LABEL;

struct NoDryRun;

impl DryRun for NoDryRun {
    fn dry_run(&mut self, _cases: &[berth_sdk::framework::Removal]) -> Result<Vec<Status>, Status> {
        Ok(Vec::new())
    }
}

/// A cluster, the plugin, and pods that go through it one after the other.
struct Scene {
    cluster: TestCluster,
    plugin: Coscheduling,
    n_cycles: u64,
}

impl Scene {
    fn with_groups(groups: &[(&str, usize)]) -> Self {
        let mut cluster = TestCluster::default();
        cluster.set_node(&node("n").build());
        for (name, min_member) in groups {
            cluster.set_object(&json!({
                "apiVersion": API_VERSION, "kind": KIND, "metadata": {"namespace": "default", "name": name},
                "spec": {"minMember": min_member, "scheduleTimeoutSeconds": 10},
            }));
        }
        let plugin = Coscheduling { clock: now, ..Coscheduling::configure("null").unwrap() };
        NOW.set(1_000_000);
        Self { cluster, plugin, n_cycles: 0 }
    }

    /// Places a pod of no group on the node. The pod may leave the node again.
    fn stranger(&mut self, name: &str) {
        self.cluster.set_pod(&pod(name).on("n").build()).unwrap();
    }

    /// Ends the member's wait by a time-out. The member gives back the place that it took in this cycle.
    fn time_out(&mut self, pod: &Pod, cycle: u64) {
        let call = self.cluster.call(cycle, pod);
        Reserve::unreserve(&mut self.plugin, &call, NodeIdx(0));
    }

    /// Reports that the member fits nowhere.
    fn fail(&mut self, pod: &Pod) {
        self.n_cycles += 1;
        let call = self.cluster.call(self.n_cycles, pod);
        PreFilter::pre_filter(&mut self.plugin, &call).unwrap();
        PostFilter::post_filter(&mut self.plugin, &call, &Failure::default(), &mut NoDryRun).unwrap();
    }

    fn member(&mut self, group: &str, name: &str) -> Pod {
        self.cluster.intern(&pod(name).label(LABEL, group).build())
    }

    /// Calls PreFilter, and then Reserve and Permit if PreFilter passes.
    fn place(&mut self, pod: &Pod) -> Result<(PermitVerdict, Vec<Effect>), Status> {
        self.n_cycles += 1;
        let call = self.cluster.call(self.n_cycles, pod);
        PreFilter::pre_filter(&mut self.plugin, &call)?;
        assert!(Reserve::reserve(&mut self.plugin, &call, NodeIdx(0)).is_success());
        Ok(Permit::permit(&mut self.plugin, &call, NodeIdx(0)))
    }
}

thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
}

fn now() -> u64 {
    NOW.get()
}

fn advance(seconds: u64) {
    NOW.set(NOW.get() + seconds * 1000);
}

fn allow(uid: &str) -> Effect {
    Effect::Allow { uid: uid.to_owned() }
}

#[test]
fn members_wait_until_enough_are_there() {
    let mut scene = Scene::with_groups(&[("a", 3)]);
    let [one, two, three] = ["a1", "a2", "a3"].map(|name| scene.member("a", name));
    let wait = Ok((PermitVerdict::Wait(10_000), Vec::new()));
    assert_eq!(scene.place(&one), wait);
    assert_eq!(scene.place(&two), wait);
    assert_eq!(scene.place(&three), Ok((PermitVerdict::Allow, vec![allow("a1"), allow("a2")])));
}

#[test]
fn members_on_nodes_count() {
    let mut scene = Scene::with_groups(&[("a", 2)]);
    scene.cluster.set_pod(&pod("a0").label(LABEL, "a").on("n").build()).unwrap();
    let pod = scene.member("a", "a1");
    assert_eq!(scene.place(&pod), Ok((PermitVerdict::Allow, Vec::new())));
}

#[test]
fn one_group_gathers_at_a_time() {
    let mut scene = Scene::with_groups(&[("a", 2), ("b", 2)]);
    let [a1, a2] = ["a1", "a2"].map(|name| scene.member("a", name));
    let b1 = scene.member("b", "b1");
    scene.place(&a1).unwrap();
    let busy = Status::unresolvable("waiting for pod group default/a, which is gathering");
    assert_eq!(scene.place(&b1), Err(busy));
    scene.place(&a2).unwrap();
    assert_eq!(scene.place(&b1), Ok((PermitVerdict::Wait(10_000), Vec::new())));
}

#[test]
fn a_group_that_gave_up_makes_room_for_the_next() {
    let mut scene = Scene::with_groups(&[("a", 2), ("b", 2)]);
    let (a1, b1) = (scene.member("a", "a1"), scene.member("b", "b1"));
    scene.place(&a1).unwrap();
    let call = scene.cluster.call(1, &a1);
    Reserve::unreserve(&mut scene.plugin, &call, NodeIdx(0));
    assert_eq!(scene.place(&b1), Ok((PermitVerdict::Wait(10_000), Vec::new())));
}

#[test]
fn a_member_that_fits_nowhere_sends_the_others_back() {
    let mut scene = Scene::with_groups(&[("a", 3)]);
    let [a1, a2, a3] = ["a1", "a2", "a3"].map(|name| scene.member("a", name));
    scene.place(&a1).unwrap();
    scene.place(&a2).unwrap();
    let call = scene.cluster.call(9, &a3);
    let outcome = PostFilter::post_filter(&mut scene.plugin, &call, &Failure::default(), &mut NoDryRun).unwrap();
    let uids: Vec<_> = outcome
        .effects
        .iter()
        .map(|effect| match effect {
            Effect::Reject { uid, .. } => uid.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(uids, ["a1", "a2"]);
    assert_eq!(outcome.status.message(), "pod group default/a was sent back");
}

const WAIT: Result<(PermitVerdict, Vec<Effect>), Status> = Ok((PermitVerdict::Wait(10_000), Vec::new()));

fn rests(group: &str) -> Result<(PermitVerdict, Vec<Effect>), Status> {
    Err(Status::unresolvable(format!("pod group default/{group} did not fit lately")))
}

#[test]
fn a_group_that_did_not_fit_rests_as_a_whole() {
    let mut scene = Scene::with_groups(&[("a", 3), ("b", 2)]);
    let [a1, a2, a3] = ["a1", "a2", "a3"].map(|name| scene.member("a", name));
    let b1 = scene.member("b", "b1");
    assert_eq!(scene.place(&a1), WAIT);
    scene.fail(&a2);
    scene.time_out(&a1, 1);
    for member in [&a1, &a2, &a3] {
        assert_eq!(scene.place(member), rests("a"));
    }
    assert_eq!(scene.place(&b1), WAIT, "the others have a chance");
    scene.time_out(&b1, scene.n_cycles);
    advance(9);
    assert_eq!(scene.place(&a1), rests("a"));
    advance(1);
    assert_eq!(scene.place(&a1), WAIT);
}

#[test]
fn a_group_whose_time_was_out_rests() {
    let mut scene = Scene::with_groups(&[("a", 2)]);
    let [a1, a2] = ["a1", "a2"].map(|name| scene.member("a", name));
    assert_eq!(scene.place(&a1), WAIT);
    scene.time_out(&a1, 1);
    assert_eq!(scene.place(&a2), rests("a"));
}

#[test]
fn a_group_that_came_together_does_not_rest_when_a_binding_fails() {
    let mut scene = Scene::with_groups(&[("a", 1)]);
    let a1 = scene.member("a", "a1");
    assert_eq!(scene.place(&a1), Ok((PermitVerdict::Allow, Vec::new())));
    scene.time_out(&a1, 1);
    assert_eq!(scene.place(&a1), Ok((PermitVerdict::Allow, Vec::new())));
}

#[test]
fn a_rest_ends_when_there_is_more_room() {
    let mut scene = Scene::with_groups(&[("a", 2)]);
    let a1 = scene.member("a", "a1");
    scene.stranger("s");
    scene.fail(&a1);
    assert_eq!(scene.place(&a1), rests("a"));
    scene.cluster.remove_pod("s");
    assert_eq!(scene.place(&a1), WAIT, "a pod left");
    scene.time_out(&a1, scene.n_cycles);
    assert_eq!(scene.place(&a1), rests("a"));
    scene.cluster.set_node(&node("n2").build());
    assert_eq!(scene.place(&a1), WAIT, "a node came");
}

#[test]
fn pods_without_a_group_pass_and_those_of_an_unknown_one_wait() {
    let mut scene = Scene::with_groups(&[]);
    let alone = scene.cluster.intern(&pod("p").build());
    assert_eq!(scene.place(&alone), Ok((PermitVerdict::Allow, Vec::new())));
    let lost = scene.member("nowhere", "l");
    let unknown = Status::unresolvable("waiting for pod group default/nowhere to be created");
    assert_eq!(scene.place(&lost), Err(unknown));
}
