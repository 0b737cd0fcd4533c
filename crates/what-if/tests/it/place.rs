//! Tests of clusters from manifests, and of the placement of their pods.

use std::collections::BTreeMap;

use berth_scheduler::Settings;
use berth_what_if::{Arrival, ClusterReader, Conditions, Placed, RefusalReason, place};

use crate::kit::{cluster, pod, profile};

fn placed(text: &str, arrival: Arrival) -> Placed {
    let conditions = Conditions {
        settings: Settings::default(),
        profiles: vec![profile()],
        tell_time: Box::new(|_| ()),
        whole_pods: false,
        arrival,
        is_over: &|| false,
    };
    place(&cluster(text), conditions).unwrap()
}

fn node(name: &str, cpu: &str, more: &str) -> String {
    crate::kit::node(name, "west", cpu).replace("spec: {}", &format!("spec: {{{more}}}"))
}

fn nodes(placed: &Placed) -> BTreeMap<&str, Option<&str>> {
    placed.pods.iter().map(|pod| (pod.name.as_str(), pod.node.as_deref())).collect()
}

#[test]
fn pods_are_placed_and_refusals_name_plugins_and_nodes() {
    let taint = "taints: [{key: gpu, value: 'true', effect: NoSchedule}]";
    let text = [node("small", "1", ""), node("gpu", "8", taint), pod("fits", "1", ""), pod("large", "4", "")].concat();
    let placed = placed(&text, Arrival::Together);
    assert_eq!(nodes(&placed), [("fits", Some("small")), ("large", None)].into());
    let refusal = placed.pods[1].refusal.as_ref().unwrap();
    assert_eq!(refusal.reason, RefusalReason::Unschedulable);
    assert!(
        refusal.message.starts_with("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint")
    );
    let rejections: Vec<_> =
        refusal.rejections.iter().map(|it| (it.plugin.as_deref().unwrap(), it.examples[0].as_str())).collect();
    assert_eq!(rejections, [("TaintToleration", "gpu"), ("NodeResourcesFit", "small")]);
}

#[test]
fn a_pod_of_high_priority_evicts_and_is_placed() {
    let there = pod("there", "1", "nodeName: only, priority: 0,");
    let text = [node("only", "1", ""), there, pod("urgent", "1", "priority: 10,")].concat();
    let placed = placed(&text, Arrival::Together);
    assert_eq!(nodes(&placed), [("urgent", Some("only"))].into());
    let evicted: Vec<_> = placed.evictions.iter().map(|it| (it.name.as_str(), it.node.as_str())).collect();
    assert_eq!(evicted, [("there", "only")]);
}

/// In Kubernetes 1.36, a pod with two anti-affinity terms is tried again after the deletion of a pod only if the
/// deleted pod matches both terms.
#[test]
fn a_pod_that_no_event_has_tried_again_is_placed_after_its_eviction() {
    let there = pod("there", "1", "nodeName: only, priority: 0,");
    let there = there.replace("{name: there}", "{name: there, labels: {app: web}}");
    let term =
        |app: &str| format!("{{topologyKey: kubernetes.io/hostname, labelSelector: {{matchLabels: {{app: {app}}}}}}}");
    let terms = [term("web"), term("db")].join(", ");
    let affinity = format!("{{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{terms}]}}}}");
    let urgent = pod("urgent", "1", &format!("priority: 10, affinity: {affinity},"));
    let placed = placed(&[node("only", "4", ""), there, urgent].concat(), Arrival::Together);
    assert_eq!(placed.evictions.len(), 1);
    assert_eq!(nodes(&placed), [("urgent", Some("only"))].into());
}

#[test]
fn the_order_of_arrival_decides_who_gets_the_last_room() {
    let pods = [
        pod("first", "1", "priority: 1, preemptionPolicy: Never,"),
        pod("second", "1", "priority: 2, preemptionPolicy: Never,"),
    ];
    let text = [node("only", "1", ""), pods.concat()].concat();
    assert_eq!(nodes(&placed(&text, Arrival::Together)), [("first", None), ("second", Some("only"))].into());
    assert_eq!(nodes(&placed(&text, Arrival::OneByOne)), [("first", Some("only")), ("second", None)].into());
}

#[test]
fn pods_that_no_attempt_is_made_for_say_why() {
    let text = [
        node("only", "1", ""),
        pod("gated", "1", "schedulingGates: [{name: example.com/wait}],"),
        pod("foreign", "1", "schedulerName: another,"),
    ];
    let placed = placed(&text.concat(), Arrival::Together);
    let reasons: Vec<_> = placed.pods.iter().map(|pod| pod.refusal.as_ref().unwrap().reason).collect();
    assert_eq!(reasons, [RefusalReason::Gated, RefusalReason::NotServed]);
}

#[test]
fn workloads_become_pods_with_their_volumes() {
    let class = "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast}\nprovisioner: example.com/disks\n\
                 volumeBindingMode: WaitForFirstConsumer\n---\n";
    let set = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\nspec:\n  replicas: 2\n  template:\n    spec:\n      \
               containers: [{name: db, resources: {requests: {cpu: 1}}}]\n  volumeClaimTemplates:\n  - metadata: {name: data}\n    \
               spec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n---\n";
    let daemons = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: logs}\nspec:\n  template:\n    spec: {containers: [{name: logs}]}\n---\n";
    let text = [node("a", "1", ""), node("b", "1", ""), class.to_owned(), set.to_owned(), daemons.to_owned()].concat();
    let placed = placed(&text, Arrival::Together);
    assert!(placed.pods.iter().all(|pod| pod.node.is_some()), "{placed:#?}");
    let mut nodes: Vec<_> = placed.pods.iter().map(|pod| (&pod.name[..2], pod.node.as_deref().unwrap())).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, [("db", "a"), ("db", "b"), ("lo", "a"), ("lo", "b")]);
}

#[test]
fn broken_objects_are_named_and_left_out() {
    let text =
        [node("a", "1", ""), pod("same", "1", ""), pod("same", "1", ""), pod("named", "1", "priorityClassName: gone,")];
    let mut reader = ClusterReader::default();
    reader.read("f.yaml", &text.concat());
    reader.read("g.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: bare}\n");
    let (cluster, errors) = reader.finish();
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors[0], "f.yaml:14: Pod same: metadata.name: the same object is also defined at f.yaml:7");
    assert!(
        errors[1].starts_with("f.yaml:20: Pod default/named: spec.priorityClassName: PriorityClass gone not found"),
        "{errors:#?}"
    );
    assert!(errors[2].starts_with("g.yaml:1: Node bare: status.allocatable: a node needs this field"), "{errors:#?}");
    assert_eq!((cluster.nodes().len(), cluster.pods().len()), (1, 1));
}
