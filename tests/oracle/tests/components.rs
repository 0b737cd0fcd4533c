//! Answers of built-in plugins that no recorded case shows, natively and as components.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::sync::LazyLock;

use berth_framework::{Call, Plugin};
use berth_model::{NodeIdx, NodeSet, Pod};
use berth_testing::{TestCluster, node, pod};
use oracle::{Execution, Native, Wasm, artefacts_of_tests};
use serde_json::{Value, json};

/// The components. They take half a minute to compile, unless an earlier test program has compiled them.
static WASM: LazyLock<Wasm> =
    LazyLock::new(|| Wasm::load(Some(&artefacts_of_tests(env!("CARGO_TARGET_TMPDIR")))).unwrap());

fn executions() -> [&'static dyn Execution; 2] {
    [&Native, &*WASM]
}

fn build(execution: &dyn Execution, plugin: &str, args: &Value) -> Box<dyn Plugin> {
    execution.factory(plugin).unwrap().build(&args.to_string()).unwrap()
}

/// With the gate StorageCapacityScoring, kube-scheduler's plugin scores every pod. The plugin is not asked about later
/// pods like the first, and their decisions show its zeros all the same.
#[test]
fn zeros_for_pods_without_volumes_are_in_the_decision_if_the_plugin_scores_them() {
    for execution in executions() {
        for is_on in [true, false] {
            let mut cluster = TestCluster::default();
            for name in ["a", "b"] {
                cluster.set_node(&node(name).build());
            }
            let mut plugin = build(execution, "VolumeBinding", &json!({"features": {"StorageCapacityScoring": is_on}}));
            for number in 1..=4 {
                let pod = cluster.intern(&pod(&format!("pod-{number}")).build());
                plugin.sync(cluster.cache()).unwrap();
                let call = cluster.call(number, &pod);
                assert!(plugin.pre_filter().unwrap().pre_filter(&call).is_err());
                let scores = berth_testing::score(plugin.as_mut(), &call, call.table.nodes()).unwrap();
                let expected = is_on.then(|| vec![0, 0]);
                assert_eq!(scores.map(|scores| scores.raw), expected, "{} {number}", execution.name());
                plugin.end_cycle(call.cycle);
            }
        }
    }
}

/// A cluster with one device on its only node and the claims `c` and `d`.
fn cluster_with_device() -> TestCluster {
    let mut cluster = TestCluster::default();
    cluster.set_node(&node("node-1").build());
    let mut set = |kind: &str, object: Value| {
        let mut whole = object;
        (whole["apiVersion"], whole["kind"]) = (json!("resource.k8s.io/v1"), json!(kind));
        cluster.set_object(&whole);
    };
    set("DeviceClass", json!({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}));
    set(
        "ResourceSlice",
        json!({"metadata": {"name": "slice"}, "spec": {"driver": "gpu.example.com", "nodeName": "node-1",
            "pool": {"name": "node-1", "resourceSliceCount": 1}, "devices": [{"name": "gpu-0"}]}}),
    );
    for name in ["c", "d"] {
        set(
            "ResourceClaim",
            json!({"metadata": {"namespace": "default", "name": name, "uid": format!("{name}-uid"),
                "resourceVersion": "1"},
                "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1}}]}}}),
        );
    }
    cluster
}

fn pod_with_claim(cluster: &mut TestCluster, name: &str, claim: &str) -> Pod {
    let claims = json!([{"name": "gpu", "resourceClaimName": claim}]);
    let pod = pod(name).namespace("default").uid(&format!("{name}-uid")).spec("resourceClaims", claims);
    cluster.intern(&pod.build())
}

fn ask<R>(
    plugin: &mut dyn Plugin,
    cluster: &TestCluster,
    cycle: u64,
    pod: &Pod,
    ask: impl FnOnce(&mut dyn Plugin, &Call<'_>) -> R,
) -> R {
    plugin.sync(cluster.cache()).unwrap();
    ask(plugin, &cluster.call(cycle, pod))
}

/// The nodes that PreFilter and Filter leave.
fn passing(plugin: &mut dyn Plugin, call: &Call<'_>) -> NodeSet {
    let mut nodes = call.table.nodes().clone();
    match plugin.pre_filter().unwrap().pre_filter(call) {
        Ok(_) => plugin.filter().unwrap().filter(call, &mut nodes).unwrap(),
        Err(_) => nodes = NodeSet::default(),
    }
    nodes
}

/// Enters what the instance shares, as the scheduler does.
fn share(plugin: &mut dyn Plugin, cluster: &mut TestCluster) {
    for fact in plugin.take_facts() {
        cluster.cache_mut().set_object(fact.key("DynamicResources"), fact.json);
    }
}

/// Two profiles have two instances. kube-scheduler's profiles share one `SharedDRAManager`.
#[test]
fn instances_of_two_profiles_share_allocations_in_flight() {
    for execution in executions() {
        let mut cluster = cluster_with_device();
        let (first, second) = (pod_with_claim(&mut cluster, "first", "c"), pod_with_claim(&mut cluster, "second", "d"));
        let [mut one, mut other] = [(); 2].map(|()| build(execution, "DynamicResources", &Value::Null));
        assert_eq!(ask(one.as_mut(), &cluster, 1, &first, passing).len(), 1);
        let reserved =
            ask(one.as_mut(), &cluster, 1, &first, |it, call| it.reserve().unwrap().reserve(call, NodeIdx(0)));
        assert!(reserved.is_success(), "{reserved:?}");
        share(one.as_mut(), &mut cluster);
        assert_eq!(ask(other.as_mut(), &cluster, 2, &second, passing).len(), 0, "{}", execution.name());
        ask(one.as_mut(), &cluster, 1, &first, |it, call| it.reserve().unwrap().unreserve(call, NodeIdx(0)));
        share(one.as_mut(), &mut cluster);
        assert_eq!(ask(other.as_mut(), &cluster, 3, &second, passing).len(), 1, "{}", execution.name());
    }
}
