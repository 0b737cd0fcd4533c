//! `clientConnection.qps` and `burst` delay bindings.

use std::time::{Duration, Instant};

use crate::cluster::{Cluster, pod};

const CONFIG: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 5, burst: 1}
";

const PODS: u32 = 10;

#[tokio::test(flavor = "multi_thread")]
async fn bindings_are_no_faster_than_configured() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let config = cluster.dir.path().join("scheduler.yaml");
    std::fs::write(&config, CONFIG).expect("a file");
    cluster.create_all((0..PODS).map(|n| pod(&format!("pod-{n}"), "100m", "128Mi"))).await;
    let began = Instant::now();
    let _scheduler = cluster.scheduler(&["--config", &config.display().to_string()]).await;
    cluster.all_bound(PODS as usize).await;
    // The first binding is sent immediately, and each further binding a fifth of a second later.
    let fastest = Duration::from_millis(200) * (PODS - 1);
    assert!(began.elapsed() >= fastest, "{:?}", began.elapsed());
}
