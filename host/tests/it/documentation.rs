//! The examples of the Kubernetes documentation, applied with `kubectl`, with the results that its pages promise. The
//! explanation of each pod agrees with its result.

use std::{collections::BTreeMap, fs};

use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, Scheduler},
    explain::json_of,
    kubectl::{Kubectl, has_kubectl},
    process::{DEADLINE, Process},
};

/// A cluster with a scheduler that explains its decisions.
async fn start(arguments: &[&str]) -> (Cluster, Scheduler) {
    let cluster = Cluster::start(&[&["--no-scheduler"], arguments].concat()).await;
    let scheduler = cluster.scheduler(&[]).await;
    (cluster, scheduler)
}

/// The path of a file of `examples/documentation`.
fn example(name: &str) -> String {
    format!("{}/../examples/documentation/{name}.yaml", env!("CARGO_MANIFEST_DIR"))
}

/// The pods that `kubectl` shows for these arguments, each with its node. The node is empty while the pod is pending.
fn nodes_of(kubectl: &Kubectl<'_>, arguments: &str) -> BTreeMap<String, String> {
    let list: Value = serde_json::from_str(&kubectl.run(&format!("get pods {arguments} -o json"))).expect("JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pods = list["items"].as_array().expect("a list").iter();
    pods.map(|pod| (text(&pod["metadata"]["name"]), text(&pod["spec"]["nodeName"]))).collect()
}

async fn explained(scheduler: &Scheduler, pod: &str) -> Value {
    let arguments = ["explain", "pod", pod, "-o", "json", "--socket", &scheduler.socket()];
    json_of(&Process::berth(arguments).ended(DEADLINE).await)
}

/// Waits until the pod has a node, and checks that the explanation names this node. Returns the node.
async fn node_of(cluster: &Cluster, scheduler: &Scheduler, pod: &str) -> String {
    let node = cluster.node_of(pod).await;
    let explained = explained(scheduler, pod).await;
    assert_eq!(explained["decision"]["outcome"], json!({"result": "placed", "node": node}), "{explained}");
    node
}

/// Waits until the pod is unschedulable for this reason, such as `0/2 nodes are available: 2 node(s) had ...`. Checks
/// that `kubectl describe` shows the reason, and that the explanation counts it.
async fn pends(cluster: &Cluster, scheduler: &Scheduler, kubectl: &Kubectl<'_>, pod: &str, reason: &str) {
    kubectl.run(&format!("wait --for=condition=PodScheduled=False pod/{pod} --timeout=240s"));
    let says = |message: &String| message.contains(reason);
    let seen = cluster.until(reason, |seen| seen.messages.get(pod).is_some_and(says)).await;
    assert!(seen.nodes[pod].is_empty(), "{pod} is bound");
    assert_eq!(kubectl.run(&format!("get pod {pod} -o jsonpath={{.status.phase}}")), "Pending");
    let event = format!("involvedObject.name={pod},reason=FailedScheduling");
    kubectl.run(&format!("wait --for=create event --field-selector={event} --timeout=240s"));
    let described = kubectl.run(&format!("describe pod {pod}"));
    assert!(described.contains("FailedScheduling") && described.contains(reason), "{described}");
    let explained = explained(scheduler, pod).await;
    let analysis = &explained["analysis"];
    let is_about_nodes = ["Constrained", "Fragmented", "OutOfCapacity"].iter().any(|it| explained["reason"] == **it);
    assert!(is_about_nodes && analysis["feasible"] == 0, "{explained}");
    let (_, counted) = reason.trim_end_matches('.').split_once(": ").expect("a count of nodes");
    let (nodes, text) = counted.split_once(' ').expect("a count of nodes");
    let nodes: u64 = nodes.parse().expect("a number");
    let plugins = analysis["plugins"].as_array().expect("plugins").iter();
    let mut reasons = plugins.flat_map(|plugin| plugin["reasons"].as_array().expect("reasons"));
    let counts = |it: &Value| it["reason"] == *text && it["nodes"] == nodes;
    assert!(reasons.any(counts), "{counted}: {explained}");
}

/// Labels nodes as the documentation's pages on spreading do, and creates pods with the label `foo=bar` on some of
/// them.
fn spread(kubectl: &Kubectl<'_>, zones: &[&str], pods: &[(&str, usize)]) {
    for (position, zone) in zones.iter().enumerate() {
        kubectl.run(&format!("label node node-0000{position} zone={zone} node=node{}", position + 1));
    }
    for (name, node) in pods {
        let overrides = format!("{{\"spec\":{{\"nodeName\":\"node-0000{}\"}}}}", node - 1);
        kubectl.run(&format!("run {name} --image=registry.k8s.io/pause:3.1 --labels=foo=bar --overrides={overrides}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_goes_to_the_zone_and_the_node_with_fewer_like_it() {
    if !has_kubectl() {
        return;
    }
    let (cluster, scheduler) = start(&["--nodes", "4"]).await;
    let kubectl = Kubectl(&cluster);
    spread(&kubectl, &["zoneA", "zoneA", "zoneB", "zoneB"], &[("p1", 1), ("p2", 2), ("p3", 3)]);
    kubectl.run(&format!("apply -f {}", example("spread-by-zone")));
    let node = node_of(&cluster, &scheduler, "mypod").await;
    assert!(["node-00002", "node-00003"].contains(&node.as_str()), "{node} is not in zone B");
    // The pod could also run on the other node of zone B. The scores of this node are shown beside the scores of the
    // pod's node.
    let other = if node == "node-00002" { "node-00003" } else { "node-00002" };
    let arguments = ["explain", "pod", "mypod", "--node", other, "-o", "json", "--socket", &scheduler.socket()];
    let compared = json_of(&Process::berth(arguments).ended(DEADLINE).await)["analysis"]["node"].clone();
    let nodes = (&compared["winner"]["node"], &compared["scores"]["node"]);
    assert_eq!(nodes, (&json!(node), &json!(other)), "{compared}");
    kubectl.run("delete pod mypod");

    let two = fs::read_to_string(example("spread-by-zone-and-node")).expect("the example");
    fs::write(cluster.dir.path().join("two.yaml"), two.replace("mypod", "second")).expect("a file");
    kubectl.run("apply -f two.yaml");
    assert_eq!(node_of(&cluster, &scheduler, "second").await, "node-00003", "the only empty node of zone B");
}

#[tokio::test(flavor = "multi_thread")]
async fn constraints_that_conflict_keep_the_pod_pending() {
    if !has_kubectl() {
        return;
    }
    let (cluster, scheduler) = start(&["--nodes", "3"]).await;
    let kubectl = Kubectl(&cluster);
    let pods = [("p1", 1), ("p2", 1), ("p3", 2), ("p4", 3), ("p5", 3)];
    spread(&kubectl, &["zoneA", "zoneA", "zoneB"], &pods);
    kubectl.run(&format!("apply -f {}", example("spread-by-zone-and-node")));
    let reason = "0/3 nodes are available: 3 node(s) didn't match pod topology spread constraints.";
    pends(&cluster, &scheduler, &kubectl, "mypod", reason).await;
    // The page names this remedy, among others.
    kubectl.run("delete pod p4");
    assert_eq!(node_of(&cluster, &scheduler, "mypod").await, "node-00002");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_that_node_affinity_rules_out_does_not_count() {
    if !has_kubectl() {
        return;
    }
    let (cluster, scheduler) = start(&["--nodes", "5"]).await;
    let kubectl = Kubectl(&cluster);
    spread(&kubectl, &["zoneA", "zoneA", "zoneB", "zoneB", "zoneC"], &[("p1", 1), ("p2", 2), ("p3", 3)]);
    kubectl.run(&format!("apply -f {}", example("spread-without-one-zone")));
    let node = node_of(&cluster, &scheduler, "mypod").await;
    assert!(["node-00002", "node-00003"].contains(&node.as_str()), "{node} is not in zone B");
}

#[tokio::test(flavor = "multi_thread")]
async fn web_servers_go_where_the_caches_are() {
    if !has_kubectl() {
        return;
    }
    let (cluster, scheduler) = start(&["--nodes", "3"]).await;
    let kubectl = Kubectl(&cluster);
    kubectl.run(&format!("apply -f {}", example("web-server")));
    kubectl.run("wait --for=jsonpath={.status.replicas}=3 deployment/web-server --timeout=240s");
    let servers = nodes_of(&kubectl, "-l app=web-store");
    assert_eq!(servers.len(), 3);
    let reason = "0/3 nodes are available: 3 node(s) didn't match pod affinity rules.";
    pends(&cluster, &scheduler, &kubectl, servers.keys().next().expect("a pod"), reason).await;

    kubectl.run(&format!("apply -f {}", example("redis-cache")));
    for deployment in ["redis-cache", "web-server"] {
        kubectl.run(&format!("wait --for=condition=Available deployment/{deployment} --timeout=240s"));
        kubectl.run(&format!("rollout status deployment/{deployment} --timeout=240s"));
    }
    for app in ["store", "web-store"] {
        let mut nodes: Vec<String> = nodes_of(&kubectl, &format!("-l app={app}")).into_values().collect();
        nodes.sort();
        assert_eq!(nodes, ["node-00000", "node-00001", "node-00002"], "one {app} on each node");
        for pod in nodes_of(&kubectl, &format!("-l app={app}")).keys() {
            node_of(&cluster, &scheduler, pod).await;
        }
    }

    let before = nodes_of(&kubectl, "-l app=store");
    kubectl.run("scale deployment redis-cache --replicas=4");
    kubectl.run("wait --for=jsonpath={.status.replicas}=4 deployment/redis-cache --timeout=240s");
    let after = nodes_of(&kubectl, "-l app=store");
    let fourth = after.keys().find(|name| !before.contains_key(*name)).expect("a new pod");
    let reason = "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.";
    pends(&cluster, &scheduler, &kubectl, fourth, reason).await;

    kubectl.run("delete deployment redis-cache web-server");
    kubectl.run("wait --for=delete pod -l app --timeout=240s");
    assert_eq!(kubectl.run("get pods,replicasets -o name"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn taints_repel_pods_that_do_not_tolerate_them() {
    if !has_kubectl() {
        return;
    }
    let (cluster, scheduler) = start(&["--nodes", "2"]).await;
    let kubectl = Kubectl(&cluster);
    kubectl.run("taint nodes node-00000 example-key=any:NoSchedule");
    kubectl.run("taint nodes node-00001 key1=value1:NoSchedule key1=value1:NoExecute key2=value2:NoSchedule");
    kubectl.run(&format!("apply -f {} -f {}", example("toleration"), example("two-tolerations")));
    kubectl.run("run plain --image=nginx");
    assert_eq!(node_of(&cluster, &scheduler, "nginx").await, "node-00000");
    for pod in ["tolerant", "plain"] {
        pends(&cluster, &scheduler, &kubectl, pod, "0/2 nodes are available: 2 node(s) had untolerated taint(s).")
            .await;
    }
    kubectl.run("taint nodes node-00001 key2=value2:NoSchedule-");
    assert_eq!(node_of(&cluster, &scheduler, "tolerant").await, "node-00001");
    kubectl.run("taint nodes node-00000 example-key=any:NoSchedule-");
    assert_eq!(node_of(&cluster, &scheduler, "plain").await, "node-00000");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_made_where_its_first_consumer_goes() {
    if !has_kubectl() {
        return;
    }
    let (cluster, scheduler) = start(&["--nodes", "3", "--zones", "3"]).await;
    let kubectl = Kubectl(&cluster);
    kubectl.run(&format!("apply -f {}", example("wait-for-first-consumer")));
    assert_eq!(kubectl.run("get pvc task-pv-claim -o jsonpath={.status.phase}"), "Pending");
    kubectl.run("cordon node-00001");
    kubectl.run(&format!("apply -f {}", example("volume-consumer")));
    kubectl.run("wait --for=condition=Ready pod/task-pv-pod --timeout=240s");
    assert_eq!(
        node_of(&cluster, &scheduler, "task-pv-pod").await,
        "node-00002",
        "neither cordoned nor in a zone that is not allowed"
    );
    let claim: Value = serde_json::from_str(&kubectl.run("get pvc task-pv-claim -o json")).expect("JSON");
    assert_eq!(claim["status"]["phase"], "Bound");
    assert_eq!(claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"], "node-00002");
    let volume = kubectl.run("get pv -o jsonpath={.items[0].spec.nodeAffinity.required.nodeSelectorTerms[0]}");
    assert!(volume.contains("topology.kubernetes.io/zone") && volume.contains("zone-2"), "{volume}");
}

#[tokio::test(flavor = "multi_thread")]
async fn preemption_spares_what_a_budget_protects_while_it_can() {
    if !has_kubectl() {
        return;
    }
    let (cluster, scheduler) = start(&["--nodes", "2"]).await;
    let kubectl = Kubectl(&cluster);
    kubectl.run(&format!("apply -f {}", example("budget")));
    for deployment in ["zookeeper", "batch"] {
        kubectl.run(&format!("wait --for=condition=Available deployment/{deployment} --timeout=240s"));
    }
    kubectl.run("wait --for=jsonpath={.status.currentHealthy}=1 pdb/zk-pdb --timeout=240s");
    let first = |app: &str| nodes_of(&kubectl, &format!("-l app={app}")).into_iter().next().expect("a pod");
    let ((protected, other_node), (victim, node)) = (first("zookeeper"), first("batch"));

    kubectl.run(&format!("apply -f {}", example("priority")));
    assert_eq!(node_of(&cluster, &scheduler, "nginx").await, node);
    let seen = cluster.until("the victim gone", |seen| seen.deleted.contains(&victim)).await;
    assert!(!seen.deleted.contains(&protected));
    assert!(seen.nominations["nginx"].contains(&node), "{:?}", seen.nominations);
    kubectl.run("wait --for=create event --field-selector=reason=Preempted --timeout=240s");
    let preempted =
        kubectl.run("get events --field-selector=reason=Preempted -o jsonpath={.items[*].involvedObject.name}");
    assert_eq!(preempted, victim);
    // The deployment creates a new pod, which fits nowhere.
    kubectl.run("wait --for=jsonpath={.status.unavailableReplicas}=1 deployment/batch --timeout=240s");
    pends(&cluster, &scheduler, &kubectl, &first("batch").0, "0/2 nodes are available: 2 Insufficient cpu.").await;

    // Budgets are honoured only if possible.
    let manifest = fs::read_to_string(example("priority")).expect("the example");
    fs::write(cluster.dir.path().join("more.yaml"), manifest.replace("name: nginx\n  labels", "name: more\n  labels"))
        .expect("a file");
    kubectl.run("apply -f more.yaml");
    assert_eq!(node_of(&cluster, &scheduler, "more").await, other_node);
    cluster.until("the protected pod gone", |seen| seen.deleted.contains(&protected)).await;
}
