//! Two profiles of one scheduler place identical pods differently.

use serde_json::{Value, json};

use crate::cluster::{Cluster, pod};

const CONFIG: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: spread
  plugins: &only-fit
    score:
      disabled: [{name: '*'}]
      enabled: [{name: NodeResourcesFit}]
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: LeastAllocated}}
- schedulerName: pack
  plugins: *only-fit
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
";

fn with_spec(mut pod: Value, field: &str, value: Value) -> Value {
    pod["spec"][field] = value;
    pod
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_decide_by_their_own_plugins() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let config = cluster.dir.path().join("config.yaml");
    std::fs::write(&config, CONFIG).expect("a file");
    let _scheduler = cluster.scheduler(&["--config", &config.display().to_string()]).await;
    let named = |name: &str, scheduler: &str| with_spec(pod(name, "2", "4Gi"), "schedulerName", json!(scheduler));

    cluster.create(&named("first", "spread")).await;
    let first = cluster.node_of("first").await;
    cluster.create(&named("packed", "pack")).await;
    assert_eq!(cluster.node_of("packed").await, first);
    cluster.create(&named("spread", "spread")).await;
    let other = cluster.node_of("spread").await;
    assert_ne!(other, first);
    cluster.create(&named("packed-too", "pack")).await;
    assert_eq!(cluster.node_of("packed-too").await, first);
    cluster.create(&named("spread-too", "spread")).await;
    assert_eq!(cluster.node_of("spread-too").await, other);
}

#[tokio::test(flavor = "multi_thread")]
async fn run_without_a_configuration_leaves_the_cluster_to_its_own_scheduler() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let _scheduler = cluster.run(&[]).await;
    let theirs = pod("theirs", "1", "1Gi");
    let ours = with_spec(pod("ours", "1", "1Gi"), "schedulerName", json!("berth"));
    cluster.create(&theirs).await;
    cluster.create(&ours).await;
    cluster.node_of("ours").await;
    let seen = cluster.until("both seen", |seen| seen.nodes.len() == 2).await;
    assert!(seen.nodes["theirs"].is_empty());
}
