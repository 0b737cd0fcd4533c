//! The state of a plugin after a restart of the process, as restored from the remembered data.

use super::*;

/// Starts another process for the registry. Only the remembered state and the files in `installed` are left.
fn restarted(before: &Bench, installed: &[(&str, &str)], now: Time) -> Bench {
    let mut bench = Bench::new(strict(), &[]);
    bench.now = now;
    for (plugin, binary) in installed {
        bench.registry.add_installed(&(*plugin).into(), component(binary));
    }
    for (name, remembered) in before.registry.remembered() {
        bench.registry.restore(name, remembered, None, now, &bench.policy);
    }
    for plugin in ["Mine", "NodeName"] {
        bench.join(plugin, "main");
    }
    bench
}

#[test]
fn a_plugin_that_was_switched_off_stays_off() {
    let mut before = Bench::new(strict(), &["Mine", "NodeName"]);
    before.put("Mine", "a");
    for plugin in ["Mine", "NodeName"] {
        before.set_disabled(plugin, true);
    }
    let mut after = restarted(&before, &[("Mine", "a")], before.now);
    for (plugin, binary) in [("Mine", "a"), ("NodeName", "native")] {
        assert_eq!((after.serves(plugin), after.status(plugin).state), ("skipped".to_owned(), PluginState::Disabled));
        after.set_disabled(plugin, false);
        assert_eq!(after.serves(plugin), binary);
    }
    assert_eq!(after.registry.remembered().count(), 0);
}

#[test]
fn a_quarantine_lasts_as_long_as_it_would_have() {
    let mut before = Bench::new(strict(), &["Mine"]);
    before.put("Mine", "a");
    before.fault("Mine", "a", 3);
    before.advance(30);
    before.fault("Mine", "a", 3);
    let until = before.now + 60_000;
    let mut after = restarted(&before, &[("Mine", "a")], before.now + 20_000);
    assert!(after.serves("Mine").contains("is out of service: 3 faults within 10 s"), "{}", after.serves("Mine"));
    assert_eq!(after.status("Mine").quarantine.map(|quarantine| quarantine.until), Some(until));
    after.advance(40);
    assert_eq!(after.serves("Mine"), "a");
    // The quarantine was the second in a row.
    after.fault("Mine", "a", 3);
    assert_eq!(after.status("Mine").quarantine.map(|quarantine| quarantine.until), Some(after.now + 120_000));
    // The quarantine is over, or is about another binary.
    assert_eq!(restarted(&before, &[("Mine", "a")], until).serves("Mine"), "a");
    assert_eq!(restarted(&before, &[("Mine", "b")], before.now).serves("Mine"), "b");
}

#[test]
fn a_wall_clock_that_was_set_back_makes_no_quarantine_endless() {
    let mut before = Bench::new(strict(), &["Mine"]);
    before.now = Time(1 << 40);
    before.put("Mine", "a");
    before.fault("Mine", "a", 3);
    let mut after = restarted(&before, &[("Mine", "a")], Time(0));
    assert_eq!(after.status("Mine").state, PluginState::Quarantined);
    after.advance(3600);
    assert_eq!(after.serves("Mine"), "a");
}

#[test]
fn a_binary_that_failed_is_not_tried_again() {
    let mut before = Bench::new(strict(), &["Mine", "NodeName"]);
    before.put("Mine", "a");
    for plugin in ["Mine", "NodeName"] {
        before.put(plugin, "b");
        before.fault(plugin, "b", 2);
    }
    let mut after = restarted(&before, &[("Mine", "b"), ("NodeName", "b")], before.now);
    assert_eq!(after.serves("NodeName"), "native");
    let because = "plugin \"Mine\" is refused: Mine.wasm in /plugins was withdrawn: 2 faults on probation; the last was: \
                   trapped in filter";
    assert_eq!(after.serves("Mine"), because);
    assert_eq!(after.status("Mine").refused_digest, Some(digest("b")));
    after.put("Mine", "c");
    assert_eq!(after.serves("Mine"), "c");
    let (name, remembered) = before.registry.remembered().next().expect("it failed");
    assert_eq!(remembered.failed.as_ref().and_then(|failed| failed.serving), Some(digest("a")));
    let mut third = Bench::new(strict(), &[]);
    third.registry.add_installed(name, component("b"));
    third.registry.restore(name, remembered, Some(component("a")), third.now, &third.policy);
    third.join("Mine", "main");
    assert_eq!(third.serves("Mine"), "a", "the one before was kept");
    assert_eq!(third.status("Mine").refused_digest, Some(digest("b")));
    assert_eq!(restarted(&before, &[("Mine", "c")], before.now).serves("Mine"), "c");
}

