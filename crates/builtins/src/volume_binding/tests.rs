//! Choosing, assuming and binding volumes.

mod binding;
mod naive;

use berth_framework::{CycleId, Effect, Reach, Reuse};
use berth_model::Release;
use serde_json::{Value, json};

use super::*;
use crate::{
    storage::testing::{bound, claim, class, merged, node, on_hosts, pod, pod_with, volume},
    testing::{TestCluster, verdicts},
};

const OUT_OF_REACH: &str = "node(s) didn't match PersistentVolume's node affinity";
const UNSATISFIED: &str = "node(s) didn't find available persistent volumes to bind";
const NO_SPACE: &str = "node(s) did not have enough free storage";
const MISSING: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";

fn plugin() -> VolumeBinding {
    VolumeBinding::new("").unwrap()
}

/// Nodes `n0` and `n1`, a class `local` without a provisioner and a class `made` with a provisioner.
fn cluster() -> TestCluster {
    let mut cluster = TestCluster::default();
    node(&mut cluster, "n0", &[("zone", "a")]);
    node(&mut cluster, "n1", &[("zone", "b")]);
    cluster.set_object(&class("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"));
    cluster.set_object(&class("made", "maker", "WaitForFirstConsumer"));
    cluster.set_object(&class("now", "maker", "Immediate"));
    cluster
}

fn rejected(reasons: &[&str]) -> String {
    if reasons.is_empty() { String::new() } else { format!("UnschedulableAndUnresolvable: {}", reasons.join(", ")) }
}

/// The choices on a node: `claim=volume` for an existing volume, `claim` for a volume that is provisioned.
fn choices(plugin: &mut VolumeBinding, cluster: &TestCluster, pod: &Pod, node: u32) -> Vec<String> {
    let call = cluster.call(1, pod);
    plugin.pre_filter(&call).unwrap();
    assert!(plugin.reserve(&call, NodeIdx(node)).is_success());
    let effects = match plugin.pre_bind(&call, NodeIdx(node)) {
        Ok(effects) => effects,
        Err(status) => {
            assert_eq!(status, Status::skip());
            Vec::new()
        }
    };
    plugin.unreserve(&call, NodeIdx(node));
    let patches = effects.iter().filter_map(|effect| {
        let Effect::Patch { kind, name, patch, .. } = effect else { return None };
        Some((kind, name, serde_json::from_slice::<Value>(patch).unwrap()))
    });
    patches
        .map(|(kind, name, patch)| match kind.as_str() {
            "v1/PersistentVolume" => format!("{}={name}", patch["spec"]["claimRef"]["name"].as_str().unwrap()),
            _ => name.clone(),
        })
        .collect()
}

#[test]
fn the_smallest_volume_that_suits_is_chosen() {
    let suited = |changes: Value| merged(volume("pv-odd", "local", "2Gi"), &changes);
    let cases = [
        (vec![volume("big", "local", "5Gi"), volume("fit", "local", "2Gi")], Some("fit")),
        (vec![volume("b", "local", "2Gi"), volume("a", "local", "2Gi")], Some("a")),
        (vec![volume("small", "local", "1Gi")], None),
        (vec![volume("other", "made", "2Gi")], None),
        (vec![suited(json!({"status": {"phase": "Released"}}))], None),
        (vec![suited(json!({"spec": {"volumeMode": "Block"}}))], None),
        (vec![suited(json!({"spec": {"accessModes": ["ReadOnlyMany"]}}))], None),
        (vec![suited(json!({"spec": {"accessModes": ["ReadOnlyMany", "ReadWriteOnce"]}}))], Some("pv-odd")),
        (vec![suited(json!({"spec": {"volumeAttributesClassName": "gold"}}))], None),
        (vec![suited(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))], None),
        (vec![suited(json!({"spec": {"claimRef": {"namespace": "default", "name": "another"}}}))], None),
        (vec![suited(json!({"spec": {"storageClassName": "x"}}))], None),
        (
            vec![suited(json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "local"}},
                "spec": {"storageClassName": "x"}}))],
            Some("pv-odd"),
        ),
    ];
    for (volumes, chosen) in cases {
        let mut cluster = cluster();
        volumes.iter().for_each(|volume| cluster.set_object(volume));
        cluster.set_object(&claim("data", "local", "2Gi"));
        let pod = pod(&mut cluster, "pod", &["data"]);
        let mut plugin = plugin();
        let expected = rejected(if chosen.is_some() { &[] } else { &[UNSATISFIED] });
        assert_eq!(verdicts(&mut plugin, &cluster, &pod), [expected.clone(), expected], "{volumes:?}");
        let expected: Vec<String> = chosen.iter().map(|volume| format!("data={volume}")).collect();
        assert_eq!(choices(&mut plugin, &cluster, &pod, 0), expected, "{volumes:?}");
    }
}

