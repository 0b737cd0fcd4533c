//! The words of components about their answers: bounded, on one line, and a failure costs the instance.

use berth_framework::{Code, Plugin, PluginFactory as _, Point, Status};
use berth_model::{NodeIdx, Pod};
use berth_test_guests::{Words, explains};
use berth_wasm_host::{Binary, ComponentFactory, FaultKind};

use crate::cluster::{Cluster, build, engine};

fn factory(words: Words) -> ComponentFactory {
    engine().load(&Binary::new("Explains", explains("Explains", words).unwrap())).unwrap()
}

fn said(plugin: &mut dyn Plugin, cluster: &Cluster, cycle: u64, node: Option<NodeIdx>) -> Result<String, Status> {
    plugin.sync(cluster.cache())?;
    let pod = Pod::default();
    let call = cluster.call(cycle, &pod);
    let words = plugin.explain().unwrap().explain(&call, node);
    plugin.end_cycle(call.cycle);
    words
}

#[test]
fn words_are_about_a_pod_or_about_a_pod_on_a_node() {
    let factory = factory(Words::Short);
    assert!(factory.points().iter().eq([Point::PreFilter, Point::Explain]), "{:?}", factory.points());
    let (mut plugin, cluster) = (build(&factory), Cluster::new(1));
    let whole = said(&mut *plugin, &cluster, 1, None);
    assert_eq!(whole.as_deref(), Ok("keeps to itself"), "the line break is a space");
    assert_eq!(said(&mut *plugin, &cluster, 2, Some(NodeIdx(0))).as_deref(), Ok("likes it"));
    let mut silent = build(&self::factory(Words::None));
    assert_eq!(said(&mut *silent, &cluster, 1, None).as_deref(), Ok(""));
}

#[test]
fn a_text_without_end_is_cut() {
    let words = said(&mut *build(&factory(Words::Mebibyte)), &Cluster::new(1), 1, None).unwrap();
    assert_eq!(words, format!("{}...", "x".repeat(1024)));
}

#[test]
fn words_that_fail_cost_the_instance() {
    for (words, kind, told) in [
        (Words::Trap, FaultKind::Trap, "trapped in explain: "),
        (Words::Spin, FaultKind::Timeout, "took too long in explain (limit 500 ms)"),
    ] {
        let factory = factory(words);
        let mut plugin = build(&factory);
        let status = said(&mut *plugin, &Cluster::new(1), 1, None).unwrap_err();
        assert_eq!(status.code, Code::Error);
        assert!(status.message().contains(told), "{}", status.message());
        assert_eq!(factory.stats().faults(kind), 1);
        assert!(plugin.out_of_service().is_some());
    }
}
