//! `berth simulate` places pods where `berth demo`, a whole scheduler, places them. The command also answers questions,
//! and names objects that it cannot use.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Ended, Process};

const LIMIT: Duration = Duration::from_secs(300);
const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/demo");

async fn simulate(arguments: &[&str]) -> Ended {
    Process::berth(["simulate"].iter().chain(arguments)).ended(LIMIT).await
}

/// The output as JSON.
async fn answer(arguments: &[&str]) -> Value {
    let ended = simulate(&[arguments, &["-o", "json"]].concat()).await;
    assert!(ended.status.success(), "{arguments:?}: {}", ended.err);
    serde_json::from_str(&ended.out).expect("JSON on standard output")
}

fn nodes(pods: &Value) -> BTreeMap<&str, &Value> {
    let pods = pods.as_array().expect("a list of pods").iter();
    pods.map(|pod| (pod["name"].as_str().expect("a name"), &pod["node"])).collect()
}

fn write(dir: &TempDir, name: &str, text: &str) -> String {
    let file = dir.path().join(name);
    fs::write(&file, text).expect("a file");
    file.display().to_string()
}

fn dir() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn node(name: &str, zone: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{topology.kubernetes.io/zone: {zone}}}}}\n\
         status: {{allocatable: {{cpu: 4, memory: 8Gi, pods: 10}}}}\n---\n"
    )
}

/// A ReplicaSet with pods that ask for one CPU each.
fn replicas(n: usize) -> String {
    format!(
        "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {{name: web}}\nspec:\n  replicas: {n}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    \
         spec: {{containers: [{{name: web, resources: {{requests: {{cpu: 1}}}}}}]}}\n---\n"
    )
}

#[tokio::test]
async fn pods_go_where_a_whole_scheduler_places_them() {
    let demo = Process::berth(["demo", "-o", "json", DEMO]).ended(LIMIT).await;
    assert!(demo.status.success(), "{}", demo.err);
    let demo: Value = serde_json::from_str(&demo.out).expect("JSON");
    for execution in ["native", "wasm"] {
        let simulated = answer(&["-f", DEMO, "--one-by-one", "--execution", execution]).await;
        assert_eq!(nodes(&simulated["pods"]), nodes(&demo), "{execution}");
        let pods = simulated["pods"].as_array().expect("pods");
        let large = pods.iter().find(|pod| pod["name"] == "too-large").expect("a pod");
        let rejections = large["refusal"]["rejections"].as_array().expect("rejections");
        assert!(rejections.iter().any(|it| it["plugin"] == "NodeResourcesFit" && it["nodes"] == 4), "{large}");
    }
}

#[tokio::test]
async fn a_cluster_is_asked_what_if() {
    let dir = dir();
    let cluster = [node("n1", "west"), node("n2", "east"), replicas(6)].concat();
    let cluster = write(&dir, "cluster.yaml", &cluster);
    let small = write(&dir, "node.yaml", &node("small", "west"));
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: more}\nspec: {containers: [{name: a, resources: {requests: {cpu: 500m}}}]}\n";
    let pod = write(&dir, "pod.yaml", pod);
    let summary = async |arguments: &[&str]| {
        let answer = answer(&[&["-f", &cluster], arguments].concat()).await;
        (answer["summary"]["placed"].as_u64().unwrap_or(0), answer["summary"]["pending"].as_u64().unwrap_or(0))
    };
    assert_eq!(summary(&[]).await, (6, 0));
    assert_eq!(summary(&["--without", "node/n1"]).await, (4, 2));
    assert_eq!(summary(&["--without-selector", "topology.kubernetes.io/zone=west"]).await, (4, 2));
    assert_eq!(summary(&["--without", "zone/east", "--add", &format!("1={small}")]).await, (6, 0));
    let answer = answer(&["-f", &cluster, "--how-many", &pod]).await;
    assert_eq!(
        (&answer["fit"], &answer["refusal"]["rejections"][0]["plugin"]),
        (&4.into(), &"NodeResourcesFit".into())
    );
    let svg = dir.path().join("nodes.svg");
    let ended =
        simulate(&["-f", &cluster, "--without", "node/n1", "--expect-all-placed", "--svg", &svg.display().to_string()])
            .await;
    assert_eq!(ended.status.code(), Some(1), "{}", ended.err);
    assert!(ended.err.contains("--expect-all-placed: 2 pods stay pending: default/web-"), "{}", ended.err);
    assert!(ended.out.contains("4 of 6 pods are placed on 1 of 1 nodes"), "{}", ended.out);
    assert!(fs::read_to_string(&svg).expect("a picture").contains("east: 1 nodes"));
}