/// Examples of scores by capacity (KEP-4049), which release 1.37 has on. In 1.36, VolumeBinding scores no pod.
#[test]
fn nodes_with_much_room_score_high_from_1_37_on() {
    let driver = |has_capacity: bool| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "maker"},
            "spec": {"storageCapacity": has_capacity}})
    };
    let room = |of_class: &str, zone: &str, size: &str| {
        let metadata = json!({"name": format!("{of_class}-{zone}"), "namespace": "drivers"});
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "metadata": metadata,
            "storageClassName": of_class, "nodeTopology": {"matchLabels": {"zone": zone}}, "capacity": size})
    };
    let in_both_zones = |driver: Value| vec![driver, room("made", "a", "100Gi"), room("made", "b", "400Gi")];
    let names = ["first", "second"];
    let check = |objects: &[Value], claims: &[(&str, &str)], expected: &[i64]| {
        let scored = Release::ALL.map(|release| {
            let mut cluster = cluster();
            cluster.set_object(&class("slow", "maker", "WaitForFirstConsumer"));
            objects.iter().for_each(|object| cluster.set_object(object));
            for (name, (of_class, size)) in names.iter().zip(claims) {
                cluster.set_object(&claim(name, of_class, size));
            }
            let pod = pod(&mut cluster, "pod", &names[..claims.len()]);
            let args = json!({ Features::IN_ARGS: Features::of(release) }).to_string();
            let mut plugin = VolumeBinding::new(&args).unwrap();
            let call = cluster.call(1, &pod);
            plugin.pre_filter(&call).unwrap();
            let (mut nodes, mut scores) = (call.table.nodes().clone(), Vec::new());
            plugin.filter(&call, &mut nodes).unwrap();
            plugin.pre_score(&call, &nodes).ok()?;
            plugin.score(&call, &nodes, &mut scores).unwrap();
            Some(scores)
        });
        assert_eq!(scored, [None, Some(expected.to_vec())], "{claims:?}");
    };
    check(&in_both_zones(driver(true)), &[("made", "50Gi")], &[50, 88]);
    check(&in_both_zones(driver(true)), &[("made", "30Gi"), ("made", "30Gi")], &[40, 85]);
    check(&in_both_zones(driver(true)), &[("made", "60Gi"), ("made", "60Gi")], &[0, 70]);
    check(&in_both_zones(driver(false)), &[("made", "50Gi")], &[0, 0]);
    // Only the first node has room for both classes.
    let two_classes = [driver(true), room("made", "a", "100Gi"), room("slow", "a", "100Gi")];
    check(&two_classes, &[("made", "50Gi"), ("slow", "13Gi")], &[69]);
    // Only the first node has an existing volume. Its claim alone counts.
    let mut with_volume = in_both_zones(driver(true));
    with_volume.push(on_hosts(volume("existing", "local", "40Gi"), &["n0"]));
    check(&with_volume, &[("local", "10Gi"), ("made", "50Gi")], &[75]);
}

/// kube-scheduler's PreScore skips no pod with this gate. Since the score is 0 everywhere, it need not be asked for.
#[test]
fn a_pod_without_volumes_scores_zero_on_every_node() {
    let (cluster, pod) = (cluster(), Pod::default());
    let features = Features::default().with(Feature::StorageCapacityScoring, true);
    let mut plugin = VolumeBinding::new(&json!({ "features": features }).to_string()).unwrap();
    let call = cluster.call(1, &pod);
    let (nodes, mut scores) = (call.table.nodes(), Vec::new());
    assert_eq!(plugin.reach(&call), Reach::Nothing);
    assert_eq!(plugin.pre_score(&call, nodes), Ok(()));
    assert_eq!(plugin.score(&call, nodes, &mut scores), Ok(()));
    assert_eq!((plugin.common_score(&call, nodes), scores), (Some(0), vec![0, 0]));
}

