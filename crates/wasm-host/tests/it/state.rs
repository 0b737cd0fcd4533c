//! State that one binary passes to the next.

use berth_framework::Plugin;
use berth_model::{NodeSet, Pod};
use berth_test_guests as guests;
use berth_wasm_host::Binary;

use crate::cluster::{Cluster, build, by_priority, engine};

fn carries_state() -> Box<dyn Plugin> {
    build(&engine().load(&Binary::new("CarriesState", guests::carries_state().unwrap())).unwrap())
}

/// The number of pods that the plugin knows, including the pod of the cycle.
fn pods_seen(plugin: &mut dyn Plugin, cycle: u64) -> i64 {
    let cluster = Cluster::new(1);
    let pod = Pod::default();
    plugin.sync(cluster.cache()).unwrap();
    let mut scores = Vec::new();
    let nodes: NodeSet = cluster.nodes().clone();
    plugin.score().unwrap().score(&cluster.call(cycle, &pod), &nodes, &mut scores).unwrap();
    scores[0]
}

#[test]
fn what_one_instance_knows_another_takes_over() {
    let mut old = carries_state();
    assert_eq!((pods_seen(&mut *old, 1), pods_seen(&mut *old, 2)), (1, 2));
    let state = old.state().unwrap().snapshot();
    let mut new = carries_state();
    new.state().unwrap().restore(&state).unwrap();
    assert_eq!(pods_seen(&mut *new, 3), 3);
}

#[test]
fn a_state_that_is_refused_costs_nothing_but_itself() {
    let mut plugin = carries_state();
    assert_eq!(plugin.state().unwrap().restore(b"not mine").unwrap_err().to_string(), "no state of mine");
    assert_eq!(pods_seen(&mut *plugin, 1), 1);
}

#[test]
fn most_plugins_have_none() {
    let mut plugin = build(&by_priority(&engine()));
    assert!(plugin.state().is_none());
}

#[test]
fn an_instance_that_faulted_has_none() {
    let mut plugin = carries_state();
    pods_seen(&mut *plugin, 1);
    plugin.answered_badly("nonsense");
    assert!(plugin.state().is_none());
}
