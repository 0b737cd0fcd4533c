//! One cycle of each built-in plugin alone at 5,000 nodes with 0, 5,000 and 50,000 pods on them, native and wasm.
//!
//! `cargo bench -p berth-host --bench plugins`; options after `--`: `--quick` (100 nodes, 0, 100 and 1,000 pods, few
//! cycles: to try the benchmark in any build profile), `--native`, `-o json`, and names of plugins to measure only
//! those.
//!
//! A cycle begins with the sync of one pod that came to a node or left it. The plugin then answers at each of these
//! points that it implements: PreEnqueue, the sort key, PreFilter, Filter over all nodes (no sampling), PreScore, Score
//! with its normalisation, and Bind. [`scenario`] describes the pod and the pods on nodes, which are chosen so that the
//! plugin has work to do. DefaultPreemption gets a pod that fits nowhere, and its cycle ends with PostFilter. The
//! output shows medians in microseconds, wasm as a multiple of native, and the medians at 50,000 pods as multiples of
//! the medians at 5,000 pods: a time that grows with the pods on nodes is a mistake.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a benchmark stops where its set-up fails, and prints")]

mod cluster;
mod scenario;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use berth_framework::PluginFactory;
use berth_wasm_host::{Binary, Engine, EngineOptions};
use serde_json::{Value, json};

use self::{
    cluster::ScenarioCluster,
    scenario::{SCENARIOS, Scenario},
};

/// The medians of one row of the table, by the number of pods.
type Times = BTreeMap<u32, Duration>;

struct Options {
    n_nodes: u32,
    n_pods: [u32; 3],
    /// A measurement ends after `n_cycles` or after `patience`, whichever comes first.
    n_cycles: usize,
    patience: Duration,
    with_wasm: bool,
    as_json: bool,
    only: Vec<String>,
}

fn main() {
    let options = options();
    let engine = options.with_wasm.then(|| Engine::new(EngineOptions::default()).expect("an engine"));
    let mut rows = Vec::new();
    if !options.as_json {
        print_header(&options);
    }
    for scenario in SCENARIOS {
        if !options.only.is_empty() && !options.only.iter().any(|name| name == scenario.plugin) {
            continue;
        }
        let (mut native, mut wasm) = (Times::new(), Times::new());
        for n_pods in options.n_pods {
            let mut cluster = ScenarioCluster::new(scenario, options.n_nodes, n_pods);
            cluster.serve_with(|name| berth_builtins::factory(name).expect("a built-in plugin"));
            native.extend(median(&mut cluster, &options).map(|median| (n_pods, median)));
            if let Some(engine) = &engine {
                cluster.serve_with(|name| component(engine, name));
                wasm.extend(median(&mut cluster, &options).map(|median| (n_pods, median)));
            }
        }
        if options.as_json {
            rows.push(as_json(scenario, &native, &wasm));
        } else {
            print_row(scenario, &options, &native, &wasm);
        }
    }
    if options.as_json {
        println!("{:#}", json!({"nodes": options.n_nodes, "rows": rows}));
    }
}

fn options() -> Options {
    let mut options = Options {
        n_nodes: 5_000,
        n_pods: [0, 5_000, 50_000],
        n_cycles: 201,
        patience: Duration::from_secs(1),
        with_wasm: true,
        as_json: false,
        only: Vec::new(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // `cargo bench` adds this argument.
            "--bench" => {}
            "--quick" => {
                (options.n_nodes, options.n_pods) = (100, [0, 100, 1_000]);
                (options.n_cycles, options.patience) = (5, Duration::from_millis(100));
            }
            "--native" => options.with_wasm = false,
            "-o" => options.as_json = arguments.next().as_deref() == Some("json"),
            _ => options.only.push(argument),
        }
    }
    options
}

fn component(engine: &Engine, name: &str) -> Arc<dyn PluginFactory> {
    let component = berth_components::COMPONENTS.iter().find(|component| component.name == name);
    let component = component.expect("every built-in plugin is embedded");
    Arc::new(engine.load(&Binary::new(name, component.bytes())).expect("a built-in component"))
}

/// The median time of a cycle. `None` means that a pod that should fit nowhere fits.
fn median(cluster: &mut ScenarioCluster, options: &Options) -> Option<Duration> {
    // The first cycles are not measured: they process all pods and nodes.
    cluster.cycle();
    cluster.cycle();
    let begin = Instant::now();
    let mut times = Vec::new();
    while times.len() < options.n_cycles && (times.len() < 5 || begin.elapsed() < options.patience) {
        times.push(cluster.cycle()?);
    }
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

fn print_header(options: &Options) {
    let [none, some, many] = options.n_pods.map(|n_pods| format!("{n_pods} pods"));
    println!("{} nodes, medians of a cycle in µs", options.n_nodes);
    println!(
        "{:<44}{none:>10}{some:>12}{many:>12}{:>8}{none:>12}{some:>12}{many:>12}{:>8}{:>13}",
        "native | wasm", "growth", "growth", "wasm/native"
    );
}

fn print_row(scenario: &Scenario, options: &Options, native: &Times, wasm: &Times) {
    let mut line = format!("{:<44}", format!("{}: {}", scenario.plugin, scenario.pod));
    for times in [native, wasm] {
        let [none, some, many] = options.n_pods.map(|n_pods| micros(times.get(&n_pods)));
        let growth = ratio(times, times, (options.n_pods[2], options.n_pods[1]));
        line.push_str(&format!("{none:>10}{some:>12}{many:>12}{:>8}  ", or_nothing(growth)));
    }
    let ratio = ratio(wasm, native, (options.n_pods[2], options.n_pods[2]));
    println!("{line}{:>9}", or_nothing(ratio));
}

fn as_json(scenario: &Scenario, native: &Times, wasm: &Times) -> Value {
    let micros = |times: &Times| -> BTreeMap<String, f64> {
        times.iter().map(|(n_pods, time)| (n_pods.to_string(), time.as_secs_f64() * 1e6)).collect()
    };
    json!({"plugin": scenario.plugin, "pod": scenario.pod, "native": micros(native), "wasm": micros(wasm)})
}

fn ratio(above: &Times, below: &Times, (above_at, below_at): (u32, u32)) -> Option<f64> {
    Some(above.get(&above_at)?.as_secs_f64() / below.get(&below_at)?.as_secs_f64())
}

fn or_nothing(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.1}"))
}

fn micros(time: Option<&Duration>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| format!("{:.1}", time.as_secs_f64() * 1e6))
}