#[test]
fn volumes_stay_within_their_reach() {
    let mut cluster = cluster();
    cluster.set_object(&on_hosts(volume("here", "local", "1Gi"), &["n0"]));
    cluster.set_object(&on_hosts(volume("there", "local", "3Gi"), &["n1"]));
    cluster.set_object(&claim("data", "local", "1Gi"));
    cluster.set_object(&claim("more", "local", "1Gi"));
    let mut plugin = plugin();
    let one = pod(&mut cluster, "pod", &["data"]);
    assert_eq!(verdicts(&mut plugin, &cluster, &one), ["", ""]);
    assert_eq!(choices(&mut plugin, &cluster, &one, 0), ["data=here"]);
    assert_eq!(choices(&mut plugin, &cluster, &one, 1), ["data=there"]);
    let two = pod(&mut cluster, "pod", &["data", "more"]);
    let nothing_left = rejected(&[UNSATISFIED]);
    assert_eq!(verdicts(&mut plugin, &cluster, &two), [nothing_left.clone(), nothing_left.clone()]);
    cluster.set_object(&on_hosts(volume("second", "local", "2Gi"), &["n0", "nowhere"]));
    assert_eq!(verdicts(&mut plugin, &cluster, &two), [String::new(), nothing_left]);
    assert_eq!(choices(&mut plugin, &cluster, &two, 0), ["data=here", "more=second"]);
}

#[test]
fn a_volume_meant_for_the_claim_is_the_answer() {
    let mut cluster = cluster();
    let meant = |name: &str, uid: &str| {
        let claim_ref = json!({"namespace": "default", "name": "data", "uid": uid});
        merged(volume(name, "local", "9Gi"), &json!({"spec": {"claimRef": claim_ref}}))
    };
    cluster.set_object(&on_hosts(meant("meant", ""), &["n0"]));
    cluster.set_object(&volume("any", "local", "1Gi"));
    cluster.set_object(&claim("data", "local", "1Gi"));
    let pod = pod(&mut cluster, "pod", &["data"]);
    let mut plugin = plugin();
    assert_eq!(verdicts(&mut plugin, &cluster, &pod), [String::new(), rejected(&[UNSATISFIED])]);
    assert_eq!(choices(&mut plugin, &cluster, &pod, 0), ["data=meant"]);
    cluster.set_object(&meant("meant", "another-life"));
    assert_eq!(verdicts(&mut plugin, &cluster, &pod), ["", ""]);
    assert_eq!(choices(&mut plugin, &cluster, &pod, 0), ["data=any"]);
}

#[test]
fn bound_volumes_decide_where_the_pod_goes() {
    let mut cluster = cluster();
    cluster.set_object(&on_hosts(volume("pv", "", "1Gi"), &["n0"]));
    cluster.set_object(&bound(claim("data", "", "1Gi"), "pv"));
    cluster.set_object(&bound(claim("lost", "", "1Gi"), "nowhere"));
    let mut plugin = plugin();
    let cases: [(&[&str], [&[&str]; 2]); 3] = [
        (&["data"], [&[], &[OUT_OF_REACH]]),
        (&["lost"], [&[MISSING], &[MISSING]]),
        (&["data", "lost"], [&[MISSING], &[OUT_OF_REACH]]),
    ];
    for (claims, expected) in cases {
        let pod = pod(&mut cluster, "pod", claims);
        assert_eq!(verdicts(&mut plugin, &cluster, &pod), expected.map(rejected), "{claims:?}");
    }
}

