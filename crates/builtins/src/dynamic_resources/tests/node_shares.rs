//! The gate DRANodeAllocatableResources: the amounts that devices take from their node (KEP-5517), in both releases.

use berth_framework::{DryRunCase, Effect, Fact};
use berth_model::{Feature, Features, NodeIdx, Pod, Release, pod::Resources};
use serde_json::{Value, json};

use super::device_cluster::DeviceCluster;
use crate::testing::{merge, pod_of, show};

const MILLI_CPU: i64 = 4000;

/// A cluster whose nodes have four CPUs and 8 GiB. Its plugin has the gate on or off.
fn cluster(release: Release, is_on: bool) -> DeviceCluster {
    let features = Features::of(release).with(Feature::DRANodeAllocatableResources, is_on);
    let mut cluster = DeviceCluster::with_args(&json!({ "features": features }).to_string());
    for name in ["node-1", "node-2"] {
        let allocatable = Resources { milli_cpu: MILLI_CPU, memory: 8 << 30, ..Resources::default() };
        cluster.cluster.edit_node(name, |node| node.allocatable = allocatable);
    }
    cluster
}

/// A device that stands for this many CPUs, in the fields of both releases.
fn cpus(amount: &str) -> Value {
    json!([{
        "name": "cpus",
        "nodeAllocatableResourceMappings": {"cpu": {"allocationMultiplier": amount}},
        "nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": amount}}},
    }])
}

/// A device with overhead alone, which only 1.37 knows.
fn overhead() -> Value {
    json!([{"name": "gpu", "nodeAllocatableResources": {"cpu": {"overhead": {"perPod": "100m", "perContainer": "200m"}}}}])
}

/// A pod whose container requests one CPU and uses all of the claims. `more` is merged into the pod.
fn pod(cluster: &mut DeviceCluster, name: &str, claims: &[&str], more: &Value) -> Pod {
    let of_pod: Value = claims.iter().map(|claim| json!({"name": claim, "resourceClaimName": claim})).collect();
    let used: Value = claims.iter().map(|claim| json!({"name": claim})).collect();
    let container = json!({"name": "main", "resources": {"requests": {"cpu": "1"}, "claims": used}});
    let mut object = json!({"metadata": {"namespace": "default", "name": name, "uid": format!("{name}-uid")},
        "spec": {"resourceClaims": of_pod, "containers": [container]}});
    merge(&mut object, more);
    let json = object.to_string().into_bytes();
    Pod { json: Some(json.into()), ..cluster.decode_pod(object) }
}

/// The answer of Filter for the pod on `node-1`, which has the devices.
fn verdict(cluster: &mut DeviceCluster, cycle: u64, pod: &Pod) -> String {
    cluster.verdicts(cycle, pod).swap_remove(0)
}

/// What PreBind writes into the pod's status; `None` if it writes nothing there.
fn written(effects: &[Effect]) -> Option<Value> {
    effects.iter().find_map(|effect| {
        let Effect::Patch { kind, patch, .. } = effect else { return None };
        let patch: Value = serde_json::from_slice(patch).unwrap();
        let claims = patch.pointer("/status/nodeAllocatableResourceClaimStatuses");
        claims.filter(|_| kind == "v1/Pod").cloned()
    })
}

/// The status that is written if the pod is placed on `node-1`.
fn placed(cluster: &mut DeviceCluster, pod: &Pod) -> Option<Value> {
    assert_eq!(verdict(cluster, 1, pod), "");
    assert_eq!(cluster.reserve(1, pod, 0), "");
    written(&cluster.pre_bind(1, pod, 0).unwrap())
}

#[test]
fn devices_take_a_share_of_their_node_with_the_gate() {
    let never = "UnschedulableAndUnresolvable: Insufficient cpu";
    for release in Release::ALL {
        let verdict = |amount: &str, in_use: i64, is_on| {
            let mut cluster = cluster(release, is_on);
            cluster.slice(cpus(amount));
            cluster.claim("c", |_| {});
            cluster.cluster.place(NodeIdx(0), pod_of(Resources { milli_cpu: in_use, ..Resources::default() }));
            let pod = pod(&mut cluster, "p", &["c"], &json!({}));
            verdict(&mut cluster, 1, &pod)
        };
        assert_eq!([verdict("3", 0, true), verdict("3", 0, false)], ["", ""], "{release:?}");
        assert_eq!([verdict("4", 0, true), verdict("4", 0, false)], [never, ""], "{release:?}");
        assert_eq!(verdict("3", 1, true), "Unschedulable: Insufficient cpu", "{release:?}");
    }
}

