//! Tests of the plugin with pods and NUMA zones. The plugin runs natively.

use berth_sdk::{
    framework::Code,
    testing::{PodMaker, TestCluster, node, pod},
};
use serde_json::{Value, json};

use super::*;

/// Two zones with this much CPU left in each zone, and two devices in the second zone.
fn topology(scope: &str, cpus: [&str; 2]) -> Value {
    let zone = |name: &str, resources: &[(&str, &str)]| {
        let resources: Vec<Value> = resources
            .iter()
            .map(|(name, available)| json!({"name": name, "capacity": "64", "allocatable": "64", "available": available}))
            .collect();
        json!({"name": name, "type": "Node", "resources": resources})
    };
    json!({
        "apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "n"},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": "single-numa-node"},
            {"name": "topologyManagerScope", "value": scope},
        ],
        "zones": [
            zone("node-0", &[("cpu", cpus[0]), ("example.com/nic", "0")]),
            zone("node-1", &[("cpu", cpus[1]), ("example.com/nic", "2")]),
        ],
    })
}

struct Scene {
    cluster: TestCluster,
    plugin: NumaAware,
}

impl Scene {
    fn new(topology: &Value) -> Self {
        let mut cluster = TestCluster::default();
        cluster.set_node(&node("n").build());
        cluster.set_object(topology);
        Self { cluster, plugin: NumaAware::configure("null").unwrap() }
    }

    /// Whether the pod passes; `None` if PreFilter skips.
    fn passes(&mut self, pod: PodMaker) -> Option<bool> {
        let pod = self.cluster.intern(&pod.build_with_json());
        self.cluster.sync(&mut self.plugin).unwrap();
        self.plugin.follow(self.cluster.table());
        let call = self.cluster.call(1, &pod);
        match self.plugin.pre_filter(&call) {
            Err(status) => {
                assert_eq!(status.code, Code::Skip);
                None
            }
            Ok(_) => {
                let mut nodes = call.table.nodes().clone();
                self.plugin.filter(&call, &mut nodes).unwrap();
                Some(!nodes.is_empty())
            }
        }
    }
}

/// A Guaranteed pod whose containers each ask for this number of CPUs.
fn guaranteed(cpus: &[&str]) -> PodMaker {
    let containers: Vec<Value> = cpus
        .iter()
        .map(|cpu| json!({"name": "main", "image": "example.com/main:1", "resources": {"requests": {"cpu": cpu}}}))
        .collect();
    pod("p").spec("containers", json!(containers)).status("qosClass", json!("Guaranteed"))
}

#[test]
fn each_container_needs_a_zone_that_has_room_for_it() {
    let mut scene = Scene::new(&topology("container", ["4", "6"]));
    assert_eq!(scene.passes(guaranteed(&["6"])), Some(true));
    assert_eq!(scene.passes(guaranteed(&["7"])), Some(false));
    assert_eq!(scene.passes(guaranteed(&["4", "6"])), Some(true));
    assert_eq!(scene.passes(guaranteed(&["4", "4", "4"])), Some(false));
}

#[test]
fn with_scope_pod_the_whole_pod_needs_one() {
    let mut scene = Scene::new(&topology("pod", ["4", "6"]));
    assert_eq!(scene.passes(guaranteed(&["3", "3"])), Some(true));
    assert_eq!(scene.passes(guaranteed(&["4", "3"])), Some(false));
}

#[test]
fn of_other_pods_devices_count_alone() {
    let mut scene = Scene::new(&topology("container", ["4", "6"]));
    let burstable = |name: &str, amount: &str| pod("p").request(name, amount).status("qosClass", json!("Burstable"));
    assert_eq!(scene.passes(burstable("cpu", "20")), None);
    assert_eq!(scene.passes(burstable("example.com/nic", "2")), Some(true));
    assert_eq!(scene.passes(burstable("example.com/nic", "3")), Some(false));
    // No zone lists these resources.
    assert_eq!(scene.passes(burstable("example.com/fpga", "3")), Some(true));
}

#[test]
fn a_new_pod_counts_in_every_zone_until_the_agent_has_seen_it_run() {
    let mut scene = Scene::new(&topology("container", ["4", "6"]));
    let there = || pod("there").on("n").request("cpu", "3");
    let started = || there().status("startTime", json!("2026-11-22T08:00:00Z"));
    assert_eq!(scene.passes(guaranteed(&["4"])), Some(true));
    scene.cluster.set_pod(&there().build()).unwrap();
    assert_eq!(scene.passes(guaranteed(&["4"])), Some(false));
    assert_eq!(scene.passes(guaranteed(&["3"])), Some(true));
    // The agent writes before the pod has started, and again after the start.
    scene.cluster.set_object(&topology("container", ["4", "5"]));
    assert_eq!(scene.passes(guaranteed(&["3"])), Some(false));
    scene.cluster.set_pod(&started().build()).unwrap();
    assert_eq!(scene.passes(guaranteed(&["3"])), Some(false));
    scene.cluster.set_object(&topology("container", ["1", "5"]));
    assert_eq!(scene.passes(guaranteed(&["5"])), Some(true));
}

#[test]
fn nodes_with_another_policy_or_without_a_report_pass() {
    let mut other = topology("container", ["1", "1"]);
    other["attributes"][0]["value"] = json!("best-effort");
    let mut scene = Scene::new(&other);
    scene.cluster.set_node(&node("silent").build());
    assert_eq!(scene.passes(guaranteed(&["7"])), Some(true));
}
