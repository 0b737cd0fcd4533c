//! Inter-pod affinity on small clusters rule by rule, and on random clusters against a naive implementation.

mod naive;
mod random;
mod two_form_cluster;

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use berth_framework::{Clock, DryRunCase, SchedulingTime, SearchLength, TimeBounds};
use berth_model::{NodeIdx, api};
use serde_json::{Value, json};

use self::two_form_cluster::{TwoFormCluster, labels, pod};
use super::*;
use crate::testing::show;

fn plugin(args: &Value) -> InterPodAffinity {
    InterPodAffinity::new(&args.to_string()).unwrap()
}

/// The answers of filter, node-to-status and dry-run for every node. The three must agree, even if PreFilter skipped.
fn verdicts(plugin: &mut InterPodAffinity, cluster: &TwoFormCluster, pod: &Pod) -> Vec<String> {
    let call = cluster.cluster.call(1, pod);
    let skipped = plugin.pre_filter(&call).is_err();
    let nodes = call.table.nodes();
    let mut survivors = nodes.clone();
    plugin.filter(&call, &mut survivors).unwrap();
    assert!(!skipped || survivors == *nodes, "a skipped Filter rejects nothing");
    let groups = plugin.node_to_status(&call, nodes).unwrap();
    let cases: Vec<DryRunCase> = nodes.iter().map(|node| DryRunCase { node, ..DryRunCase::default() }).collect();
    let tried = plugin.dry_run(&call, &[], &cases).unwrap();
    for (node, status) in nodes.iter().zip(&tried) {
        assert_eq!(survivors.contains(node), status.is_success(), "filter and dry-run on {node:?}");
        let with_status = groups.iter().find(|group| group.nodes.contains(node));
        assert_eq!(with_status.map(|it| &it.status), Some(status).filter(|status| !status.is_success()));
    }
    cluster.by_number(tried.iter().map(show).collect())
}

/// A clock that advances by a second at each reading.
#[derive(Debug, Default)]
struct Hasty(AtomicU64);

