//! Runs every workload at a size that takes at most a few seconds.

use super::*;
use crate::{
    run::{first_difference, run_once},
    workload::{Scale, WORKLOADS, Workload},
};

const CONDITIONS: RunConditions =
    RunConditions { percentage_of_nodes_to_score: 0, equivalence_cache: true, rate: None, allocations: None };

fn run(workload: &Workload, n_nodes: usize, n_classes: usize, conditions: &RunConditions) -> Run {
    let mut size = workload.size(Scale::Nodes(n_nodes));
    size.initial = size.initial.min(n_nodes * 4);
    size.measured = size.measured.min(n_nodes / 2).max(10);
    run_once(&mut EngineRunner::native(), workload, size, n_classes, conditions)
        .unwrap_or_else(|error| panic!("{} with {size:?}: {error:#}", workload.name))
}

#[test]
fn every_workload_goes_to_the_same_nodes_with_and_without_equivalence_cache() {
    for workload in WORKLOADS {
        // The scheduler samples nodes in clusters of more than 100 nodes.
        let cases: &[_] = if workload.full.nodes < 5000 { &[(30, 0, 1)] } else { &[(30, 100, 1), (120, 0, 3)] };
        for &(n_nodes, percentage_of_nodes_to_score, n_classes) in cases {
            let [with, without] = [true, false].map(|equivalence_cache| {
                let conditions = RunConditions { percentage_of_nodes_to_score, equivalence_cache, ..CONDITIONS };
                run(workload, n_nodes, n_classes, &conditions)
            });
            let difference = first_difference(&without.placements, &with.placements);
            assert_eq!(difference, None, "{} on {n_nodes} nodes", workload.name);
            assert_eq!(without.engine.unwrap().n_cycles_with_earlier_answers, 0);
        }
    }
}

#[test]
fn equivalent_pods_find_earlier_answers() {
    for name in ["SchedulingBasic", "SchedulingPodAffinity", "TopologySpreading"] {
        let engine = run(Workload::named(name)[0], 100, 3, &CONDITIONS).engine.unwrap();
        assert!(engine.n_cycles_with_earlier_answers * 2 > engine.n_cycles, "{name}: {engine:?}");
    }
}

#[test]
fn nothing_is_kept_for_pods_with_a_volume_each() {
    let engine = run(Workload::named("SchedulingCSIPVs")[0], 50, 1, &CONDITIONS).engine.unwrap();
    assert_eq!(engine.n_cycles_with_earlier_answers, 0, "{engine:?}");
}

#[test]
fn pods_that_come_at_a_rate_are_all_bound_and_timed() {
    let conditions = RunConditions { rate: Some(2000.0), ..CONDITIONS };
    let run = run(Workload::named("SchedulingBasic")[0], 100, 1, &conditions);
    assert_eq!((run.n_pods, run.latencies.len(), run.bound_at.len()), (50, 50, 50));
    assert!(run.wall >= Duration::from_millis(24), "{:?}", run.wall);
}

#[test]
fn a_pod_that_can_be_placed_is_placed_in_each_turn_of_a_storm() {
    let storms = EngineRunner::native().storms(&CONDITIONS, &Cluster::new(60, 1200)).unwrap();
    let n_events: Vec<usize> = storms.iter().map(|storm| storm.events).collect();
    assert_eq!(n_events, [60, 60, 60, 1200, 120, 1200]);
}