#[test]
fn the_share_is_written_into_the_status_of_the_pod() {
    let status = |release, is_on| {
        let mut cluster = cluster(release, is_on);
        cluster.slice(cpus("2500m"));
        cluster.claim("c", |_| {});
        let pod = pod(&mut cluster, "p", &["c"], &json!({}));
        placed(&mut cluster, &pod)
    };
    let old = json!([{"resourceClaimName": "c", "containers": ["main"], "resources": {"cpu": "2500m"}}]);
    let mapping = json!([{"name": "cpu", "quantity": "2500m"}]);
    let new = json!([{"resourceClaimName": "c", "containers": ["main"], "mapping": mapping}]);
    assert_eq!(Release::ALL.map(|release| status(release, true)), [Some(old), Some(new)]);
    assert_eq!(Release::ALL.map(|release| status(release, false)), [None, None]);
}

/// The scheduler counts the share from Reserve on.
#[test]
fn the_share_is_shared_at_reserve() {
    let shared = |is_on| {
        let mut cluster = cluster(Release::V1_37, is_on);
        cluster.slice(cpus("2500m"));
        cluster.claim("c", |_| {});
        let pod = pod(&mut cluster, "p", &["c"], &json!({}));
        assert_eq!(verdict(&mut cluster, 1, &pod), "");
        assert_eq!(cluster.reserve(1, &pod, 0), "");
        let facts = cluster.plugin.take_facts();
        assert!(cluster.plugin.take_facts().is_empty());
        let share = |fact: &Fact| {
            let (pod_uid, claims) = fact.as_node_share()?;
            Some((pod_uid.to_owned(), serde_json::from_slice::<Value>(claims).unwrap()))
        };
        facts.iter().find_map(share)
    };
    let mapping = json!([{"name": "cpu", "quantity": "2500m"}]);
    let claims = json!([{"resourceClaimName": "c", "containers": ["main"], "mapping": mapping}]);
    assert_eq!([shared(true), shared(false)], [Some(("p-uid".to_owned(), claims)), None]);
}

/// Unreserve does not change the pod's status, so the next attempt removes the status that a failed attempt wrote.
#[test]
fn a_share_of_an_earlier_attempt_is_removed() {
    let mut cluster = cluster(Release::V1_37, true);
    cluster.slice(json!([{"name": "gpu"}]));
    cluster.claim("c", |_| {});
    let earlier = json!({"status": {"nodeAllocatableResourceClaimStatuses": [
        {"resourceClaimName": "c", "mapping": [{"name": "cpu", "quantity": "1"}]}]}});
    let pod = pod(&mut cluster, "p", &["c"], &earlier);
    assert_eq!(placed(&mut cluster, &pod), Some(json!([])));
}

#[test]
fn a_share_may_be_a_consumed_capacity_and_overhead() {
    let mut cluster = cluster(Release::V1_37, true);
    let resources = json!({
        "memory": {"mapping": {"capacityKey": "gpu.example.com/memory", "capacityMultiplier": "2"}},
        "cpu": {"overhead": {"perPod": "100m", "perContainer": "200m"}},
    });
    cluster.slice(json!([{"name": "gpu", "allowMultipleAllocations": true, "capacity": {"memory": {"value": "4Gi"}},
        "nodeAllocatableResources": resources}]));
    cluster.claim("c", |claim| {
        claim["spec"]["devices"]["requests"][0]["exactly"]["capacity"] = json!({"requests": {"memory": "1Gi"}});
    });
    let pod = pod(&mut cluster, "p", &["c"], &json!({}));
    let expected = json!([{"resourceClaimName": "c", "containers": ["main"],
        "mapping": [{"name": "memory", "quantity": "2Gi"}],
        "overhead": [{"name": "cpu", "perPod": "100m", "perContainer": "200m"}]}]);
    assert_eq!(placed(&mut cluster, &pod), Some(expected));
}

