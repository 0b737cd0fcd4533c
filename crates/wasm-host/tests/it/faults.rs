//! A fault costs the call and the instance, never the host.

use std::{sync::mpsc, time::Duration};

use berth_framework::{Code, DryRunCase, Plugin, PluginFactory as _, Point};
use berth_model::Pod;
use berth_test_guests::{ANSWER_ADDRESS, At, Behavior, GuestFault, answers, in_letters};
use berth_wasm_host::{Binary, ComponentFactory, Engine, EngineOptions, FaultKind, FaultSink, Limits};

use crate::cluster::{Cluster, build, by_priority, engine};

/// Checks a behavior after a good cycle: the error has these words, the fault has this kind, and the instance is gone.
/// Another instance of the binary serves.
fn check_fault(behavior: Behavior, kind: FaultKind, words: &str) {
    let factory = by_priority(&engine());
    let mut plugin = build(&factory);
    let cluster = Cluster::new(3);
    assert_eq!(cluster.try_cycle(&mut *plugin, 1, Behavior::Normal).unwrap(), [3, 3, 3]);

    let status = cluster.try_cycle(&mut *plugin, 2, behavior).unwrap_err();
    assert_eq!(status.code, Code::Error);
    let message = status.message();
    assert!(message.starts_with("plugin \"ByPriority\" (1.2.3, "), "{message}");
    assert!(message.contains(words), "{message}");
    assert_eq!(faults(&factory), [kind]);
    assert_eq!(factory.stats().resyncs(), 1);

    let status = cluster.try_cycle(&mut *plugin, 3, Behavior::Normal).unwrap_err();
    assert_eq!(status.code, Code::UnschedulableAndUnresolvable);
    assert!(status.message().contains(words) && status.message().ends_with("; the plugin is being restarted"));
    assert_eq!(plugin.out_of_service(), Some(status));
    assert_eq!(factory.stats().resyncs(), 1, "it is filled elsewhere");
    assert_eq!(cluster.try_cycle(&mut *build(&factory), 4, Behavior::Normal).unwrap(), [3, 3, 3]);
    assert_eq!(faults(&factory), [kind]);
}

fn faults(factory: &ComponentFactory) -> Vec<FaultKind> {
    let stats = factory.stats();
    FaultKind::ALL.into_iter().flat_map(|kind| (0..stats.faults(kind)).map(move |_| kind)).collect()
}

#[test]
fn a_trap_is_told_with_the_last_words() {
    check_fault(Behavior::Trap, FaultKind::Trap, "trapped in filter: a test trap");
}

#[test]
fn an_error_that_is_answered_is_no_fault() {
    let factory = by_priority(&engine());
    let mut plugin = build(&factory);
    let cluster = Cluster::new(3);
    for cycle in 1..=2 {
        let status = cluster.try_cycle(&mut *plugin, cycle, Behavior::Error).unwrap_err();
        assert_eq!((status.code, status.message().as_str()), (Code::Error, ""));
    }
    assert_eq!(cluster.try_cycle(&mut *plugin, 3, Behavior::Normal).unwrap(), [3, 3, 3]);
    assert_eq!(faults(&factory), []);
    assert_eq!((factory.stats().errors(Point::Filter), factory.stats().errors(Point::Score)), (2, 0));
}

/// Each case has a separate status.
#[test]
fn errors_that_a_dry_run_answers_are_counted_case_by_case() {
    // The statuses follow the answer: success, and twice an error without reasons.
    let words = [[0, ANSWER_ADDRESS + 12, 3], [0; 3], [1, 0, 0], [1, 0, 0]];
    let bytes: Vec<u8> = words.into_iter().flatten().flat_map(u32::to_le_bytes).collect();
    let factory = engine().load(&Binary::new("Answers", answers("Answers", At::DryRun).unwrap())).unwrap();
    let mut plugin = factory.build(&in_letters(&bytes)).unwrap();
    let cluster = Cluster::new(3);
    plugin.sync(cluster.cache()).unwrap();
    let pod = Pod::default();
    let call = cluster.call(1, &pod);
    let cases = [DryRunCase::default(), DryRunCase::default(), DryRunCase::default()];
    let statuses = plugin.filter().unwrap().dry_run(&call, &[&pod], &cases).unwrap();
    let codes: Vec<Code> = statuses.iter().map(|status| status.code).collect();
    assert_eq!(codes, [Code::Success, Code::Error, Code::Error]);
    assert_eq!((factory.stats().errors(Point::Filter), faults(&factory)), (2, vec![]));
}

