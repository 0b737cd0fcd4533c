//! `berth explain` against a running scheduler: over its socket, and over HTTPS with the rights of the caller.

use std::{fs, path::PathBuf, process::Command};

use berth_test_guests::{At, Behavior, WantedEffect, Words, asks_for, explains};
use berth_test_processes::free_addresses;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, Scheduler, pod},
    plugin_life::{self, place},
    process::{DEADLINE, Ended, Process},
    reviewer::{Reviewer, kubeconfig},
};

/// A scheduler that serves HTTPS, and an API server that reviews its callers.
pub(crate) struct Bench {
    pub cluster: Cluster,
    scheduler: Scheduler,
    pub port: u16,
    _reviewer: Reviewer,
}

/// ada sees and creates pods in `default`. ida and ola may ask what-if questions; ida sees nodes, and ola sees pods.
/// root may do everything, and other users nothing.
fn may(user: &str, spec: &Value) -> bool {
    let attributes = &spec["resourceAttributes"];
    match user {
        "ada" => attributes["resource"] == "pods" && attributes["namespace"] == "default",
        "ida" => spec["nonResourceAttributes"]["path"] == "/what-if" || attributes["resource"] == "nodes",
        "ola" => spec["nonResourceAttributes"]["path"] == "/what-if" || attributes["resource"] == "pods",
        "root" => true,
        _ => false,
    }
}

impl Bench {
    pub(crate) async fn start() -> Self {
        let reviewer = Reviewer::start(may).await;
        let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1"]).await;
        let path = |name: &str| cluster.dir.path().join(name);
        reviewer.write_kubeconfig(&path("reviewer.kubeconfig"));
        let [address] = free_addresses().expect("a free port");
        let port = address.port();
        let flag = |name: &str, file: &str| format!("--{name}={}", path(file).display());
        let flags = [
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".to_owned(),
            flag("cert-dir", "certificates"),
            flag("authentication-kubeconfig", "reviewer.kubeconfig"),
            flag("authorization-kubeconfig", "reviewer.kubeconfig"),
        ];
        let mut scheduler = cluster.scheduler(&flags.each_ref().map(String::as_str)).await;
        scheduler.process.line("serving HTTPS").await;
        Self { cluster, scheduler, port, _reviewer: reviewer }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.cluster.dir.path().join(name)
    }

    /// Writes a pod that does not exist in the cluster to a file.
    fn write_pod(&self, file: &str, pod: &Value) -> String {
        fs::write(self.path(file), pod.to_string()).expect("a file");
        self.path(file).display().to_string()
    }

    /// Explains a pod over HTTPS to this user. The credentials are in a kubeconfig.
    async fn ask_as(&self, user: &str, arguments: &[&str]) -> Ended {
        self.run_as(user, &[&["explain"], arguments].concat()).await
    }

    /// Runs a command over HTTPS as this user.
    pub(crate) async fn run_as(&self, user: &str, arguments: &[&str]) -> Ended {
        let file = self.path(&format!("{user}.kubeconfig"));
        fs::write(&file, kubeconfig("https://nowhere.example", user)).expect("a file");
        let (server, kubeconfig) = (format!("127.0.0.1:{}", self.port), file.display().to_string());
        let authority = self.path("certificates/kube-scheduler.crt").display().to_string();
        let remote = ["--server", &server, "--kubeconfig", &kubeconfig, "--certificate-authority", &authority];
        Process::berth(arguments.iter().chain(&remote)).ended(DEADLINE).await
    }

    /// Explains a pod over the socket.
    async fn ask(&self, arguments: &[&str]) -> Ended {
        self.run(&[&["explain"], arguments].concat()).await
    }

    /// The path of the scheduler's admin socket.
    pub(crate) fn socket(&self) -> String {
        self.scheduler.socket()
    }

