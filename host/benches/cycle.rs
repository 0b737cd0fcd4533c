//! One scheduling cycle, from PreFilter to the choice of a node, at 100, 1,000 and 5,000 nodes, native and through
//! components.
//!
//! `cargo bench -p berth-host --bench cycle`. Every node is looked at and scored (no sampling), so the figures say what a
//! node costs. Between two cycles one pod is added to one node, as in a running cluster; catching the replicas up with
//! it is part of the cycle. After divan's table the medians are set side by side, with their ratios.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a benchmark stops where its set-up fails, and prints")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use berth_cache::Cache;
use berth_framework::{
    Call, CycleId, PluginFactory,
    profile::Profile,
    run::{self, Attempt, NominatedPods},
};
use berth_model::{Pod, api, intern};
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
    let mut cluster = Cluster::new(n_nodes, native_profile());
    bencher.bench_local(|| cluster.cycle());
}

#[divan::bench(args = SIZES)]
fn wasm(bencher: Bencher<'_, '_>, n_nodes: u32) {
    let mut cluster = Cluster::new(n_nodes, wasm_profile());
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
        Arc::new(engine.load(&Binary::new(name, component.bytes)).expect("a built-in component")) as _
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

/// Nodes, a pod that is scheduled over and over, and one more pod that makes one node change.
struct Cluster {
    cache: Cache,
    profile: Profile,
    pod: Pod,
    filler: Arc<Pod>,
    attempt: Attempt,
    cycle: u64,
}

impl Cluster {
    fn new(n_nodes: u32, profile: Profile) -> Self {
        let mut cache = Cache::new();
        for index in 0..n_nodes {
            let node: api::Node = serde_json::from_value(json!({
                "metadata": {"name": format!("node-{index:05}"), "labels": {
                    "kubernetes.io/hostname": format!("node-{index:05}"),
                    "topology.kubernetes.io/zone": format!("zone-{}", index % 3),
                    "disktype": if index % 2 == 0 { "ssd" } else { "hdd" },
                }},
                "spec": {"taints": if index % 10 == 0 {
                    json!([{"key": "example.com/batch", "value": "true", "effect": "PreferNoSchedule"}])
                } else { json!([]) }},
                "status": {
                    "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"},
                    "images": [{"names": ["example.com/web:1"], "sizeBytes": 300_000_000}],
                },
            }))
            .expect("a node");
            let node = intern::node(&node, cache.symbols_mut());
            cache.set_node(node);
        }
        cache.settle();
        let pod = pod("incoming", "", &mut cache);
        let filler = Arc::new(self::pod("filler", "node-00001", &mut cache));
        Self { cache, profile, pod, filler, attempt: Attempt::default(), cycle: 0 }
    }

    fn cycle(&mut self) -> Option<berth_model::NodeIdx> {
        self.cycle += 1;
        if self.cycle.is_multiple_of(2) {
            self.cache.remove_pod(&self.filler.uid);
        } else {
            self.cache.add_pod(Arc::clone(&self.filler)).expect("the filler is not there");
        }
        self.cache.settle();
        self.attempt.clear();
        self.profile.sync(&self.cache).expect("replicas follow");
        let call = Call { cycle: CycleId(self.cycle), pod: &self.pod, table: self.cache.table() };
        run::pre_filter(&mut self.profile, &call, &mut self.attempt).expect("pre-filter");
        run::list_candidates(&call, self.cache.order(), &mut self.attempt);
        let all = (0, usize::MAX);
        run::filter(&mut self.profile, &call, all, &NominatedPods::default(), &mut self.attempt).expect("filter");
        run::score(&mut self.profile, &call, &mut self.attempt).expect("score");
        let chosen = run::select(&self.attempt.feasible_order, &self.attempt.feasible, &self.attempt.totals);
        self.profile.end_cycle(CycleId(self.cycle));
        assert!(chosen.is_some(), "the pod fits somewhere");
        chosen
    }
}

fn pod(name: &str, node_name: &str, cache: &mut Cache) -> Pod {
    let pod: api::Pod = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {
            "nodeName": node_name,
            "nodeSelector": {"disktype": "ssd"},
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                "weight": 10,
                "preference": {"matchExpressions": [
                    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-1"]},
                ]},
            }]}},
            "containers": [{"name": "main", "image": "example.com/web:1",
                "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}}}],
        },
    }))
    .expect("a pod");
    intern::pod(&pod, cache.symbols_mut())
}

/// Medians side by side.
fn compare() {
    println!("{:>6}  {:>12}  {:>12}  {:>12}", "nodes", "native", "wasm", "wasm/native");
    for n_nodes in SIZES {
        let native = median(&mut Cluster::new(n_nodes, native_profile()));
        let wasm = median(&mut Cluster::new(n_nodes, wasm_profile()));
        let ratio = wasm.as_secs_f64() / native.as_secs_f64();
        println!("{n_nodes:>6}  {native:>12.1?}  {wasm:>12.1?}  {ratio:>12.2}");
    }
}

fn median(cluster: &mut Cluster) -> Duration {
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