impl Clock for Hasty {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

#[test]
fn thousands_of_terms_take_no_longer_than_a_search_may() {
    let mut cluster = zones();
    let time = SchedulingTime::new(Box::new(Hasty::default()));
    time.set_bounds(TimeBounds { search: Some(Duration::from_millis(250)), ..TimeBounds::default() });
    for (n_terms, is_cut) in [(63, false), (64, true), (5_000, true)] {
        for kind in ["podAffinity", "podAntiAffinity"] {
            let terms: Vec<Value> = (0..n_terms).map(|number| term(&format!("a{number}"), "zone")).collect();
            let affinity = json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
            let requiring = cluster.intern(&pod("default", &[], &affinity));
            let deadline = time.search_deadline(SearchLength::Full);
            let answer = plugin(&json!({})).pre_filter(&Call { deadline, ..cluster.cluster.call(1, &requiring) });
            let says = answer.err().map(|status| status.message()).unwrap_or_default();
            assert_eq!(says.contains("took longer than 250 ms"), is_cut, "{n_terms} {kind}: {says}");
            let weighted = |number| json!({"weight": 1, "podAffinityTerm": term(&format!("a{number}"), "zone")});
            let terms: Vec<Value> = (0..n_terms).map(weighted).collect();
            let affinity = json!({kind: {"preferredDuringSchedulingIgnoredDuringExecution": terms}});
            let preferring = cluster.intern(&pod("default", &[], &affinity));
            let deadline = time.search_deadline(SearchLength::Full);
            let call = Call { deadline, ..cluster.cluster.call(1, &preferring) };
            let answer = plugin(&json!({})).pre_score(&call, call.table.nodes());
            let says = answer.err().map(|status| status.message()).unwrap_or_default();
            assert_eq!(says.contains("took longer than 250 ms"), is_cut, "{n_terms} preferred {kind}: {says}");
        }
    }
}

/// Raw and normalised scores of all nodes; `None` if PreScore skips.
fn scores(plugin: &mut InterPodAffinity, cluster: &TwoFormCluster, pod: &Pod) -> Option<(Vec<i64>, Vec<i64>)> {
    let nodes = cluster.cluster.table().nodes();
    let scores = berth_testing::score(plugin, &cluster.cluster.call(1, pod), nodes).unwrap()?;
    Some((cluster.by_number(scores.raw), cluster.by_number(scores.normalized)))
}

/// Three zones of two nodes each; `n6` has no labels.
fn zones() -> TwoFormCluster {
    let mut cluster = TwoFormCluster::default();
    for node in 0..6u32 {
        let (host, zone) = (format!("n{node}"), ["a", "b", "c"][node as usize / 2]);
        cluster.set_node(node, labels(&[("host", &host), ("zone", zone)]));
    }
    cluster.set_node(6, labels(&[]));
    cluster
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

/// The digits of the nodes that pass.
fn passing(cluster: &mut TwoFormCluster, pod: &api::Pod) -> String {
    let pod = cluster.intern(pod);
    let verdicts = verdicts(&mut plugin(&json!({})), cluster, &pod);
    (0..).zip(&verdicts).filter(|(_, verdict)| verdict.is_empty()).map(|(node, _): (u32, _)| node.to_string()).collect()
}

#[test]
fn required_terms_count_by_domain() {
    let mut cluster = zones();
    cluster.place(0, pod("default", &[("app", "db")], &json!({})), 2);
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
        assert_eq!(passing(&mut cluster, &pod("default", &[("app", "api")], &affinity)), expected, "{affinity}");
    }
}

/// No pod matches yet, but the incoming pod matches itself.
#[test]
fn the_first_pod_of_a_group_needs_only_the_topology_key() {
    let mut cluster = zones();
    let first = pod("default", &[("app", "db")], &requires(&term("db", "zone")));
    assert_eq!(passing(&mut cluster, &first), "012345");
    cluster.place(0, pod("default", &[("app", "db")], &json!({})), 6);
    assert_eq!(passing(&mut cluster, &first), "012345", "a pod on a node without the key does not count");
    cluster.place(1, first.clone(), 4);
    assert_eq!(passing(&mut cluster, &first), "45");
}

/// A pod that matches only one of two terms does not count.
#[test]
fn one_pod_must_meet_all_required_terms() {
    let mut cluster = zones();
    let terms =
        json!([term("db", "zone"), { "labelSelector": { "matchLabels": { "tier": "back" } }, "topologyKey": "host" }]);
    let incoming = pod(
        "default",
        &[("app", "api")],
        &json!({ "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": terms } }),
    );
    cluster.place(0, pod("default", &[("app", "db")], &json!({})), 0);
    cluster.place(1, pod("default", &[("tier", "back")], &json!({})), 0);
    assert_eq!(passing(&mut cluster, &incoming), "");
    cluster.place(2, pod("default", &[("app", "db"), ("tier", "back")], &json!({})), 3);
    assert_eq!(passing(&mut cluster, &incoming), "3");
}

#[test]
fn anti_affinity_of_existing_pods_rejects_nodes() {
    let mut cluster = zones();
    let avoiding = pod("default", &[("app", "db")], &avoids(&term("api", "zone")));
    cluster.place(0, avoiding, 0);
    assert_eq!(passing(&mut cluster, &pod("default", &[("app", "api")], &json!({}))), "23456");
    assert_eq!(passing(&mut cluster, &pod("default", &[("app", "web")], &json!({}))), "0123456");
    assert_eq!(passing(&mut cluster, &pod("other", &[("app", "api")], &json!({}))), "0123456");
    cluster.remove(0);
    assert_eq!(passing(&mut cluster, &pod("default", &[("app", "api")], &json!({}))), "0123456");
}

/// A term that matches all pods of the given namespaces.
fn in_namespaces(names: &[&str], selector: &Value) -> Value {
    json!({ "labelSelector": {}, "namespaces": names, "namespaceSelector": selector, "topologyKey": "host" })
}

