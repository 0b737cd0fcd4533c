//! The consequences of faults besides a quarantine: restarts, and the counting of faults over pods of one owner.

use super::*;

impl Bench {
    fn taken(&mut self, plugin: &str, binary: &str) {
        let consequences = self.registry.taken(&plugin.into(), "main", Some(id(binary)), self.now, &self.policy);
        self.take(consequences);
    }
}

fn of(owner: &str, binary: &str) -> Fault {
    Fault { owner: Some(owner.into()), ..fault(binary) }
}

#[test]
fn a_profile_gets_another_instance_and_nobody_serves_meanwhile() {
    let mut bench = Bench::with_profiles(strict(), &["main", "other"], &["Mine"]);
    bench.put("Mine", "a");
    let consequences = bench.registry.faulted(&"Mine".into(), fault("a"), bench.now, &bench.policy);
    let swaps: Vec<(Vec<String>, Option<BinaryId>)> =
        consequences.swaps.iter().map(|swap| (swap.scheduler_names.clone(), swap.service.id())).collect();
    assert_eq!(swaps, [(vec!["main".to_owned()], None), (vec!["main".to_owned()], Some(id("a")))]);
    bench.take(consequences);
    let (digest, reason) = (digest("a"), "trapped in filter".to_owned());
    let at_once = PluginNoticeKind::Restarting { digest, milliseconds: 0, reason };
    assert!(bench.notices.contains(&at_once), "{:?}", bench.notices);
    assert_eq!((bench.serves("Mine").as_str(), bench.serves_in("Mine", "other").as_str()), ("a", "a"));
}

#[test]
fn restarts_come_later_and_later() {
    let mut policy = strict();
    policy.plugin.quarantine.faults = 100;
    let mut bench = Bench::new(policy, &["Mine", "Lax"]);
    for plugin in ["Mine", "Lax"] {
        bench.establish(plugin, "a");
    }
    for seconds in [0, 1, 2, 4] {
        bench.fault_as("Mine", fault("a"));
        bench.fault_as("Lax", fault("a"));
        if seconds > 0 {
            let waits = "plugin \"Mine\" is being restarted after a fault: trapped in filter";
            assert_eq!((bench.serves("Mine").as_str(), bench.serves("Lax").as_str()), (waits, "skipped"));
            assert_eq!(bench.status("Mine").state, PluginState::Restarting);
            bench.advance(seconds - 1);
            assert_eq!(bench.serves("Mine"), waits);
            bench.advance(1);
        }
        assert_eq!((bench.serves("Mine").as_str(), bench.serves("Lax").as_str()), ("a", "a"), "after {seconds} s");
        bench.taken("Mine", "a");
    }
    bench.advance(60);
    bench.fault_as("Mine", fault("a"));
    assert_eq!(bench.serves("Mine"), "a", "it has done well since");
}

/// A component faults at its first call, so the time between its faults is the time between its restarts.
#[test]
fn restarts_do_not_make_faults_too_rare_to_be_too_many() {
    let mut policy = strict();
    policy.plugin.quarantine = Quarantine { faults: 20, ..policy.plugin.quarantine };
    let mut bench = Bench::new(policy, &["Mine"]);
    bench.establish("Mine", "a");
    for n in 1..=20 {
        assert_eq!(bench.status("Mine").state, PluginState::Serving, "before fault {n}");
        bench.fault_as("Mine", of(&format!("default/{n}"), "a"));
        if n < 20 {
            bench.advance(30);
            bench.taken("Mine", "a");
        }
    }
    assert_eq!(bench.status("Mine").state, PluginState::Quarantined);
}

#[test]
fn a_new_binary_does_not_wait_for_the_restart_of_the_old_one() {
    let mut policy = strict();
    policy.plugin.quarantine.faults = 100;
    let mut bench = Bench::new(policy, &["Mine"]);
    bench.establish("Mine", "a");
    bench.fault_as("Mine", fault("a"));
    bench.fault_as("Mine", fault("a"));
    assert!(bench.serves("Mine").contains("is being restarted"));
    bench.put("Mine", "b");
    assert_eq!(bench.serves("Mine"), "b");
}

#[test]
fn two_faults_a_minute_end_in_a_quarantine() {
    let mut policy = strict();
    policy.plugin.quarantine = Quarantine { faults: 5, window: Duration::from_secs(600), ..policy.plugin.quarantine };
    let mut bench = Bench::new(policy, &["Mine"]);
    // On probation, fewer faults would already be too many.
    bench.establish("Mine", "a");
    for _ in 0..20 {
        bench.fault_as("Mine", fault("a"));
        // The time of the restart does not count.
        bench.advance(5);
        bench.taken("Mine", "a");
        bench.advance(25);
    }
    let is_quarantine = |notice: &&PluginNoticeKind| matches!(notice, PluginNoticeKind::Quarantined { .. });
    let n_quarantines = bench.notices.iter().filter(is_quarantine).count();
    assert!((1..=4).contains(&n_quarantines), "one at each fifth fault: {n_quarantines}");
}

