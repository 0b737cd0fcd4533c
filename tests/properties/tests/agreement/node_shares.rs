//! Tests that the plugins give the same answers natively and as components for devices that take CPUs of their node
//! (KEP-5517), with the gate DRANodeAllocatableResources on and off.

use berth_model::{Feature, Features, Pod, Release};
use berth_testing::TestCluster;
use oracle::{Execution, Native, TestedProfile};
use properties::{
    answers::{Answers, ProfileRun, differences},
    changing_cluster::{decode_node, decode_pod},
};
use serde_json::{Value, json};

use super::WASM;

/// A node with four CPUs, and a claim for a device that takes this many of them.
fn cluster(features: Features, cpus: &str) -> TestCluster {
    let mut cluster = TestCluster::default();
    cluster.set_features(features);
    cluster.set_node(&decode_node(&json!({"metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}})));
    let device = json!({"name": "cpus", "nodeAllocatableResourceMappings": {"cpu": {"allocationMultiplier": cpus}},
        "nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": cpus}}}});
    let request = json!({"name": "r", "exactly": {"deviceClassName": "cpus", "count": 1}});
    let objects = [
        ("DeviceClass", json!({"name": "cpus"}), json!({})),
        (
            "ResourceSlice",
            json!({"name": "slice"}),
            json!({"driver": "cpus.example.com", "pool": {"name": "n", "resourceSliceCount": 1}, "nodeName": "n",
                "devices": [device]}),
        ),
        (
            "ResourceClaim",
            json!({"namespace": "default", "name": "c", "uid": "uid-c"}),
            json!({"devices": {"requests": [request]}}),
        ),
    ];
    for (kind, metadata, spec) in objects {
        let object = json!({"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec});
        cluster.set_object(&object);
    }
    cluster
}

/// A pod that requests one CPU and uses the claim.
fn pod() -> Value {
    let container = json!({"name": "main", "resources": {"requests": {"cpu": "1"}, "claims": [{"name": "cpus"}]}});
    json!({"metadata": {"namespace": "default", "name": "p", "uid": "uid-p"},
        "spec": {"containers": [container], "resourceClaims": [{"name": "cpus", "resourceClaimName": "c"}]}})
}

fn answers(execution: &dyn Execution, features: Features, cpus: &str) -> Answers {
    let mut subject = TestedProfile::build(None, features, execution).unwrap();
    let mut cluster = cluster(features, cpus);
    let json = pod();
    let pod = cluster.intern(&decode_pod(&json));
    let pod = Pod { json: Some(json.to_string().into_bytes().into()), ..pod };
    assert!(subject.profile.sync(cluster.cache()).is_ok());
    let order = [cluster.node("n").unwrap()];
    let mut run =
        ProfileRun { profile: &mut subject.profile, cluster: &cluster, pod: &pod, order: &order, seed: 0, cycle: 2 };
    run.answers().0
}

#[test]
fn components_count_what_devices_take_of_their_node_as_native_plugins_do() {
    for release in Release::ALL {
        let with_gate = |is_on| Features::of(release).with(Feature::DRANodeAllocatableResources, is_on);
        for cpus in ["3", "4"] {
            let [on, off] = [true, false].map(|is_on| {
                let native = answers(&Native, with_gate(is_on), cpus);
                let component = answers(&*WASM, with_gate(is_on), cpus);
                assert_eq!(differences(("native", &native), ("component", &component)), Vec::<String>::new());
                native
            });
            assert_ne!(on, off, "{release:?}: {cpus} CPUs");
        }
    }
}
