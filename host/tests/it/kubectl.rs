//! The real `kubectl` with `berth sandbox` and its scheduler.

use std::process::{Command, Output};

use crate::cluster::Cluster;

const PODS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - {name: web, image: registry.example/web:1, resources: {requests: {cpu: 100m, memory: 64Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: fast}
spec:
  nodeSelector: {disk: ssd}
  containers: [{name: main, image: registry.example/main:1}]
---
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec:
  containers:
  - {name: main, image: registry.example/main:1, resources: {requests: {cpu: 100}}}
";

/// `kubectl` with the kubeconfig of a cluster, in its folder.
pub(crate) struct Kubectl<'a>(pub(crate) &'a Cluster);

impl Kubectl<'_> {
    /// Runs `kubectl`, which must succeed, and returns its output.
    pub(crate) fn run(&self, arguments: &str) -> String {
        let Output { status, stdout, stderr } = self.output(arguments);
        let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "kubectl {arguments}: {out}{err}");
        out.into_owned()
    }

    fn output(&self, arguments: &str) -> Output {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(self.0.kubeconfig()).arg("--request-timeout=240s");
        command.args(arguments.split(' ')).current_dir(self.0.dir.path()).env("HOME", self.0.dir.path());
        command.output().expect("kubectl runs")
    }
}

pub(crate) fn has_kubectl() -> bool {
    let found = Command::new("kubectl").args(["version", "--client"]).output().is_ok();
    if !found {
        eprintln!("skipped: there is no kubectl on the path");
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn an_afternoon_with_kubectl() {
    if !has_kubectl() {
        return;
    }
    let cluster = Cluster::start(&["--nodes", "5"]).await;
    let kubectl = Kubectl(&cluster);
    assert_eq!(kubectl.run("get nodes").matches(" Ready ").count(), 5);
    std::fs::write(cluster.dir.path().join("pods.yaml"), PODS).expect("a file");
    assert_eq!(kubectl.run("apply -f pods.yaml"), "pod/web created\npod/fast created\npod/huge created\n");
    kubectl.run("wait --for=condition=Ready pod/web --timeout=240s");
    assert!(kubectl.run("get pods -o wide").contains("node-0000"));
    assert!(kubectl.run("describe pod web").contains("Successfully assigned default/web to node-0000"));

    kubectl.run("wait --for=condition=PodScheduled=False pod/fast pod/huge --timeout=240s");
    let message = "0/5 nodes are available: 5 node(s) didn't match Pod's node affinity/selector.";
    let scheduled = "jsonpath={.status.conditions[?(@.type==\"PodScheduled\")].message}";
    assert!(kubectl.run(&format!("get pod fast -o {scheduled}")).starts_with(message));
    kubectl.run(
        "wait --for=create event --field-selector=involvedObject.name=huge,reason=FailedScheduling --timeout=240s",
    );
    let described = kubectl.run("describe pod huge");
    assert!(described.contains("FailedScheduling"), "{described}");
    assert!(described.contains("0/5 nodes are available: 5 Insufficient cpu."), "{described}");

    kubectl.run("label node node-00003 disk=ssd");
    kubectl.run("wait --for=condition=Ready pod/fast --timeout=240s");
    assert_eq!(kubectl.run("get pod fast -o jsonpath={.spec.nodeName}"), "node-00003");
    kubectl.run("delete pod fast");
    assert_eq!(kubectl.run("get pods -o name"), "pod/huge\npod/web\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn cordons_and_taints_keep_pods_away() {
    if !has_kubectl() {
        return;
    }
    let cluster = Cluster::start(&["--nodes", "5"]).await;
    let kubectl = Kubectl(&cluster);
    for node in 0..2 {
        kubectl.run(&format!("cordon node-0000{node}"));
        kubectl.run(&format!("taint node node-0000{} reserved=yes:NoSchedule", node + 2));
    }
    assert_eq!(kubectl.run("get nodes").matches("SchedulingDisabled").count(), 2);
    for pod in 0..4 {
        kubectl.run(&format!("run pod-{pod} --image=registry.example/main:1"));
        kubectl.run(&format!("wait --for=condition=Ready pod/pod-{pod} --timeout=240s"));
        assert_eq!(cluster.node_of(&format!("pod-{pod}")).await, "node-00004");
    }
    kubectl.run("cordon node-00004");
    kubectl.run("run late --image=registry.example/main:1");
    kubectl.run("wait --for=condition=PodScheduled=False pod/late --timeout=240s");
    let described = kubectl.run("describe pod late");
    assert!(described.contains("SchedulingDisabled") || described.contains("Pending"), "{described}");
    kubectl.run("taint node node-00002 reserved-");
    assert_eq!(cluster.node_of("late").await, "node-00002");
    kubectl.run("delete node node-00004");
    assert_eq!(kubectl.run("get nodes -o name").lines().count(), 4);
}
