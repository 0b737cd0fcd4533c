//! PodTopologySpread on small clusters, which are made of API objects.

mod default_constraints;
mod properties;
mod scores;

use berth_model::{NodeIdx, Pod, ThinVec};
use serde_json::{Value, json};

use super::*;
use crate::testing::{TestCluster, show, verdicts};

const MISSING: &str = "UnschedulableAndUnresolvable: \
                       node(s) didn't match pod topology spread constraints (missing required label)";
const SKEWED: &str = "Unschedulable: node(s) didn't match pod topology spread constraints";

/// A cluster made of API objects.
#[derive(Default)]
struct World {
    cluster: TestCluster,
}

impl World {
    /// Nodes with these zones, called `n0` and so on.
    fn zones(zones: &[&str]) -> Self {
        let mut world = Self::default();
        for (at, zone) in zones.iter().enumerate() {
            let name = format!("n{at}");
            world.node(&json!({ "metadata": { "name": name, "labels": { "zone": zone, "host": name } } }));
        }
        world
    }

    fn node(&mut self, node: &Value) {
        self.cluster.set_node(&serde_json::from_value(node.clone()).unwrap());
    }

    fn pod(&mut self, pod: &Value) -> Pod {
        self.cluster.intern(&serde_json::from_value(pod.clone()).unwrap())
    }

    /// Puts `count` pods with label `app: web` on a node.
    fn place_web(&mut self, node: u32, count: u32) {
        for _ in 0..count {
            self.place(node, &web(&json!([])));
        }
    }

    fn place(&mut self, node: u32, pod: &Value) {
        let pod = self.pod(pod);
        self.cluster.place(NodeIdx(node), pod);
    }

    fn verdicts(&mut self, pod: &Value) -> Vec<String> {
        let pod = self.pod(pod);
        verdicts(&mut plugin("null"), &self.cluster, &pod)
    }
}

fn plugin(args: &str) -> PodTopologySpread {
    PodTopologySpread::new(args).unwrap()
}

/// A pod with label `app: web` and these constraints.
fn web(constraints: &Value) -> Value {
    json!({
        "metadata": { "namespace": "ns", "name": "web", "labels": { "app": "web" } },
        "spec": { "topologySpreadConstraints": constraints },
    })
}

/// A hard constraint on pods with `app: web`, with additional fields from `more`.
fn hard(key: &str, max_skew: i32, more: &Value) -> Value {
    let mut constraint = json!({
        "topologyKey": key, "maxSkew": max_skew, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "web" } },
    });
    constraint.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    constraint
}

#[test]
fn skew_is_measured_against_the_emptiest_domain() {
    let cases: [(&[u32], i32, Value, [&str; 3]); 9] = [
        (&[3, 1, 0], 1, json!({}), [SKEWED, SKEWED, ""]),
        (&[3, 1, 1], 1, json!({}), [SKEWED, "", ""]),
        (&[3, 1, 1], 2, json!({}), [SKEWED, "", ""]),
        (&[3, 1, 1], 3, json!({}), ["", "", ""]),
        (&[1, 1, 1], 1, json!({ "minDomains": 3 }), ["", "", ""]),
        (&[1, 1, 1], 1, json!({ "minDomains": 4 }), [SKEWED, SKEWED, SKEWED]),
        // The pod does not count itself.
        (&[1, 0, 0], 1, json!({ "labelSelector": { "matchLabels": { "app": "db" } } }), ["", "", ""]),
        // An absent selector matches nothing. An empty selector matches the pod itself, but counts no other pod.
        (&[5, 0, 0], 1, json!({ "labelSelector": null }), ["", "", ""]),
        (&[5, 0, 0], 1, json!({ "labelSelector": {} }), ["", "", ""]),
    ];
    for (counts, max_skew, more, expected) in cases {
        let mut world = World::zones(&["a", "b", "c"]);
        for (node, count) in (0u32..).zip(counts) {
            world.place_web(node, *count);
        }
        assert_eq!(world.verdicts(&web(&json!([hard("zone", max_skew, &more)]))), expected, "{counts:?} {more}");
    }
}

#[test]
fn only_pods_of_the_namespace_that_are_not_terminating_count() {
    let mut world = World::zones(&["a", "b"]);
    let mut pod = web(&json!([]));
    pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    world.place(0, &pod);
    let mut pod = web(&json!([]));
    pod["metadata"]["namespace"] = json!("other");
    world.place(0, &pod);
    assert_eq!(world.verdicts(&web(&json!([hard("zone", 1, &json!({}))]))), ["", ""]);
}

#[test]
fn nodes_without_a_key_are_in_no_domain() {
    let mut world = World::zones(&["a", "b"]);
    world.node(&json!({ "metadata": { "name": "n2", "labels": { "host": "n2" } } }));
    world.place_web(0, 1);
    world.place_web(1, 1);
    let both = json!([hard("host", 1, &json!({})), hard("zone", 1, &json!({}))]);
    assert_eq!(world.verdicts(&web(&both)), ["", "", MISSING]);
    // The message of the first constraint comes first: n2 has two more pods than the other nodes.
    world.place_web(2, 2);
    assert_eq!(world.verdicts(&web(&both)), ["", "", MISSING]);
    let host = json!([hard("host", 1, &json!({}))]);
    assert_eq!(world.verdicts(&web(&host)), ["", "", SKEWED]);
}

