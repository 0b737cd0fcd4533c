//! Equivalent pods share the results of the first of these pods.

use super::kit::{Bench, binds, node, pod};
use crate::Event;

fn signing(n_nodes: usize, cpu: u32) -> Bench {
    let bench = Bench::with_nodes(n_nodes, cpu);
    bench.script(|script| script.signs = true);
    bench
}

/// The count of each result or reason.
fn counted(counts: &std::collections::BTreeMap<(String, &'static str), u64>) -> Vec<(&'static str, u64)> {
    counts.iter().map(|((_, what), count)| (*what, *count)).collect()
}

#[test]
fn full_nodes_hand_the_next_pod_on_without_scores() {
    let mut bench = signing(4, 1);
    let mut unsigned = Bench::with_nodes(4, 1);
    for name in ["a", "b", "c", "d"] {
        bench.apply(pod(name, 1));
        unsigned.apply(pod(name, 1));
    }
    // Equal nodes come in the order of the heap.
    let placed =
        [("a", "n0"), ("b", "n3"), ("c", "n2"), ("d", "n1")].map(|(pod, node)| (pod.to_owned(), node.to_owned()));
    assert_eq!(binds(&bench.settle()), placed);
    assert_eq!(binds(&unsigned.settle()).len(), 4);
    let metrics = bench.scheduler.metrics().batching;
    assert_eq!(counted(&metrics.attempts), [("hint_used", 3), ("no_hint", 1)]);
    assert_eq!(bench.script(|script| script.n_scored), 1);
    assert_eq!(unsigned.script(|script| script.n_scored), 3, "the last pod has one node to go to");
    let metrics = unsigned.scheduler.metrics().batching;
    assert_eq!(counted(&metrics.attempts), [("no_hint", 4)]);
    assert_eq!(counted(&metrics.flushes), [("empty_list", 1), ("pod_not_batchable", 3)]);
}

#[test]
fn a_node_with_room_may_still_be_the_best() {
    let mut bench = signing(2, 4);
    bench.apply(pod("a", 1));
    bench.apply(pod("b", 1));
    assert_eq!(binds(&bench.settle()).len(), 2);
    let metrics = bench.scheduler.metrics().batching;
    assert_eq!(counted(&metrics.attempts), [("no_hint", 2)]);
    assert_eq!(counted(&metrics.flushes), [("node_not_full", 1)]);
    assert_eq!(bench.script(|script| script.n_scored), 2);
}

#[test]
fn a_hint_that_does_not_hold_costs_only_a_look() {
    let mut bench = signing(3, 1);
    bench.apply(pod("a", 1));
    assert_eq!(binds(&bench.settle()), [("a".to_owned(), "n0".to_owned())]);
    // The second-best node shrinks.
    bench.event(Event::NodeApplied(Box::new(node("n2", 0))));
    bench.apply(pod("b", 1));
    assert_eq!(binds(&bench.settle()), [("b".to_owned(), "n1".to_owned())]);
    assert_eq!(counted(&bench.scheduler.metrics().batching.attempts), [("hint_not_used", 1), ("no_hint", 1)]);
}

#[test]
fn what_breaks_a_batch() {
    type Interruption = fn(&mut Bench);
    let cases: [(&str, u64, Interruption); 5] = [
        ("pod_incompatible", 1, |bench| bench.apply(pod("other", 2))),
        ("expired", 1, |bench| {
            bench.advance(501);
            bench.apply(pod("late", 1));
        }),
        ("node_missing", 1, |bench| {
            bench.event(Event::NodeDeleted { name: "n0".to_owned() });
            bench.apply(pod("b", 1));
        }),
        ("pod_failed", 1, |bench| {
            bench.script(|script| script.broken_filter = true);
            bench.apply(pod("b", 1));
        }),
        // The batch ends, and this pod begins no batch.
        ("pod_not_batchable", 2, |bench| {
            bench.script(|script| script.signs = false);
            bench.apply(pod("b", 1));
        }),
    ];
    for (reason, n_flushes, interrupt) in cases {
        let mut bench = signing(3, 1);
        bench.apply(pod("a", 1));
        bench.settle();
        interrupt(&mut bench);
        bench.settle();
        assert_eq!(counted(&bench.scheduler.metrics().batching.flushes), [(reason, n_flushes)]);
    }
}

#[test]
fn another_binary_ranks_anew() {
    let mut bench = signing(3, 1);
    bench.apply(pod("a", 1));
    bench.settle();
    bench.swap("2");
    bench.apply(pod("b", 1));
    bench.settle();
    assert_eq!(counted(&bench.scheduler.metrics().batching.attempts), [("no_hint", 2)]);
}