#[test]
fn an_endless_loop_times_out() {
    check_fault(Behavior::Loop, FaultKind::Timeout, "took too long in filter (limit 500 ms)");
}

/// A portion has the time that earlier portions left, so its own limit means nothing to an operator.
#[test]
fn a_full_delta_that_takes_too_long_names_its_setting() {
    let guest = berth_test_guests::faults_at("Slow", At::Sync, GuestFault::Loop).unwrap();
    let factory = engine().load(&Binary::new("Slow", guest)).unwrap();
    let limits = Limits { lifecycle_timeout: Duration::from_millis(200), ..Limits::default() };
    let mut plugin = build(&factory.with_limits(limits));
    let status = plugin.sync(Cluster::new(3).cache()).unwrap_err();
    let told = "took too long in sync (limit 200 ms for all portions of a full delta, lifecycleMilliseconds; ";
    assert!(status.message().contains(told), "{}", status.message());
    assert!(status.message().contains(" ms were left for this one)"), "{}", status.message());
}

#[test]
fn a_hoarder_of_memory_is_stopped() {
    check_fault(Behavior::ExhaustMemory, FaultKind::Memory, "bytes of memory (limit 100663296) in filter");
}

#[test]
fn a_stack_that_is_used_up_is_a_trap() {
    let deep = berth_test_guests::faults_at("Deep", At::Filter, GuestFault::ExhaustStack).unwrap();
    let factory = engine().load(&Binary::new("Deep", deep)).unwrap();
    let cluster = Cluster::new(3);
    let pod = Pod::default();
    for cycle in 1..=2 {
        let mut plugin = build(&factory);
        plugin.sync(cluster.cache()).unwrap();
        let call = cluster.call(cycle, &pod);
        let status = plugin.filter().unwrap().filter(&call, &mut cluster.nodes().clone()).unwrap_err();
        assert!(
            status.message().contains("trapped in filter: wasm trap: call stack exhausted"),
            "{}",
            status.message()
        );
        plugin.end_cycle(call.cycle);
    }
    assert_eq!(faults(&factory), [FaultKind::Trap; 2]);
}

#[test]
fn an_access_below_address_0_is_suspected_to_be_the_stacks() {
    let guest = berth_test_guests::faults_at("Deep", At::Filter, GuestFault::ReadBelow).unwrap();
    let factory = engine().load(&Binary::new("Deep", guest)).unwrap();
    let cluster = Cluster::new(1);
    let mut plugin = build(&factory);
    plugin.sync(cluster.cache()).unwrap();
    let pod = Pod::default();
    let status = plugin.filter().unwrap().filter(&cluster.call(1, &pod), &mut cluster.nodes().clone()).unwrap_err();
    let message = status.message();
    assert!(message.contains("trapped in filter: wasm trap: out of bounds memory access"), "{message}");
    assert!(message.contains("(the address is just below 0: did the component's stack overflow?)"), "{message}");
}

