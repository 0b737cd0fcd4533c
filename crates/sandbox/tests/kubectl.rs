//! Tests with the real `kubectl`, if `kubectl` is on the path.

#![expect(clippy::expect_used, reason = "a test ends where its footing is gone")]

use std::io::Write;
use std::process::Output;
use std::time::Duration;

use berth_sandbox::{Options, Sandbox, nodes};
use tempfile::NamedTempFile;
use tokio::process::Command;

const POD: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web}
spec:
  containers:
  - {name: web, image: registry.example/web:1, resources: {requests: {cpu: 100m}}}
";

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata:
  name: front
spec:
  replicas: 2
  selector: {matchLabels: {app: front}}
  template:
    metadata: {labels: {app: front}}
    spec:
      containers:
      - {name: c, image: registry.example/front:1}
";

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.lab.example.com
spec:
  group: lab.example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: string}}}
";

const WIDGET: &str = "
apiVersion: lab.example.com/v1
kind: Widget
metadata: {name: one}
spec: {size: L}
";

const CLAIM: &str = "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: usual}
provisioner: csi.example.com
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  storageClassName: usual
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
";

/// A sandbox, and a `kubectl` that uses it.
struct Cluster {
    sandbox: Sandbox,
    kubeconfig: NamedTempFile,
}

impl Cluster {
    /// Starts a sandbox; `None` if there is no `kubectl`.
    async fn start() -> Option<Self> {
        Command::new("kubectl").arg("version").arg("--client").output().await.ok()?;
        let options = Options { pod_start_delay: Duration::ZERO, ..Options::default() };
        let sandbox = Sandbox::start(options).await.expect("the sandbox starts");
        let kubeconfig = file(&sandbox.kubeconfig());
        Some(Self { sandbox, kubeconfig })
    }

    async fn run(&self, arguments: &str, manifest: Option<&str>) -> Output {
        let manifest = manifest.map(file);
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(self.kubeconfig.path()).arg("--request-timeout=120s");
        command.args(arguments.split(' '));
        if let Some(manifest) = &manifest {
            command.arg("-f").arg(manifest.path());
        }
        command.env("HOME", self.kubeconfig.path().parent().expect("a folder"));
        command.output().await.expect("kubectl runs")
    }

    /// Runs a command that must succeed, and returns its output.
    async fn kubectl(&self, arguments: &str) -> String {
        self.succeeds(arguments, None).await
    }

    async fn succeeds(&self, arguments: &str, manifest: Option<&str>) -> String {
        let output = self.run(arguments, manifest).await;
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "kubectl {arguments}: {out}{err}");
        out.into_owned()
    }

    async fn add_nodes(&self, n: usize) {
        let list: Vec<_> = nodes(n, 2).collect();
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": list}).to_string();
        self.succeeds("create", Some(&list)).await;
    }
}

fn file(text: &str) -> NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(".yaml").tempfile().expect("a temporary file");
    file.write_all(text.as_bytes()).expect("the file is written");
    file
}

#[tokio::test]
async fn kubectl_manages_pods() {
    let Some(cluster) = Cluster::start().await else { return };
    assert_eq!(cluster.succeeds("apply", Some(POD)).await, "pod/web created\n");
    assert_eq!(cluster.succeeds("apply", Some(POD)).await, "pod/web unchanged\n");
    assert_eq!(cluster.succeeds("apply", Some(&POD.replace("web:1", "web:2"))).await, "pod/web configured\n");
    assert!(cluster.kubectl("get pods").await.contains("Pending"));
    assert!(cluster.kubectl("get pods -o wide").await.contains("NOMINATED NODE"));
    assert_eq!(cluster.kubectl("get pod web -o jsonpath={.spec.containers[0].image}").await, "registry.example/web:2");
    cluster.kubectl("label pod web tier=front").await;
    assert_eq!(cluster.kubectl("get pods -l tier=front -o name").await, "pod/web\n");
    cluster.kubectl("annotate pod web note=hello").await;
    assert!(cluster.kubectl("describe pod web").await.contains("registry.example/web:2"));
    let binding =
        r#"{"apiVersion":"v1","kind":"Binding","metadata":{"name":"web"},"target":{"kind":"Node","name":"n"}}"#;
    let binding = file(binding);
    let path = binding.path().to_string_lossy().into_owned();
    cluster.kubectl(&format!("create --raw /api/v1/namespaces/default/pods/web/binding -f {path}")).await;
    cluster.kubectl("wait --for=condition=Ready pod/web --timeout=120s").await;
    assert!(cluster.kubectl("get pods").await.contains("Running"));
    assert_eq!(cluster.kubectl("delete pod web").await, "pod \"web\" deleted\n");
    assert_eq!(cluster.kubectl("get pods -o name").await, "");
    cluster.sandbox.stop().await;
}

