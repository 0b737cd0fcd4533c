//! Plugins are replaced while pods are on their way.

use std::sync::Arc;

use berth_framework::PermitVerdict;

use super::kit::{Bench, Factory, bind_finished, binds, pod};
use crate::{Action, Event};

fn ready(bench: &mut Bench, version: &str, works: bool) -> Result<String, String> {
    let factory = Factory::new(version, &bench.script, works);
    bench.event(Event::PluginReady { name: "Fake".to_owned(), factory });
    let swapped = bench.scheduler.drain_effects().into_iter().find_map(|action| match action {
        Action::PluginSwapped { result, .. } => Some(result.map(|version| version.version)),
        _ => None,
    });
    swapped.expect("a profile uses it")
}

#[test]
fn the_new_binary_learns_of_pods_on_their_way() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.permit = Some(PermitVerdict::Wait(60_000)));
    bench.apply(pod("waiting", 1));
    bench.settle();
    bench.script(|script| script.permit = None);
    bench.apply(pod("sent", 1));
    let sent = bench.settle();
    bench.script(|script| script.calls.clear());
    assert_eq!(ready(&mut bench, "2", true), Ok("2".to_owned()));
    assert_eq!(bench.script(|script| script.calls.clone()), ["2 reserve sent 0", "2 reserve waiting 0"]);
    assert_eq!(bench.scheduler.plugins()[0].1[0].version, "2");
    bench.event(bind_finished(&sent, "sent", Ok(())));
    assert!(bench.script(|script| script.calls.contains(&"2 post-bind sent".to_owned())));
}

#[test]
fn a_binary_that_cannot_be_built_leaves_the_old_one() {
    let mut bench = Bench::with_nodes(1, 4);
    assert_eq!(ready(&mut bench, "2", false), Err("bad arguments".to_owned()));
    assert_eq!(bench.scheduler.plugins()[0].1[0].version, "1");
    bench.apply(pod("a", 1));
    assert_eq!(binds(&bench.settle()).len(), 1);
}

#[test]
fn pods_that_the_old_binary_turned_down_are_tried_again() {
    let mut bench = Bench::with_nodes(1, 1);
    bench.apply(pod("big", 2));
    bench.settle();
    assert_eq!(bench.scheduler.metrics().pending_pods.unschedulable, 1);
    ready(&mut bench, "2", true).expect("it works");
    let before = bench.scheduler.metrics().attempts.values().sum::<u64>();
    bench.advance(15_000);
    bench.settle();
    assert_eq!(bench.scheduler.metrics().attempts.values().sum::<u64>(), before + 1);
}

#[test]
fn other_profiles_take_over() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.event(Event::ProfilesChanged(Vec::new()));
    bench.apply(pod("a", 1));
    assert!(bench.settle().is_empty());
    let mut profile = berth_framework::Profile::new("berth");
    let fake = super::kit::Fake::new("Fake", "3", &Arc::clone(&bench.script));
    profile.add_everywhere(Box::new(fake), "null");
    bench.event(Event::ProfilesChanged(vec![profile]));
    assert_eq!(binds(&bench.settle()).len(), 1);
}
