//! Zones of volumes against zones of nodes.

use serde_json::{Value, json};

use super::*;
use crate::{
    storage::testing::{bound, claim, class, merged, node, pod, put, volume},
    testing::{Cluster, verdicts},
};

const REJECTED: &str = "UnschedulableAndUnresolvable: node(s) had no available volume zone";
const ZONE: &str = "topology.kubernetes.io/zone";
const OLD_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";

type Labels<'a> = &'a [(&'a str, &'a str)];

fn plugin() -> VolumeZone {
    VolumeZone::new("").unwrap()
}

fn with_volume(labels: &Value) -> (Cluster, Pod) {
    let mut cluster = Cluster::default();
    put(&mut cluster, &merged(volume("pv", "", "1Gi"), &json!({"metadata": {"labels": labels}})));
    put(&mut cluster, &bound(claim("data", "", "1Gi"), "pv"));
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
            assert_eq!(plugin.pre_filter(&cluster.call(&pod)), Err(Status::skip()), "an empty zone does not count");
            continue;
        }
        let expected = if passes { "" } else { REJECTED };
        assert_eq!(verdicts(&mut plugin, &cluster, &pod), [expected], "{labels} {of_node:?}");
    }
}

#[test]
fn a_node_that_moves_is_judged_anew() {
    let (mut cluster, pod) = with_volume(&json!({ZONE: "a"}));
    let moving = node(&mut cluster, "n", &[(ZONE, "b")]);
    let mut plugin = plugin();
    assert_eq!(verdicts(&mut plugin, &cluster, &pod), [REJECTED]);
    let labels = cluster.labels(&[(ZONE, "a")]);
    cluster.table.set_labels(moving, &labels);
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
    let mut cluster = Cluster::default();
    put(&mut cluster, &bound(claim("lost", "", "1Gi"), "nowhere"));
    put(&mut cluster, &claim("classless", "", "1Gi"));
    put(&mut cluster, &merged(class("modeless", "p", ""), &json!({"volumeBindingMode": null})));
    put(&mut cluster, &class("now", "p", "Immediate"));
    put(&mut cluster, &class("later", "p", "WaitForFirstConsumer"));
    for name in ["odd", "modeless", "now", "later"] {
        put(&mut cluster, &claim(name, name, "1Gi"));
    }
    for (name, expected) in cases {
        let pod = pod(&mut cluster, "pod", &[name]);
        let status = plugin().pre_filter(&cluster.call(&pod)).unwrap_err();
        assert_eq!(format!("{}: {}", status.code.as_str(), status.message()), expected);
    }
}