#[test]
fn few_faults_that_take_long_are_too_many() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.establish("Mine", "a");
    let slow = |milliseconds| Fault { milliseconds, ..fault("a") };
    bench.fault_as("Mine", slow(4_000));
    assert_eq!(bench.serves("Mine"), "a");
    bench.fault_as("Mine", slow(1_001));
    let reason = "its faults took 5001 ms within 10 s; the last was: trapped in filter";
    assert_eq!(bench.serves("Mine"), format!("plugin \"Mine\" is out of service: {reason}"));
}

#[test]
fn the_pods_of_one_owner_count_once() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.establish("Mine", "a");
    for _ in 0..50 {
        bench.fault_as("Mine", of("default/one", "a"));
        assert_eq!(bench.serves("Mine"), "a", "and restarts do not wait");
    }
    bench.fault_as("Mine", of("default/two", "a"));
    bench.advance(1);
    assert_eq!(bench.serves("Mine"), "a");
    bench.fault_as("Mine", of("default/three", "a"));
    assert!(bench.serves("Mine").contains("3 faults within 10 s"), "{}", bench.serves("Mine"));
}

#[test]
fn the_pods_of_one_owner_do_not_fail_a_probation() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.put("Mine", "a");
    bench.put("Mine", "b");
    for _ in 0..5 {
        bench.fault_as("Mine", of("default/one", "b"));
    }
    assert_eq!(bench.serves("Mine"), "b");
    bench.fault_as("Mine", of("default/two", "b"));
    assert_eq!(bench.serves("Mine"), "a");
}

/// A restart may take long. The only time in service of a component that faults at its first call is this call.
#[test]
fn a_probation_does_not_end_while_the_component_is_restarted() {
    let mut policy = strict();
    policy.plugin.probation.faults = 3;
    let mut bench = Bench::new(policy, &["Mine"]);
    bench.put("Mine", "a");
    bench.put("Mine", "b");
    for n in 1..=3 {
        assert_eq!(bench.status("Mine").state, PluginState::Probation, "before fault {n}");
        bench.fault_as("Mine", of(&format!("default/{n}"), "b"));
        bench.advance(40);
        bench.taken("Mine", "b");
    }
    bench.fault_as("Mine", of("default/4", "b"));
    assert_eq!(bench.serves("Mine"), "a");
}

#[test]
fn a_new_file_does_not_wipe_out_the_record_of_the_one_before() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.put("Mine", "a");
    bench.fault("Mine", "a", 3);
    bench.remove("Mine");
    bench.put("Mine", "b");
    assert_eq!(bench.serves("Mine"), "b", "it is tried at once");
    bench.fault("Mine", "b", 2);
    let reason = "2 faults on probation; the last was: trapped in filter";
    assert_eq!(bench.serves("Mine"), format!("plugin \"Mine\" is out of service: {reason}"));
    bench.advance(59);
    assert_ne!(bench.serves("Mine"), "b", "twice as long as the one before");
    bench.advance(1);
    assert_eq!(bench.serves("Mine"), "b");
}

/// Each file is tried immediately. If the faults of the previous file were forgotten, the plugin would never be out of
/// service.
#[test]
fn files_that_take_turns_are_charged_with_the_faults_of_all() {
    let mut policy = strict();
    policy.plugin.probation.faults = 9;
    for removes in [false, true] {
        let mut bench = Bench::new(Policy { plugin: policy.plugin, ..strict() }, &["Mine"]);
        for binary in ["a", "b", "c"] {
            if removes {
                bench.remove("Mine");
            }
            bench.put("Mine", binary);
            assert_eq!(bench.serves("Mine"), binary);
            bench.fault("Mine", binary, 1);
        }
        let reason = "3 faults within 10 s; the last was: trapped in filter";
        assert_eq!(bench.serves("Mine"), format!("plugin \"Mine\" is out of service: {reason}"));
    }
}

/// The file is found again without a change, for example because only the signature beside it changed.
#[test]
fn the_same_file_found_again_is_charged_with_its_faults() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.establish("Mine", "a");
    bench.fault("Mine", "a", 2);
    bench.put("Mine", "a");
    bench.fault("Mine", "a", 1);
    assert!(bench.serves("Mine").contains("3 faults within 10 s"), "{}", bench.serves("Mine"));
}

#[test]
fn a_first_file_is_on_probation_with_nothing_to_go_back_to() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.put("Mine", "a");
    assert_eq!(bench.status("Mine").state, PluginState::Probation);
    bench.fault("Mine", "a", 2);
    let reason = "2 faults on probation; the last was: trapped in filter";
    assert_eq!(bench.serves("Mine"), format!("plugin \"Mine\" is out of service: {reason}"));
    bench.advance(30);
    assert_eq!(bench.serves("Mine"), "a");
}

#[test]
fn the_binary_that_comes_back_is_not_charged_with_the_faults_of_the_one_that_failed() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.establish("Mine", "a");
    bench.put("Mine", "b");
    bench.fault("Mine", "b", 2);
    assert_eq!(bench.serves("Mine"), "a");
    bench.fault("Mine", "a", 2);
    assert_eq!(bench.serves("Mine"), "a");
}
