//! Tests that every workload of the benchmark gives the same placement: natively and as components, with and without
//! the reuse of answers for equal pods.

use std::sync::Arc;

use berth_bench::{
    RunConditions,
    engine::{EngineRunner, default_profile},
    run::{first_difference, run_once},
    workload::{Scale, Size, WORKLOADS, Workload},
};
use berth_framework::PluginFactory;
use oracle::Execution as _;

use super::WASM;

/// The size is small enough for the gate, and large enough that pods are equal, that nodes fill up and that three pods
/// are preempted.
fn size(workload: &Workload) -> Size {
    let size = workload.size(Scale::Nodes(8));
    Size { initial: size.initial.min(32), measured: size.measured.min(8), ..size }
}

fn components() -> Vec<Arc<dyn PluginFactory>> {
    let names = berth_bench::engine::plugins();
    names.iter().map(|name| WASM.factory(name).unwrap_or_else(|| panic!("no component is called {name}"))).collect()
}

#[test]
fn every_workload_goes_to_the_same_nodes() {
    let components = components();
    let mut wasm = EngineRunner::new("wasm", Box::new(|| default_profile(&components)));
    let mut native = EngineRunner::native();
    for workload in WORKLOADS {
        let size = size(workload);
        let place = |engine: &mut EngineRunner<'_>, equivalence_cache| {
            let conditions =
                RunConditions { percentage_of_nodes_to_score: 0, equivalence_cache, rate: None, allocations: None };
            run_once(engine, workload, size, 2, &conditions)
                .unwrap_or_else(|error| panic!("{} with {size:?}: {error:#}", workload.name))
                .placements
        };
        let first = place(&mut native, false);
        assert_eq!(first.len(), size.measured, "{}", workload.name);
        let others = [
            ("native with the cache", place(&mut native, true)),
            ("wasm", place(&mut wasm, false)),
            ("wasm with the cache", place(&mut wasm, true)),
        ];
        for (how, other) in others {
            assert_eq!(first_difference(&first, &other), None, "{}, native and {how}", workload.name);
        }
    }
}