#[test]
fn volumes_are_made_where_class_and_driver_allow() {
    let topologies = json!([{"matchLabelExpressions": [{"key": "zone", "values": ["b", "c"]}]}]);
    let zoned = merged(class("made", "maker", "WaitForFirstConsumer"), &json!({"allowedTopologies": topologies}));
    let driver = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "maker"},
        "spec": {"storageCapacity": true}});
    let room = |name: &str, zone: Option<&str>, size: &str, largest: Option<&str>| {
        let topology = zone.map(|zone| json!({"matchLabels": {"zone": zone}}));
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
            "metadata": {"name": name, "namespace": "drivers"}, "storageClassName": "made", "nodeTopology": topology,
            "capacity": size, "maximumVolumeSize": largest})
    };
    let cases: [(Vec<Value>, [&[&str]; 2]); 7] = [
        (vec![], [&[], &[]]),
        (vec![zoned.clone()], [&[UNSATISFIED], &[]]),
        (vec![driver.clone()], [&[NO_SPACE], &[NO_SPACE]]),
        (vec![driver.clone(), room("r", Some("a"), "2Gi", None)], [&[], &[NO_SPACE]]),
        (vec![driver.clone(), room("r", Some("a"), "2Gi", Some("1Gi"))], [&[NO_SPACE], &[NO_SPACE]]),
        (vec![driver.clone(), room("r", None, "2Gi", None)], [&[NO_SPACE], &[NO_SPACE]]),
        (vec![zoned, driver, room("r", Some("a"), "9Gi", None)], [&[UNSATISFIED], &[NO_SPACE]]),
    ];
    for (objects, expected) in cases {
        let mut cluster = cluster();
        objects.iter().for_each(|object| cluster.set_object(object));
        cluster.set_object(&claim("data", "made", "2Gi"));
        let pod = pod(&mut cluster, "pod", &["data"]);
        let mut plugin = plugin();
        assert_eq!(verdicts(&mut plugin, &cluster, &pod), expected.map(rejected), "{objects:?}");
        if expected[0].is_empty() {
            assert_eq!(choices(&mut plugin, &cluster, &pod, 0), ["data"]);
        }
    }
}

#[test]
fn room_is_followed_as_it_changes() {
    let mut cluster = cluster();
    let room = |size: &str| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
            "metadata": {"name": "r", "namespace": "drivers"}, "storageClassName": "made", "nodeTopology": {},
            "capacity": size})
    };
    cluster.set_object(&json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "maker"},
        "spec": {"storageCapacity": true}}));
    cluster.set_object(&claim("data", "made", "2Gi"));
    let pod = pod(&mut cluster, "pod", &["data"]);
    let mut plugin = plugin();
    for (size, passes) in [("1Gi", false), ("2Gi", true), ("1Gi", false), ("3Gi", true)] {
        cluster.set_object(&room(size));
        let expected = rejected(if passes { &[] } else { &[NO_SPACE] });
        assert_eq!(verdicts(&mut plugin, &cluster, &pod), [expected.clone(), expected], "{size}");
    }
}

#[test]
fn a_selected_node_binds_the_claim_to_it() {
    let mut cluster = cluster();
    let annotations = json!({"annotations": {"volume.kubernetes.io/selected-node": "n1"}});
    cluster.set_object(&merged(claim("data", "made", "1Gi"), &json!({"metadata": annotations})));
    cluster.set_object(&volume("pv", "made", "1Gi"));
    let pod = pod(&mut cluster, "pod", &["data"]);
    let mut plugin = plugin();
    assert_eq!(verdicts(&mut plugin, &cluster, &pod), [rejected(&[UNSATISFIED]), String::new()]);
    assert_eq!(choices(&mut plugin, &cluster, &pod, 1), ["data"], "an existing volume is not looked at");
}

