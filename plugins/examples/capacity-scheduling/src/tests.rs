//! Two namespaces that share a cluster, without wasm.

use berth_sdk::{
    framework::Removal,
    model::Pod,
    testing::{TestCluster, node, pod},
};
use serde_json::json;

use super::*;

/// A dry run in which the pod fits on a node once this many pods are removed.
struct FitsWithout(usize);

impl DryRun for FitsWithout {
    fn dry_run(&mut self, cases: &[Removal]) -> Result<Vec<Status>, Status> {
        let verdict = |case: &Removal| match case.pods.len() >= self.0 {
            true => Status::success(),
            false => Status::unschedulable("Insufficient cpu"),
        };
        Ok(cases.iter().map(verdict).collect())
    }
}

struct Scene {
    cluster: TestCluster,
    plugin: CapacityScheduling,
}

impl Scene {
    /// A scene in which `red` and `blue` are guaranteed 4 CPUs each, and use at most 6.
    fn new() -> Self {
        let mut cluster = TestCluster::default();
        cluster.set_node(&node("n").build());
        for namespace in ["red", "blue"] {
            cluster.set_object(&json!({
                "apiVersion": API_VERSION, "kind": KIND, "metadata": {"namespace": namespace, "name": "quota"},
                "spec": {"min": {"cpu": "4"}, "max": {"cpu": 6}},
            }));
        }
        Self { cluster, plugin: CapacityScheduling::default() }
    }

    fn place(&mut self, namespace: &str, name: &str, cpu: &str, priority: i32) {
        let pod = pod(name).namespace(namespace).request("cpu", cpu).priority(priority).on("n").build();
        self.cluster.set_pod(&pod).unwrap();
    }

    fn pending(&mut self, namespace: &str, cpu: &str) -> Pod {
        self.cluster.intern(&pod("new").namespace(namespace).request("cpu", cpu).build())
    }

    fn judge(&mut self, namespace: &str, cpu: &str) -> Status {
        let pod = self.pending(namespace, cpu);
        self.plugin.follow(self.cluster.table());
        let call = self.cluster.call(1, &pod);
        self.plugin.pre_filter(&call).err().unwrap_or_else(Status::success)
    }

    /// The names of the victims after PreFilter, and the code with which PostFilter ends.
    fn reclaim(&mut self, namespace: &str, cpu: &str, fits_without: usize) -> (Code, Vec<String>) {
        let _ = self.judge(namespace, cpu);
        let pod = self.pending(namespace, cpu);
        let call = self.cluster.call(1, &pod);
        let mut dry_run = FitsWithout(fits_without);
        let outcome = self.plugin.post_filter(&call, &Failure::default(), &mut dry_run).unwrap();
        let name = |effect: &Effect| match effect {
            Effect::Evict { name, .. } => name.clone(),
            other => panic!("{other:?}"),
        };
        (outcome.status.code, outcome.effects.iter().map(name).collect())
    }
}

#[test]
fn a_namespace_borrows_what_others_leave_up_to_its_max() {
    let mut scene = Scene::new();
    scene.place("red", "r1", "4", 0);
    assert_eq!(scene.judge("red", "2"), Status::success());
    assert_eq!(scene.judge("red", "3"), Status::unresolvable("quota of red: cpu would be 7 of 6"));
    scene.place("blue", "b1", "3", 0);
    assert_eq!(scene.judge("red", "2"), Status::unresolvable("all quotas together: cpu would be 9 of 8"));
    assert_eq!(scene.judge("green", "100"), Status::success());
}

#[test]
fn what_was_borrowed_is_given_back() {
    let mut scene = Scene::new();
    scene.place("red", "r1", "4", 10);
    scene.place("red", "r2", "1", 10);
    scene.place("red", "r3", "1", 5);
    scene.place("blue", "b1", "2", 0);
    assert_eq!(scene.judge("blue", "1"), Status::unschedulable("all quotas together: cpu would be 9 of 8"));
    // The least important borrowed pod leaves, and no further pod.
    assert_eq!(scene.reclaim("blue", "1", 1), (Code::Success, vec!["r3".to_owned()]));
    assert_eq!(scene.reclaim("blue", "2", 1), (Code::Success, vec!["r3".to_owned(), "r2".to_owned()]));
    assert_eq!(scene.reclaim("blue", "1", 2), (Code::Success, vec!["r3".to_owned(), "r2".to_owned()]));
    // Red keeps its guaranteed amount, and preemption by priority must not help another namespace.
    assert_eq!(scene.reclaim("blue", "2", 3), (Code::UnschedulableAndUnresolvable, vec![]));
}

#[test]
fn who_borrows_evicts_nobody() {
    let mut scene = Scene::new();
    scene.place("red", "r1", "5", 0);
    scene.place("blue", "b1", "3", 0);
    assert_eq!(scene.reclaim("blue", "2", 1), (Code::Unschedulable, vec![]));
}

#[test]
fn pods_that_leave_and_quotas_that_change_count_at_once() {
    let mut scene = Scene::new();
    scene.place("red", "r1", "6", 0);
    assert!(!scene.judge("red", "1").is_success());
    assert!(scene.cluster.remove_pod("r1"));
    assert!(scene.judge("red", "1").is_success());
    scene.cluster.set_object(&json!({
        "apiVersion": API_VERSION, "kind": KIND, "metadata": {"namespace": "red", "name": "quota"},
        "spec": {"min": {"cpu": "0"}, "max": {"cpu": "500m"}},
    }));
    assert_eq!(scene.judge("red", "1"), Status::unresolvable("quota of red: cpu would be 1 of 500m"));
}
