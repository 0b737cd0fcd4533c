//! Plugins that use up the scheduling thread's time without ever breaking a limit of one call.

use berth_test_guests::{At, harmless, never_hands_over, slow_hint};

use super::bench::{Bench, Guest, name_of};
use crate::cluster::{Cluster, Seen};

/// Some ten milliseconds for each waiting pod at each event, which no limit of one call forbids.
const RULES: &str = "
plugins:
- name: SlowHint
  limits: {callMilliseconds: 5000, millisecondsPerSecond: 100, burstMilliseconds: 200}
";

#[tokio::test(flavor = "multi_thread")]
async fn slow_hints_are_left_out_once_the_time_is_used_up() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let guest = Guest::new("SlowHint", At::PreFilter, slow_hint("SlowHint").expect("a component"));
    let mut bench = Bench::start(cluster, vec![guest], RULES).await;
    bench.create("SlowHint", 50).await;
    let names: Vec<String> = (0..50).map(|number| name_of("SlowHint", number)).collect();
    let are_rejected = |seen: &Seen| names.iter().all(|name| seen.messages.contains_key(name));
    bench.cluster.until("rejections", are_rejected).await;
    // Each of these pods that comes to a node is an event.
    bench.binds_healthy(20).await;
    bench.counts("berth_plugin_out_of_time_total{plugin=\"SlowHint\"}", 100).await;
    let says = "has used up its time, 100 ms of each second";
    bench.cluster.until("a pod that is told so", |seen| seen.messages.values().any(|text| text.contains(says))).await;
    bench.scheduler.process.line(says).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn state_that_is_not_handed_over_in_time_holds_up_nobody() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let guest = Guest::new("Searches", At::Filter, never_hands_over("Searches").expect("a component"));
    let rules = "defaults: {limits: {lifecycleMilliseconds: 600000, schedulingThreadMilliseconds: 100}}\n";
    let mut bench = Bench::start(cluster, vec![guest], rules).await;
    bench.place("Searches", &harmless("Searches", At::Filter).expect("a component"));
    bench.scheduler.process.line("took too long in snapshot").await;
    bench.binds_healthy(5).await;
    bench.create("Searches", 1).await;
    bench.cluster.node_of(&name_of("Searches", 0)).await;
}
