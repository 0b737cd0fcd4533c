//! Inter-pod affinity on small clusters: the rules one by one, then random clusters against a naive reader.

mod naive;
mod random;
mod world;

use berth_framework::{Call, CycleId, DryRunCase};
use berth_model::{ClusterTable, NodeIdx, api};
use serde_json::{Value, json};

use self::world::{World, labels, pod};
use super::*;
use crate::testing::show;

fn plugin(args: &Value) -> InterPodAffinity {
    InterPodAffinity::new(&args.to_string()).unwrap()
}

fn call<'a>(table: &'a ClusterTable, pod: &'a Pod) -> Call<'a> {
    Call { cycle: CycleId(1), pod, table }
}

/// What Filter says about every node, in all three ways, whether or not PreFilter skipped.
fn verdicts(plugin: &mut InterPodAffinity, world: &World, pod: &Pod) -> Vec<String> {
    let call = call(&world.table, pod);
    let skipped = plugin.pre_filter(&call).is_err();
    let nodes = world.table.nodes();
    let mut survivors = nodes.clone();
    plugin.filter(&call, &mut survivors).unwrap();
    assert!(!skipped || survivors == *nodes, "a skipped Filter rejects nothing");
    let explanations = plugin.explain(&call, nodes).unwrap();
    let cases: Vec<DryRunCase> = nodes.iter().map(|node| DryRunCase { node, ..DryRunCase::default() }).collect();
    let tried = plugin.dry_run(&call, &[], &cases).unwrap();
    for (node, status) in nodes.iter().zip(&tried) {
        assert_eq!(survivors.contains(node), status.is_success(), "filter and dry-run on {node:?}");
        let explained = explanations.iter().find(|explanation| explanation.nodes.contains(node));
        assert_eq!(explained.map(|it| &it.status), Some(status).filter(|status| !status.is_success()));
    }
    tried.iter().map(show).collect()
}

/// Raw and normalised scores of all nodes; `None` if PreScore skips.
fn scores(plugin: &mut InterPodAffinity, world: &World, pod: &Pod) -> Option<(Vec<i64>, Vec<i64>)> {
    let (call, nodes) = (call(&world.table, pod), world.table.nodes());
    if let Err(status) = plugin.pre_score(&call, nodes) {
        assert_eq!(status, Status::skip());
        return None;
    }
    let mut raw = Vec::new();
    plugin.score(&call, nodes, &mut raw).unwrap();
    let mut normalized = raw.clone();
    plugin.normalize(&call, nodes, &mut normalized).unwrap();
    Some((raw, normalized))
}

/// Three zones of two nodes each; `n6` has no labels.
fn zones() -> World {
    let mut world = World::default();
    for node in 0..6u32 {
        let (host, zone) = (format!("n{node}"), ["a", "b", "c"][node as usize / 2]);
        world.set_node(node, labels(&[("host", &host), ("zone", zone)]));
    }
    world.set_node(6, labels(&[]));
    world
}

/// A term about pods with `app=<app>`.
fn term(app: &str, key: &str) -> Value {
    json!({ "labelSelector": { "matchLabels": { "app": app } }, "topologyKey": key })
}

fn requires(term: &Value) -> Value {
    json!({ "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } })
}

fn avoids(term: &Value) -> Value {
    json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } })
}

