//! NodeResourcesFit on small clusters.

use berth_framework::EventSubject;
use berth_model::{ObjectKey, pod::Resources};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::{TestCluster, pod_of, scores, show, verdicts};

const GI: i64 = 1 << 30;

fn amounts(milli_cpu: i64, memory: i64) -> Resources {
    Resources { milli_cpu, memory, ..Resources::default() }
}

fn fit(args: &str) -> NodeResourcesFit {
    NodeResourcesFit::new(args).unwrap()
}

/// A node with room for two pods, 4 CPUs, 8 GiB, 10 GiB of disk and 4 GPUs. A pod on it uses half of these amounts.
fn half_used() -> (TestCluster, NodeIdx, Sym) {
    let mut cluster = TestCluster::default();
    let gpu = cluster.sym("example.com/gpu");
    let node = cluster.edit_node("n", |node| {
        node.allocatable =
            Resources { milli_cpu: 4000, memory: 8 * GI, ephemeral_storage: 10 * GI, scalars: [(gpu, 4)].into() };
        node.allowed_pods = 2;
    });
    let used = Resources { milli_cpu: 2000, memory: 4 * GI, ephemeral_storage: 5 * GI, scalars: [(gpu, 2)].into() };
    cluster.place(node, pod_of(used));
    (cluster, node, gpu)
}

#[test]
fn reasons_and_codes() {
    let (cluster, _, gpu) = half_used();
    let with_gpus = |n, requests| Resources { scalars: [(gpu, n)].into(), ..requests };
    let disk = |bytes| Resources { ephemeral_storage: bytes, ..Resources::default() };
    let cases = [
        (Resources::default(), ""),
        (amounts(2000, 4 * GI), ""),
        (amounts(2001, 0), "Unschedulable: Insufficient cpu"),
        (amounts(4001, 0), "UnschedulableAndUnresolvable: Insufficient cpu"),
        (amounts(3000, 5 * GI), "Unschedulable: Insufficient cpu, Insufficient memory"),
        (amounts(3000, 9 * GI), "UnschedulableAndUnresolvable: Insufficient cpu, Insufficient memory"),
        (disk(6 * GI), "Unschedulable: Insufficient ephemeral-storage"),
        (with_gpus(2, amounts(1, 1)), ""),
        (with_gpus(3, amounts(3000, 1)), "Unschedulable: Insufficient cpu, Insufficient example.com/gpu"),
        (with_gpus(0, amounts(1, 1)), ""),
    ];
    for (requests, expected) in cases {
        let pod = Pod { requests, ..Pod::default() };
        assert_eq!(verdicts(&mut fit("null"), &cluster, &pod), [expected], "{:?}", pod.requests);
    }
}

#[test]
fn pods_are_counted_even_when_nothing_is_requested() {
    let (mut cluster, node, _) = half_used();
    cluster.place(node, pod_of(Resources::default()));
    assert_eq!(verdicts(&mut fit("null"), &cluster, &Pod::default()), ["Unschedulable: Too many pods"]);
    let pod = Pod { requests: amounts(9000, 0), ..Pod::default() };
    let expected = "UnschedulableAndUnresolvable: Too many pods, Insufficient cpu";
    assert_eq!(verdicts(&mut fit("null"), &cluster, &pod), [expected]);
}

#[test]
fn ignored_resources() {
    let (mut cluster, _, gpu) = half_used();
    let hugepages = cluster.sym("hugepages-2Mi");
    let request = |scalars| Pod { requests: Resources { scalars, ..Resources::default() }, ..Pod::default() };
    let by_name = r#"{"ignoredResources":["example.com/gpu","hugepages-2Mi"]}"#;
    let by_group = r#"{"ignoredResourceGroups":["example.com"]}"#;
    assert_eq!(verdicts(&mut fit(by_name), &cluster, &request([(gpu, 9)].into())), [""]);
    assert_eq!(verdicts(&mut fit(by_group), &cluster, &request([(gpu, 9)].into())), [""]);
    let expected = "UnschedulableAndUnresolvable: Insufficient hugepages-2Mi";
    assert_eq!(verdicts(&mut fit(by_name), &cluster, &request([(hugepages, 9)].into())), [expected], "not extended");
}

#[test]
fn dry_run_counts_removed_and_added_pods() {
    let (mut cluster, node, _) = half_used();
    cluster.place(node, pod_of(amounts(1000, GI)));
    let pod = Pod { requests: amounts(2000, GI), ..Pod::default() };
    let placed = |requests| Pod { placed_requests: requests, ..Pod::default() };
    let (small, large) = (placed(amounts(1000, GI)), placed(amounts(2000, 4 * GI)));
    let cases: [(&[u32], &[u32], &str); 5] = [
        (&[], &[], "Unschedulable: Too many pods, Insufficient cpu"),
        (&[0], &[], ""),
        (&[1], &[], ""),
        (&[1], &[0], "Unschedulable: Too many pods"),
        (&[0], &[1], "Unschedulable: Too many pods, Insufficient cpu, Insufficient memory"),
    ];
    for (minus, plus, expected) in cases {
        let case = DryRunCase { node, minus: minus.to_vec(), plus: plus.to_vec() };
        let statuses = fit("null").dry_run(&cluster.call(1, &pod), &[&small, &large], &[case]).unwrap();
        assert_eq!(statuses.iter().map(show).collect::<Vec<_>>(), [expected], "-{minus:?} +{plus:?}");
    }
}