#[test]
fn policies_decide_which_nodes_count() {
    let honor = json!({ "nodeTaintsPolicy": "Honor" });
    let ignore = json!({ "nodeAffinityPolicy": "Ignore" });
    // Zone b is empty, but the pod cannot go there.
    let cases = [(json!({}), false, SKEWED), (honor, false, ""), (json!({}), true, ""), (ignore, true, SKEWED)];
    for (more, selects, expected) in cases {
        let mut world = World::zones(&["a"]);
        world.node(&json!({
            "metadata": { "name": "n1", "labels": { "zone": "b" } },
            "spec": { "taints": [{ "key": "gpu", "effect": "NoSchedule" }] },
        }));
        world.place_web(0, 1);
        let mut pod = web(&json!([hard("zone", 1, &more)]));
        if selects {
            pod["spec"]["nodeSelector"] = json!({ "zone": "a" });
        }
        assert_eq!(world.verdicts(&pod)[0], expected, "{more}");
    }
}

#[test]
fn match_label_keys_narrow_the_selector() {
    let mut world = World::zones(&["a", "b"]);
    let mut old = web(&json!([hard("zone", 1, &json!({ "matchLabelKeys": ["hash", "absent"] }))]));
    old["metadata"]["labels"]["hash"] = json!("1");
    world.place(0, &old);
    assert_eq!(world.verdicts(&old), [SKEWED, ""]);
    let mut new = old.clone();
    new["metadata"]["labels"]["hash"] = json!("2");
    assert_eq!(world.verdicts(&new), ["", ""]);
}

#[test]
fn dry_run_removes_and_adds_pods() {
    let mut world = World::zones(&["a", "b", "c"]);
    for (node, count) in [(0, 2), (1, 1), (2, 1)] {
        world.place_web(node, count);
    }
    let pod = world.pod(&web(&json!([hard("zone", 1, &json!({}))])));
    let other = Pod { labels: ThinVec::new(), ..pod.clone() };
    let case = |node, minus: &[u32], plus: &[u32]| DryRunCase {
        node: NodeIdx(node),
        minus: minus.to_vec(),
        plus: plus.to_vec(),
    };
    let mut plugin = plugin("null");
    let call = world.cluster.call(1, &pod);
    plugin.pre_filter(&call).unwrap();
    let cases = [case(0, &[], &[]), case(0, &[0], &[]), case(0, &[1], &[]), case(1, &[], &[0]), case(1, &[0], &[0])];
    let statuses = plugin.dry_run(&call, &[&pod, &other], &cases).unwrap();
    assert_eq!(statuses.iter().map(show).collect::<Vec<_>>(), [SKEWED, "", SKEWED, SKEWED, ""]);
}

#[test]
fn pods_removed_from_a_node_that_is_not_eligible_change_nothing() {
    let mut world = World::zones(&["a", "b"]);
    world.node(&json!({
        "metadata": { "name": "n2", "labels": { "zone": "a" } },
        "spec": { "taints": [{ "key": "gpu", "effect": "NoSchedule" }] },
    }));
    world.place_web(0, 1);
    world.place_web(2, 1);
    let pod = world.pod(&web(&json!([hard("zone", 1, &json!({ "nodeTaintsPolicy": "Honor" }))])));
    let mut plugin = plugin("null");
    let call = world.cluster.call(1, &pod);
    plugin.pre_filter(&call).unwrap();
    let cases = [0, 2].map(|node| DryRunCase { node: NodeIdx(node), minus: vec![0], plus: vec![] });
    let statuses = plugin.dry_run(&call, &[&pod], &cases).unwrap();
    assert_eq!(statuses.iter().map(show).collect::<Vec<_>>(), ["", SKEWED]);
}

#[test]
fn terminating_pods_count_when_a_dry_run_removes_them() {
    let mut world = World::zones(&["a", "b"]);
    world.place_web(0, 1);
    let pod = world.pod(&web(&json!([hard("zone", 1, &json!({}))])));
    let terminating = Pod { terminating: true, ..pod.clone() };
    let mut plugin = plugin("null");
    let call = world.cluster.call(1, &pod);
    plugin.pre_filter(&call).unwrap();
    let cases = [DryRunCase { node: NodeIdx(0), minus: vec![0], plus: vec![] }];
    assert_eq!(plugin.dry_run(&call, &[&terminating], &cases).unwrap(), [Status::success()]);
}

#[test]
fn invalid_constraints_fail_the_attempt_without_a_panic() {
    let mut world = World::zones(&["a", "b"]);
    let nonsense = json!({ "labelSelector": { "matchExpressions": [{ "key": "app", "operator": "Near" }] } });
    let pod = world.pod(&web(&json!([hard("zone", 1, &nonsense)])));
    let error = plugin("null").pre_filter(&world.cluster.call(1, &pod)).unwrap_err();
    assert!(error.message().starts_with("obtaining pod's hard topology spread constraints: "), "{error:?}");
    let extreme = json!({ "minDomains": i32::MIN });
    for (key, max_skew) in [("zone", i32::MIN), ("zone", i32::MAX), ("", 0), ("nonsense", -1)] {
        world.verdicts(&web(&json!([hard(key, max_skew, &extreme)])));
    }
}

#[test]
fn filter_needs_pre_filter() {
    let mut world = World::zones(&["a"]);
    let pod = world.pod(&web(&json!([hard("zone", 1, &json!({}))])));
    let mut nodes = world.cluster.table().nodes().clone();
    let status = Filter::filter(&mut plugin("null"), &world.cluster.call(1, &pod), &mut nodes).unwrap_err();
    assert_eq!(status.message(), "error reading \"PreFilterPodTopologySpread\" from cycleState: not found");
}

#[test]
fn pods_without_hard_constraints_skip() {
    let mut world = World::zones(&["a"]);
    for constraints in [json!([]), json!([hard("zone", 1, &json!({ "whenUnsatisfiable": "ScheduleAnyway" }))])] {
        let pod = world.pod(&web(&constraints));
        assert_eq!(plugin("null").pre_filter(&world.cluster.call(1, &pod)), Err(Status::skip()));
    }
}