fn prefers(weight: i32, term: &Value) -> Value {
    let weighted = json!({ "weight": weight, "podAffinityTerm": term });
    json!({ "podAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [weighted] } })
}

fn dislikes(weight: i32, term: &Value) -> Value {
    let weighted = json!({ "weight": weight, "podAffinityTerm": term });
    json!({ "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [weighted] } })
}

/// The nodes that pass as a list of their digits.
fn passing(world: &mut World, pod: &api::Pod) -> String {
    let pod = world.intern(pod);
    let verdicts = verdicts(&mut plugin(&json!({})), world, &pod);
    (0..).zip(&verdicts).filter(|(_, verdict)| verdict.is_empty()).map(|(node, _): (u32, _)| node.to_string()).collect()
}

#[test]
fn required_terms_look_at_domains() {
    let mut world = zones();
    world.place(0, pod("default", &[("app", "db")], &json!({})), 2);
    let cases = [
        (requires(&term("db", "zone")), "23"),
        (requires(&term("db", "host")), "2"),
        (requires(&term("db", "nowhere")), ""),
        (requires(&term("web", "zone")), ""),
        (avoids(&term("db", "zone")), "01456"),
        (avoids(&term("db", "host")), "013456"),
        (avoids(&term("db", "nowhere")), "0123456"),
        (avoids(&term("web", "zone")), "0123456"),
    ];
    for (affinity, expected) in cases {
        assert_eq!(passing(&mut world, &pod("default", &[("app", "api")], &affinity)), expected, "{affinity}");
    }
}

/// Nothing matches yet, but the pod matches itself.
#[test]
fn the_first_of_a_series_goes_where_the_key_is() {
    let mut world = zones();
    let first = pod("default", &[("app", "db")], &requires(&term("db", "zone")));
    assert_eq!(passing(&mut world, &first), "012345");
    world.place(0, pod("default", &[("app", "db")], &json!({})), 6);
    assert_eq!(passing(&mut world, &first), "012345", "a node without the key holds none of the series");
    world.place(1, first.clone(), 4);
    assert_eq!(passing(&mut world, &first), "45");
}

/// A pod that meets one of two terms is no company.
#[test]
fn one_pod_must_meet_all_required_terms() {
    let mut world = zones();
    let terms =
        json!([term("db", "zone"), { "labelSelector": { "matchLabels": { "tier": "back" } }, "topologyKey": "host" }]);
    let choosy = pod(
        "default",
        &[("app", "api")],
        &json!({ "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": terms } }),
    );
    world.place(0, pod("default", &[("app", "db")], &json!({})), 0);
    world.place(1, pod("default", &[("tier", "back")], &json!({})), 0);
    assert_eq!(passing(&mut world, &choosy), "");
    world.place(2, pod("default", &[("app", "db"), ("tier", "back")], &json!({})), 3);
    assert_eq!(passing(&mut world, &choosy), "3");
}

#[test]
fn placed_pods_keep_others_away() {
    let mut world = zones();
    let loner = pod("default", &[("app", "db")], &avoids(&term("api", "zone")));
    world.place(0, loner, 0);
    assert_eq!(passing(&mut world, &pod("default", &[("app", "api")], &json!({}))), "23456");
    assert_eq!(passing(&mut world, &pod("default", &[("app", "web")], &json!({}))), "0123456");
    assert_eq!(passing(&mut world, &pod("other", &[("app", "api")], &json!({}))), "0123456");
    world.remove(0);
    assert_eq!(passing(&mut world, &pod("default", &[("app", "api")], &json!({}))), "0123456");
}

/// A term about all pods in the namespaces that are meant.
fn in_namespaces(names: &[&str], selector: &Value) -> Value {
    json!({ "labelSelector": {}, "namespaces": names, "namespaceSelector": selector, "topologyKey": "host" })
}

#[test]
fn namespaces_by_name_and_by_label() {
    let mut world = zones();
    for (slot, namespace) in (0..).zip(["default", "prod", "dev", "gone"]) {
        world.place(slot, pod(namespace, &[], &json!({})), slot);
    }
    world.set_namespace("prod", Some(labels(&[("env", "prod")])));
    world.set_namespace("dev", Some(labels(&[("env", "dev")])));
    let env = |operator: &str, values: &Value| json!({ "matchExpressions": [{ "key": "env", "operator": operator, "values": values }] });
    let cases = [
        (in_namespaces(&[], &Value::Null), "0"),
        (in_namespaces(&["dev", "gone"], &Value::Null), "23"),
        (in_namespaces(&[], &json!({})), "0123"),
        (in_namespaces(&[], &env("In", &json!(["prod"]))), "1"),
        (in_namespaces(&["gone"], &env("Exists", &json!([]))), "123"),
        // Such a selector accepts a namespace without labels, and then reaches everywhere.
        (in_namespaces(&[], &env("NotIn", &json!(["prod"]))), "0123"),
    ];
    for (term, expected) in &cases {
        let near = passing(&mut world, &pod("default", &[], &requires(term)));
        let others: String = "0123456".chars().filter(|node| !expected.contains(*node)).collect();
        assert_eq!(near, *expected, "{term}");
        assert_eq!(passing(&mut world, &pod("default", &[], &avoids(term))), others, "{term}");
    }
}

/// The namespace of the pod to be placed is looked up as it is.
#[test]
fn placed_pods_select_namespaces_by_label() {
    let mut world = zones();
    let not_prod = json!({ "matchExpressions": [{ "key": "env", "operator": "NotIn", "values": ["prod"] }] });
    world.place(0, pod("default", &[], &avoids(&in_namespaces(&[], &not_prod))), 0);
    world.set_namespace("prod", Some(labels(&[("env", "prod")])));
    for (namespace, expected) in [("prod", "0123456"), ("gone", "123456"), ("default", "123456")] {
        assert_eq!(passing(&mut world, &pod(namespace, &[], &json!({}))), expected, "{namespace}");
    }
}

#[test]
fn scores_weigh_both_directions() {
    let mut world = zones();
    world.place(0, pod("default", &[("app", "db")], &json!({})), 0);
    world.place(1, pod("default", &[("app", "batch")], &json!({})), 2);
    let mut picky = json!({});
    for part in [prefers(10, &term("db", "zone")), dislikes(5, &term("batch", "host"))] {
        picky.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
    }
    let api = world.intern(&pod("default", &[("app", "api")], &picky));
    let expected = (vec![10, 10, -5, 0, 0, 0, 0], vec![100, 100, 0, 33, 33, 33, 33]);
    assert_eq!(scores(&mut plugin(&json!({})), &world, &api), Some(expected));
    world.place(2, pod("default", &[("app", "x")], &requires(&term("api", "host"))), 3);
    let raw = |args: &Value| scores(&mut plugin(args), &world, &api).map(|(raw, _)| raw);
    assert_eq!(raw(&json!({})), Some(vec![10, 10, -5, 1, 0, 0, 0]));
    assert_eq!(raw(&json!({ "hardPodAffinityWeight": 100 })), Some(vec![10, 10, -5, 100, 0, 0, 0]));
    assert_eq!(raw(&json!({ "hardPodAffinityWeight": 0 })), Some(vec![10, 10, -5, 0, 0, 0, 0]));
}

#[test]
fn preferences_of_placed_pods_can_be_ignored() {
    let mut world = zones();
    world.place(0, pod("default", &[("app", "db")], &prefers(7, &term("api", "host"))), 0);
    let plain = world.intern(&pod("default", &[("app", "api")], &json!({})));
    let ignoring = json!({ "ignorePreferredTermsOfExistingPods": true });
    let raw = |args: &Value, pod: &Pod, world: &World| scores(&mut plugin(args), world, pod).map(|(raw, _)| raw);
    assert_eq!(raw(&json!({}), &plain, &world), Some(vec![7, 0, 0, 0, 0, 0, 0]));
    assert_eq!(raw(&ignoring, &plain, &world), None);
    let picky = world.intern(&pod("default", &[("app", "api")], &prefers(2, &term("db", "zone"))));
    assert_eq!(raw(&ignoring, &picky, &world), Some(vec![9, 2, 0, 0, 0, 0, 0]));
}

/// What cancels out was still said: the node's scores are 0, and the plugin is not skipped.
#[test]
fn nothing_to_say_is_skipped() {
    let mut world = zones();
    let plain = world.intern(&pod("default", &[("app", "api")], &json!({})));
    assert_eq!(plugin(&json!({})).pre_filter(&call(&world.table, &plain)), Err(Status::skip()));
    assert_eq!(scores(&mut plugin(&json!({})), &world, &plain), None);
    world.place(0, pod("default", &[], &prefers(7, &term("api", "host"))), 0);
    world.place(1, pod("default", &[], &dislikes(7, &term("api", "host"))), 0);
    assert_eq!(scores(&mut plugin(&json!({})), &world, &plain), Some((vec![0; 7], vec![0; 7])));
}

/// Pods that go and come change the counts of their node's domains, and only those.
#[test]
fn dry_run_takes_pods_away_and_brings_others() {
    let mut world = zones();
    let loner = pod("default", &[("app", "db")], &avoids(&term("api", "zone")));
    world.place(0, loner.clone(), 0);
    let [loner, db] = [loner, pod("elsewhere", &[("app", "db")], &json!({}))].map(|pod| world.intern(&pod));
    let api = world.intern(&pod(
        "default",
        &[("app", "api")],
        &avoids(&json!({
            "labelSelector": { "matchLabels": { "app": "db" } }, "namespaceSelector": {}, "topologyKey": "host"
        })),
    ));
    let mut plugin = plugin(&json!({}));
    let call = call(&world.table, &api);
    plugin.pre_filter(&call).unwrap();
    let case =
        |node, minus: &[u32], plus: &[u32]| DryRunCase { node: NodeIdx(node), minus: minus.into(), plus: plus.into() };
    let cases = [
        (case(0, &[], &[]), naive::OWN_ANTI),
        (case(0, &[0], &[]), ""),
        (case(0, &[0], &[0]), naive::OWN_ANTI),
        (case(1, &[], &[]), naive::OTHERS_ANTI),
        (case(2, &[], &[]), ""),
        (case(2, &[], &[0]), naive::OWN_ANTI),
        (case(2, &[], &[1]), naive::OWN_ANTI),
        (case(6, &[], &[0, 1]), ""),
        (case(2, &[], &[7]), ""),
    ];
    let statuses = plugin.dry_run(&call, &[&loner, &db], &cases.clone().map(|(case, _)| case)).unwrap();
    let expected: Vec<&str> = cases.iter().map(|(_, expected)| *expected).collect();
    assert_eq!(statuses.iter().map(show).collect::<Vec<_>>(), expected);
}

#[test]
fn args_are_checked() {
    for args in ["{}", "", "null", r#"{"hardPodAffinityWeight":null}"#, r#"{"hardPodAffinityWeight":100}"#] {
        assert!(InterPodAffinity::new(args).is_ok(), "{args}");
    }
    let error = InterPodAffinity::new(r#"{"hardPodAffinityWeight":101}"#).unwrap_err();
    assert_eq!(error.to_string(), "hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]");
    for args in [r#"{"hardPodAffinityWeight":-1}"#, r#"{"hardPodAffinityWeight":"1"}"#, r#"{"nonsense":1}"#] {
        assert!(InterPodAffinity::new(args).is_err(), "{args}");
    }
}

/// The API server lets none of these through.
#[test]
fn impossible_terms_turn_the_pod_down_and_harm_nobody() {
    let mut world = zones();
    let broken = json!({
        "labelSelector": { "matchExpressions": [{ "key": "app", "operator": "Near" }] },
        "namespaceSelector": { "matchExpressions": [{ "key": "app", "operator": "In", "values": [] }] },
        "topologyKey": "",
    });
    for affinity in [requires(&broken), avoids(&broken), prefers(-5, &broken), dislikes(i32::MAX, &broken)] {
        world.place(0, pod("default", &[("app", "db")], &affinity), 0);
        assert_eq!(passing(&mut world, &pod("default", &[], &json!({}))), "0123456", "{affinity}");
        let pod = world.intern(&pod("default", &[], &affinity));
        let mut plugin = plugin(&json!({}));
        let status = plugin.pre_filter(&call(&world.table, &pod)).unwrap_err();
        assert!(show(&status).starts_with("UnschedulableAndUnresolvable: parsing pod: "), "{status:?}");
        let status = plugin.pre_score(&call(&world.table, &pod), world.table.nodes()).unwrap_err();
        assert!(show(&status).starts_with("Error: failed to parse pod: "), "{status:?}");
    }
    let without_selector = json!({ "topologyKey": "zone" });
    world.place(0, pod("default", &[], &avoids(&without_selector)), 0);
    assert_eq!(passing(&mut world, &pod("default", &[], &avoids(&without_selector))), "0123456");
}

/// More came and went between two cycles than the journal remembers.
#[test]
fn an_overrun_journal_is_counted_anew() {
    let mut world = zones();
    let mut plugin = plugin(&json!({}));
    let api = world.intern(&pod("default", &[("app", "api")], &avoids(&term("db", "zone"))));
    let loner = pod("default", &[("app", "db")], &avoids(&term("api", "host")));
    world.place(0, loner.clone(), 0);
    assert_eq!(verdicts(&mut plugin, &world, &api)[0], naive::OWN_ANTI);
    for turn in 0..3000u32 {
        world.place(turn % 2, loner.clone(), 2 + turn % 2);
    }
    let expected = ["", "", naive::OWN_ANTI, naive::OWN_ANTI, "", "", ""];
    assert_eq!(verdicts(&mut plugin, &world, &api), expected);
}
