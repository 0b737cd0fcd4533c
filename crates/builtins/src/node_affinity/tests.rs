//! Node affinity on five nodes with different labels.

use berth_framework::Code;
use berth_model::{
    ThinVec,
    pod::{NodeRules, Requirement},
};

use super::*;
use crate::testing::{TestCluster, scores, verdicts};

const POD: &str = "UnschedulableAndUnresolvable: node(s) didn't match Pod's node affinity/selector";
const ADDED: &str = "UnschedulableAndUnresolvable: node(s) didn't match scheduler-enforced node affinity";

/// `n0` has no labels; `n4` has an empty value and a value that is not an integer.
fn cluster() -> TestCluster {
    let mut cluster = TestCluster::default();
    let rows: [&[(&str, &str)]; 5] = [
        &[],
        &[("disk", "ssd"), ("cpus", "8")],
        &[("disk", "hdd"), ("cpus", "-4")],
        &[("disk", "ssd"), ("zone", "a")],
        &[("disk", ""), ("cpus", "8.0")],
    ];
    for (index, labels) in rows.into_iter().enumerate() {
        let labels = cluster.labels(labels);
        cluster.edit_node(&format!("n{index}"), |node| node.labels = labels);
    }
    cluster
}

fn requirement(cluster: &mut TestCluster, key: &str, operator: Operator, values: &[&str]) -> Requirement {
    Requirement { key: cluster.sym(key), operator, values: values.iter().map(|value| cluster.sym(value)).collect() }
}

fn label_term(cluster: &mut TestCluster, key: &str, operator: Operator, values: &[&str]) -> NodeTerm {
    NodeTerm { labels: vec![requirement(cluster, key, operator, values)], ..NodeTerm::default() }
}

fn name_term(cluster: &mut TestCluster, operator: Operator, names: &[&str]) -> NodeTerm {
    NodeTerm { fields: vec![requirement(cluster, "metadata.name", operator, names)], ..NodeTerm::default() }
}

fn requiring(terms: ThinVec<NodeTerm>) -> Pod {
    let node_rules = NodeRules { required: Some(terms), ..NodeRules::default() };
    Pod { node_rules, ..Pod::default() }
}

/// The nodes that pass, as a list of their digits.
fn passing(plugin: &mut NodeAffinity, cluster: &TestCluster, pod: &Pod) -> String {
    let verdicts = verdicts(plugin, cluster, pod);
    (0..).zip(&verdicts).filter(|(_, verdict)| verdict.is_empty()).map(|(node, _): (u32, _)| node.to_string()).collect()
}

#[test]
fn operators() {
    let mut cluster = cluster();
    let cases: [(&str, Operator, &[&str], &str); 14] = [
        ("disk", Operator::In, &["ssd"], "13"),
        ("disk", Operator::In, &["ssd", "hdd"], "123"),
        ("disk", Operator::In, &[""], "4"),
        ("disk", Operator::NotIn, &["ssd"], "024"),
        ("disk", Operator::NotIn, &["", "hdd"], "013"),
        ("disk", Operator::Exists, &[], "1234"),
        ("disk", Operator::DoesNotExist, &[], "0"),
        ("cpus", Operator::Gt, &["4"], "1"),
        ("cpus", Operator::Gt, &["8"], ""),
        ("cpus", Operator::Lt, &["8"], "2"),
        ("cpus", Operator::Lt, &["many"], ""),
        ("unheard", Operator::In, &["ssd"], ""),
        ("unheard", Operator::NotIn, &["ssd"], "01234"),
        ("unheard", Operator::DoesNotExist, &[], "01234"),
    ];
    for (key, operator, values, expected) in cases {
        let pod = requiring([label_term(&mut cluster, key, operator, values)].into());
        assert_eq!(passing(&mut NodeAffinity::default(), &cluster, &pod), expected, "{key} {operator:?} {values:?}");
    }
}