/// The nodes A and B of the worked examples, and their scores for a pod of 1 CPU and 1 GiB.
fn example_scores(args: &str) -> Vec<i64> {
    let mut cluster = TestCluster::default();
    for (name, used) in [("a", amounts(1000, 6 * GI)), ("b", amounts(2000, 2 * GI))] {
        let node = cluster.edit_node(name, |node| node.allocatable = amounts(4000, 8 * GI));
        cluster.place(node, pod_of(used));
    }
    let pod = Pod { scoring_requests: amounts(1000, GI), ..Pod::default() };
    scores(&mut fit(args), &cluster, &pod).unwrap().0
}

#[test]
fn worked_examples() {
    assert_eq!(example_scores("null"), [31, 43]);
    assert_eq!(example_scores(r#"{"scoringStrategy":{"type":"MostAllocated"}}"#), [68, 56]);
    let ratio = r#"{"scoringStrategy":{"type":"RequestedToCapacityRatio","requestedToCapacityRatio":{"shape":[
        {"utilization":0,"score":0},{"utilization":40,"score":8},{"utilization":100,"score":2}]}}}"#;
    assert_eq!(example_scores(ratio)[0], 52);
    let weighted =
        r#"{"scoringStrategy":{"type":"LeastAllocated","resources":[{"name":"cpu","weight":3},{"name":"memory"}]}}"#;
    assert_eq!(example_scores(weighted), [(3 * 50 + 12) / 4, (3 * 25 + 62) / 4]);
    let nothing = r#"{"scoringStrategy":{"resources":[{"name":"example.com/none"},{"name":"pods"}]}}"#;
    assert_eq!(example_scores(nothing), [0, 0]);
}

#[test]
fn wrong_args_are_refused() {
    let refused = [
        r#"{"scoringStrategy":{"type":"Random"}}"#,
        r#"{"scoringStrategy":{"type":"RequestedToCapacityRatio"}}"#,
        r#"{"scoringStrategy":{"resources":[{"name":"cpu","weight":101}]}}"#,
        r#"{"scoringStrategy":{"resources":[{"name":"cpu","weight":-1}]}}"#,
        r#"{"ignoredResourceGroups":["a/b"]}"#,
        r#"{"ignored":[]}"#,
    ];
    for args in refused {
        assert!(NodeResourcesFit::new(args).is_err(), "{args}");
    }
}

/// A resource that a DeviceClass names counts only on nodes that have some of it.
#[test]
fn devices_serve_resources_that_the_node_does_not_have() {
    let (mut cluster, with_gpus, gpu) = half_used();
    let without = cluster.edit_node("without", |node| node.allowed_pods = 10);
    let pod = Pod { requests: Resources { scalars: [(gpu, 100)].into(), ..Resources::default() }, ..Pod::default() };
    let status = |cluster: &TestCluster, node: NodeIdx| {
        let mut plugin = fit("null");
        let rejected = NodeSet::from_iter([node]);
        let with_status = plugin.node_to_status(&cluster.call(1, &pod), &rejected).unwrap();
        with_status.first().map_or_else(String::new, |group| show(&group.status))
    };
    let insufficient = format!("UnschedulableAndUnresolvable: Insufficient {}", cluster.table().symbols.text(gpu));
    assert_eq!(status(&cluster, without), insufficient);
    let class = json!({
        "apiVersion": device_classes::API_VERSION, "kind": device_classes::KIND, "metadata": {"name": "gpus"},
        "spec": {"extendedResourceName": cluster.table().symbols.text(gpu)},
    });
    cluster.set_object(&class);
    assert_eq!(status(&cluster, without), "");
    assert_eq!(status(&cluster, with_gpus), insufficient);
}

#[test]
fn hints_wait_for_a_class_of_devices_for_a_requested_resource() {
    let (cluster, _, gpu) = half_used();
    let class = |resource: Option<&str>| {
        let object = json!({
            "apiVersion": device_classes::API_VERSION, "kind": device_classes::KIND, "metadata": {"name": "gpus"},
            "spec": {"extendedResourceName": resource},
        });
        object.to_string().into_bytes()
    };
    let key = ObjectKey::named(&format!("{}/{}", device_classes::API_VERSION, device_classes::KIND), "", "gpus");
    let hint = |pod: &Pod, old: Option<&[u8]>, new: &[u8]| {
        let event = ClusterEvent::new("resource.k8s.io/DeviceClass", ClusterEvent::ADD);
        let subject = EventSubject::Object { key: &key, old, new: Some(new) };
        fit("null").queueing_hint(&HintCall { table: cluster.table(), pod, event: &event, subject })
    };
    let classes = [Some("example.com/gpu"), None].map(class);
    let [serving, other] = [classes[0].as_slice(), classes[1].as_slice()];
    let mut pod = Pod { requests: amounts(1, 1), ..Pod::default() };
    assert!(!hint(&pod, None, serving));
    for n in [2, 0] {
        pod.requests.scalars = [(gpu, n)].into();
        assert!(hint(&pod, None, serving) && hint(&pod, Some(other), serving), "a request of {n}");
        assert!(!hint(&pod, None, other) && !hint(&pod, Some(serving), serving), "a request of {n}");
    }
}

