//! Plugins that use up the scheduling thread's time while each call stays within its limit.

use berth_test_guests::{At, harmless, holds, never_hands_over, slow_at, slow_hint, slow_reserve, slow_unreserve};
use berth_wasm_host::Binary;
use serde_json::json;

use super::bench::{Bench, Guest, is_bound, name_of, pod_of};
use crate::cluster::{Cluster, Seen};

/// The plugin takes some ten milliseconds for each waiting pod at each event, which the limit of a call allows.
const RULES: &str = "
plugins:
- name: SlowHint
  limits: {callMilliseconds: 5000, millisecondsPerSecond: 100, burstMilliseconds: 200}
";

#[tokio::test(flavor = "multi_thread")]
async fn slow_hints_are_left_out_once_the_time_is_used_up() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "20"]).await;
    let guest = Guest::new("SlowHint", At::PreFilter, slow_hint("SlowHint").expect("a component"));
    let mut bench = Bench::start(cluster, vec![guest], RULES).await;
    bench.create("SlowHint", 50).await;
    let names: Vec<String> = (0..50).map(|number| name_of("SlowHint", number)).collect();
    let are_rejected = |seen: &Seen| names.iter().all(|name| seen.messages.contains_key(name));
    bench.cluster.until("rejections", are_rejected).await;
    // The binding of each of these pods is an event.
    bench.binds_healthy(20).await;
    bench.counts("berth_plugin_out_of_time_total{plugin=\"SlowHint\"}", 10).await;
    let says = "has used up its time, 100 ms of each second";
    let is_told = |seen: &Seen| seen.messages.values().any(|text| text.contains(says));
    // A pod gets this message after it has waited for a second, so events must continue.
    let events = async {
        for number in 20.. {
            bench.cluster.create(&pod_of("healthy", number)).await;
            bench.cluster.node_of(&name_of("healthy", number)).await;
        }
    };
    tokio::select! {
        _ = bench.cluster.until("a pod that is told so", is_told) => {}
        () = events => {}
    }
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

/// A new binary would need more than a minute to learn about all pods that its predecessor holds.
#[tokio::test(flavor = "multi_thread")]
async fn a_binary_that_is_slow_to_learn_of_pods_on_their_way_holds_up_nobody() {
    const HELD: usize = 250;
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "20"]).await;
    let guest = Guest::new("Reserves", At::Permit, holds("Reserves").expect("a component"));
    let limits = "{callMilliseconds: 10000, millisecondsPerSecond: 50, burstMilliseconds: 100}";
    let rules = format!("plugins:\n- {{name: Reserves, limits: {limits}}}\n");
    let mut bench = Bench::start(cluster, vec![guest], &rules).await;
    bench.create("Reserves", HELD).await;
    let are_held = |text: &str| text.contains(&format!("scheduler_goroutines{{operation=\"binding\"}} {HELD}\n"));
    bench.scheduler.until("/metrics", are_held).await;
    let slow = slow_reserve("Reserves").expect("a component");
    bench.place("Reserves", &slow);
    let digest = Binary::new("Reserves", slow).digest().to_string();
    bench.shows([("Reserves", json!({"profiles": {"reserves": digest}}))]).await;
    bench.binds_healthy(20).await;
    bench.cluster.create_all([pod_of("Reserves", HELD)]).await;
    let (name, says) = (name_of("Reserves", HELD), "has used up its time, and has not received all pods");
    let is_told = |seen: &Seen| seen.messages.get(&name).is_some_and(|text| text.contains(says));
    bench.cluster.until("a pod that is told so", is_told).await;
    bench.scheduler.process.line(says).await;
}

/// The plugin takes ten seconds or more to unreserve all pods.
#[tokio::test(flavor = "multi_thread")]
async fn pods_that_a_plugin_rejects_all_at_once_hold_up_nobody() {
    const HELD: usize = 250;
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "20"]).await;
    let guest = Guest::new("Unreserves", At::Permit, slow_unreserve("Unreserves").expect("a component"));
    // A call can take longer than the default limit on a busy machine, which would quarantine the plugin.
    let rules = "plugins:\n- {name: Unreserves, limits: {callMilliseconds: 500}}\n";
    let mut bench = Bench::start(cluster, vec![guest], rules).await;
    bench.create("Unreserves", HELD).await;
    let is_rejected = |seen: &Seen| seen.messages.values().any(|text| text.contains("rejected due to timeout"));
    bench.cluster.until("a pod that was held for too long", is_rejected).await;
    bench.binds_healthy_in_time(0..20).await;
    bench.scheduler.process.line("has used up its time").await;
    let seen = bench.cluster.until("everything", |_| true).await;
    assert!((0..HELD).all(|number| !is_bound(&seen, &name_of("Unreserves", number))));
}

/// Each plugin stays within its own time, and all together use all the time of the thread.
#[tokio::test(flavor = "multi_thread")]
async fn plugins_that_are_slow_together_hold_up_nobody() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "20"]).await;
    let names = ["SlowA", "SlowB", "SlowC", "SlowD"];
    let guest = |name| Guest::new(name, At::Filter, slow_at(name, At::Filter, 20).expect("a component"));
    let mut bench = Bench::start(cluster, names.map(guest).into(), "").await;
    for name in names {
        bench.create(name, 100).await;
    }
    bench.binds_healthy_in_time(0..20).await;
    bench.scheduler.process.line("all plugins together have used up their time, 300 ms of each second").await;
    bench.counts("berth_plugins_share_spent_total", 1).await;
    let took = |text: &str| text.contains("berth_plugin_scheduling_thread_seconds_total{plugin=\"SlowA\"}");
    bench.scheduler.until("/metrics", took).await;
}

/// Native DefaultPreemption repeatedly asks the plugin about all nodes without some of their pods.
#[tokio::test(flavor = "multi_thread")]
async fn dry_runs_that_take_long_hold_up_nobody() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "10"]).await;
    let guest = Guest::new("SlowDryRun", At::DryRun, slow_at("SlowDryRun", At::DryRun, 500).expect("a component"));
    let rules = "plugins:\n- {name: SlowDryRun, limits: {callMilliseconds: 5000}}\n";
    let bench = Bench::start(cluster, vec![guest], rules).await;
    // Five of these pods leave half a CPU of a node.
    let fillers = (0..60).map(|number| {
        let mut filler = pod_of("SlowDryRun", number);
        filler["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("3100m");
        filler
    });
    bench.cluster.create_all(fillers).await;
    let is_full = |seen: &Seen| seen.messages.values().any(|text| text.contains("Insufficient cpu"));
    bench.cluster.until("nodes that are full", is_full).await;
    let mut preemptor = pod_of("SlowDryRun", 100);
    preemptor["spec"]["priorityClassName"] = json!("system-cluster-critical");
    preemptor["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1");
    bench.cluster.create(&preemptor).await;
    bench.binds_healthy_in_time(0..10).await;
    let (preemptor, says) = (name_of("SlowDryRun", 100), "have used up their time");
    let is_told = |seen: &Seen| seen.messages.get(&preemptor).is_some_and(|text| text.contains(says));
    bench.cluster.until("a preemptor that is told so", is_told).await;
}
