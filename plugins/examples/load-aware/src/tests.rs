//! Reports that come and become old, and pods that come between reports, without wasm.

use berth_sdk::{
    model::Time,
    testing::{TestCluster, node, pod},
};
use serde_json::{Value, json};

use super::*;

/// 2026-11-22T08:00:00Z.
const MORNING: u64 = 1_795_334_400_000;

fn metric(node: &str, time: &str, cpu: &str, memory: &str) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": node},
        "status": {"updateTime": time, "nodeMetric": {"nodeUsage": {"resources": {"cpu": cpu, "memory": memory}}}},
    })
}

/// Two nodes of 10 CPUs and 10 GiB. `busy` uses half of these amounts, and `idle` uses nothing.
fn scene() -> (TestCluster, LoadAware) {
    let mut cluster = TestCluster::default();
    for (name, cpu, memory) in [("busy", "5", "5Gi"), ("idle", "0", "0")] {
        cluster.set_node(&node(name).allocatable("cpu", "10").allocatable("memory", "10Gi").build());
        cluster.set_object(&metric(name, "2026-11-22T08:00:00Z", cpu, memory));
    }
    (cluster, LoadAware::configure("null").unwrap())
}

/// The scores of `busy` and `idle` for a pod of one CPU, this number of seconds after 8 o'clock.
fn scores(cluster: &mut TestCluster, plugin: &mut LoadAware, seconds: u64) -> (i64, i64) {
    let pod = cluster.intern(&pod("p").request("cpu", "1").build());
    cluster.sync(plugin).unwrap();
    plugin.follow(cluster.table());
    let call = Call { now: Time(MORNING + 1000 * seconds), ..cluster.call(1, &pod) };
    let mut scores = Vec::new();
    Score::score(plugin, &call, call.table.nodes(), &mut scores).unwrap();
    (scores[0], scores[1])
}

#[test]
fn the_node_that_uses_less_is_better() {
    let (mut cluster, mut plugin) = scene();
    assert_eq!(scores(&mut cluster, &mut plugin, 10), (45, 95));
}

#[test]
fn pods_count_until_a_report_that_knows_them() {
    let (mut cluster, mut plugin) = scene();
    assert_eq!(scores(&mut cluster, &mut plugin, 10), (45, 95));
    for name in ["a", "b", "c", "d"] {
        cluster.set_pod(&pod(name).on("idle").request("cpu", "2").request("memory", "1Gi").build()).unwrap();
    }
    assert_eq!(scores(&mut cluster, &mut plugin, 20), (45, 35));
    // All of these pods except the last start before the next report.
    for name in ["a", "b", "c"] {
        let started = pod(name).on("idle").request("cpu", "2").request("memory", "1Gi");
        cluster.set_pod(&started.status("startTime", json!("2026-11-22T08:00:30Z")).build()).unwrap();
    }
    assert_eq!(scores(&mut cluster, &mut plugin, 40), (45, 35));
    cluster.set_object(&metric("idle", "2026-11-22T08:01:00Z", "1", "1Gi"));
    assert_eq!(scores(&mut cluster, &mut plugin, 61), (45, 70));
}

#[test]
fn an_old_report_says_nothing() {
    let (mut cluster, mut plugin) = scene();
    assert_eq!(scores(&mut cluster, &mut plugin, 301), (0, 0));
}

#[test]
fn a_loaded_node_gets_no_pods() {
    let (mut cluster, mut plugin) = scene();
    cluster.set_object(&metric("busy", "2026-11-22T08:00:10Z", "8600m", "1Gi"));
    cluster.set_object(&metric("idle", "2026-11-22T08:00:10Z", "1", "9700Mi"));
    cluster.sync(&mut plugin).unwrap();
    plugin.follow(cluster.table());
    let pod = cluster.intern(&pod("p").build());
    let call = Call { now: Time(MORNING + 20_000), ..cluster.call(1, &pod) };
    let mut nodes = call.table.nodes().clone();
    Filter::filter(&mut plugin, &call, &mut nodes).unwrap();
    assert!(nodes.is_empty());
    let reasons: Vec<String> = Filter::node_to_status(&mut plugin, &call, call.table.nodes())
        .unwrap()
        .iter()
        .map(|group| group.status.message())
        .collect();
    assert_eq!(reasons, ["node(s) used more than 85% of their CPU", "node(s) used more than 90% of their memory"]);
}
