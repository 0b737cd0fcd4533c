//! Kinds that the scheduler may not list. Pods that need such a kind wait, and their conditions say why. All other pods
//! are scheduled, and the scheduler needs no restart once it has the right. A kind that the server does not serve
//! delays no pod, and the log names the plugins that read the kind.

use std::fs;

use berth_test_guests::shows_objects;
use k8s_openapi::{
    api::core::v1::PersistentVolumeClaim,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Client, api::PostParams};
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, pod},
    explain::json_of,
    process::{DEADLINE, Process},
};

/// Starts a cluster that refuses Berth lists and watches of these kinds.
async fn cluster_without(resources: &[&str]) -> Cluster {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("rules.json");
    let matches = json!({"resources": resources, "verbs": ["list", "watch"], "userAgent": "berth/"});
    let rule = json!({"name": "rbac", "match": matches, "fault": {"type": "Status", "code": 403}});
    fs::write(&file, json!([rule]).to_string()).expect("a file");
    Cluster::start(&["--no-scheduler", "--nodes", "2", "--faults", &file.display().to_string()]).await
}

async fn grant(client: &Client) {
    let request = http::Request::delete("/faults/rbac").body(Vec::new()).expect("a request");
    client.request_text(request).await.expect("the rule is removed");
}

fn with_claim(name: &str) -> Value {
    let mut pod = pod(name, "100m", "16Mi");
    pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    pod
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_with_volumes_wait_while_their_kinds_may_not_be_listed() {
    let cluster = cluster_without(&["csinodes", "poddisruptionbudgets", "replicasets", "deviceclasses"]).await;
    let client = cluster.pods.clone().into_client();
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}},
    });
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    let claim = serde_json::from_value(claim).expect("a claim");
    claims.create(&PostParams::default(), &claim).await.expect("the sandbox takes it");
    cluster.create(&with_claim("stateful")).await;
    // The scheduler becomes ready without waiting for the kinds.
    let mut scheduler = cluster.scheduler(&[]).await;
    cluster.create(&pod("plain", "100m", "16Mi")).await;
    cluster.node_of("plain").await;
    let why = "may not list csinodes: its ClusterRole lacks {apiGroups: [\"storage.k8s.io\"], resources: [\"csinodes\"], \
               verbs: [list, watch]}";
    let says =
        |seen: &crate::cluster::Seen, part: &str| seen.messages.get("stateful").is_some_and(|it| it.contains(part));
    cluster.until("the reason in the condition", |seen| says(seen, why)).await;
    scheduler.process.line("this kind cannot be listed").await;
    // The scheduler evicts nothing while it cannot read the budgets.
    cluster.create(&pod("big", "1000", "16Mi")).await;
    let blind = "plugin \"DefaultPreemption\" cannot decide about this pod: the scheduler may not list \
                 poddisruptionbudgets";
    cluster.until("big refused", |seen| seen.messages.get("big").is_some_and(|it| it.contains(blind))).await;
    grant(&client).await;
    scheduler.process.line("this kind can be listed now").await;
    // The claim has no class, which becomes the reason for waiting.
    cluster.until("another reason", |seen| says(seen, "unbound immediate PersistentVolumeClaims")).await;
    cluster.until("preemption", |seen| seen.messages["big"].contains("preemption: 0/2 nodes are available")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_with_resource_claims_wait_while_claims_may_not_be_listed() {
    let cluster = cluster_without(&["resourceclaims"]).await;
    let _scheduler = cluster.scheduler(&[]).await;
    let mut device = pod("device", "100m", "16Mi");
    device["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": "gpu"}]);
    cluster.create(&device).await;
    cluster.create(&pod("plain", "100m", "16Mi")).await;
    cluster.node_of("plain").await;
    let why = "plugin \"DynamicResources\" cannot decide about this pod: the scheduler may not list resourceclaims";
    let says = |seen: &crate::cluster::Seen| seen.messages.get("device").is_some_and(|it| it.contains(why));
    cluster.until("the reason in the condition", says).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduling_begins_once_namespaces_may_be_listed() {
    let cluster = cluster_without(&["namespaces"]).await;
    cluster.create(&pod("early", "100m", "16Mi")).await;
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let mut process = Process::berth([
        "run",
        "--kubeconfig",
        &kubeconfig,
        "--leader-elect=false",
        "--scheduler-name",
        "default-scheduler",
    ]);
    let line = process.line("this user may not list and watch this kind").await;
    assert!(line.contains("namespaces") && line.contains("verbs: [list, watch]"), "{line}");
    grant(&cluster.pods.clone().into_client()).await;
    cluster.node_of("early").await;
}

