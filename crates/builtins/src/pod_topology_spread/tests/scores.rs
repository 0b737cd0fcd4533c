//! Tests of soft constraints, which only affect scores.

use super::*;
use crate::testing::scores;

fn soft(key: &str, max_skew: i32, more: &Value) -> Value {
    let mut constraint = hard(key, max_skew, more);
    constraint["whenUnsatisfiable"] = json!("ScheduleAnyway");
    constraint
}

/// Two nodes in zone a and one in zone b, with two, zero and one web pods.
fn uneven() -> World {
    let mut world = World::default();
    for (name, zone) in [("n0", "a"), ("n1", "a"), ("n2", "b")] {
        let labels = json!({ "topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name });
        world.node(&json!({ "metadata": { "name": name, "labels": labels } }));
    }
    world.place_web(0, 2);
    world.place_web(2, 1);
    world
}

#[test]
fn fewer_matching_pods_score_higher() {
    let mut world = uneven();
    let constraints =
        json!([soft("kubernetes.io/hostname", 3, &json!({})), soft("topology.kubernetes.io/zone", 5, &json!({}))]);
    let pod = world.pod(&web(&constraints));
    assert_eq!(scores(&mut plugin("null"), &world.cluster, &pod), Ok((vec![12, 9, 9], vec![75, 100, 100])));
}

#[test]
fn nodes_without_a_key_score_nothing() {
    let mut world = uneven();
    world.node(&json!({ "metadata": { "name": "n3", "labels": { "kubernetes.io/hostname": "n3" } } }));
    let zone = soft("topology.kubernetes.io/zone", 1, &json!({}));
    let pod = world.pod(&web(&json!([zone, soft("kubernetes.io/hostname", 1, &json!({}))])));
    // The penalty is ln 4 times the pods in the zone, plus ln 5 times the pods on the node.
    let expected = (vec![6, 3, 3, 0], vec![50, 100, 100, 0]);
    assert_eq!(scores(&mut plugin("null"), &world.cluster, &pod), Ok(expected));
}

#[test]
fn without_matching_pods_all_nodes_are_best() {
    let mut world = World::zones(&["a", "b"]);
    let pod = world.pod(&web(&json!([soft("zone", 1, &json!({}))])));
    assert_eq!(scores(&mut plugin("null"), &world.cluster, &pod), Ok((vec![0, 0], vec![100, 100])));
}

#[test]
fn nodes_that_policies_exclude_do_not_count() {
    let mut world = World::zones(&["a", "a", "b"]);
    world.place_web(1, 3);
    let mut pod = web(&json!([soft("zone", 1, &json!({}))]));
    pod["spec"]["affinity"] = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "host", "operator": "NotIn", "values": ["n1"] }] }],
    } } });
    let pod = world.pod(&pod);
    assert_eq!(scores(&mut plugin("null"), &world.cluster, &pod), Ok((vec![0, 0, 0], vec![100, 100, 100])));
}

#[test]
fn pods_without_soft_constraints_skip() {
    let mut world = World::zones(&["a"]);
    for constraints in [json!([]), json!([hard("zone", 1, &json!({}))])] {
        let pod = world.pod(&web(&constraints));
        assert_eq!(scores(&mut plugin("null"), &world.cluster, &pod), Err(Status::skip()));
    }
}

#[test]
fn invalid_constraints_do_not_panic() {
    let mut world = uneven();
    for max_skew in [i32::MIN, 0, i32::MAX] {
        let pod = world.pod(&web(&json!([soft("topology.kubernetes.io/zone", max_skew, &json!({}))])));
        let (raw, _) = scores(&mut plugin("null"), &world.cluster, &pod).unwrap();
        assert_eq!(raw.len(), 3);
    }
    let nonsense = json!({ "labelSelector": { "matchExpressions": [{ "key": "app", "operator": "Near" }] } });
    let pod = world.pod(&web(&json!([soft("zone", 1, &nonsense)])));
    let error = scores(&mut plugin("null"), &world.cluster, &pod).unwrap_err();
    let expected = "calculating preScoreState: obtaining pod's soft topology spread constraints: ";
    assert!(error.message().starts_with(expected), "{error:?}");
}