#[tokio::test]
async fn a_batch_of_questions_is_answered() {
    let dir = dir();
    let cluster = write(&dir, "cluster.yaml", &[node("n1", "west"), node("n2", "east")].concat());
    let request = "
apiVersion: berth.dev/v1alpha1
kind: WhatIf
pods:
- {apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web}, spec: {replicas: 10, template: {spec: {containers: [{name: a, resources: {requests: {cpu: 1}}}]}}}}
variants:
- {name: as it is}
- {name: one more, addNodes: [{count: 1, node: {apiVersion: v1, kind: Node, metadata: {generateName: more-}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}}}]}
- {name: one less, removeNodes: [n1]}
nodeGroups:
- {name: pairs, maxNodes: 5, node: {apiVersion: v1, kind: Node, metadata: {generateName: pair-}, status: {allocatable: {cpu: 2, memory: 8Gi, pods: 10}}}}
";
    let file = write(&dir, "questions.yaml", request);
    for execution in ["native", "wasm"] {
        let answer = answer(&["-f", &cluster, "--what-if", &file, "--execution", execution]).await;
        let placed = |at: usize| answer["variants"][at]["placed"].as_u64();
        assert_eq!([placed(0), placed(1), placed(2)], [Some(8), Some(10), Some(4)], "{execution}");
        let group = &answer["nodeGroups"][0];
        assert_eq!((&group["nodes"], &group["placed"]), (&1.into(), &10.into()), "{execution}");
        assert_eq!(answer["clusterState"].as_str().map(str::len), Some(32));
    }
    let table = simulate(&["-f", &cluster, "--what-if", &file]).await;
    assert!(table.out.contains("one less") && table.out.contains("nothing is reserved"), "{}", table.out);
    let wrong = write(&dir, "wrong.yaml", &request.replace("[n1]", "[n7]"));
    let ended = simulate(&["-f", &cluster, "--what-if", &wrong]).await;
    assert_eq!(ended.status.code(), Some(2), "{}", ended.err);
    assert!(ended.err.contains("wrong.yaml: one less: removeNodes: node n7 not found"), "{}", ended.err);
}

#[tokio::test]
async fn nodes_are_drained_under_budgets_and_emptied_by_plan() {
    let dir = dir();
    let placed = |name: &str, node: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: {name}, namespace: default, labels: {{app: web}}, ownerReferences: [{{kind: ReplicaSet, \
             name: web, uid: w, controller: true}}]}}\nspec: {{nodeName: {node}, schedulerName: default-scheduler, containers: [{{name: web, resources: {{requests: {{cpu: 1}}}}}}]}}\n---\n"
        )
    };
    let budget = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web}\nspec: {minAvailable: 3, selector: {matchLabels: {app: web}}}\n---\n";
    let pods = [placed("a", "n1"), placed("b", "n2"), placed("c", "n2")].concat();
    let text = [node("n1", "west"), node("n2", "east"), pods].concat();
    let free = write(&dir, "free.yaml", &text);
    let held = write(&dir, "held.yaml", &[text.as_str(), budget].concat());
    let drained = answer(&["-f", &free, "--drain", "n2"]).await;
    assert_eq!(
        (&drained["drained"][0], drained["moves"].as_array().map(Vec::len)),
        (&"n2".into(), Some(2)),
        "{drained}"
    );
    assert!(drained["moves"][0]["to"] == "n1", "{drained}");
    let blocked = answer(&["-f", &held, "--drain", "n2"]).await;
    let reason = blocked["blocked"][0]["reason"].as_str().expect("a reason");
    assert!(reason.contains("PodDisruptionBudget web requires 3 healthy pods"), "{blocked}");
    let plan = answer(&["-f", &free, "--consolidate"]).await;
    assert_eq!(
        (&plan["steps"][0]["node"], &plan["moves"], &plan["kept"]),
        (&"n1".into(), &1.into(), &1.into()),
        "{plan}"
    );
}

#[tokio::test]
async fn two_configurations_are_compared() {
    let dir = dir();
    let config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: default-scheduler\n  \
                  pluginConfig:\n  - name: NodeResourcesFit\n    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}\n";
    let packed = write(&dir, "packed.yaml", config);
    let cluster = write(&dir, "cluster.yaml", &[node("n1", "west"), node("n2", "east"), replicas(4)].concat());
    // The same plugin as a component makes no difference.
    let plugins = dir.path().join("plugins");
    fs::create_dir(&plugins).expect("a folder");
    let fit = berth_components::COMPONENTS.iter().find(|it| it.name == "NodeResourcesFit").expect("a built-in plugin");
    fs::write(plugins.join("NodeResourcesFit.wasm"), fit.bytes()).expect("a file");
    let same = answer(&["-f", &cluster, "--compare-plugins-dir", &plugins.display().to_string()]).await;
    assert_eq!((&same["alike"], same["moved"].as_array().map(Vec::len)), (&4.into(), Some(0)), "{same}");
    let answer = answer(&["-f", &cluster, "--compare", &packed]).await;
    let moved = answer["moved"].as_array().expect("pods");
    assert!(!moved.is_empty() && answer["byPlugin"]["NodeResourcesFit"].as_u64() > Some(0), "{answer}");
}

