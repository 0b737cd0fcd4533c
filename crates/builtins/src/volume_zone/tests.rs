//! Compares the zones of volumes with the zones of nodes.

use serde_json::{Value, json};

use super::*;
use crate::{
    storage::testing::{bound, claim, class, merged, node, pod, volume},
    testing::{TestCluster, verdicts},
};

const REJECTED: &str = "UnschedulableAndUnresolvable: node(s) had no available volume zone";
const ZONE: &str = "topology.kubernetes.io/zone";
const OLD_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";

type Labels<'a> = &'a [(&'a str, &'a str)];

fn plugin() -> VolumeZone {
    VolumeZone::new("").unwrap()
}

fn with_volume(labels: &Value) -> (TestCluster, Pod) {
    let mut cluster = TestCluster::default();
    cluster.set_object(&merged(volume("pv", "", "1Gi"), &json!({"metadata": {"labels": labels}})));
    cluster.set_object(&bound(claim("data", "", "1Gi"), "pv"));
    let pod = pod(&mut cluster, "pod", &["data"]);
    (cluster, pod)
}

#[test]
fn nodes_must_be_in_a_zone_of_the_volume() {
    let cases: [(Value, Labels<'_>, bool); 9] = [
        (json!({ZONE: "a"}), &[(ZONE, "a")], true),
        (json!({ZONE: "a"}), &[(ZONE, "b")], false),
        (json!({ZONE: "a__ b"}), &[(ZONE, "b")], true),
        (json!({ZONE: "a__"}), &[(ZONE, "b")], true),
        (json!({ZONE: "a"}), &[], true),
        (json!({ZONE: "a"}), &[(REGION, "r")], false),
        (json!({OLD_ZONE: "a"}), &[(ZONE, "a")], true),
        (json!({ZONE: "a"}), &[(OLD_ZONE, "a")], false),
        (json!({ZONE: "a", REGION: "r"}), &[(ZONE, "a"), (REGION, "other")], false),
    ];
    for (labels, of_node, passes) in cases {
        let (mut cluster, pod) = with_volume(&merged(labels.clone(), &json!({"x": "y", REGION: labels.get(REGION)})));
        node(&mut cluster, "n", of_node);
        let mut plugin = plugin();
        if labels == json!({ZONE: "a__"}) {
            assert_eq!(plugin.pre_filter(&cluster.call(1, &pod)), Err(Status::skip()), "an empty zone does not count");
            continue;
        }
        let expected = if passes { "" } else { REJECTED };
        assert_eq!(verdicts(&mut plugin, &cluster, &pod), [expected], "{labels} {of_node:?}");
    }
}

#[test]
fn a_node_that_moves_is_judged_anew() {
    let (mut cluster, pod) = with_volume(&json!({ZONE: "a"}));
    node(&mut cluster, "n", &[(ZONE, "b")]);
    let mut plugin = plugin();
    assert_eq!(verdicts(&mut plugin, &cluster, &pod), [REJECTED]);
    node(&mut cluster, "n", &[(ZONE, "a")]);
    assert_eq!(verdicts(&mut plugin, &cluster, &pod), [""]);
}

#[test]
fn claims_that_say_nothing_about_zones() {
    let cases = [
        ("gone", "UnschedulableAndUnresolvable: persistentvolumeclaim \"gone\" not found"),
        ("", "UnschedulableAndUnresolvable: PersistentVolumeClaim had no name"),
        ("lost", "UnschedulableAndUnresolvable: persistentvolume \"nowhere\" not found"),
        ("classless", "UnschedulableAndUnresolvable: PersistentVolumeClaim had no pv name and storageClass name"),
        ("odd", "UnschedulableAndUnresolvable: storageclass.storage.k8s.io \"odd\" not found"),
        ("modeless", "UnschedulableAndUnresolvable: VolumeBindingMode not set for StorageClass \"modeless\""),
        ("now", "UnschedulableAndUnresolvable: PersistentVolume had no name"),
        ("later", "Skip: "),
    ];
    let mut cluster = TestCluster::default();
    cluster.set_object(&bound(claim("lost", "", "1Gi"), "nowhere"));
    cluster.set_object(&claim("classless", "", "1Gi"));
    cluster.set_object(&merged(class("modeless", "p", ""), &json!({"volumeBindingMode": null})));
    cluster.set_object(&class("now", "p", "Immediate"));
    cluster.set_object(&class("later", "p", "WaitForFirstConsumer"));
    for name in ["odd", "modeless", "now", "later"] {
        cluster.set_object(&claim(name, name, "1Gi"));
    }
    for (name, expected) in cases {
        let pod = pod(&mut cluster, "pod", &[name]);
        let status = plugin().pre_filter(&cluster.call(1, &pod)).unwrap_err();
        assert_eq!(format!("{}: {}", status.code.as_str(), status.message()), expected);
    }
}
