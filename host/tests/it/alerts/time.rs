//! Plugins and searches that use up the time of the scheduling thread.

use berth_test_guests::{At, slow_at, slow_hint};
use serde_json::Value;

use super::prometheus::{Moment, Scrape, alone};
use crate::{
    cluster::{Cluster, Seen},
    hostile::{
        bench::{Bench, Guest, name_of, pod_of},
        selectors,
    },
};

async fn start(guests: Vec<Guest>, rules: &str) -> Bench {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "20"]).await;
    Bench::start(cluster, guests, rules).await
}

fn slow(name: &str) -> Guest {
    Guest::new(name, At::Filter, slow_at(name, At::Filter, 20).expect("a component"))
}

/// The plugin may take a hundredth of each second, and takes twice as long for one pod.
pub(super) async fn pods_wait() -> Vec<Moment> {
    let limits = "{callMilliseconds: 5000, millisecondsPerSecond: 10, burstMilliseconds: 20}";
    let bench = start(vec![slow("Slow")], &format!("plugins:\n- {{name: Slow, limits: {limits}}}\n")).await;
    let before = Scrape::of(&bench.scheduler).await;
    bench.create("Slow", 600).await;
    let after = Scrape::at_least(&bench.scheduler, "scheduler_pending_pods{queue=\"active\"}", 501.0).await;
    vec![alone(before), alone(after)]
}

/// The plugin takes some ten milliseconds for each of many waiting pods at each event.
pub(super) async fn out_of_time() -> Vec<Moment> {
    const PODS: usize = 50;
    const COUNTER: &str = "berth_plugin_out_of_time_total{plugin=\"SlowHint\"}";
    let guest = Guest::new("SlowHint", At::PreFilter, slow_hint("SlowHint").expect("a component"));
    let limits = "{callMilliseconds: 5000, millisecondsPerSecond: 100, burstMilliseconds: 200}";
    let bench = start(vec![guest], &format!("plugins:\n- {{name: SlowHint, limits: {limits}}}\n")).await;
    let before = Scrape::when(&bench.scheduler, |scrape| scrape.has(COUNTER)).await;
    bench.create("SlowHint", PODS).await;
    let are_rejected = |seen: &Seen| (0..PODS).all(|number| seen.messages.contains_key(&name_of("SlowHint", number)));
    bench.cluster.until("rejections", are_rejected).await;
    // The binding of each of these pods is an event.
    bench.binds_healthy(20).await;
    let after = Scrape::at_least(&bench.scheduler, COUNTER, before.sum(COUNTER) + 10.0).await;
    vec![alone(before), alone(after)]
}

/// Each plugin stays within its own time, and all together use all the time of the thread.
pub(super) async fn plugins_share_spent() -> Vec<Moment> {
    let names = ["SlowA", "SlowB", "SlowC", "SlowD"];
    let bench = start(names.map(slow).into(), "").await;
    let before = Scrape::of(&bench.scheduler).await;
    let pods = (0..100).flat_map(|number| names.map(|name| pod_of(name, number)));
    let after = spent_while_others_come(&bench, pods, "berth_plugins_share_spent_total").await;
    vec![alone(before), alone(after)]
}

/// Claims of one namespace have selectors that are made to be slow.
pub(super) async fn namespace_share_spent() -> Vec<Moment> {
    let bench = selectors::start().await;
    let before = Scrape::of(&bench.scheduler).await;
    let counter = "berth_namespace_share_spent_total{namespace=\"default\"}";
    let after = spent_while_others_come(&bench, selectors::consumers(), counter).await;
    vec![alone(before), alone(after)]
}

/// Creates pods that take much time. Returns the scrape in which the counter has grown. A share is spent only while
/// other pods wait, so healthy pods keep coming.
async fn spent_while_others_come(bench: &Bench, slow: impl IntoIterator<Item = Value>, counter: &str) -> Scrape {
    let healthy = async {
        for number in 0.. {
            bench.cluster.create(&pod_of("healthy", number)).await;
            bench.cluster.node_of(&name_of("healthy", number)).await;
        }
    };
    let pods = async {
        tokio::join!(bench.cluster.create_all(slow), healthy);
    };
    tokio::select! {
        after = Scrape::at_least(&bench.scheduler, counter, 1.0) => after,
        () = pods => panic!("pods keep coming"),
    }
}
