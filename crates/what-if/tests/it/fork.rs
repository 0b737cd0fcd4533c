//! Tests that reverted changes leave no trace: nodes that are added and removed, pods that are placed, evicted and
//! refused.

use berth_scheduler::Settings;
use berth_what_if::{
    Arrival, Batch, BatchBounds, BatchError, Cluster, ClusterNode, ClusterPod, Conditions, Placing, WhatIfAnswer,
    WhatIfRequest, what_if,
};
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};

use crate::kit::{cluster, node, pod, profile};

fn conditions<'a>() -> Conditions<'a> {
    Conditions {
        settings: Settings::default(),
        profiles: vec![profile()],
        tell_time: Box::new(|_| ()),
        whole_pods: false,
        arrival: Arrival::Together,
        is_over: &|| false,
    }
}

/// A change within a fork.
#[derive(Clone, Debug)]
enum Change {
    RemoveNode(usize),
    AddNode(&'static str, &'static str),
    /// The number of pods, their CPU and their priority.
    Pods(usize, &'static str, i32),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0..8_usize).prop_map(Change::RemoveNode),
        (select(vec!["a", "b", "c"]), select(vec!["1", "4"])).prop_map(|(zone, cpu)| Change::AddNode(zone, cpu)),
        (1..6_usize, select(vec!["500m", "1", "3"]), select(vec![0, 10]))
            .prop_map(|(n, cpu, priority)| Change::Pods(n, cpu, priority)),
    ]
}

/// The zone and CPU of each node, and the CPU of the pods on it.
fn base() -> impl Strategy<Value = Vec<(&'static str, &'static str, Vec<&'static str>)>> {
    let pods = vec(select(vec!["100m", "500m"]), 0..4);
    vec((select(vec!["a", "b", "c"]), select(vec!["1", "2", "4"]), pods), 1..8)
}

fn built(nodes: &[(&str, &str, Vec<&str>)]) -> Cluster {
    let mut text = String::new();
    for (number, (zone, cpu, pods)) in nodes.iter().enumerate() {
        text.push_str(&node(&format!("n{number}"), zone, cpu));
        for (index, cpu) in pods.iter().enumerate() {
            text.push_str(&pod(&format!("p{number}-{index}"), cpu, &format!("nodeName: n{number}, priority: 0,")));
        }
    }
    cluster(&text)
}

/// Pods that reveal where searches begin, and which nodes are preferred or full.
fn probes() -> Vec<ClusterPod> {
    let texts =
        ["300m", "700m", "3"].iter().enumerate().map(|(at, cpu)| pod(&format!("probe-{at}"), cpu, "priority: 5,"));
    cluster(&texts.collect::<String>()).pods().to_vec()
}

/// The placement of the probes, and the state of all nodes before it: the names in their order, and the pods on each
/// node.
fn look(placing: &mut Placing<'_>) -> Value {
    let fork = placing.fork();
    probes().iter().for_each(|pod| placing.arrive(pod));
    placing.settle().unwrap();
    let (pods, evictions) = placing.outcomes();
    placing.revert(fork).unwrap();
    while placing.simulation_mut().decide() {}
    let cache = placing.simulation_mut().scheduler().cache();
    let symbols = &cache.table().symbols;
    let nodes = cache.table().nodes().iter().map(|idx| {
        let name = cache.table().name(idx);
        let mut pods: Vec<&str> = cache.pods_on(name).map(|pod| &*pod.name).collect();
        pods.sort_unstable();
        (symbols.text(name).to_owned(), pods)
    });
    let mut nodes: Vec<_> = nodes.collect();
    nodes.sort();
    json!({"pods": pods, "evictions": evictions, "nodes": nodes})
}

fn make(change: &Change, number: usize, placing: &mut Placing<'_>) {
    match change {
        Change::RemoveNode(node) => {
            let pods = placing.remove_node(&format!("n{node}")).unwrap_or_default();
            pods.iter().for_each(|pod| placing.arrive(&pod.made_again()));
        }
        Change::AddNode(zone, cpu) => {
            let text = node(&format!("new-{number}"), zone, cpu);
            placing.add_node(&ClusterNode::read("node.yaml", &text).unwrap());
        }
        Change::Pods(n, cpu, priority) => {
            for at in 0..*n {
                let text = pod(&format!("new-{number}-{at}"), cpu, &format!("priority: {priority},"));
                cluster(&text).pods().iter().for_each(|pod| placing.arrive(pod));
            }
        }
    }
    placing.settle().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_fork_that_is_reverted_leaves_the_cluster_and_its_answers_as_they_were(
        nodes in base(),
        forks in vec(vec(change(), 1..6), 1..4),
    ) {
        let mut placing = Placing::new(&built(&nodes), conditions());
        let before = look(&mut placing);
        for changes in &forks {
            let fork = placing.fork();
            for (number, change) in changes.iter().enumerate() {
                make(change, number, &mut placing);
            }
            placing.revert(fork).unwrap();
            prop_assert_eq!(&look(&mut placing), &before, "after {:?}", changes);
        }
    }
}

fn ask(request: Value) -> Result<WhatIfAnswer, BatchError> {
    let text = [node("n1", "a", "2"), node("n2", "b", "2"), pod("there", "1", "nodeName: n1, priority: 0,")].concat();
    let request: WhatIfRequest = serde_json::from_value(request).unwrap();
    let batch =
        Batch { bounds: BatchBounds { variants: 10, pods: 20, nodes: 20, bytes: 1 << 20 }, scheduler_name: None };
    what_if(&cluster(&text), &request, &batch, conditions())
}