#[test]
fn namespaces_by_name_and_by_label() {
    let mut cluster = zones();
    for (slot, namespace) in (0..).zip(["default", "prod", "dev", "gone"]) {
        cluster.place(slot, pod(namespace, &[], &json!({})), slot);
    }
    cluster.set_namespace("prod", Some(labels(&[("env", "prod")])));
    cluster.set_namespace("dev", Some(labels(&[("env", "dev")])));
    let env = |operator: &str, values: &Value| json!({ "matchExpressions": [{ "key": "env", "operator": operator, "values": values }] });
    let cases = [
        (in_namespaces(&[], &Value::Null), "0"),
        (in_namespaces(&["dev", "gone"], &Value::Null), "23"),
        (in_namespaces(&[], &json!({})), "0123"),
        (in_namespaces(&[], &env("In", &json!(["prod"]))), "1"),
        (in_namespaces(&["gone"], &env("Exists", &json!([]))), "123"),
        // A selector that matches a namespace without labels matches every namespace.
        (in_namespaces(&[], &env("NotIn", &json!(["prod"]))), "0123"),
    ];
    for (term, expected) in &cases {
        let near = passing(&mut cluster, &pod("default", &[], &requires(term)));
        let others: String = "0123456".chars().filter(|node| !expected.contains(*node)).collect();
        assert_eq!(near, *expected, "{term}");
        assert_eq!(passing(&mut cluster, &pod("default", &[], &avoids(term))), others, "{term}");
    }
}

/// The terms of existing pods are compared with the labels of the incoming pod's namespace.
#[test]
fn existing_pods_select_namespaces_by_label() {
    let mut cluster = zones();
    let not_prod = json!({ "matchExpressions": [{ "key": "env", "operator": "NotIn", "values": ["prod"] }] });
    cluster.place(0, pod("default", &[], &avoids(&in_namespaces(&[], &not_prod))), 0);
    cluster.set_namespace("prod", Some(labels(&[("env", "prod")])));
    for (namespace, expected) in [("prod", "0123456"), ("gone", "123456"), ("default", "123456")] {
        assert_eq!(passing(&mut cluster, &pod(namespace, &[], &json!({}))), expected, "{namespace}");
    }
}

#[test]
fn terms_of_incoming_and_existing_pods_add_to_scores() {
    let mut cluster = zones();
    cluster.place(0, pod("default", &[("app", "db")], &json!({})), 0);
    cluster.place(1, pod("default", &[("app", "batch")], &json!({})), 2);
    let mut preferring = json!({});
    for part in [prefers(10, &term("db", "zone")), dislikes(5, &term("batch", "host"))] {
        preferring.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
    }
    let api = cluster.intern(&pod("default", &[("app", "api")], &preferring));
    let expected = (vec![10, 10, -5, 0, 0, 0, 0], vec![100, 100, 0, 33, 33, 33, 33]);
    assert_eq!(scores(&mut plugin(&json!({})), &cluster, &api), Some(expected));
    cluster.place(2, pod("default", &[("app", "x")], &requires(&term("api", "host"))), 3);
    let raw = |args: &Value| scores(&mut plugin(args), &cluster, &api).map(|(raw, _)| raw);
    assert_eq!(raw(&json!({})), Some(vec![10, 10, -5, 1, 0, 0, 0]));
    assert_eq!(raw(&json!({ "hardPodAffinityWeight": 100 })), Some(vec![10, 10, -5, 100, 0, 0, 0]));
    assert_eq!(raw(&json!({ "hardPodAffinityWeight": 0 })), Some(vec![10, 10, -5, 0, 0, 0, 0]));
}

#[test]
fn preferred_terms_of_existing_pods_can_be_ignored() {
    let mut cluster = zones();
    cluster.place(0, pod("default", &[("app", "db")], &prefers(7, &term("api", "host"))), 0);
    let plain = cluster.intern(&pod("default", &[("app", "api")], &json!({})));
    let ignoring = json!({ "ignorePreferredTermsOfExistingPods": true });
    let raw =
        |args: &Value, pod: &Pod, cluster: &TwoFormCluster| scores(&mut plugin(args), cluster, pod).map(|(raw, _)| raw);
    assert_eq!(raw(&json!({}), &plain, &cluster), Some(vec![7, 0, 0, 0, 0, 0, 0]));
    assert_eq!(raw(&ignoring, &plain, &cluster), None);
    let preferring = cluster.intern(&pod("default", &[("app", "api")], &prefers(2, &term("db", "zone"))));
    assert_eq!(raw(&ignoring, &preferring, &cluster), Some(vec![9, 2, 0, 0, 0, 0, 0]));
}

