//! The plugin through the framework's traits.

mod device_cluster;
mod extended_resources;
mod gates;
mod hints;
mod node_shares;
mod shared;
mod unreserve;

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use berth_framework::{Clock, SchedulingTime, TimeBounds};
use serde_json::{Value, json};

use self::device_cluster::DeviceCluster;
use super::*;

const NO_DEVICES: &str = "UnschedulableAndUnresolvable: cannot allocate all claims";
const NOT_HERE: &str = "UnschedulableAndUnresolvable: resourceclaim not available on the node";

fn gpus(n_gpus: usize) -> Value {
    (0..n_gpus).map(|position| json!({"name": format!("gpu-{position}")})).collect()
}

/// KEP-4381, "Pod scheduling": allocation, reservation and finalizer are written before the pod is bound.
#[test]
fn a_claim_is_allocated_and_reserved_for_its_pod() {
    let mut cluster = DeviceCluster::new();
    cluster.slice(gpus(1));
    cluster.claim("c", |_| {});
    let pod = cluster.pod("p", &["c"], json!({}));
    assert_eq!(cluster.verdicts(1, &pod), ["", NO_DEVICES]);
    cluster.place(2, &pod);
    let claim = cluster.object("ResourceClaim", "c").clone();
    assert_eq!(claim["metadata"]["finalizers"], json!(["resource.kubernetes.io/delete-protection"]));
    assert_eq!(claim["status"]["reservedFor"], json!([{"resource": "pods", "name": "p", "uid": "p-uid"}]));
    let result = json!({"request": "r", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"});
    assert_eq!(claim["status"]["allocation"]["devices"]["results"], json!([result]));
    // A second attempt finds nothing to do.
    assert_eq!(cluster.verdicts(3, &pod), ["", NOT_HERE]);
    assert_eq!(cluster.reserve(3, &pod, 0), "");
    assert_eq!(cluster.pre_bind(3, &pod, 0), Ok(Vec::new()));
}

/// All invalid pools share one reason, as in kube-scheduler 1.36, because nodes are counted by reason.
#[test]
fn nodes_with_invalid_pools_share_one_reason() {
    let mut cluster = DeviceCluster::new();
    for node in ["node-1", "node-2"] {
        cluster.slice_on(node, json!([{"name": "gpu"}, {"name": "gpu"}]));
    }
    cluster.claim("c", |_| {});
    let pod = cluster.pod("p", &["c"], json!({}));
    let invalid = "UnschedulableAndUnresolvable: invalid resource pools were encountered";
    assert_eq!(cluster.verdicts(1, &pod), [invalid, invalid]);
}

#[test]
fn devices_are_held_from_reserve_until_unreserve() {
    let mut cluster = DeviceCluster::new();
    cluster.slice(gpus(1));
    cluster.claim("c", |_| {});
    cluster.claim("d", |_| {});
    let (first, second) = (cluster.pod("first", &["c"], json!({})), cluster.pod("second", &["d"], json!({})));
    let third = cluster.pod("third", &["c"], json!({}));
    assert_eq!(cluster.verdicts(1, &first), ["", NO_DEVICES]);
    assert_eq!(cluster.reserve(1, &first, 0), "");
    assert_eq!(cluster.verdicts(2, &second), [NO_DEVICES, NO_DEVICES]);
    assert_eq!(
        cluster.verdicts(3, &third),
        ["UnschedulableAndUnresolvable: resource claim default/c is in the process of being allocated"]
    );
    cluster.call(1, &first, |plugin, call| plugin.reserve().unwrap().unreserve(call, NodeIdx(0)));
    cluster.call(1, &first, |plugin, call| plugin.reserve().unwrap().unreserve(call, NodeIdx(0)));
    assert_eq!(cluster.verdicts(4, &second), ["", NO_DEVICES]);
    assert_eq!(cluster.verdicts(5, &third), ["", NO_DEVICES]);
    cluster.place(6, &third);
    assert_eq!(cluster.verdicts(7, &second), [NO_DEVICES, NO_DEVICES]);
}

/// Two pods with claims that need the only device of `node-1`. The first pod has reserved it in cycle 1.
fn cluster_with_reservation() -> (DeviceCluster, Pod, Pod) {
    let mut cluster = DeviceCluster::new();
    cluster.slice(gpus(1));
    cluster.claim("c", |_| {});
    cluster.claim("d", |_| {});
    let (first, second) = (cluster.pod("first", &["c"], json!({})), cluster.pod("second", &["d"], json!({})));
    assert_eq!(cluster.verdicts(1, &first), ["", NO_DEVICES]);
    assert_eq!(cluster.reserve(1, &first, 0), "");
    (cluster, first, second)
}

/// The write was sent, the binding failed, and it is not known whether the write succeeded.
#[test]
fn devices_stay_held_while_their_write_is_in_doubt() {
    let (mut cluster, first, second) = cluster_with_reservation();
    assert!(!cluster.pre_bind(1, &first, 0).unwrap().is_empty());
    cluster.call(1, &first, |plugin, call| plugin.reserve().unwrap().unreserve(call, NodeIdx(0)));
    cluster.plugin.end_cycle(CycleId(1));
    assert_eq!(cluster.verdicts(2, &second), [NO_DEVICES, NO_DEVICES]);
    cluster.place(3, &first);
    assert_eq!(cluster.object("ResourceClaim", "c")["status"]["reservedFor"][0]["name"], json!("first"));
}

/// The plugin sees a claim only when it gets a question about a pod, and sees only the claim's state at that time.
#[test]
fn devices_are_free_if_their_claim_was_given_back_before_the_next_cycle() {
    let (mut cluster, first, second) = cluster_with_reservation();
    for effect in cluster.pre_bind(1, &first, 0).unwrap() {
        cluster.perform(&effect);
    }
    cluster.plugin.end_cycle(CycleId(1));
    cluster.claim("c", |_| {});
    assert_eq!(cluster.verdicts(2, &second), ["", NO_DEVICES]);
}

#[test]
fn pods_without_claims_are_none_of_its_business() {
    let mut cluster = DeviceCluster::new();
    let pod = cluster.pod("p", &[], json!({}));
    assert_eq!(cluster.pre_filter(1, &pod), "Skip: ");
    assert_eq!(cluster.reserve(1, &pod, 0), "");
    assert_eq!(cluster.pre_bind(1, &pod, 0), Err("Skip: ".to_owned()));
    assert_eq!(cluster.post_filter(1, &pod).0, "Unschedulable: no new claims to deallocate");
    let mut scores = vec![7];
    cluster.call(1, &pod, |plugin, call| plugin.score().unwrap().score(call, call.table.nodes(), &mut scores)).unwrap();
    assert_eq!(scores, [7, 0, 0]);
    assert_eq!(cluster.plugin.sign().unwrap().sign(&pod), Some(String::new()));
    let with_claims = cluster.pod("p", &["c"], json!({}));
    assert_eq!(cluster.plugin.sign().unwrap().sign(&with_claims), None);
}

#[test]
fn claims_that_can_not_be_used_turn_the_pod_down() {
    let mut cluster = DeviceCluster::new();
    cluster.slice(gpus(1));
    cluster.claim("leaving", |claim| claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    cluster
        .claim("classless", |claim| claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = json!("x"));
    cluster.claim("modern", |claim| claim["spec"]["devices"]["requests"][0] = json!({"name": "r", "future": {}}));
    cluster.claim("listed", |claim| {
        let sub = json!({"name": "s", "deviceClassName": "x"});
        claim["spec"]["devices"]["requests"][0] = json!({"name": "r", "firstAvailable": [sub]});
    });
    cluster
        .claim("nameless", |claim| claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = json!(""));
    let cases = [
        ("gone", "UnschedulableAndUnresolvable: could not find ResourceClaim \"default/gone\""),
        ("leaving", "UnschedulableAndUnresolvable: resourceclaim \"leaving\" is being deleted"),
        ("classless", "UnschedulableAndUnresolvable: request r: device class x does not exist"),
        ("listed", "UnschedulableAndUnresolvable: request r/s: device class x does not exist"),
        ("modern", "UnschedulableAndUnresolvable: resource claim modern, request r: unknown request type"),
        ("nameless", "Error: request r: unsupported request type"),
    ];
    for (claim, expected) in cases {
        let pod = cluster.pod("p", &[claim], json!({}));
        assert_eq!(cluster.verdicts(1, &pod), [expected]);
        // The requests of a claim are checked only in a cycle.
        let is_gated = ["gone", "leaving"].contains(&claim);
        assert_eq!(cluster.pre_enqueue(&pod), if is_gated { expected } else { "" });
    }
}

/// kube-scheduler reserves the claim twice, and the API server refuses the second reservation.
#[test]
fn a_claim_that_a_pod_names_twice_is_allocated_once() {
    let mut cluster = DeviceCluster::new();
    cluster.slice(gpus(1));
    cluster.claim("c", |_| {});
    let pod = cluster.pod("p", &["c", "c"], json!({}));
    cluster.place(1, &pod);
    let claim = cluster.object("ResourceClaim", "c").clone();
    assert_eq!(claim["status"]["reservedFor"], json!([{"resource": "pods", "name": "p", "uid": "p-uid"}]));
    cluster.claim("d", |_| {});
    let other = cluster.pod("q", &["d"], json!({}));
    assert_eq!(cluster.verdicts(2, &other), [NO_DEVICES, NO_DEVICES]);
}

/// A clock that is a tenth of a second later at each reading.
#[derive(Debug, Default)]
struct Hasty(AtomicU64);

impl Clock for Hasty {
    fn now(&self) -> Duration {
        Duration::from_millis(100 * self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// Each selector stays just below the limit of the API server.
#[test]
fn a_pod_whose_devices_take_too_long_to_find_is_turned_down() {
    let mut cluster = DeviceCluster::new();
    cluster.time = SchedulingTime::new(Box::new(Hasty::default()));
    cluster.time.set_bounds(TimeBounds { search: Some(Duration::from_millis(250)), ..TimeBounds::default() });
    cluster.slice(gpus(1_000));
    let numbers = json!((0..32).collect::<Vec<_>>());
    let slow = format!("!{numbers}.all(x, {numbers}.all(y, {numbers}.all(z, x + y + z >= 0)))");
    let selectors = json!([{"cel": {"expression": slow}}]);
    cluster.claim("c", |claim| claim["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = selectors);
    let pod = cluster.pod("p", &["c"], json!({}));
    let selector = "claim default/c: selector #0 was evaluated last";
    let expected = format!(
        "Error: node node-1: timed out trying to allocate devices: {selector}; the time limit of the search \
                 was 250 ms"
    );
    assert_eq!(cluster.verdicts(1, &pod), [expected]);
}

#[test]
fn a_search_that_is_cut_off_goes_on_with_what_it_knows_about_devices() {
    let mut cluster = DeviceCluster::new();
    cluster.slice(gpus(10));
    let none = json!([{"cel": {"expression": "device.driver.matches('^x')"}}]);
    cluster.claim("c", |claim| claim["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = none);
    let pod = cluster.pod("p", &["c"], json!({}));
    cluster.time = SchedulingTime::new(Box::new(Hasty::default()));
    cluster.time.set_bounds(TimeBounds { search: Some(Duration::from_millis(250)), ..TimeBounds::default() });
    let n_cut = (1..20).take_while(|cycle| cluster.verdicts(*cycle, &pod)[0].contains("timed out")).count();
    assert!((2..19).contains(&n_cut), "{n_cut}");
}

/// API reference, PodResourceClaim: a claim made from a template belongs to its pod.
#[test]
fn claims_from_templates_must_be_made_and_the_pods_own() {
    let mut cluster = DeviceCluster::new();
    cluster.slice(gpus(1));
    let mut pod = json!({"metadata": {"namespace": "default", "name": "p", "uid": "p-uid"},
        "spec": {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]}, "status": {}});
    let waiting = cluster.decode_pod(pod.clone());
    let not_made = "UnschedulableAndUnresolvable: pod \"default/p\": ResourceClaim not created yet";
    assert_eq!(cluster.pre_enqueue(&waiting), not_made);
    pod["status"]["resourceClaimStatuses"] = json!([{"name": "c", "resourceClaimName": "c-1"}]);
    cluster.claim("c-1", |_| {});
    let made = cluster.decode_pod(pod.clone());
    let stranger =
        "UnschedulableAndUnresolvable: ResourceClaim default/c-1 was not created for Pod default/p (Pod is not owner)";
    assert_eq!(cluster.pre_enqueue(&made), stranger);
    assert_eq!(cluster.verdicts(1, &made), [stranger]);
    let owner = json!({"kind": "Pod", "name": "p", "uid": "p-uid", "controller": true});
    cluster.claim("c-1", |claim| claim["metadata"]["ownerReferences"] = json!([owner]));
    assert_eq!(cluster.pre_enqueue(&made), "");
    assert_eq!(cluster.verdicts(2, &made), ["", NO_DEVICES]);
    pod["status"]["resourceClaimStatuses"] = json!([{"name": "c"}]);
    let unneeded = cluster.decode_pod(pod);
    assert_eq!(cluster.verdicts(3, &unneeded), ["Skip: "]);
}

/// `reference`: an allocation that keeps its only pod from every node is dropped, and preemption still runs.
#[test]
fn post_filter_deallocates_what_only_this_pod_could_use() {
    let allocated = |users: Value| {
        move |claim: &mut Value| {
            let elsewhere = json!({"nodeSelectorTerms": [{"matchFields":
                [{"key": "metadata.name", "operator": "In", "values": ["node-9"]}]}]});
            claim["status"] = json!({"allocation": {"nodeSelector": elsewhere}, "reservedFor": users});
        }
    };
    let mut cluster = DeviceCluster::new();
    let user = |pod: &str| json!({"resource": "pods", "name": pod, "uid": format!("{pod}-uid")});
    cluster.claim("c", allocated(json!([user("p"), user("q")])));
    let pod = cluster.pod("p", &["c"], json!({}));
    assert_eq!(cluster.verdicts(1, &pod), [NOT_HERE, NOT_HERE]);
    assert_eq!(cluster.post_filter(1, &pod), ("Unschedulable: still not schedulable".to_owned(), Vec::new()));
    cluster.claim("c", allocated(json!([user("p")])));
    assert_eq!(cluster.verdicts(2, &pod), [NOT_HERE, NOT_HERE]);
    let (answer, effects) = cluster.post_filter(2, &pod);
    assert_eq!(answer, "Unschedulable: deallocation of ResourceClaim completed");
    effects.iter().for_each(|effect| cluster.perform(effect));
    assert_eq!(cluster.object("ResourceClaim", "c")["status"], json!({}));
}

/// KEP-4381: a claim may serve several pods.
#[test]
fn a_shared_claim_is_reserved_for_one_pod_after_the_other() {
    let mut cluster = DeviceCluster::new();
    cluster.slice(gpus(1));
    cluster.claim("c", |_| {});
    let pods = ["a", "b", "c"].map(|name| cluster.pod(name, &["c"], json!({})));
    cluster.place(1, &pods[0]);
    for (cycle, pod) in [(2, &pods[1]), (3, &pods[2])] {
        assert_eq!(cluster.verdicts(cycle, pod), ["", NOT_HERE]);
        assert_eq!(cluster.reserve(cycle, pod, 0), "");
    }
    let writes = cluster.pre_bind(2, &pods[1], 0).unwrap();
    assert!(matches!(cluster.pre_bind(3, &pods[2], 0).unwrap().as_slice(), [Effect::Wait { .. }]));
    writes.iter().for_each(|effect| cluster.perform(effect));
    for effect in cluster.pre_bind(3, &pods[2], 0).unwrap() {
        cluster.perform(&effect);
    }
    let users = cluster.object("ResourceClaim", "c")["status"]["reservedFor"].clone();
    let names: Vec<&str> = users.as_array().unwrap().iter().map(|user| user["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

#[test]
fn a_claim_that_changes_under_its_pod_fails_the_binding() {
    let pre_bind = |change: fn(&mut DeviceCluster)| {
        let mut cluster = DeviceCluster::new();
        cluster.slice(gpus(2));
        cluster.claim("c", |_| {});
        let pod = cluster.pod("p", &["c"], json!({}));
        assert_eq!(cluster.verdicts(1, &pod), ["", NO_DEVICES]);
        assert_eq!(cluster.reserve(1, &pod, 0), "");
        change(&mut cluster);
        cluster.pre_bind(1, &pod, 0).unwrap_err()
    };
    let meanwhile = |what: &str| format!("Error: claim default/c {what} in the meantime");
    let taken = |cluster: &mut DeviceCluster| cluster.claim("c", |claim| claim["status"] = json!({"allocation": {}}));
    let replaced =
        |cluster: &mut DeviceCluster| cluster.claim("c", |claim| claim["metadata"]["uid"] = json!("another"));
    assert_eq!(pre_bind(taken), meanwhile("got allocated elsewhere"));
    assert_eq!(pre_bind(replaced), meanwhile("got deleted"));
}

/// KEP-5007: binding waits until devices are ready, and fails if they cannot become ready.
#[test]
fn binding_waits_for_devices_to_get_ready() {
    let mut cluster = DeviceCluster::with_args(r#"{"bindingTimeout":"5s"}"#);
    cluster.slice(json!([{"name": "fabric", "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}]));
    cluster.claim("c", |_| {});
    let pod = cluster.pod("p", &["c"], json!({}));
    assert_eq!(cluster.verdicts(1, &pod), ["", NO_DEVICES]);
    assert_eq!(cluster.reserve(1, &pod, 0), "");
    let effects = cluster.pre_bind(1, &pod, 0).unwrap();
    let Some([Effect::Event { reason, note, .. }, Effect::Wait { timeout_ms, .. }]) = effects.last_chunk() else {
        panic!("{effects:?}")
    };
    assert_eq!(reason, "BindingConditionsPending");
    assert_eq!((note.as_str(), *timeout_ms), ("waiting for binding conditions for device on node node-1", 5_000));
    effects.iter().for_each(|effect| cluster.perform(effect));
    assert!(matches!(cluster.pre_bind(1, &pod, 0).unwrap().as_slice(), [Effect::Wait { .. }]));
    let mut report = |kind: &str| {
        let mut claim = cluster.object("ResourceClaim", "c").clone();
        claim["status"]["devices"] = json!([{"driver": "gpu.example.com", "pool": "node-1", "device": "fabric",
            "conditions": [{"type": kind, "status": "True", "reason": "Because", "message": "so"}]}]);
        cluster.put("ResourceClaim", claim);
        (cluster.pre_bind(1, &pod, 0), cluster.verdicts(2, &pod)[0].clone())
    };
    assert_eq!(report("ready"), (Ok(Vec::new()), String::new()));
    let failure = "Error: device binding failed: claim=c, reason=Because, message=\"so\"";
    assert_eq!(report("broken"), (Err(failure.to_owned()), NOT_HERE.to_owned()));
}

/// KEP-5007: the devices are given back after the timeout, so that the pod can try others.
#[test]
fn a_claim_whose_devices_never_get_ready_is_deallocated() {
    let mut cluster = DeviceCluster::with_args(r#"{"bindingTimeout":"5s"}"#);
    cluster.slice(json!([{"name": "fabric", "bindingConditions": ["ready"]}]));
    cluster.claim("c", |_| {});
    let pod = cluster.pod("p", &["c"], json!({}));
    cluster.place(1, &pod);
    let claim = cluster.object("ResourceClaim", "c");
    assert_eq!(claim["status"]["allocation"]["allocationTimestamp"], json!("2026-11-22T06:00:00Z"));
    cluster.now = cluster.now + 4_000;
    assert_eq!(cluster.verdicts(2, &pod)[0], "");
    cluster.now = cluster.now + 1_000;
    assert_eq!(cluster.verdicts(3, &pod), [NOT_HERE, NOT_HERE]);
    let (answer, effects) = cluster.post_filter(3, &pod);
    assert_eq!(answer, "Unschedulable: deallocation of ResourceClaim completed");
    effects.iter().for_each(|effect| cluster.perform(effect));
    assert_eq!(cluster.object("ResourceClaim", "c")["status"].get("allocation"), None);
    assert_eq!(cluster.verdicts(4, &pod), ["", NO_DEVICES]);
}

/// KEP-4816, "Scheduler scoring": nodes that serve a preferred alternative score higher.
#[test]
fn preferred_alternatives_score_higher() {
    let mut cluster = DeviceCluster::new();
    cluster.slice_on("node-1", gpus(1));
    cluster.slice_on("node-2", gpus(2));
    cluster.claim("c", |claim| {
        let sub = |name: &str, count: u32| json!({"name": name, "deviceClassName": "gpu", "count": count});
        claim["spec"]["devices"]["requests"] = json!([{"name": "r", "firstAvailable": [sub("two", 2), sub("one", 1)]}]);
    });
    let pod = cluster.pod("p", &["c"], json!({}));
    assert_eq!(cluster.verdicts(1, &pod), ["", ""]);
    let mut scores = Vec::new();
    cluster.call(1, &pod, |plugin, call| {
        plugin.score().unwrap().score(call, call.table.nodes(), &mut scores).unwrap();
        assert_eq!(scores, [7, 8]);
        plugin.normalize().unwrap().normalize(call, call.table.nodes(), &mut scores).unwrap();
    });
    assert_eq!(scores, [87, 100]);
}

#[test]
fn a_selector_that_fails_ends_the_attempt() {
    let mut cluster = DeviceCluster::new();
    cluster.slice(gpus(1));
    cluster.claim("c", |claim| {
        let selectors = json!([{"cel": {"expression": "device.attributes['x.example.com'].y"}}]);
        claim["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = selectors;
    });
    let pod = cluster.pod("p", &["c"], json!({}));
    let error = "Error: claim default/c: selector #0: CEL runtime error: no such key: y";
    assert_eq!(cluster.verdicts(1, &pod), [error]);
}

#[test]
fn the_next_binary_goes_on_where_the_last_one_stopped() {
    let (mut cluster, first, second) = cluster_with_reservation();
    let handover = cluster.plugin.state().unwrap().snapshot();
    cluster.plugin = Box::new(DynamicResources::new("null").unwrap());
    assert!(cluster.plugin.state().unwrap().restore(b"nonsense").is_err());
    cluster.plugin.state().unwrap().restore(&handover).unwrap();
    assert_eq!(cluster.reserve(1, &first, 0), "");
    assert_eq!(cluster.verdicts(2, &second), [NO_DEVICES, NO_DEVICES]);
    for effect in cluster.pre_bind(1, &first, 0).unwrap() {
        cluster.perform(&effect);
    }
    assert_eq!(cluster.object("ResourceClaim", "c")["status"]["reservedFor"][0]["name"], json!("first"));
}