fn pods(n: usize) -> Vec<Value> {
    let pod = |at| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{at}")}, "spec": {"preemptionPolicy": "Never",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}})
    };
    (0..n).map(pod).collect()
}

fn template(cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"generateName": format!("of-{cpu}-")},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}}})
}

#[test]
fn each_variant_is_answered_as_if_it_were_alone() {
    let variants = json!([{"name": "as it is"}, {"name": "larger", "addNodes": [{"count": 1, "node": template("4")}]},
        {"name": "smaller", "removeNodes": ["n1"]}, {"name": "as it is"}]);
    let answer =
        ask(json!({"apiVersion": "berth.dev/v1alpha1", "kind": "WhatIf", "pods": pods(5), "variants": variants}))
            .unwrap();
    let counts: Vec<_> = answer.variants.iter().map(|it| (it.name.as_str(), it.placed, it.pending)).collect();
    // The pod of the removed node waits, too.
    assert_eq!(counts, [("as it is", 3, 2), ("larger", 5, 0), ("smaller", 2, 4), ("as it is", 3, 2)]);
    assert_eq!(answer.variants[0], answer.variants[3]);
}

#[test]
fn node_groups_say_how_many_nodes_would_take_the_pods() {
    let groups = json!([{"name": "small", "node": template("1"), "maxNodes": 10}, {"name": "large", "node": template("8"), "maxNodes": 10},
        {"name": "few", "node": template("1"), "maxNodes": 2}]);
    let answer =
        ask(json!({"apiVersion": "berth.dev/v1alpha1", "kind": "WhatIf", "pods": pods(9), "nodeGroups": groups}));
    let groups = answer.map(|answer| answer.node_groups);
    let error = groups.unwrap_err().to_string();
    assert_eq!(error, "variants: 13 exceeds the limit of 10");
    let group = |cpu: &str, most: usize| {
        let groups = json!([{"name": "group", "node": template(cpu), "maxNodes": most}]);
        let request =
            json!({"apiVersion": "berth.dev/v1alpha1", "kind": "WhatIf", "pods": pods(9), "nodeGroups": groups});
        let answer = ask(request).unwrap().node_groups.remove(0);
        (answer.nodes, answer.placed, answer.pending.len())
    };
    assert_eq!([group("1", 10), group("8", 10), group("1", 2)], [(6, 9, 0), (1, 9, 0), (2, 5, 4)]);
}

/// The caller creates nodes for these pods, and chooses the size of the nodes.
#[test]
fn node_groups_name_the_pods_of_each_new_node() {
    let groups = json!([{"name": "group", "node": template("1"), "maxNodes": 2}]);
    let request = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "WhatIf", "pods": pods(9), "nodeGroups": groups});
    let answer = serde_json::to_value(ask(request).unwrap()).unwrap();
    let nodes = answer["nodeGroups"][0]["newNodes"].as_array().unwrap();
    let names: Vec<_> = nodes.iter().map(|node| node["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["of-1-1", "of-1-2"], "{answer}");
    for node in nodes {
        // The existing nodes are full, and a new node has room for one pod.
        assert_eq!(node["pods"].as_array().map(Vec::len), Some(1), "{answer}");
        assert_eq!(node["requests"], json!({"cpu": "1", "pods": "1"}));
    }
}

/// A pod for which a node was created has a nomination to this node.
#[test]
fn a_pod_in_flight_keeps_its_node() {
    let mut asked = pods(5);
    asked[4]["metadata"] = json!({"name": "flying", "uid": "flying", "namespace": "default"});
    asked[4]["spec"]["schedulerName"] = json!("default-scheduler");
    asked[4]["status"] = json!({"nominatedNodeName": "of-1-1"});
    let variants = json!([{"addNodes": [{"count": 1, "node": template("1")}]}]);
    let request = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "WhatIf", "pods": asked, "variants": variants});
    let answer = ask(request).unwrap().variants.remove(0);
    let flying = answer.pods.iter().find(|pod| pod.name == "flying").unwrap();
    assert_eq!((flying.node.as_deref(), answer.placed), (Some("of-1-1"), 4), "{answer:?}");
}

#[test]
fn a_closed_node_counts_for_topology() {
    let mut asked = pods(3);
    for pod in &mut asked {
        pod["metadata"]["labels"] = json!({"app": "web"});
        pod["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}]);
    }
    let mut closed = template("4");
    closed["metadata"]["labels"] = json!({"topology.kubernetes.io/zone": "c"});
    closed["spec"] = json!({"unschedulable": true});
    let variants = json!([{}, {"addNodes": [{"count": 1, "node": closed}]}]);
    let request = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "WhatIf", "pods": asked, "variants": variants});
    let answer = ask(request).unwrap();
    // The zone of the closed node stays empty, so the other zones may have one pod each.
    assert_eq!((answer.variants[0].placed, answer.variants[1].placed), (3, 2), "{answer:?}");
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let base = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "WhatIf"});
    let error = |field: &str, value: Value| {
        let mut request = base.clone();
        request[field] = value;
        ask(request).unwrap_err().to_string()
    };
    assert_eq!(error("kind", json!("Other")), "kind: unsupported value `Other`: use `WhatIf`");
    assert_eq!(error("pods", json!(pods(21))), "pods: 21 exceeds the limit of 20");
    let unreadable =
        json!([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"priority": "high"}}]);
    let message = error("pods", unreadable);
    assert!(message.starts_with("pods[0]: Pod default/x: spec.priority: "), "{message}");
    assert_eq!(
        error("variants", json!([{"name": "v", "removeNodes": ["gone"]}])),
        "v: removeNodes: node gone not found"
    );
}