/// Writes a plugin that reads one kind, and its configuration. Returns the scheduler's flags.
pub(crate) fn flags_of_reader(cluster: &Cluster, name: &str, api_version: &str, kind: &str) -> [String; 6] {
    let path = |name: &str| cluster.dir.path().join(name);
    fs::create_dir(path("plugins")).expect("a folder");
    let component = shows_objects(name, api_version, kind).expect("a component");
    fs::write(path(&format!("plugins/{name}.wasm")), component).expect("a file");
    let config = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins: {{multiPoint: \
         {{enabled: [{{name: {name}}}]}}}}\n"
    );
    fs::write(path("config.yaml"), config).expect("a file");
    let grants = format!(
        "apiVersion: berth.dev/v1alpha1\nkind: PluginHostConfiguration\nplugins: [{{name: {name}, grants: {{reads: \
         [{api_version}/{kind}]}}}}]\n"
    );
    fs::write(path("plugins.yaml"), grants).expect("a file");
    let [config, plugins, host] =
        ["config.yaml", "plugins", "plugins.yaml"].map(|name| path(name).display().to_string());
    ["--config".to_owned(), config, "--plugins-dir".to_owned(), plugins, "--plugin-config".to_owned(), host]
}

/// The definition of the kind comes after the scheduler.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_says_that_a_kind_is_served_now() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1"]).await;
    let files = flags_of_reader(&cluster, "Herder", "example.com/v1", "Herd");
    let mut scheduler = cluster.scheduler(&files.each_ref().map(String::as_str)).await;
    scheduler.process.line("the API server does not serve a kind that plugins read").await;
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "metadata": {"name": "herds.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "herds", "kind": "Herd"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.pods.clone().into_client());
    let definition = serde_json::from_value(definition).expect("a definition");
    definitions.create(&PostParams::default(), &definition).await.expect("the sandbox takes it");
    let line = scheduler.process.line("the API server serves this kind now").await;
    assert!(line.contains("example.com/v1/Herd") && line.contains("Herder"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_the_server_does_not_serve_is_told_with_its_plugins() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1"]).await;
    let files = flags_of_reader(&cluster, "Misspelt", "v1", "Configmap");
    let (files, kubeconfig) = (files.each_ref().map(String::as_str), cluster.kubeconfig().display().to_string());
    let mut scheduler = cluster.scheduler(&files).await;
    let line = scheduler.process.line("the API server does not serve a kind that plugins read").await;
    let advice = "install its CRD, or correct the kind in the plugin's manifest (did you mean ConfigMap?)";
    for part in ["WARN", "v1/Configmap", "Misspelt", advice] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    let online = [&["doctor", "--pre", "--kubeconfig", &kubeconfig][..], &files].concat();
    let ended = Process::berth(online).ended(DEADLINE).await;
    let told = "Misspelt reads v1/Configmap, which this cluster does not serve";
    assert!(ended.out.contains(told) && ended.out.contains(advice), "{}{}", ended.out, ended.err);
}

/// A cluster may be simulated by a user to whom some of its kinds are hidden. The answer says which.
#[tokio::test(flavor = "multi_thread")]
async fn a_simulation_names_the_kinds_that_it_does_without() {
    let cluster = cluster_without(&["poddisruptionbudgets"]).await;
    cluster.create(&pod("waits", "100m", "16Mi")).await;
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let live = ["--from-cluster", "--kubeconfig", &kubeconfig];
    let simulated = json_of(&Process::berth(["simulate", "-o", "json"].iter().chain(&live)).ended(DEADLINE).await);
    assert_eq!(simulated["summary"]["placed"], 1, "{simulated}");
    let warnings = simulated["warnings"].to_string();
    let without = "the simulation does without PodDisruptionBudget: this user may not list it";
    assert!(warnings.contains(without), "{warnings}");

    // A snapshot without names gives the same answer.
    let file = cluster.dir.path().join("cluster.json").display().to_string();
    let taken = Process::berth(["snapshot", "--redact", "--to", &file].iter().chain(&live)).ended(DEADLINE).await;
    assert!(taken.status.success() && taken.err.contains(without), "{}", taken.err);
    let snapshot = fs::read_to_string(&file).expect("a snapshot");
    for name in ["waits", "node-00000", "registry.example"] {
        assert!(!snapshot.contains(name), "{name} is in {snapshot}");
    }
    let again = json_of(&Process::berth(["simulate", "-o", "json", "-f", &file]).ended(DEADLINE).await);
    assert_eq!(again["summary"], simulated["summary"]);

    let cluster = cluster_without(&["nodes"]).await;
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let refused = Process::berth(["simulate", "--from-cluster", "--kubeconfig", &kubeconfig]).ended(DEADLINE).await;
    assert_eq!(refused.status.code(), Some(1), "{}", refused.err);
    assert!(refused.err.contains("--from-cluster: ") && refused.err.contains("nodes"), "{}", refused.err);
}