#[tokio::test]
async fn kubectl_manages_nodes() {
    let Some(cluster) = Cluster::start().await else { return };
    cluster.add_nodes(3).await;
    assert_eq!(cluster.kubectl("get nodes").await.matches(" Ready ").count(), 3);
    cluster.kubectl("taint node node-00000 key=value:NoSchedule").await;
    assert!(cluster.kubectl("describe node node-00000").await.contains("key=value:NoSchedule"));
    cluster.kubectl("taint node node-00000 key-").await;
    assert_eq!(cluster.kubectl("get node node-00000 -o jsonpath={.spec.taints}").await, "");
    cluster.kubectl("cordon node-00001").await;
    assert!(cluster.kubectl("get nodes").await.contains("Ready,SchedulingDisabled"));
    cluster.kubectl("uncordon node-00001").await;
    assert!(!cluster.kubectl("get nodes").await.contains("SchedulingDisabled"));
    cluster.kubectl("label node node-00002 disk=ssd").await;
    assert_eq!(cluster.kubectl("get nodes -l disk=ssd -o name").await, "node/node-00002\n");
    cluster.kubectl("delete node node-00002").await;
    cluster.sandbox.stop().await;
}

#[tokio::test]
async fn kubectl_manages_other_kinds() {
    let Some(cluster) = Cluster::start().await else { return };
    assert_eq!(cluster.succeeds("create", Some(DEPLOYMENT)).await, "deployment.apps/front created\n");
    cluster.kubectl("scale deployment front --replicas=5").await;
    assert!(cluster.kubectl("get deployments").await.contains("0/5"));
    cluster.kubectl("patch deployment front -p {\"spec\":{\"paused\":true}}").await;
    cluster.succeeds("apply --server-side --force-conflicts", Some(DEPLOYMENT)).await;
    assert!(cluster.kubectl("get deployment front -o yaml").await.contains("replicas: 2"));
    cluster.kubectl("create namespace team").await;
    assert!(cluster.kubectl("auth can-i create pods").await.contains("yes"));
    cluster.kubectl("create priorityclass urgent --value=5").await;
    assert_eq!(cluster.kubectl("get priorityclass urgent -o jsonpath={.value}").await, "5");
    cluster.kubectl("-n team create configmap settings --from-literal=a=b").await;
    assert!(cluster.kubectl("get configmaps -A").await.contains("settings"));
    cluster.kubectl("delete namespace team").await;
    assert!(!cluster.kubectl("get configmaps -A").await.contains("settings"));
    cluster.succeeds("apply", Some(DEFINITION)).await;
    cluster.kubectl("wait --for=condition=Established crd/widgets.lab.example.com --timeout=120s").await;
    cluster.succeeds("apply", Some(WIDGET)).await;
    assert!(cluster.kubectl("get widgets").await.contains("one"));
    cluster.kubectl("delete crd widgets.lab.example.com").await;
    cluster.sandbox.stop().await;
}