#[tokio::test]
async fn a_pod_that_only_one_configuration_serves_is_told_from_pods_that_others_displaced() {
    let dir = dir();
    let config = |name: &str| {
        format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: \
             {name}\n"
        )
    };
    let (first, second) =
        (write(&dir, "first.yaml", &config("another")), write(&dir, "second.yaml", &config("default-scheduler")));
    let cluster = write(&dir, "cluster.yaml", &[node("n1", "west"), replicas(1)].concat());
    let arguments = ["-f", &cluster, "--config", &first, "--compare", &second];
    let table = simulate(&arguments).await;
    assert!(table.status.success() && table.out.contains("<pending>"), "{}{}", table.out, table.err);
    assert!(table.out.contains("<no profile>") && !table.out.contains("<earlier pods>"), "{}", table.out);
    let answer = answer(&arguments).await;
    let pod = &answer["moved"][0];
    assert_eq!((&pod["first"]["refusal"], &pod["second"]["node"]), (&"NotServed".into(), &"n1".into()), "{answer}");
}

/// A node with room for some pods. It may already have the image of a volume.
fn node_with(name: &str, cpu: u32, images: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\nstatus: {{allocatable: {{cpu: {cpu}, memory: 32Gi, \
         pods: 110}}, images: [{images}]}}\n"
    )
}

#[tokio::test]
async fn two_releases_are_compared() {
    let dir = dir();
    let nodes = [node_with("n1", 8, ""), node_with("n2", 2, "{names: ['model:1'], sizeBytes: 900000000}")].concat();
    let pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: default}\nspec:\n  containers: [{name: c, \
               image: 'app:1', resources: {requests: {cpu: 1, memory: 1Gi}}}]\n  volumes: [{name: v, image: {reference: \
               'model:1'}}]\n";
    let cluster = write(&dir, "cluster.yaml", &[nodes, pod.to_owned()].concat());
    // ImageLocality also divides by the number of image volumes from 1.37 on, so the larger node scores higher there.
    for (arguments, node) in [(&[][..], "n2"), (&["--emulated-version", "1.37"], "n1")] {
        let answer = answer(&[&["-f", &cluster], arguments].concat()).await;
        assert_eq!(answer["pods"][0]["node"], node, "{answer}");
    }
    let answer = answer(&["-f", &cluster, "--compare-emulated-version", "1.37"]).await;
    assert_eq!(answer["byPlugin"]["ImageLocality"], 1, "{answer}");
    let ended = simulate(&["-f", &cluster, "--emulated-version", "new"]).await;
    assert_eq!(ended.status.code(), Some(2), "{}", ended.err);
    assert!(ended.err.contains("--emulated-version: could not parse \"new\" as version"), "{}", ended.err);
}

#[tokio::test]
async fn what_cannot_be_used_is_named_and_left_out_if_told_so() {
    let dir = dir();
    let broken = replicas(2).replace("cpu: 1", "cpu: lots");
    let cluster = write(&dir, "cluster.yaml", &[node("n1", "west"), broken].concat());
    let ended = simulate(&["-f", &cluster]).await;
    assert_eq!(ended.status.code(), Some(2), "{}", ended.err);
    let expected = "cluster.yaml:13: Pod default/web-";
    assert!(ended.err.contains(expected) && ended.err.contains("--skip-broken"), "{}", ended.err);
    assert!(
        ended.err.contains("spec.template.spec.containers[0].resources.requests.cpu: quantities must match"),
        "{}",
        ended.err
    );
    assert_eq!(answer(&["-f", &cluster, "--skip-broken"]).await["summary"]["nodes"], 1);
    // A simulation refuses extenders, because it cannot know their answers.
    let extended = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders:\n- urlPrefix: \
                    http://127.0.0.1:9\n  filterVerb: filter\n";
    let extended = write(&dir, "extended.yaml", extended);
    for (arguments, part) in [
        (&["-f", "/absent.yaml"][..], "/absent.yaml"),
        (&["-f", DEMO, "--without", "node/x"], "node x not found"),
        (&["-f", DEMO, "--drain", "x"], "node x not found"),
        (&["-f", DEMO, "--add", "ten=node.yaml"], "invalid number of nodes `ten`"),
        (&["-f", DEMO, "--config", &extended], "a simulation calls no extenders"),
    ] {
        let ended = simulate(arguments).await;
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}: {}", ended.err);
        assert!(ended.err.contains(part), "{arguments:?}: {}", ended.err);
    }
    assert!(Path::new(DEMO).is_dir());
}
