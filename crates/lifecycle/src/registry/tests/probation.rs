//! New binaries that serve under observation.

use super::*;
use crate::ProbationEnd;

#[test]
fn a_new_binary_that_faults_gives_way_to_the_one_before() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.put("Mine", "a");
    bench.put("Mine", "b");
    assert_eq!(bench.status("Mine").state, PluginState::Probation);
    bench.fault("Mine", "b", 1);
    assert_eq!(bench.serves("Mine"), "b", "one is forgiven");
    bench.fault("Mine", "b", 1);
    assert_eq!(bench.serves("Mine"), "a");
    let reason = "2 faults on probation; the last was: trapped in filter".to_owned();
    assert_eq!(bench.notices, [PluginNoticeKind::RolledBack { digest: digest("b"), to: Some(digest("a")), reason }]);
    assert_eq!(bench.status("Mine").refused_digest, Some(digest("b")), "remembered");
    bench.fault("Mine", "b", 5);
    assert_eq!(bench.serves("Mine"), "a", "faults of the replaced binary no longer count");
    bench.put("Mine", "c");
    assert_eq!(bench.serves("Mine"), "c");
}

#[test]
fn a_component_on_probation_gives_way_to_the_built_in() {
    let mut bench = Bench::new(strict(), &["NodeName"]);
    bench.put("NodeName", "a");
    bench.fault("NodeName", "a", 2);
    assert_eq!(bench.serves("NodeName"), "native");
}

#[test]
fn after_its_probation_a_binary_is_quarantined_instead() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.put("Mine", "a");
    bench.put("Mine", "b");
    bench.advance(60);
    assert_eq!(bench.notices, [PluginNoticeKind::ProbationOver]);
    bench.fault("Mine", "b", 2);
    assert_eq!(bench.serves("Mine"), "b");
    bench.fault("Mine", "b", 1);
    assert!(bench.serves("Mine").contains("out of service"));
}

#[test]
fn a_probation_can_be_a_number_of_calls() {
    // Each of these binaries says that it was called five times.
    for (calls, expected) in [(6, "a"), (5, "b")] {
        let mut policy = strict();
        policy.plugin.probation = Probation { span: ProbationSpan::Calls(calls), faults: 0 };
        let mut bench = Bench::new(policy, &["Mine"]);
        bench.put("Mine", "a");
        bench.put("Mine", "b");
        bench.wait(1);
        bench.fault("Mine", "b", 1);
        assert_eq!(bench.serves("Mine"), expected, "{calls} calls");
    }
}

#[test]
fn a_quarantine_can_come_before_the_probation_is_over() {
    let mut policy = strict();
    policy.plugin.probation.faults = 9;
    let mut bench = Bench::new(policy, &["Mine"]);
    bench.put("Mine", "a");
    bench.put("Mine", "b");
    bench.fault("Mine", "b", 3);
    assert!(bench.serves("Mine").contains("out of service"));
    // Faults of instances that still exist count towards the probation.
    bench.fault("Mine", "b", 7);
    assert_eq!(bench.serves("Mine"), "a");
}

/// A quiet cluster proves nothing about a binary.
#[test]
fn a_probation_does_not_end_while_no_pod_is_tried() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.put("Mine", "a");
    bench.put("Mine", "b");
    bench.wait(3600);
    assert_eq!(bench.status("Mine").state, PluginState::Probation);
    bench.fault("Mine", "b", 1);
    // The pod that met the fault waits for longer than a probation.
    bench.wait(61);
    bench.fault("Mine", "b", 1);
    assert_eq!(bench.serves("Mine"), "a");
}

#[test]
fn a_binary_that_answers_after_its_fault_ends_its_probation() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.put("Mine", "a");
    bench.put("Mine", "b");
    bench.fault("Mine", "b", 1);
    bench.wait(61);
    assert_eq!(bench.status("Mine").state, PluginState::Probation);
    let end = bench.status("Mine").probation_end;
    assert!(matches!(end, Some(ProbationEnd::At { awaits_answer: true, .. })), "{end:?}");
    bench.advance(1);
    assert_eq!(bench.status("Mine").state, PluginState::Serving);
}
