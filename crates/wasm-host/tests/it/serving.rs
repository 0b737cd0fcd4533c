//! A plugin that behaves correctly.

use berth_framework::Plugin;
use berth_model::{Pod, Time};
use berth_test_guests::Behavior;
use berth_wasm_host::Binary;

use crate::cluster::{Cluster, build, by_priority, engine};

#[test]
fn the_replica_is_filled_once_and_the_pod_shown_once_a_cycle() {
    let factory = by_priority(&engine());
    let mut plugin = build(&factory);
    let cluster = Cluster::new(5);
    for cycle in 1..=10 {
        assert_eq!(cluster.try_cycle(&mut *plugin, cycle, Behavior::Normal).unwrap(), [5; 5]);
    }
    let stats = factory.stats();
    assert_eq!(stats.resyncs(), 1);
    assert_eq!(stats.custom(), [("begun".to_owned(), 10)].into());
    // The first calls are describe, configure and sync. Then come begin, filter, score and end for each cycle.
    assert_eq!(stats.calls(), 3 + 10 * 4);
    assert_eq!(stats.answers(), 10 * 3, "its begin, filter and score are about a pod");
    assert!(stats.memory_bytes() >= 65536);
}

#[test]
fn an_empty_answer_about_no_nodes_is_right() {
    let mut plugin = build(&by_priority(&engine()));
    let scores = Cluster::new(0).try_cycle(&mut *plugin, 1, Behavior::Normal).unwrap();
    assert!(scores.is_empty());
}

#[test]
fn time_is_what_the_host_says() {
    let engine = engine();
    engine.set_now(1_700_000_000_123);
    let mut plugin = build(&by_priority(&engine));
    assert_eq!(Cluster::new(1).try_cycle(&mut *plugin, 1, Behavior::ScoreWithTime).unwrap(), [1_700_000_000_123]);
}

/// Callers without a clock, such as the runner of golden cases, give the engine no time.
#[test]
fn the_time_of_the_cycle_is_seen_by_components_as_by_native_plugins() {
    let mut plugin = build(&by_priority(&engine()));
    let cluster = Cluster::new(1).at(Time(1_800_000_000_456));
    assert_eq!(cluster.try_cycle(&mut *plugin, 1, Behavior::ScoreWithTime).unwrap(), [1_800_000_000_456]);
}

#[test]
fn log_lines_beyond_the_rate_are_dropped_and_counted() {
    let factory = by_priority(&engine());
    let mut plugin = build(&factory);
    Cluster::new(1).try_cycle(&mut *plugin, 1, Behavior::LogMuch).unwrap();
    let dropped = factory.stats().dropped_log_lines();
    assert!((900..1000).contains(&dropped), "{dropped}");
}

#[test]
fn a_pod_as_json_is_shown_to_those_who_asked_for_it() {
    for (bytes, n_shown) in [
        (berth_test_guests::wants_pod_json("WantsPodJson"), Some(1)),
        (berth_test_guests::by_priority_named("WantsPodJson"), None),
    ] {
        let factory = engine().load(&Binary::new("WantsPodJson", bytes.unwrap())).unwrap();
        let mut plugin = build(&factory);
        let cluster = Cluster::new(1);
        plugin.sync(cluster.cache()).unwrap();
        let pod = Pod { json: Some(b"{}".as_slice().into()), ..Pod::default() };
        plugin.filter().unwrap().filter(&cluster.call(1, &pod), &mut cluster.nodes().clone()).unwrap();
        assert_eq!(factory.stats().custom().get("whole").copied(), n_shown);
    }
}

/// Pods that are alike. The first pod is always passed to the plugin, because the question is not worth its cost for a
/// pod that is unlike all others.
#[test]
fn a_plugin_that_has_nothing_to_do_with_pods_is_not_asked_to_let_them_in() {
    let binary = Binary::new("Unconcerned", berth_test_guests::unconcerned("Unconcerned").unwrap());
    let factory = engine().load(&binary).unwrap();
    let mut plugin = build(&factory);
    let cluster = Cluster::new(1);
    plugin.sync(cluster.cache()).unwrap();
    let mut enters = |uid: &str, priority| {
        let pod = Pod { uid: uid.into(), priority, ..Pod::default() };
        plugin.pre_enqueue().unwrap().pre_enqueue(&pod, cluster.table()).is_success()
    };
    assert!(enters("a", 1));
    let n_calls = factory.stats().calls();
    assert!(enters("b", 1), "it would trap now");
    assert_eq!(factory.stats().calls(), n_calls + 3, "begin, reach-of and end");
    assert!((0..10).all(|number| enters(&format!("c{number}"), 1)));
    assert_eq!(factory.stats().calls(), n_calls + 3);
    assert!(!enters("d", 2), "it is asked about another shape");
}

#[test]
fn a_plugin_does_not_hear_of_pods_on_nodes_that_make_no_difference_to_it() {
    let binary = Binary::new("Unconcerned", berth_test_guests::unconcerned("Unconcerned").unwrap());
    let factory = engine().load(&binary).unwrap();
    let pod = |uid: &str, priority| Pod { uid: uid.into(), priority, ..Pod::default() };
    // `reach-of` is called for the second of two pods that are alike. The last pod is passed on, together with the pods
    // before it.
    let told_of = |placed: Pod| {
        let (mut cluster, mut plugin) = (Cluster::new(1), build(&factory));
        let enters = |plugin: &mut dyn Plugin, cluster: &Cluster, pod: &Pod| {
            plugin.sync(cluster.cache()).unwrap();
            plugin.pre_enqueue().unwrap().pre_enqueue(pod, cluster.table()).message().to_owned()
        };
        assert_eq!(["a", "b"].map(|uid| enters(&mut *plugin, &cluster, &pod(uid, 1))), ["", ""]);
        cluster.place(placed);
        enters(&mut *plugin, &cluster, &pod("c", 2))
    };
    let (left_out, heard_of) = (told_of(pod("placed", 1)), told_of(pod("placed", 3)));
    assert!(left_out.contains("trapped in pre-enqueue"), "{left_out}");
    assert!(heard_of.contains("trapped in sync"), "{heard_of}");
}