/// The generators of `kubectl` send protobuf.
#[tokio::test]
async fn kubectl_creates_without_files() {
    let Some(cluster) = Cluster::start().await else { return };
    for command in [
        "create deployment web --image=registry.example/web:1 --replicas=3 --port=80",
        "run single --image=registry.example/web:1 --port=80 --env=A=b",
        "create job once --image=registry.example/once:1 -- sleep 1",
        "create cronjob hourly --image=registry.example/hourly:1 --schedule=@hourly -- sleep 1",
        "create job now --from=cronjob/hourly",
        "create service clusterip web --tcp=80:8080",
        "create service nodeport open --tcp=80:http",
        "expose deployment web --name=again --port=80",
        "create secret generic password --from-literal=word=hidden",
        "create quota small --hard=cpu=1500m,pods=2 --scopes=BestEffort",
        "create serviceaccount robot",
        "create role reader --verb=get,list --resource=pods",
        "create rolebinding readers --role=reader --user=me",
        "create clusterrole prober --verb=get --non-resource-url=/healthz",
        "create clusterrolebinding probers --clusterrole=prober --serviceaccount=default:robot",
        "create poddisruptionbudget half --selector=app=web --min-available=50%",
        "create poddisruptionbudget one --selector=app=web --max-unavailable=1",
    ] {
        assert!(cluster.kubectl(command).await.contains(" created\n") || command.starts_with("expose"), "{command}");
    }
    for (object, path, expected) in [
        ("deployment/web", "{.spec.replicas}{.spec.selector.matchLabels.app}", "3web"),
        ("deployment/web", "{.spec.template.spec.containers[0].ports[0].containerPort}", "80"),
        ("deployment/web", "{.spec.strategy.type}", "RollingUpdate"),
        ("job/once", "{.spec.template.spec.containers[0].command}", "[\"sleep\",\"1\"]"),
        ("cronjob/hourly", "{.spec.schedule}", "@hourly"),
        ("job/now", "{.metadata.ownerReferences[0].name}", "hourly"),
        ("service/web", "{.spec.ports[0].targetPort}", "8080"),
        ("service/open", "{.spec.type}{.spec.ports[0].targetPort}", "NodePorthttp"),
        ("secret/password", "{.data.word}", "aGlkZGVu"),
        ("quota/small", "{.spec.hard.cpu}{.spec.scopes}", "1500m[\"BestEffort\"]"),
        ("role/reader", "{.rules[0].verbs}{.rules[0].resources}", "[\"get\",\"list\"][\"pods\"]"),
        ("rolebinding/readers", "{.subjects[0].name}{.roleRef.name}", "mereader"),
        ("clusterrole/prober", "{.rules[0].nonResourceURLs}", "[\"/healthz\"]"),
        ("pdb/half", "{.spec.minAvailable}{.spec.selector.matchLabels.app}", "50%web"),
        ("pdb/one", "{.spec.maxUnavailable}", "1"),
    ] {
        let shown = cluster.kubectl(&format!("get {object} -o jsonpath={path}")).await;
        assert_eq!(shown, expected, "{object} {path}");
    }
    cluster.sandbox.stop().await;
}

/// Runs the commands from the documentation of volumes and of draining.
#[tokio::test]
async fn kubectl_shows_volumes_and_drains_nodes() {
    let Some(cluster) = Cluster::start().await else { return };
    cluster.add_nodes(1).await;
    cluster.succeeds("create", Some(CLAIM)).await;
    cluster.kubectl("wait --for=jsonpath={.status.phase}=Bound pvc/data --timeout=120s").await;
    let claims = cluster.kubectl("get pvc").await;
    assert!(claims.contains("Bound") && claims.contains("1Gi") && claims.contains("usual"), "{claims}");
    assert!(cluster.kubectl("get pv").await.contains("default/data"));
    cluster.succeeds("create", Some(&POD.replace("spec:", "spec:\n  nodeName: node-00000"))).await;
    cluster.kubectl("wait --for=condition=Ready pod/web --timeout=120s").await;
    cluster.kubectl("create poddisruptionbudget all --selector=app=web --min-available=1").await;
    cluster.kubectl("wait --for=jsonpath={.status.currentHealthy}=1 pdb/all --timeout=120s").await;
    let refused = cluster.run("drain node-00000 --force --timeout=5s", None).await;
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.contains("Cannot evict pod as it would violate the pod's disruption budget."), "{message}");
    cluster.kubectl("patch pdb all -p {\"spec\":{\"minAvailable\":0}}").await;
    cluster.kubectl("wait --for=jsonpath={.status.disruptionsAllowed}=1 pdb/all --timeout=120s").await;
    assert!(cluster.kubectl("drain node-00000 --force --timeout=120s").await.contains("node/node-00000 drained"));
    cluster.sandbox.stop().await;
}

#[tokio::test]
async fn the_server_validates_what_kubectl_sends() {
    let Some(cluster) = Cluster::start().await else { return };
    let misspelt = POD.replace("image:", "imag:");
    let output = cluster.run("apply", Some(&misspelt)).await;
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(message.contains("unknown field \"spec.containers[0].imag\""), "{message}");
    cluster.sandbox.stop().await;
}
