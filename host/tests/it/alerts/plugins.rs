//! Plugins that fault, are refused, or miss an event.

use std::fs;

use berth_test_guests::{Behavior, misses_an_event as guest_that_misses_an_event};
use serde_json::json;

use super::prometheus::{Moment, Scrape, alone};
use crate::{
    cluster::{Cluster, pod},
    plugin_life::{Bench, PLUGIN_CONFIG, TRAPPING, digest, place},
};

/// The scrape of a plugin that serves and has not faulted.
async fn before(bench: &Bench) -> Scrape {
    Scrape::when(&bench.scheduler, |scrape| scrape.has("berth_plugin_faults_total{")).await
}

pub(super) async fn quarantined() -> Vec<Moment> {
    let bench = Bench::start_serving(PLUGIN_CONFIG).await;
    let before = before(&bench).await;
    for name in TRAPPING {
        bench.create(name, Behavior::Trap).await;
    }
    let after = Scrape::at_least(&bench.scheduler, "berth_plugin_quarantines_total{", 1.0).await;
    vec![alone(before), alone(after)]
}

/// The plugin faults over many pods, and quarantine is far away.
pub(super) async fn faults() -> Vec<Moment> {
    let bench = Bench::start_serving(&PLUGIN_CONFIG.replace("faults: 3,", "faults: 1000,")).await;
    let before = before(&bench).await;
    for number in 0..12 {
        bench.create(&format!("trapping-{number}"), Behavior::Trap).await;
    }
    let after = Scrape::at_least(&bench.scheduler, "berth_plugin_faults_total{kind=\"trap\"", 4.0).await;
    vec![alone(before), alone(after)]
}

/// The first fault on probation brings the version before back.
pub(super) async fn rolled_back() -> Vec<Moment> {
    let bench = Bench::start(PLUGIN_CONFIG).await;
    for version in [1, 2] {
        bench.put(version);
        bench.serves(&digest(version)).await;
    }
    let before = before(&bench).await;
    bench.create("trapping", Behavior::Trap).await;
    let swaps = "berth_plugin_swaps_total{plugin=\"ByPriority\",result=\"rolled_back\"}";
    let after = Scrape::at_least(&bench.scheduler, swaps, 1.0).await;
    vec![alone(before), alone(after)]
}

pub(super) async fn refused() -> Vec<Moment> {
    let bench = Bench::start_serving(PLUGIN_CONFIG).await;
    let before = before(&bench).await;
    place(&bench.file(), b"not a component");
    let swaps = "berth_plugin_swaps_total{plugin=\"ByPriority\",result=\"refused\"}";
    let after = Scrape::at_least(&bench.scheduler, swaps, 1.0).await;
    vec![alone(before), alone(after)]
}

/// One pod makes the plugin fault at each question about it.
pub(super) async fn holds_pods() -> Vec<Moment> {
    let bench = Bench::start_serving(PLUGIN_CONFIG).await;
    let before = before(&bench).await;
    bench.create("poison", Behavior::Trap).await;
    let after = Scrape::at_least(&bench.scheduler, "berth_plugin_held_owners{plugin=\"ByPriority\"}", 1.0).await;
    vec![alone(before), alone(after)]
}

/// The plugin rejects a pod until another pod is placed, but registers only for new nodes. The scheduler flushes pods
/// after one second instead of five minutes; it looks for them every thirty seconds.
pub(super) async fn misses_an_event() -> Vec<Moment> {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let path = |name: &str| cluster.dir.path().join(name);
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        // kube-scheduler ignores --kubeconfig beside --config.
        "clientConnection": {"kubeconfig": cluster.kubeconfig()},
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {"preFilter": {"enabled": [{"name": "MissesAnEvent"}]}},
            },
            {"schedulerName": "without-plugins"},
        ],
    });
    fs::write(path("config.yaml"), config.to_string()).expect("a file");
    fs::create_dir(path("plugins")).expect("a folder");
    place(&path("plugins/MissesAnEvent.wasm"), &guest_that_misses_an_event("MissesAnEvent").expect("a component"));
    let [config, plugins] = ["config.yaml", "plugins"].map(|name| path(name).display().to_string());
    let flags = ["--leader-elect=false", "--pod-max-in-unschedulable-pods-duration=1s"];
    let arguments = [&flags[..], &["--config", &config, "--plugins-dir", &plugins]].concat();
    let scheduler = cluster.kube_scheduler(&arguments).await;
    let before = Scrape::when(&scheduler, |scrape| {
        scrape.has("plugin=\"MissesAnEvent\",profile=\"default-scheduler\",version=")
    })
    .await;

    cluster.create(&pod("waits", "1", "1Gi")).await;
    cluster.until("a rejection", |seen| seen.messages.contains_key("waits")).await;
    let mut other = pod("other", "1", "1Gi");
    other["spec"]["schedulerName"] = json!("without-plugins");
    cluster.create(&other).await;
    cluster.node_of("other").await;
    cluster.node_of("waits").await;
    let after = Scrape::at_least(&scheduler, "scheduler_pod_scheduled_after_flush_total", 1.0).await;
    vec![alone(before), alone(after)]
}