/// Sums of removed and added requests saturate, like sums of requests on a node.
#[test]
fn dry_run_sums_do_not_overflow() {
    let (cluster, node, _) = half_used();
    let huge = Pod { placed_requests: amounts(i64::MAX, i64::MAX), ..Pod::default() };
    let pod = Pod { requests: amounts(1, 1), ..Pod::default() };
    let plugin = &mut fit("null");
    let mut ask = |minus: Vec<u32>, plus: Vec<u32>| {
        let cases = [berth_framework::DryRunCase { node, minus, plus }];
        show(&plugin.dry_run(&cluster.call(1, &pod), &[&huge, &huge], &cases).unwrap()[0])
    };
    assert_eq!(ask(vec![0, 1], Vec::new()), "");
    assert_eq!(ask(Vec::new(), vec![0, 1]), "Unschedulable: Too many pods, Insufficient cpu, Insufficient memory");
}

/// Neither an overflowing sum nor a negative allocatable amount panics.
#[test]
fn invalid_amounts_do_not_panic() {
    let mut cluster = TestCluster::default();
    let node = cluster.edit_node("n", |node| {
        node.allocatable = amounts(-1, i64::MIN);
        node.allowed_pods = i64::MAX;
    });
    cluster.place(node, pod_of(amounts(i64::MAX, i64::MAX)));
    cluster.place(node, pod_of(amounts(i64::MAX, i64::MAX)));
    let requests = amounts(i64::MAX, i64::MAX);
    let pod = Pod { requests: requests.clone(), scoring_requests: requests, ..Pod::default() };
    assert_eq!(verdicts(&mut fit("null"), &cluster, &pod).len(), 1);
    for strategy in ["LeastAllocated", "MostAllocated"] {
        let args = format!(r#"{{"scoringStrategy": {{"type": "{strategy}"}}}}"#);
        assert!(scores(&mut fit(&args), &cluster, &pod).is_ok_and(|(raw, _)| raw.len() == 1), "{strategy}");
    }
}

proptest! {
    /// In a dry run without changes, each node of a group has the status of the group.
    #[test]
    fn nodes_of_one_status_come_together(
        nodes in prop::collection::vec((any::<[i64; 3]>(), any::<[i64; 3]>(), 0..3_i64, 0..3_usize), 1..150),
        requests in any::<[i64; 3]>(),
    ) {
        // There are only a few values, so that all combinations of reasons occur.
        let amounts = |[cpu, memory, scalar]: [i64; 3], name| Resources {
            milli_cpu: cpu.rem_euclid(4),
            memory: memory.rem_euclid(4),
            scalars: [(name, scalar.rem_euclid(4))].into(),
            ..Resources::default()
        };
        let mut cluster = TestCluster::default();
        let name = cluster.sym("example.com/gpu");
        for (index, (allocatable, used, allowed_pods, n_pods)) in nodes.iter().enumerate() {
            let (allocatable, used): ([i64; 3], [i64; 3]) = (*allocatable, *used);
            let node = cluster.edit_node(&format!("n{index}"), |node| {
                node.allocatable = amounts(allocatable, name);
                node.allowed_pods = *allowed_pods;
            });
            for _ in 0..*n_pods {
                cluster.place(node, pod_of(amounts(used, name)));
            }
        }
        let pod = Pod { requests: amounts(requests, name), ..Pod::default() };
        let rejected: NodeSet = (0..).map(NodeIdx).take(nodes.len()).collect();
        let mut plugin = fit("null");
        let cases: Vec<_> = rejected.iter().map(|node| berth_framework::DryRunCase { node, minus: vec![], plus: vec![] }).collect();
        let alone = plugin.dry_run(&cluster.call(1, &pod), &[], &cases).unwrap();
        let together = plugin.node_to_status(&cluster.call(1, &pod), &rejected).unwrap();
        for (node, alone) in rejected.iter().zip(alone) {
            let mut of_node = together.iter().filter(|group| group.nodes.contains(node));
            prop_assert_eq!(of_node.next().map_or_else(Status::success, |it| it.status.clone()), alone);
            prop_assert!(of_node.next().is_none());
        }
        let first: Vec<_> = together.iter().map(|group| group.nodes.iter().next()).collect();
        prop_assert!(first.is_sorted());
    }
}