#[test]
fn terms_are_alternatives_and_requirements_are_not() {
    let mut cluster = cluster();
    let ssd = label_term(&mut cluster, "disk", Operator::In, &["ssd"]);
    let hdd = label_term(&mut cluster, "disk", Operator::In, &["hdd"]);
    let zone_a = requirement(&mut cluster, "zone", Operator::In, &["a"]);
    let ssd_in_a = NodeTerm { labels: vec![ssd.labels[0].clone(), zone_a], ..NodeTerm::default() };
    let broken = NodeTerm { error: Some("no".to_owned()), ..ssd.clone() };
    let named = name_term(&mut cluster, Operator::In, &["n4"]);
    let cases = [
        (vec![ssd.clone(), hdd.clone()], "123"),
        (vec![ssd_in_a], "3"),
        (vec![hdd.clone(), broken.clone()], "2"),
        (vec![broken], ""),
        (vec![NodeTerm::default(), hdd], "2"),
        (vec![NodeTerm::default()], ""),
        (vec![], ""),
        (vec![named, ssd], "134"),
    ];
    for (terms, expected) in cases {
        let pod = requiring(terms.into());
        assert_eq!(passing(&mut NodeAffinity::default(), &cluster, &pod), expected, "{:?}", pod.node_rules);
    }
}

#[test]
fn node_selector_and_terms_must_both_match() {
    let mut cluster = cluster();
    let mut pod = requiring([label_term(&mut cluster, "disk", Operator::In, &["ssd"])].into());
    pod.node_rules.selector = Some(cluster.labels(&[("zone", "a")]));
    assert_eq!(verdicts(&mut NodeAffinity::default(), &cluster, &pod), [POD, POD, POD, "", POD]);
}

#[test]
fn pre_filter_names_nodes_where_all_terms_do() {
    let mut cluster = cluster();
    let mut terms = |lists: &[&[&str]]| -> NodeTerm {
        let fields = lists.iter().map(|names| requirement(&mut cluster, "metadata.name", Operator::In, names));
        NodeTerm { fields: fields.collect(), ..NodeTerm::default() }
    };
    let one = terms(&[&["n1"]]);
    let unknown = terms(&[&["nowhere"]]);
    let conflict = terms(&[&["n1"], &["n2"]]);
    let labels = label_term(&mut cluster, "disk", Operator::Exists, &[]);
    let not_in = name_term(&mut cluster, Operator::NotIn, &["n1"]);
    let cases = [
        (vec![one.clone()], Ok(Some(vec!["n1".to_owned()]))),
        (vec![one.clone(), unknown], Ok(Some(vec!["n1".to_owned(), "nowhere".to_owned()]))),
        (vec![one.clone(), labels], Ok(None)),
        (vec![one, conflict.clone()], Ok(Some(vec!["n1".to_owned()]))),
        (vec![conflict], Err(Status::unresolvable("pod affinity terms conflict"))),
        (vec![not_in], Ok(None)),
        (vec![], Ok(None)),
    ];
    for (terms, expected) in cases {
        let pod = requiring(terms.into());
        assert_eq!(NodeAffinity::default().pre_filter(&cluster.call(1, &pod)), expected, "{:?}", pod.node_rules);
    }
}

#[test]
fn pre_filter_skips_a_pod_without_rules() {
    let cluster = cluster();
    let mut pod = Pod::default();
    assert_eq!(NodeAffinity::default().pre_filter(&cluster.call(1, &pod)), Err(Status::skip()));
    pod.node_rules.selector = Some(ThinVec::new());
    assert_eq!(NodeAffinity::default().pre_filter(&cluster.call(1, &pod)), Ok(None), "an empty selector does not skip");
}

fn with_required(expression: &str) -> NodeAffinity {
    let args = format!(
        r#"{{"addedAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":
            {{"nodeSelectorTerms":[{{"matchExpressions":[{expression}]}}]}}}}}}"#
    );
    NodeAffinity::new(&args).unwrap()
}