    /// Runs a command over the socket.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Ended {
        let socket = self.scheduler.socket();
        Process::berth(arguments.iter().chain(&["--socket", &socket])).ended(DEADLINE).await
    }

    async fn create_in(&self, namespace: &str, pod: &Value) {
        let client = self.cluster.pods.clone().into_client();
        let made = serde_json::from_value(json!({"metadata": {"name": namespace}})).expect("a namespace");
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &made).await.expect("the sandbox takes it");
        let pods: Api<Pod> = Api::namespaced(client, namespace);
        let pod = serde_json::from_value(pod.clone()).expect("a pod");
        pods.create(&PostParams::default(), &pod).await.expect("the sandbox takes it");
    }
}

pub(crate) fn json_of(ended: &Ended) -> Value {
    assert!(ended.status.success(), "{}{}", ended.out, ended.err);
    serde_json::from_str(&ended.out).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_explained_to_who_may_see_it() {
    let bench = Bench::start().await;
    bench.cluster.create(&pod("web", "100m", "64Mi")).await;
    let node = bench.cluster.node_of("web").await;
    bench.cluster.create(&pod("huge", "1000", "64Mi")).await;
    bench.cluster.until("huge pending", |seen| seen.messages.contains_key("huge")).await;
    let local = json_of(&bench.ask(&["pod", "default/web", "-o", "json"]).await);
    assert_eq!((&local["reason"], &local["state"]), (&json!("Bound"), &json!({"phase": "bound", "node": node})));
    assert!(local["decision"]["broughtBy"].as_str().is_some_and(|event| event.ends_with("PodAdd")), "{local}");
    let took = local["analysis"]["took"].as_array().expect("times");
    assert!(took.iter().any(|it| it["plugin"] == "NodeResourcesFit" && it["point"] == "Filter"), "{took:?}");
    for user in ["ada", "root"] {
        let explained = json_of(&bench.ask_as(user, &["pod", "huge", "-o", "json"]).await);
        assert_eq!(explained["reason"], "LargerThanAnyNode", "{user}: {explained}");
    }
    let refused = bench.ask_as("eve", &["pod", "default/web"]).await;
    assert!(!refused.status.success());
    let forbidden = "pods \"web\" is forbidden: User \"eve\" cannot get resource \"pods\" in API group \"\" in the namespace \"default\"";
    assert!(refused.err.contains(forbidden), "{}", refused.err);
    // Only users that may see a pod learn whether the pod exists.
    let refused = bench.ask_as("ada", &["pod", "infra/web"]).await;
    assert!(refused.err.contains("in the namespace \"infra\""), "{}", refused.err);
    let unknown = bench.ask_as("root", &["pod", "infra/web"]).await;
    assert!(unknown.err.contains("does not know pod infra/web"), "{}", unknown.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_keeps_a_pod_out_says_why() {
    let bench = Bench::start().await;
    let mut gated = pod("gated", "100m", "64Mi");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/quota"}]);
    bench.cluster.create(&gated).await;
    let holders = loop {
        let ended = bench.ask(&["pod", "gated", "-o", "json"]).await;
        if ended.status.success() {
            break json_of(&ended)["holders"].clone();
        }
    };
    let says = "waiting for scheduling gates: [example.com/quota]";
    assert_eq!((&holders[0]["plugin"], &holders[0]["message"]), (&json!("SchedulingGates"), &json!(says)));
    assert_eq!(holders[0]["wouldLetGo"], json!(false));
    let text = bench.ask(&["pod", "gated"]).await.out;
    assert!(text.contains("Held by: SchedulingGates at PreEnqueue") && text.contains(says), "{text}");
    // PreEnqueue is also called for a pod of a file.
    let file = bench.write_pod("gated.json", &gated);
    let explained = json_of(&bench.ask(&["-f", &file, "-o", "json"]).await);
    assert_eq!((&explained["reason"], &explained["analysis"]["feasible"]), (&json!("Held"), &json!(1)), "{explained}");
    assert_eq!(explained["holders"][0]["message"], json!(says), "{explained}");
    let text = bench.ask(&["-f", &file]).await.out;
    assert!(text.contains("it would be held back by SchedulingGates at PreEnqueue"), "{text}");
    assert!(text.contains(&format!("Would be held by: SchedulingGates at PreEnqueue: {says}\n")), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_not_there_is_explained_and_what_may_not_be_seen_is_counted() {
    let bench = Bench::start().await;
    bench.create_in("infra", &pod("low", "10", "64Mi")).await;
    let is_known = |answer: &Ended| answer.status.success() && answer.out.contains("\"bound\"");
    while !is_known(&bench.ask(&["pod", "infra/low", "-o", "json"]).await) {}
    // Beside this pod, the node has too few free resources.
    let mut high = pod("high", "10", "64Mi");
    (high["metadata"]["namespace"], high["spec"]["priority"]) = (json!("default"), json!(1000));
    let file = bench.write_pod("high.json", &high);
    let of = |explained: &Value| {
        let preemption = &explained["analysis"]["preemption"];
        (preemption["victims"].clone(), preemption["examples"].clone(), preemption["unnamed"].clone())
    };
    let ada = json_of(&bench.ask_as("ada", &["-f", &file, "-o", "json"]).await);
    assert_eq!((&ada["reason"], &ada["state"]["phase"]), (&json!("OutOfCapacity"), &json!("notCreated")), "{ada}");
    assert_eq!(of(&ada), (json!(1), json!([]), json!(1)), "{ada}");
    let text = bench.ask_as("ada", &["-f", &file]).await;
    assert!(text.out.contains("1 pod would leave node node-00000 (1 that you may not see)"), "{}", text.out);
    for seen in
        [bench.ask_as("root", &["-f", &file, "-o", "json"]).await, bench.ask(&["-f", &file, "-o", "json"]).await]
    {
        assert_eq!(of(&json_of(&seen)), (json!(1), json!(["infra/low"]), json!(0)));
    }
    let refused = bench.ask_as("eve", &["-f", &file]).await;
    assert!(refused.err.contains("User \"eve\" cannot create resource \"pods\""), "{}", refused.err);
    let small = bench.write_pod("small.json", &pod("small", "100m", "64Mi"));
    let fits = bench.ask(&["-f", &small]).await;
    assert!(fits.out.contains("one node fits at the moment, and node-00000 is the best"), "{}{}", fits.out, fits.err);
    // The explanations changed nothing in the cluster.
    let pods = bench.cluster.pods.list(&ListParams::default()).await.expect("a list");
    assert!(pods.items.is_empty(), "{pods:?}");
}

/// The plugins that answered one question answer the next question, about another pod and after further changes.
#[tokio::test(flavor = "multi_thread")]
async fn questions_in_turn_get_each_their_own_answer() {
    let bench = Bench::start().await;
    let labelled = |name: &str| {
        let mut labelled = pod(name, "100m", "64Mi");
        labelled["metadata"]["labels"] = json!({"app": "web"});
        labelled
    };
    let mut apart = labelled("apart");
    let term = json!({"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"});
    apart["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    bench.cluster.create(&labelled("web")).await;
    bench.cluster.node_of("web").await;
    bench.cluster.create(&apart).await;
    bench.cluster.until("apart pending", |seen| seen.messages.contains_key("apart")).await;
    let refusing = async |name: &str| {
        let explained = json_of(&bench.ask(&["pod", name, "-o", "json"]).await);
        explained["analysis"]["plugins"][0]["plugin"].clone()
    };
    assert_eq!(refusing("apart").await, "InterPodAffinity");
    assert_eq!(refusing("web").await, Value::Null);
    assert_eq!(refusing("apart").await, "InterPodAffinity");
    bench.cluster.pods.delete("web", &DeleteParams::default().grace_period(0)).await.expect("the pod goes");
    bench.cluster.node_of("apart").await;
    assert_eq!(refusing("apart").await, Value::Null, "its own share of the node is left out");
    bench.cluster.create(&labelled("late")).await;
    bench.cluster.until("late pending", |seen| seen.messages.contains_key("late")).await;
    assert_eq!(refusing("late").await, "InterPodAffinity");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_is_a_plugin_of_kubectl() {
    let bench = Bench::start().await;
    bench.cluster.create(&pod("web", "100m", "64Mi")).await;
    bench.cluster.node_of("web").await;
    // The API server has the binding before the scheduler learns about it.
    says(&bench.scheduler, "web", "it is on node ", "Reason: Bound").await;
    let link = bench.path("kubectl-berth");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_berth"), &link).expect("a link");
    let mut command = Command::new(link);
    command.args(["explain", "pod", "web", "--socket", &bench.scheduler.socket()]);
    let ended = Process::start(command).ended(DEADLINE).await;
    assert!(
        ended.out.starts_with("Pod default/web: it is on node node-00000\nReason: Bound"),
        "{}{}",
        ended.out,
        ended.err
    );
}

/// The demo's objects: nodes, pods that find a place, and pods that do not.
async fn demo(cluster: &Cluster) -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/demo");
    let mut pending = Vec::new();
    for file in ["cluster.yaml", "pods.yaml"] {
        let text = fs::read_to_string(format!("{folder}/{file}")).expect("a file of the demo");
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
        for object in objects {
            let client = cluster.pods.clone().into_client();
            let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
            if object["kind"] == "Node" {
                let nodes: Api<Node> = Api::all(client);
                let node = serde_json::from_value(object).expect("a node");
                nodes.create(&PostParams::default(), &node).await.expect("the sandbox takes it");
            } else {
                cluster.create(&object).await;
                if object["metadata"]["annotations"]["demo.berth.dev/expect"] == "pending" {
                    pending.push(name);
                } else {
                    cluster.node_of(&name).await;
                }
            }
        }
    }
    pending
}

/// Removes the obstacle that the explanation names: in the queue, or on the nearest node.
async fn follow(cluster: &Cluster, name: &str, explained: &Value) {
    if explained["reason"] == "Held" {
        assert_eq!(explained["holders"][0]["plugin"], "SchedulingGates", "{explained}");
        let gates = Patch::Merge(json!({"spec": {"schedulingGates": null}}));
        cluster.pods.patch(name, &PatchParams::default(), &gates).await.expect("the gates go");
        return;
    }
    let nearest = &explained["analysis"]["nearest"][0];
    let node = nearest["node"].as_str().expect("a node");
    let reasons = nearest["reasons"].as_array().expect("reasons");
    let [reason] = &reasons[..] else { panic!("{name}: only one thing is in the way: {nearest}") };
    match reason["plugin"].as_str() {
        Some("NodeUnschedulable") => {
            let nodes: Api<Node> = Api::all(cluster.pods.clone().into_client());
            let uncordon = Patch::Merge(json!({"spec": {"unschedulable": false}}));
            nodes.patch(node, &PatchParams::default(), &uncordon).await.expect("the node is uncordoned");
        }
        Some("NodePorts") => {
            let there = cluster.pods.list(&ListParams::default()).await.expect("a list").items.into_iter();
            let has_port = |pod: &Pod| {
                let spec = pod.spec.as_ref().expect("a spec");
                let mut ports = spec.containers.iter().flat_map(|container| container.ports.iter().flatten());
                spec.node_name.as_deref() == Some(node) && ports.any(|port| port.host_port == Some(80))
            };
            let holder =
                there.into_iter().find(has_port).and_then(|pod| pod.metadata.name).expect("a pod with the port");
            cluster.pods.delete(&holder, &DeleteParams::default().grace_period(0)).await.expect("the pod goes");
        }
        _ => panic!("{name}: unexpected reason {reason}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_explain_says_of_the_demos_pending_pods_lets_them_be_scheduled() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "0"]).await;
    let scheduler = cluster.scheduler(&[]).await;
    let pending = demo(&cluster).await;
    assert_eq!(pending.len(), 3, "{pending:?}");
    for name in pending {
        cluster.until("it is said to be pending", |seen| seen.messages.contains_key(&name)).await;
        let arguments = ["explain", "pod", &name, "-o", "json", "--socket", &scheduler.socket()];
        let explained = json_of(&Process::berth(arguments).ended(DEADLINE).await);
        follow(&cluster, &name, &explained).await;
        let node = cluster.node_of(&name).await;
        let nearest = &explained["analysis"]["nearest"][0]["node"];
        assert!(explained["reason"] == "Held" || *nearest == *node, "{name} went to {node}: {explained}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_that_are_not_in_service_are_named_with_the_reason() {
    let bench = plugin_life::Bench::start_serving(plugin_life::PLUGIN_CONFIG).await;
    bench.create("poison", Behavior::Trap).await;
    let faulted = "plugin \"ByPriority\" faulted 2 times over this pod, the last time it ";
    says(&bench.scheduler, "poison", "it is held back by ByPriority, which is not in service for it", faulted).await;
    let remedy =
        "Note: plugin ByPriority: with `berth plugin disable ByPriority`, pods are scheduled without the plugin";
    says(&bench.scheduler, "poison", faulted, remedy).await;

    let bench = plugin_life::Bench::start(plugin_life::PLUGIN_CONFIG).await;
    place(&bench.cluster.dir.path().join("plugins/ByPriority.wasm"), b"not a component");
    bench.create("waits", Behavior::Normal).await;
    let refused = "plugin \"ByPriority\" is refused: ";
    says(&bench.scheduler, "waits", "it is held back by ByPriority, which is not in service for it", refused).await;
}

/// A scheduler with a plugin that asks for this effect at PreBind.
async fn asking_at_pre_bind(effect: WantedEffect, plugin_config: &str) -> plugin_life::Bench {
    let component = asks_for("ByPriority", At::PreBind, &[effect]).expect("a component");
    let config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins: \
                  {multiPoint: {enabled: [{name: ByPriority}]}}\n";
    plugin_life::Bench::start_with(|dir| {
        fs::write(dir.join("config.yaml"), config).expect("a file");
        fs::write(dir.join("plugins.yaml"), plugin_config).expect("a file");
        fs::write(dir.join("plugins/ByPriority.wasm"), component).expect("a file");
    })
    .await
}

/// The pod has a node, and is not bound before the plugin releases the pod.
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_waits_at_pre_bind_is_named_with_what_it_waits_for() {
    let wait = WantedEffect::Wait(["v1/Pod", "default", "patient"].map(str::to_owned));
    let granted = format!("{}  grants: {{effects: [wait]}}\n", plugin_life::PLUGIN_CONFIG);
    let bench = asking_at_pre_bind(wait, &granted).await;
    bench.create("patient", Behavior::Normal).await;
    let holder = "Held by: ByPriority at PreBind, for ";
    says(&bench.scheduler, "patient", holder, ": waits to see v1/Pod default/patient changed: the wait is over").await;
}

/// The plugin asks for an effect without a grant, so the attempt fails although nodes fit.
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_ends_an_attempt_after_the_choice_of_a_node_is_named() {
    let event = WantedEffect::Event(["Said", "Saying", "whatever"].map(str::to_owned));
    let bench = asking_at_pre_bind(event, plugin_life::PLUGIN_CONFIG).await;
    bench.create("late", Behavior::Normal).await;
    let rejected = "but plugin ByPriority rejected the pod at PreBind: plugin \"ByPriority\" asked for event, but is not granted it";
    says(&bench.scheduler, "late", rejected, "Reason: NotBound").await;
}

/// A user who may only see pods, or ask about missing pods, must not take a plugin out of service.
#[tokio::test(flavor = "multi_thread")]
async fn faults_in_explanations_cost_the_plugin_in_service_nothing() {
    let bench = plugin_life::Bench::start_serving(plugin_life::PLUGIN_CONFIG).await;
    let mut trap = pod("trap", "100m", "64Mi");
    trap["spec"]["priority"] = json!(Behavior::Trap.priority());
    trap["metadata"]["namespace"] = json!("default");
    let file = bench.cluster.dir.path().join("trap.json");
    let before = bench.ask(&["describe", "ByPriority"]).await;
    for number in 0..10 {
        trap["metadata"]["name"] = json!(format!("trap-{number}"));
        fs::write(&file, trap.to_string()).expect("a file");
        let file = file.display().to_string();
        let arguments = ["explain", "-f", &file, "-o", "json", "--socket", &bench.scheduler.socket()];
        let explained = json_of(&Process::berth(arguments).ended(DEADLINE).await);
        assert!(
            explained["analysis"]["error"].as_str().is_some_and(|error| error.contains("ByPriority")),
            "{explained}"
        );
    }
    let after = bench.ask(&["describe", "ByPriority"]).await;
    for field in ["faults", "calls", "state", "binaries"] {
        assert_eq!(after[field], before[field], "{field}: {after}");
    }
}

/// Waits until `berth explain` has both texts.
async fn says(scheduler: &Scheduler, pod: &str, summary: &str, message: &str) {
    let socket = scheduler.socket();
    let look = async || {
        let said = Process::berth(["explain", "pod", pod, "--socket", &socket]).ended(DEADLINE).await.out;
        Ok((said.contains(summary) && said.contains(message)).then_some(()))
    };
    berth_test_processes::until(message, look).await.expect(pod);
}

const TALKERS: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{name: Talks}, {name: Rambles}, {name: Breaks}, {name: Spins}]
";

/// A plugin that fails while it is asked for its words does not affect the other parts of the explanation, the words of
/// other plugins, or the plugin in service.
#[tokio::test(flavor = "multi_thread")]
async fn plugins_say_why_in_their_own_words() {
    let plugins =
        [("Talks", Words::Short), ("Rambles", Words::Mebibyte), ("Breaks", Words::Trap), ("Spins", Words::Spin)];
    let bench = plugin_life::Bench::start_with(|dir| {
        fs::write(dir.join("config.yaml"), TALKERS).expect("a file");
        let host = "apiVersion: berth.dev/v1alpha1\nkind: PluginHostConfiguration\n";
        fs::write(dir.join("plugins.yaml"), host).expect("a file");
        for (name, words) in plugins {
            fs::write(dir.join(format!("plugins/{name}.wasm")), explains(name, words).expect("a component"))
                .expect("a file");
        }
    })
    .await;
    bench.create("web", Behavior::Normal).await;
    let node = bench.cluster.node_of("web").await;
    let faults = async || [bench.ask(&["describe", "Breaks"]).await, bench.ask(&["describe", "Spins"]).await];
    let before = faults().await.map(|plugin| plugin["faults"].clone());

    let socket = bench.scheduler.socket();
    let text =
        Process::berth(["explain", "pod", "web", "--node", &node, "--socket", &socket]).ended(DEADLINE).await.out;
    for line in [
        "  Talks says: keeps to itself\n",
        &format!("  Talks says about {node}: likes it\n"),
        &format!("  Rambles says: {}...\n", "x".repeat(1024)),
        "\nNote: the words of Breaks are unknown: plugin \"Breaks\" (1.2.3, ",
        "\nNote: the words of Spins are unknown: plugin \"Spins\" (1.2.3, ",
    ] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
    let faulted = ["trapped in explain: ", "took too long in explain (limit "];
    assert!(faulted.iter().all(|reason| text.contains(reason)) && !text.contains("\u{1b}"), "{text}");

    let mut other = pod("other", "100m", "64Mi");
    other["metadata"]["namespace"] = json!("default");
    let file = bench.cluster.dir.path().join("other.json");
    fs::write(&file, other.to_string()).expect("a file");
    let arguments = ["explain", "-f", &file.display().to_string(), "-o", "json", "--socket", &socket];
    let explained = json_of(&Process::berth(arguments).ended(DEADLINE).await);
    let analysis = &explained["analysis"];
    assert_eq!((&analysis["error"], &analysis["feasible"]), (&json!(null), &json!(2)), "{explained}");
    let talks = json!({"plugin": "Talks", "node": null, "text": "keeps to itself"});
    let said = analysis["words"].as_array().expect("words");
    assert_eq!((&said[0], &said[1]["plugin"], said.len()), (&talks, &json!("Rambles"), 2), "{explained}");
    assert_eq!(explained["notes"].as_array().map(Vec::len), Some(2), "{explained}");

    let after = faults().await.map(|plugin| plugin["faults"].clone());
    assert_eq!(after, before, "the plugins in service did not fail");
}
