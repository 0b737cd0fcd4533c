//! A plugin that uses up its share of the scheduling thread.

use std::time::Duration;

use berth_framework::{Code, Plugin, Profile, Share};
use berth_model::{NodeIdx, Pod};
use berth_test_guests::Behavior;
use berth_wasm_host::{Binary, ComponentFactory, Engine, EngineOptions, Limits, WhenNotAsked};

use crate::cluster::{Cluster, build, engine};

/// A plugin with a few milliseconds, which are not refilled.
fn with_little_time(when_not_asked: WhenNotAsked) -> ComponentFactory {
    let share = Some(Share { per_second: Duration::ZERO, burst: Duration::from_millis(2) });
    let call_timeout = Duration::from_secs(5);
    let limits = Limits { share, when_not_asked, call_timeout, ..Limits::default() };
    let engine = Engine::new(EngineOptions { limits, ..EngineOptions::default() }).unwrap();
    engine.load(&Binary::new("ByPriority", berth_test_guests::by_priority().unwrap())).unwrap()
}

fn use_up_time(plugin: &mut dyn Plugin, cluster: &Cluster) {
    plugin.has_time().unwrap();
    for cycle in 1..=20 {
        cluster.try_cycle(plugin, cycle, Behavior::Slow).unwrap();
    }
}

#[test]
fn a_plugin_when_not_asked_fails_the_next_attempt() {
    let factory = with_little_time(WhenNotAsked::Fail);
    let (mut plugin, cluster) = (build(&factory), Cluster::new(2));
    use_up_time(&mut *plugin, &cluster);
    let status = plugin.has_time().unwrap_err();
    assert_eq!(status.code, Code::Error);
    assert!(status.message().ends_with("has used up its time, 0 ms of each second"), "{}", status.message());
    assert_eq!(factory.stats().out_of_time(), 1);
    assert!(build(&factory).has_time().is_err(), "all instances of a plugin share its time");
    assert!(plugin.filter().is_some(), "a cycle that has begun goes on");
}

#[test]
fn a_plugin_when_not_asked_is_passed_over_if_pods_may_go_on_without_it() {
    let factory = with_little_time(WhenNotAsked::Pass);
    let (mut plugin, cluster) = (build(&factory), Cluster::new(2));
    use_up_time(&mut *plugin, &cluster);
    let pod = Pod::default();
    let before = cluster.call(100, &pod);
    assert!(plugin.reserve().unwrap().reserve(&before, NodeIdx(0)).is_success());
    plugin.has_time().unwrap();
    assert!(plugin.filter().is_none() && plugin.score().is_none());
    let n_calls = factory.stats().calls();
    let call = cluster.call(101, &pod);
    assert!(plugin.reserve().unwrap().reserve(&call, NodeIdx(0)).is_success());
    plugin.reserve().unwrap().unreserve(&call, NodeIdx(0));
    assert_eq!(factory.stats().calls(), n_calls, "it was not asked");
    plugin.reserve().unwrap().unreserve(&before, NodeIdx(0));
    assert_eq!(factory.stats().calls(), n_calls + 1, "the plugin's reservation is undone");
}

/// Sync is a call as well: a plugin that is passed over takes no time at all.
#[test]
fn a_plugin_that_is_passed_over_is_not_fed() {
    let factory = with_little_time(WhenNotAsked::Pass);
    let (mut plugin, mut cluster) = (build(&factory), Cluster::new(2));
    use_up_time(&mut *plugin, &cluster);
    cluster.add_node("new");
    plugin.has_time().unwrap();
    let n_calls = factory.stats().calls();
    plugin.sync(cluster.cache()).unwrap();
    assert_eq!(factory.stats().calls(), n_calls);
}

/// A pod that came and went within one delta is not seen.
#[test]
fn a_plugin_hears_later_of_pods_that_came_and_went_while_it_had_no_time() {
    let guest = berth_test_guests::follows_pods("Follows").unwrap();
    let factory = engine().load(&Binary::new("Follows", guest)).unwrap();
    let (mut plugin, mut cluster) = (build(&factory), Cluster::new(2));
    assert!(!plugin.keep_changes(cluster.cache()), "a new instance has reserved nothing");
    plugin.sync(cluster.cache()).unwrap();
    let n_calls = factory.stats().calls();
    for name in ["a", "b"] {
        cluster.place_and_remove(name, |cluster| assert!(plugin.keep_changes(cluster.cache())));
    }
    assert_eq!(factory.stats().calls(), n_calls, "it has no time yet");
    assert!(plugin.has_time().unwrap_err().message().ends_with("has not received all added and removed pods yet"));
    plugin.tell_kept_changes();
    assert!(plugin.has_time().is_err());
    plugin.tell_kept_changes();
    plugin.has_time().unwrap();
    cluster.try_cycle(&mut *plugin, 1, Behavior::Normal).unwrap();
    let heard = factory.stats().custom();
    // A delta may name a slot as emptied that contained no pod.
    assert!(heard["placed"] == 2 && heard["removed"] >= 2, "{heard:?}");
}

/// A plugin is passed over until it is next asked for its time, which may happen after the pod has left.
#[test]
fn a_plugin_that_was_passed_over_and_has_time_again_hears_of_a_pod_before_it_leaves() {
    let limits = Limits { when_not_asked: WhenNotAsked::Pass, ..Limits::default() };
    let engine = Engine::new(EngineOptions { limits, ..EngineOptions::default() }).unwrap();
    let guest = berth_test_guests::follows_pods("Follows").unwrap();
    let factory = engine.load(&Binary::new("Follows", guest)).unwrap();
    let (mut profile, mut cluster) = (Profile::new("default-scheduler"), Cluster::new(2));
    let plugin = profile.add_everywhere(build(&factory), "null");
    profile.sync(cluster.cache()).unwrap();
    assert!(profile.get(plugin).unwrap().pass_over());
    cluster.place_and_remove("a", |cluster| profile.show_pods_to_reservers(cluster.cache()));
    profile.have_time().unwrap();
    profile.sync(cluster.cache()).unwrap();
    assert_eq!(factory.stats().custom().get("placed"), Some(&1));
}
