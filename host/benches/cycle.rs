//! One scheduling cycle, from PreFilter to the choice of a node, at 100, 1,000 and 5,000 nodes, native and through
//! components.
//!
//! `cargo bench -p berth-host --bench cycle`. The cycle filters and scores every node (no sampling), so the figures
//! show the cost of a node. Before each cycle, one pod comes to a node or leaves the node, as in a running cluster. The
//! cycle includes the time in which the replicas get this change. After divan's table the benchmark prints the medians
//! side by side, with their ratios.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a benchmark stops where its set-up fails, and prints")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use berth_framework::{
    CycleId, PluginFactory,
    profile::Profile,
    run::{self, Attempt, NominatedPods, SearchRange},
};
use berth_model::{Pod, api};
use berth_testing::{TestCluster, node, pod};
use berth_wasm_host::{Binary, Engine, EngineOptions};
use divan::Bencher;
use serde_json::json;

const SIZES: [u32; 3] = [100, 1_000, 5_000];

const WEIGHTS: [(&str, i64); 2] = [("TaintToleration", 3), ("NodeAffinity", 2)];

fn main() {
    divan::main();
    compare();
}

#[divan::bench(args = SIZES)]
fn native(bencher: Bencher<'_, '_>, n_nodes: u32) {
    let mut cluster = BenchCluster::new(n_nodes, native_profile());
    bencher.bench_local(|| cluster.cycle());
}

#[divan::bench(args = SIZES)]
fn wasm(bencher: Bencher<'_, '_>, n_nodes: u32) {
    let mut cluster = BenchCluster::new(n_nodes, wasm_profile());
    bencher.bench_local(|| cluster.cycle());
}

fn native_profile() -> Profile {
    profile(berth_builtins::factories())
}

fn wasm_profile() -> Profile {
    let engine = Engine::new(EngineOptions::default()).expect("an engine");
    let load = |factory: &Arc<dyn PluginFactory>| {
        let name = factory.manifest().name.as_str();
        let component = berth_components::COMPONENTS.iter().find(|component| component.name == name);
        let component = component.expect("every built-in plugin is embedded");
        Arc::new(engine.load(&Binary::new(name, component.bytes())).expect("a built-in component")) as _
    };
    profile(berth_builtins::factories().iter().map(load).collect())
}

fn profile(factories: Vec<Arc<dyn PluginFactory>>) -> Profile {
    let mut profile = Profile::new("default-scheduler");
    for factory in factories {
        let idx = profile.add_everywhere(factory.build("null").expect("default args"), "null");
        let weight = WEIGHTS.iter().find(|(name, _)| *name == factory.manifest().name);
        profile.plugins.set_weight(idx, weight.map_or(1, |(_, weight)| *weight));
    }
    profile
}

/// The nodes, a pod that is scheduled again and again, and one more pod that changes one node before each cycle.
struct BenchCluster {
    cluster: TestCluster,
    profile: Profile,
    pod: Pod,
    filler: Arc<Pod>,
    attempt: Attempt,
    cycle: u64,
}

impl BenchCluster {
    fn new(n_nodes: u32, profile: Profile) -> Self {
        let mut cluster = TestCluster::default();
        for index in 0..n_nodes {
            cluster.set_node(&bench_node(index));
        }
        cluster.settle();
        let pod = cluster.intern(&bench_pod("incoming", ""));
        let filler = Arc::new(cluster.intern(&bench_pod("filler", "node-00001")));
        Self { cluster, profile, pod, filler, attempt: Attempt::default(), cycle: 0 }
    }

    fn cycle(&mut self) -> Option<berth_model::NodeIdx> {
        self.cycle += 1;
        if self.cycle.is_multiple_of(2) {
            self.cluster.remove_pod(&self.filler.uid);
        } else {
            self.cluster.cache_mut().add_pod(Arc::clone(&self.filler)).expect("the filler is not there");
        }
        self.cluster.settle();
        self.attempt.clear();
        self.profile.sync(self.cluster.cache()).expect("replicas follow");
        let call = self.cluster.call(self.cycle, &self.pod);
        run::pre_filter(&mut self.profile, &call, &mut self.attempt).expect("pre-filter");
        run::list_candidates(&call, self.cluster.cache().order(), &mut self.attempt);
        let all = SearchRange { start: 0, n_wanted: usize::MAX };
        run::filter(&mut self.profile, &call, all, &NominatedPods::default(), &mut self.attempt).expect("filter");
        run::score(&mut self.profile, &call, &mut self.attempt).expect("score");
        let chosen = self.attempt.choose();
        self.profile.end_cycle(CycleId(self.cycle));
        assert!(chosen.is_some(), "the pod fits somewhere");
        chosen
    }
}

fn bench_node(index: u32) -> api::Node {
    let name = format!("node-{index:05}");
    let labelled = node(&name)
        .label("kubernetes.io/hostname", &name)
        .label("topology.kubernetes.io/zone", &format!("zone-{}", index % 3))
        .label("disktype", if index.is_multiple_of(2) { "ssd" } else { "hdd" });
    let sized = labelled.allocatable("cpu", "16").allocatable("memory", "64Gi").image("example.com/web:1", 300_000_000);
    let is_tainted = index.is_multiple_of(10);
    if is_tainted { sized.taint("example.com/batch", "true", "PreferNoSchedule").build() } else { sized.build() }
}

fn bench_pod(name: &str, node_name: &str) -> api::Pod {
    let zone = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-1"]});
    let preferred = json!([{"weight": 10, "preference": {"matchExpressions": [zone]}}]);
    let containers = json!([{"name": "main", "image": "example.com/web:1",
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}}}]);
    pod(name)
        .on(node_name)
        .spec("nodeSelector", json!({"disktype": "ssd"}))
        .spec("affinity", json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}))
        .spec("containers", containers)
        .build()
}

/// Prints the medians of both executions side by side.
fn compare() {
    println!("{:>6}  {:>12}  {:>12}  {:>12}", "nodes", "native", "wasm", "wasm/native");
    for n_nodes in SIZES {
        let native = median(&mut BenchCluster::new(n_nodes, native_profile()));
        let wasm = median(&mut BenchCluster::new(n_nodes, wasm_profile()));
        let ratio = wasm.as_secs_f64() / native.as_secs_f64();
        println!("{n_nodes:>6}  {native:>12.1?}  {wasm:>12.1?}  {ratio:>12.2}");
    }
}

fn median(cluster: &mut BenchCluster) -> Duration {
    let mut times: Vec<Duration> = (0..300)
        .map(|_| {
            let start = Instant::now();
            cluster.cycle();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}