#[test]
fn pods_cannot_share_devices_that_stand_for_resources_of_the_node() {
    let verdict = |release, is_on, devices| {
        let mut cluster = cluster(release, is_on);
        cluster.slice(devices);
        cluster.claim("c", |_| {});
        let first = pod(&mut cluster, "first", &["c"], &json!({}));
        cluster.place(1, &first);
        let second = pod(&mut cluster, "second", &["c"], &json!({}));
        verdict(&mut cluster, 2, &second)
    };
    let refused = "UnschedulableAndUnresolvable: node allocatable resource claim c";
    assert_eq!(verdict(Release::V1_36, true, cpus("1")), format!("{refused} is already used by another pod"));
    let exclusive = format!("{refused} has a mapped device and cannot be shared across pods");
    assert_eq!(verdict(Release::V1_37, true, cpus("1")), exclusive);
    assert_eq!(verdict(Release::V1_37, true, overhead()), "");
    assert_eq!(Release::ALL.map(|release| verdict(release, false, cpus("1"))), ["", ""]);
}

#[test]
fn a_container_must_use_the_claim_in_1_36() {
    let verdict = |release| {
        let mut cluster = cluster(release, true);
        cluster.slice(cpus("1"));
        cluster.claim("c", |_| {});
        let unused = json!({"spec": {"containers": [{"name": "main"}]}});
        let pod = pod(&mut cluster, "p", &["c"], &unused);
        verdict(&mut cluster, 1, &pod)
    };
    let unused = "UnschedulableAndUnresolvable: claim c: node-allocatable resource claim not referenced by any \
                  container within the pod";
    assert_eq!(Release::ALL.map(verdict), [unused, ""]);
}

#[test]
fn resources_of_the_whole_pod_must_include_the_share() {
    let verdict = |release, resources: &Value| {
        let mut cluster = cluster(release, true);
        cluster.slice(cpus("2"));
        cluster.claim("c", |_| {});
        let pod = pod(&mut cluster, "p", &["c"], &json!({"spec": {"resources": resources}}));
        verdict(&mut cluster, 1, &pod)
    };
    let too_small = "UnschedulableAndUnresolvable: pod level request for cpu is insufficient to cover the aggregated \
                     container and node-allocatable DRA requests";
    for release in Release::ALL {
        assert_eq!(verdict(release, &json!({"requests": {"cpu": "2"}})), too_small);
        assert_eq!(verdict(release, &json!({"requests": {"cpu": "3"}})), "");
    }
    let limits = json!({"requests": {"cpu": "3"}, "limits": {"hugepages-2Mi": "2Mi"}});
    assert_eq!(verdict(Release::V1_37, &limits), "");
}

#[test]
fn a_dry_run_counts_the_pods_that_it_removes() {
    let mut cluster = cluster(Release::V1_37, true);
    cluster.slice(cpus("3"));
    cluster.claim("c", |_| {});
    let victim = pod_of(Resources { milli_cpu: 1000, ..Resources::default() });
    cluster.cluster.place(NodeIdx(0), victim.clone());
    let pod = pod(&mut cluster, "p", &["c"], &json!({}));
    assert_eq!(verdict(&mut cluster, 1, &pod), "Unschedulable: Insufficient cpu");
    let case = |minus: &[u32]| DryRunCase { node: NodeIdx(0), minus: minus.to_vec(), ..DryRunCase::default() };
    let cases = [case(&[]), case(&[0]), case(&[])];
    let statuses = cluster.call(1, &pod, |plugin, call| {
        let filter = plugin.filter().unwrap();
        filter.dry_run(call, &[&victim], &cases).unwrap()
    });
    let short = "Unschedulable: Insufficient cpu";
    assert_eq!(statuses.iter().map(show).collect::<Vec<_>>(), [short, "", short]);
}

/// The scheduler does not keep the JSON of a pod that has a node. Explanations ask about such pods.
#[test]
fn a_pod_that_has_its_devices_needs_no_json() {
    for release in Release::ALL {
        let mut cluster = cluster(release, true);
        cluster.slice(cpus("1"));
        cluster.claim("c", |_| {});
        let whole = pod(&mut cluster, "p", &["c"], &json!({}));
        let without_json = Pod { json: None, ..whole.clone() };
        assert_eq!(verdict(&mut cluster, 1, &without_json), "Error: the pod is not kept as JSON");
        cluster.place(2, &whole);
        assert_eq!(verdict(&mut cluster, 3, &without_json), "", "{release:?}");
    }
}
