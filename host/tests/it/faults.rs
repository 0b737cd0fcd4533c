//! Requests that the sandbox refuses by the rules of `--faults` are tried again.

use std::fs;

use crate::cluster::{Cluster, pod};

const RULES: &str = "
faults:
- match: {resources: [pods/binding], userAgent: berth/}
  fault: {type: Status, code: 500}
  count: 2
- match: {resources: [pods/binding], userAgent: berth/}
  fault: {type: LostAnswer}
  count: 1
";

#[tokio::test(flavor = "multi_thread")]
async fn bindings_that_are_refused_or_unanswered_are_tried_again() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let rules = dir.path().join("rules.yaml");
    fs::write(&rules, RULES).expect("a file");
    let rules = rules.display().to_string();
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2", "--faults", &rules]).await;
    let _scheduler = cluster.scheduler(&[]).await;
    cluster.create_all((0..3).map(|n| pod(&format!("pod-{n}"), "100m", "128Mi"))).await;
    cluster.all_bound(3).await;
}
