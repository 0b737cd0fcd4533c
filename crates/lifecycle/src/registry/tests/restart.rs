//! What a plugin is after a restart, by what was remembered before.

use super::*;

/// Another process, as far as the registry can tell: only what is remembered and the files in `installed` are there.
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
    // It was the second in a row.
    after.fault("Mine", "a", 3);
    assert_eq!(after.status("Mine").quarantine.map(|quarantine| quarantine.until), Some(after.now + 120_000));
    // It is over by now, or about another binary.
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
    let because = "plugin \"Mine\" is refused: Mine.wasm in /plugins gave way: 2 faults on probation, the last: trapped in filter";
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
