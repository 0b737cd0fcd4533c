//! What becomes of a plugin that uses up its share of the scheduling thread.

use std::time::Duration;

use berth_framework::{Code, Plugin, Share};
use berth_model::{NodeIdx, Pod};
use berth_test_guests::Behavior;
use berth_wasm_host::{Binary, ComponentFactory, Engine, EngineOptions, Limits, WhenNotAsked};

use crate::cluster::{Cluster, build};

/// A plugin with a few milliseconds that never come back.
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
    assert_eq!(factory.stats().calls(), n_calls + 1, "what it reserved is undone");
}