#[test]
fn what_is_found_out_anew_is_not_remembered() {
    let mut before = Bench::new(strict(), &["Mine"]);
    before.refuse("Mine", "bad");
    assert_eq!(before.registry.remembered().count(), 0);
    before.find("Mine", "a");
    before.not_taken("Mine", "a", "needs an argument");
    assert_eq!(before.registry.remembered().count(), 0);
}

/// Starts another process that gets the files after the profiles are made, as when files are compiled again.
fn restarted_late(before: &Bench, installed: &[(&str, &str)], now: Time) -> Bench {
    let mut bench = Bench::new(strict(), &[]);
    bench.now = now;
    for (plugin, _) in installed {
        bench.registry.await_binary(&(*plugin).into());
    }
    for (name, remembered) in before.registry.remembered() {
        bench.registry.restore(name, remembered, None, now, &bench.policy);
    }
    for plugin in ["Mine", "NodeName"] {
        bench.join(plugin, "main");
    }
    bench
}

#[test]
fn a_file_of_the_start_that_comes_late_is_on_no_probation() {
    let mut bench = restarted_late(&Bench::new(strict(), &[]), &[("Mine", "a")], Time(1_000_000));
    assert_eq!(bench.serves("Mine"), "plugin \"Mine\" is being loaded: Mine.wasm in /plugins");
    assert_eq!(bench.status("Mine").state, PluginState::Loading);
    assert!(bench.registry.is_starting());
    bench.find("Mine", "a");
    assert!(bench.registry.is_starting(), "no profile has taken it");
    bench.put("Mine", "a");
    assert!(!bench.registry.is_starting());
    assert_eq!((bench.serves("Mine").as_str(), bench.status("Mine").state), ("a", PluginState::Serving));
}

#[test]
fn a_file_of_the_start_that_is_refused_or_removed_is_waited_for_no_longer() {
    for is_removed in [false, true] {
        let mut bench = restarted_late(&Bench::new(strict(), &[]), &[("Mine", "a")], Time(1_000_000));
        if is_removed {
            bench.remove("Mine");
        } else {
            bench.refuse("Mine", "a");
        }
        assert!(!bench.registry.is_starting());
        let state = if is_removed { PluginState::Missing } else { PluginState::Refused };
        assert_eq!(bench.status("Mine").state, state);
    }
}

#[test]
fn a_file_of_the_start_that_no_profile_can_take_is_refused() {
    let mut bench = restarted_late(&Bench::new(strict(), &[]), &[("Mine", "a")], Time(1_000_000));
    bench.find("Mine", "a");
    bench.not_taken("Mine", "a", "trapped in configure");
    assert_eq!(bench.serves("Mine"), "plugin \"Mine\" is refused: Mine.wasm in /plugins trapped in configure");
    assert!(!bench.registry.is_starting());
}

#[test]
fn what_is_remembered_holds_for_a_file_that_comes_late() {
    let mut before = Bench::new(strict(), &["Mine"]);
    before.establish("Mine", "a");
    before.fault("Mine", "a", 3);
    let mut after = restarted_late(&before, &[("Mine", "a")], before.now + 1000);
    let remembered = |bench: &Bench| bench.registry.remembered().map(|(_, it)| it).collect::<Vec<_>>();
    assert_eq!(remembered(&after), remembered(&before), "it is kept meanwhile");
    after.find("Mine", "a");
    assert_eq!(after.status("Mine").state, PluginState::Quarantined);
    assert_eq!(remembered(&after), remembered(&before));
    after.advance(30);
    assert_eq!(after.serves("Mine"), "a");
    let mut another = restarted_late(&before, &[("Mine", "b")], before.now + 1000);
    another.put("Mine", "b");
    assert_eq!(another.serves("Mine"), "b", "it is another one");
}