#[test]
fn claims_that_are_not_ready() {
    let mut cluster = cluster();
    let lost = merged(bound(claim("lost", "", "1Gi"), "pv"), &json!({"status": {"phase": "Lost"}}));
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let modeless = merged(class("modeless", "p", ""), &json!({"volumeBindingMode": null}));
    let named = merged(claim("named", "local", "1Gi"), &json!({"spec": {"volumeName": "pv"}}));
    let objects =
        [lost, merged(claim("going", "local", "1Gi"), &going), modeless, named, claim("odd", "modeless", "1Gi")];
    objects.iter().for_each(|object| cluster.set_object(object));
    cluster.set_object(&claim("now", "now", "1Gi"));
    cluster.set_object(&claim("classless", "", "1Gi"));
    cluster.set_object(&claim("strange", "no-such-class", "1Gi"));
    cluster.set_object(&claim("pod-v0", "local", "1Gi"));
    let immediate = "UnschedulableAndUnresolvable: pod has unbound immediate PersistentVolumeClaims";
    let cases = [
        ("gone", "UnschedulableAndUnresolvable: persistentvolumeclaim \"gone\" not found"),
        (
            "lost",
            "UnschedulableAndUnresolvable: persistentvolumeclaim \"lost\" bound to non-existent persistentvolume \"pv\"",
        ),
        ("going", "UnschedulableAndUnresolvable: persistentvolumeclaim \"going\" is being deleted"),
        ("odd", "Error: VolumeBindingMode not set for StorageClass \"modeless\""),
        ("now", immediate),
        ("named", immediate),
        ("classless", immediate),
        ("strange", immediate),
    ];
    for (name, expected) in cases {
        let pod = pod(&mut cluster, "pod", &[name]);
        let status = plugin().pre_filter(&cluster.call(1, &pod)).unwrap_err();
        assert_eq!(crate::testing::show(&status), expected);
    }
    let ephemeral = json!({"ephemeral": {}});
    let early = pod_with(&mut cluster, "early", std::slice::from_ref(&ephemeral));
    let text = "waiting for ephemeral volume controller to create the persistentvolumeclaim \"early-v0\"";
    assert_eq!(plugin().pre_filter(&cluster.call(1, &early)), Err(Status::unresolvable(text)));
    let foreign = pod_with(&mut cluster, "pod", &[ephemeral]);
    let text = "PVC default/pod-v0 was not created for pod default/pod (pod is not owner)";
    assert_eq!(plugin().pre_filter(&cluster.call(1, &foreign)), Err(Status::unresolvable(text)));
    let plain = pod_with(&mut cluster, "pod", &[json!({"awsElasticBlockStore": {"volumeID": "v"}})]);
    assert_eq!(plugin().pre_filter(&cluster.call(1, &plain)), Err(Status::skip()));
}

#[test]
fn args_are_checked() {
    assert_eq!(VolumeBinding::new(r#"{"bindTimeoutSeconds": 7}"#).unwrap().bind_timeout_ms, 7000);
    assert_eq!(plugin().bind_timeout_ms, 600_000);
    for args in [r#"{"bindTimeoutSeconds": -1}"#, r#"{"shape": [{}]}"#, r#"{"bindTimeout": 1}"#] {
        assert!(VolumeBinding::new(args).is_err(), "{args}");
    }
}

#[test]
fn nonsense_is_passed_over() {
    let mut cluster = cluster();
    cluster.set_object(&claim("data", "local", "1Gi"));
    for object in [
        merged(volume("a", "local", "1Gi"), &json!({"spec": {"capacity": {"storage": "much"}}})),
        merged(volume("b", "local", "1Gi"), &json!({"spec": {"capacity": null}})),
        merged(on_hosts(volume("c", "local", "1Gi"), &[]), &json!({})),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "metadata": {"name": "x"}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "d"}, "spec": null}),
    ] {
        cluster.set_object(&object);
    }
    let pod = pod(&mut cluster, "pod", &["data"]);
    let expected = rejected(&[UNSATISFIED]);
    assert_eq!(verdicts(&mut plugin(), &cluster, &pod), [expected.clone(), expected]);
    let wrong = json!({"matchExpressions": [{"key": "a", "operator": "Near", "values": []}]});
    cluster.set_object(&merged(claim("data", "local", "1Gi"), &json!({"spec": {"selector": wrong}})));
    let mut plugin = plugin();
    let call = cluster.call(1, &pod);
    plugin.pre_filter(&call).unwrap();
    let status = plugin.filter(&call, &mut cluster.table().nodes().clone()).unwrap_err();
    assert!(status.message().starts_with("error creating internal label selector for claim: default/data: "));
    assert_eq!(call.cycle, CycleId(1));
}