#[test]
fn a_method_that_is_left_out_is_asked_for_by_name() {
    let guest = berth_test_guests::faults_at("NoMethod", At::Permit, GuestFault::NoMethod).unwrap();
    let factory = engine().load(&Binary::new("NoMethod", guest)).unwrap();
    let cluster = Cluster::new(1);
    let mut plugin = build(&factory);
    plugin.sync(cluster.cache()).unwrap();
    let pod = Pod::default();
    let node = cluster.nodes().iter().next().unwrap();
    let _ = plugin.permit().unwrap().permit(&cluster.call(1, &pod), node);
    let message = plugin.out_of_service().unwrap().message();
    let expected = "trapped in permit: it called a function that does not exist (wasm trap: uninitialized element); \
                    does the plugin have a method for `permit`, which its plugin.wit exports?";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn a_read_that_was_not_declared_is_kept_and_counted() {
    let factory = by_priority(&engine());
    let cluster = Cluster::new(1);
    for cycle in 1..=2 {
        cluster.try_cycle(&mut *build(&factory), cycle, Behavior::ReadUndeclared).unwrap();
    }
    let reads: Vec<(String, u64)> = factory.stats().undeclared_reads().into_iter().collect();
    assert_eq!(reads, [("column labels".to_owned(), 2)], "two instances report it");
}

#[test]
fn survivors_are_among_the_candidates() {
    check_fault(
        Behavior::WrongAnswers,
        FaultKind::WrongAnswer,
        "answered filter with nodes that it was not asked about",
    );
}

#[test]
fn an_answer_has_a_size() {
    check_fault(Behavior::HugeAnswer, FaultKind::WrongAnswer, "gave an unreadable answer to filter");
}

#[test]
fn an_error_is_no_success() {
    check_fault(Behavior::ErrorOfSuccess, FaultKind::WrongAnswer, "answered filter with an error with code Success");
}

#[test]
fn an_answer_lies_in_the_plugins_memory() {
    check_fault(Behavior::PointerOutside, FaultKind::WrongAnswer, "gave an unreadable answer to filter");
}

#[test]
fn there_is_one_score_a_node() {
    let factory = by_priority(&engine());
    let mut plugin = build(&factory);
    let cluster = Cluster::new(3);
    plugin.sync(cluster.cache()).unwrap();
    let pod = Pod { priority: Behavior::WrongAnswers.priority(), ..Pod::default() };
    let mut scores = Vec::new();
    let status = plugin.score().unwrap().score(&cluster.call(1, &pod), cluster.nodes(), &mut scores).unwrap_err();
    assert!(status.message().ends_with("answered score with 2 scores for 3 asked about"), "{}", status.message());
    assert!(scores.is_empty());
}

#[test]
fn there_is_one_status_a_case() {
    let factory = by_priority(&engine());
    let mut plugin = build(&factory);
    let cluster = Cluster::new(3);
    plugin.sync(cluster.cache()).unwrap();
    let pod = Pod { priority: Behavior::ShortDryRun.priority(), ..Pod::default() };
    let call = cluster.call(1, &pod);
    let status = plugin.filter().unwrap().dry_run(&call, &[&pod], &[DryRunCase::default()]).unwrap_err();
    assert!(status.message().ends_with("answered dry-run with 0 statuses for 1 asked about"), "{}", status.message());
}

#[test]
fn calls_after_a_fault_are_no_faults() {
    let factory = by_priority(&engine());
    let mut plugin = build(&factory);
    let cluster = Cluster::new(3);
    cluster.try_cycle(&mut *plugin, 1, Behavior::Trap).unwrap_err();
    let pod = Pod::default();
    let mut scores = Vec::new();
    let status = plugin.score().unwrap().score(&cluster.call(1, &pod), cluster.nodes(), &mut scores).unwrap_err();
    assert!(status.message().ends_with("a test trap; the plugin is being restarted"), "{}", status.message());
    plugin.end_cycle(cluster.call(1, &pod).cycle);
    assert_eq!(factory.stats().faults(FaultKind::Trap), 1);
}

#[test]
fn one_plugin_faulting_leaves_another_alone() {
    let factory = by_priority(&engine());
    let (mut one, mut other): (Box<dyn Plugin>, Box<dyn Plugin>) = (build(&factory), build(&factory));
    let cluster = Cluster::new(3);
    cluster.try_cycle(&mut *other, 1, Behavior::Normal).unwrap();
    cluster.try_cycle(&mut *one, 2, Behavior::Trap).unwrap_err();
    assert_eq!(cluster.try_cycle(&mut *other, 3, Behavior::Normal).unwrap(), [3; 3]);
    assert_eq!(factory.stats().resyncs(), 2);
}

#[test]
fn faults_are_reported_with_the_binary_that_made_them() {
    let (sender, reports) = mpsc::channel();
    let faults = FaultSink::new(move |report| drop(sender.send(report)));
    let engine = Engine::new(EngineOptions { faults, ..EngineOptions::default() }).unwrap();
    let binary = Binary::new("ByPriority", berth_test_guests::by_priority().unwrap());
    let factory = engine.load(&binary).unwrap();
    let mut plugin = build(&factory);
    let cluster = Cluster::new(3);
    cluster.try_cycle(&mut *plugin, 1, Behavior::Trap).unwrap_err();
    let report = reports.try_recv().unwrap();
    assert_eq!((report.plugin.as_str(), report.digest), ("ByPriority", binary.digest()));
    assert_eq!((report.kind, report.reason.as_str()), (FaultKind::Trap, "trapped in filter: a test trap"));
    assert!(report.pod.is_some(), "the pod of the cycle");

    let mut plugin = build(&factory);
    cluster.try_cycle(&mut *plugin, 2, Behavior::Normal).unwrap();
    plugin.answered_badly("a score of 1000");
    let report = reports.try_recv().unwrap();
    assert_eq!((report.kind, report.reason.as_str()), (FaultKind::WrongAnswer, "answered with a score of 1000"));
    assert!(reports.try_recv().is_err(), "there is one report for each fault");
}

/// The changes belong to other pods than the one about which the plugin is asked.
#[test]
fn a_fault_in_changes_that_waited_names_no_pod() {
    let (sender, reports) = mpsc::channel();
    let faults = FaultSink::new(move |report| drop(sender.send(report)));
    let engine = Engine::new(EngineOptions { faults, ..EngineOptions::default() }).unwrap();
    let binary = Binary::new("TrapsAtNews", berth_test_guests::traps_at_news("TrapsAtNews").unwrap());
    let mut plugin = build(&engine.load(&binary).unwrap());
    let mut cluster = Cluster::new(1);
    let pod = Pod { uid: "asked-about".into(), ..Pod::default() };
    plugin.sync(cluster.cache()).unwrap();
    assert!(plugin.pre_enqueue().unwrap().pre_enqueue(&pod, cluster.table()).is_success());

    cluster.place(Pod { uid: "placed".into(), ..Pod::default() });
    plugin.sync(cluster.cache()).unwrap();
    assert!(reports.try_recv().is_err(), "it is not told before it is asked something");
    let status = plugin.pre_enqueue().unwrap().pre_enqueue(&pod, cluster.table());
    assert!(status.message().contains("trapped in sync"), "{}", status.message());
    let report = reports.try_recv().unwrap();
    assert_eq!((report.kind, report.pod), (FaultKind::Trap, None));
}

/// A restart takes that time again, so it counts as part of the fault.
#[test]
fn a_fault_is_charged_with_the_start_of_its_instance() {
    let (sender, reports) = mpsc::channel();
    let faults = FaultSink::new(move |report| drop(sender.send(report)));
    let engine = Engine::new(EngineOptions { faults, ..EngineOptions::default() }).unwrap();
    let binary = Binary::new("Slow", berth_test_guests::starts_slowly_and_traps("Slow").unwrap());
    let factory = engine.load(&binary).unwrap();
    let cluster = Cluster::new(1);
    for cycle in 1..=2 {
        let mut plugin = build(&factory);
        plugin.sync(cluster.cache()).unwrap();
        let pod = Pod::default();
        let call = cluster.call(cycle, &pod);
        plugin.filter().unwrap().filter(&call, &mut cluster.nodes().clone()).unwrap_err();
        let took = reports.try_recv().unwrap().took;
        assert!(took > Duration::from_millis(50), "a trap takes microseconds: {took:?}");
    }
}