/// If weights cancel out, scores are 0. Score is skipped only if no term matches.
#[test]
fn score_is_skipped_without_matching_terms() {
    let mut cluster = zones();
    let plain = cluster.intern(&pod("default", &[("app", "api")], &json!({})));
    assert_eq!(plugin(&json!({})).pre_filter(&cluster.cluster.call(1, &plain)), Err(Status::skip()));
    assert_eq!(scores(&mut plugin(&json!({})), &cluster, &plain), None);
    cluster.place(0, pod("default", &[], &prefers(7, &term("api", "host"))), 0);
    cluster.place(1, pod("default", &[], &dislikes(7, &term("api", "host"))), 0);
    assert_eq!(scores(&mut plugin(&json!({})), &cluster, &plain), Some((vec![0; 7], vec![0; 7])));
}

/// Removed and added pods change only the counts of their node's domains.
#[test]
fn dry_run_removes_and_adds_pods() {
    let mut cluster = zones();
    let avoiding = pod("default", &[("app", "db")], &avoids(&term("api", "zone")));
    cluster.place(0, avoiding.clone(), 0);
    let [avoiding, db] = [avoiding, pod("elsewhere", &[("app", "db")], &json!({}))].map(|pod| cluster.intern(&pod));
    let api = cluster.intern(&pod(
        "default",
        &[("app", "api")],
        &avoids(&json!({
            "labelSelector": { "matchLabels": { "app": "db" } }, "namespaceSelector": {}, "topologyKey": "host"
        })),
    ));
    let mut plugin = plugin(&json!({}));
    let call = cluster.cluster.call(1, &api);
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
    let statuses = plugin.dry_run(&call, &[&avoiding, &db], &cases.clone().map(|(case, _)| case)).unwrap();
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

/// The API server refuses all of these terms.
#[test]
fn invalid_terms_reject_the_pod_and_do_not_affect_others() {
    let mut cluster = zones();
    let broken = json!({
        "labelSelector": { "matchExpressions": [{ "key": "app", "operator": "Near" }] },
        "namespaceSelector": { "matchExpressions": [{ "key": "app", "operator": "In", "values": [] }] },
        "topologyKey": "",
    });
    for affinity in [requires(&broken), avoids(&broken), prefers(-5, &broken), dislikes(i32::MAX, &broken)] {
        cluster.place(0, pod("default", &[("app", "db")], &affinity), 0);
        assert_eq!(passing(&mut cluster, &pod("default", &[], &json!({}))), "0123456", "{affinity}");
        let pod = cluster.intern(&pod("default", &[], &affinity));
        let mut plugin = plugin(&json!({}));
        let status = plugin.pre_filter(&cluster.cluster.call(1, &pod)).unwrap_err();
        assert!(show(&status).starts_with("UnschedulableAndUnresolvable: parsing pod: "), "{status:?}");
        let status = plugin.pre_score(&cluster.cluster.call(1, &pod), cluster.cluster.table().nodes()).unwrap_err();
        assert!(show(&status).starts_with("Error: failed to parse pod: "), "{status:?}");
    }
    let without_selector = json!({ "topologyKey": "zone" });
    cluster.place(0, pod("default", &[], &avoids(&without_selector)), 0);
    assert_eq!(passing(&mut cluster, &pod("default", &[], &avoids(&without_selector))), "0123456");
}

/// The journal of the pod table was too short for the changes between two cycles.
#[test]
fn pods_are_counted_anew_when_the_journal_is_too_short() {
    let mut cluster = zones();
    let mut plugin = plugin(&json!({}));
    let api = cluster.intern(&pod("default", &[("app", "api")], &avoids(&term("db", "zone"))));
    let avoiding = pod("default", &[("app", "db")], &avoids(&term("api", "host")));
    cluster.place(0, avoiding.clone(), 0);
    assert_eq!(verdicts(&mut plugin, &cluster, &api)[0], naive::OWN_ANTI);
    for turn in 0..3000u32 {
        cluster.place(turn % 2, avoiding.clone(), 2 + turn % 2);
    }
    let expected = ["", "", naive::OWN_ANTI, naive::OWN_ANTI, "", "", ""];
    assert_eq!(verdicts(&mut plugin, &cluster, &api), expected);
}