#[test]
fn added_affinity_is_looked_up_in_the_table() {
    let cluster = cluster();
    let cases = [
        (r#"{"key":"disk","operator":"In","values":["ssd"]}"#, "13"),
        (r#"{"key":"disk","operator":"In","values":["tape"]}"#, ""),
        (r#"{"key":"disk","operator":"NotIn","values":["tape"]}"#, "01234"),
        (r#"{"key":"disk","operator":"NotIn","values":["ssd","tape"]}"#, "024"),
        (r#"{"key":"never","operator":"NotIn","values":["tape"]}"#, "01234"),
        (r#"{"key":"never","operator":"DoesNotExist"}"#, "01234"),
        (r#"{"key":"never","operator":"Exists"}"#, ""),
        (r#"{"key":"cpus","operator":"Gt","values":["7"]}"#, "1"),
        (r#"{"key":"cpus","operator":"Lt","values":["0"]}"#, "2"),
    ];
    for (expression, expected) in cases {
        assert_eq!(passing(&mut with_required(expression), &cluster, &Pod::default()), expected, "{expression}");
    }
}

#[test]
fn added_affinity_is_checked_first_and_follows_new_symbols() {
    let mut cluster = cluster();
    let mut plugin = with_required(r#"{"key":"disk","operator":"In","values":["tape"]}"#);
    let pod = requiring([label_term(&mut cluster, "disk", Operator::In, &["ssd"])].into());
    assert_eq!(verdicts(&mut plugin, &cluster, &pod), [ADDED; 5]);
    let labels = cluster.labels(&[("disk", "tape")]);
    cluster.edit_node("n5", |node| node.labels = labels);
    assert_eq!(verdicts(&mut plugin, &cluster, &pod), [ADDED, ADDED, ADDED, ADDED, ADDED, POD]);
}

#[test]
fn preferences_add_up() {
    let mut cluster = cluster();
    let mut preference = |weight, key: &str, value: &str| WeightedNodeTerm {
        weight,
        term: label_term(&mut cluster, key, Operator::In, &[value]),
    };
    let terms = [preference(30, "disk", "ssd"), preference(20, "zone", "a"), preference(0, "disk", "hdd")];
    let mut pod = Pod::default();
    pod.node_rules.preferred = Some(terms.into());
    let result = scores(&mut NodeAffinity::default(), &cluster, &pod);
    assert_eq!(result, Ok((vec![0, 30, 0, 50, 0], vec![0, 60, 0, 100, 0])));

    let args = r#"{"addedAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[
        {"weight":50,"preference":{"matchExpressions":[{"key":"disk","operator":"In","values":["hdd"]}]}}]}}"#;
    let mut plugin = NodeAffinity::new(args).unwrap();
    assert_eq!(scores(&mut plugin, &cluster, &pod), Ok((vec![0, 30, 50, 50, 0], vec![0, 60, 100, 100, 0])));
    assert_eq!(scores(&mut plugin, &cluster, &Pod::default()), Ok((vec![0, 0, 50, 0, 0], vec![0, 0, 100, 0, 0])));
}

#[test]
fn added_preferences_that_add_nothing_do_not_skip() {
    let cluster = cluster();
    for preference in [r#"{"weight":5,"preference":{}}"#, r#"{"weight":0,"preference":{"matchExpressions":[]}}"#] {
        let args =
            format!(r#"{{"addedAffinity":{{"preferredDuringSchedulingIgnoredDuringExecution":[{preference}]}}}}"#);
        let mut plugin = NodeAffinity::new(&args).unwrap();
        assert_eq!(scores(&mut plugin, &cluster, &Pod::default()), Ok((vec![0; 5], vec![0; 5])), "{preference}");
    }
}

#[test]
fn hints_wait_for_a_node_that_begins_to_match() {
    let mut cluster = cluster();
    let ssd = label_term(&mut cluster, "disk", Operator::In, &["ssd"]);
    let broken = NodeTerm { error: Some("no".to_owned()), ..label_term(&mut cluster, "cpus", Operator::Gt, &["-5"]) };
    let mut node = |labels: &[(&str, &str)]| Node { labels: cluster.labels(labels), ..Node::default() };
    let (plain, with_ssd, in_zone) = (node(&[]), node(&[("disk", "ssd")]), node(&[("disk", "ssd"), ("zone", "a")]));
    let zone_a = cluster.labels(&[("zone", "a")]);
    let hint = |pod: &Pod, old: Option<&Node>, new: &Node| {
        let event = ClusterEvent::new("Node", ClusterEvent::UPDATE_NODE_LABEL);
        let subject = EventSubject::Node { old, new: Some(new) };
        NodeAffinity::default().queueing_hint(&HintCall { table: cluster.table(), pod, event: &event, subject })
    };
    let pod = requiring([ssd.clone()].into());
    assert!(hint(&pod, None, &with_ssd) && hint(&pod, Some(&plain), &with_ssd));
    assert!(!hint(&pod, None, &plain) && !hint(&pod, Some(&in_zone), &with_ssd));
    // The API server accepts the value -5 of `Gt`, although no label can have this value.
    let mut pod = requiring([ssd, broken].into());
    assert!(hint(&pod, None, &plain) && hint(&pod, Some(&with_ssd), &plain), "the term may be an error");
    assert!(!hint(&pod, Some(&in_zone), &with_ssd), "the other term matched before");
    pod.node_rules.selector = Some(zone_a);
    assert!(!hint(&pod, None, &with_ssd), "the node selector decides first");
}

#[test]
fn pre_score_skips_or_fails() {
    let mut cluster = cluster();
    let mut pod = Pod::default();
    assert_eq!(scores(&mut NodeAffinity::default(), &cluster, &pod), Err(Status::skip()));
    pod.node_rules.preferred = Some(ThinVec::new());
    assert_eq!(scores(&mut NodeAffinity::default(), &cluster, &pod), Ok((vec![0; 5], vec![0; 5])));
    let mut term = label_term(&mut cluster, "disk", Operator::Exists, &[]);
    term.error = Some(".matchExpressions[0]: wrong".to_owned());
    pod.node_rules.preferred = Some([WeightedNodeTerm { weight: 1, term }].into());
    let status = scores(&mut NodeAffinity::default(), &cluster, &pod).unwrap_err();
    assert_eq!((status.code, status.message().as_str()), (Code::Error, "[0].matchExpressions[0]: wrong"));
    let preferred = pod.node_rules.preferred.as_mut().unwrap();
    preferred[0].term.error = Some(".matchExpressions[0]: wrong\n.matchExpressions[2]: wrong".to_owned());
    let status = scores(&mut NodeAffinity::default(), &cluster, &pod).unwrap_err();
    assert_eq!(status.message(), "[[0].matchExpressions[0]: wrong, [0].matchExpressions[2]: wrong]");
}

#[test]
fn wrong_args_are_refused() {
    let expressions = [
        r#"{"key":"a","operator":"in","values":["b"]}"#,
        r#"{"key":"a","operator":"In"}"#,
        r#"{"key":"a","operator":"Exists","values":["b"]}"#,
        r#"{"key":"a","operator":"Gt","values":["b"]}"#,
        r#"{"key":"a","operator":"Exists","extra":1}"#,
    ];
    for expression in expressions {
        let args = format!(
            r#"{{"addedAffinity":{{"preferredDuringSchedulingIgnoredDuringExecution":
                [{{"weight":1,"preference":{{"matchExpressions":[{expression}]}}}}]}}}}"#
        );
        assert!(NodeAffinity::new(&args).is_err(), "{expression}");
    }
    let field = |field: &str| {
        format!(
            r#"{{"addedAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":
        {{"nodeSelectorTerms":[{{"matchFields":[{field}]}}]}}}}}}"#
        )
    };
    assert!(NodeAffinity::new(&field(r#"{"key":"metadata.name","operator":"In","values":["n"]}"#)).is_ok());
    assert!(NodeAffinity::new(&field(r#"{"key":"metadata.name","operator":"In","values":["n","m"]}"#)).is_err());
    assert!(NodeAffinity::new(&field(r#"{"key":"spec.x","operator":"In","values":["n"]}"#)).is_err());
}
