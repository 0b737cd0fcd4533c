//! Binaries that are withdrawn: denied by digest, or deleted from the plugins directory.

use super::*;
use crate::Forbidden;

const DENIED: SettingsChange =
    SettingsChange { forbidden: Some(Forbidden::Denied), is_fallback_forbidden: false, rebuild: Rebuild::Nothing };

#[test]
fn a_denied_binary_gives_way_to_the_one_before_at_once() {
    let mut bench = Bench::new(strict(), &["Mine", "NodeName"]);
    bench.put("Mine", "a");
    bench.put("Mine", "b");
    // The time is long past the probation.
    bench.advance(1000);
    bench.notices.clear();
    assert_eq!(bench.change("Mine", DENIED), ["Mine"]);
    assert_eq!(bench.serves("Mine"), "a");
    let reason = "its digest is denied (deniedDigests)".to_owned();
    let expected = PluginNoticeKind::RolledBack { digest: digest("b"), to: Some(digest("a")), reason };
    assert_eq!(bench.notices, [expected]);
    bench.put("NodeName", "c");
    assert_eq!(bench.change("NodeName", DENIED), ["NodeName"]);
    assert_eq!(bench.serves("NodeName"), "native");
}

#[test]
fn a_denied_binary_without_one_before_leaves_nobody() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.put("Mine", "a");
    bench.fault("Mine", "a", 3);
    assert_eq!(bench.status("Mine").state, PluginState::Quarantined);
    bench.notices.clear();
    assert_eq!(bench.change("Mine", DENIED), ["Mine"]);
    let because =
        "plugin \"Mine\" is refused: Mine.wasm in /plugins was withdrawn: its digest is denied (deniedDigests)";
    assert_eq!(bench.serves("Mine"), because);
    assert!(
        matches!(bench.notices.as_slice(), [PluginNoticeKind::Refused { .. }, PluginNoticeKind::NotServed { .. }]),
        "{:?}",
        bench.notices
    );
    let status = bench.status("Mine");
    assert_eq!((status.state, status.quarantine), (PluginState::Refused, None));
    let withdrawn = "Mine.wasm in /plugins was withdrawn: its digest is denied (deniedDigests)";
    assert_eq!(status.reason.as_deref(), Some(withdrawn));
}

#[test]
fn a_denied_binary_is_not_gone_back_to() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.put("Mine", "a");
    bench.put("Mine", "b");
    bench.change("Mine", SettingsChange { forbidden: None, is_fallback_forbidden: true, rebuild: Rebuild::Nothing });
    bench.fault("Mine", "b", 2);
    assert!(bench.serves("Mine").contains("out of service"));
    assert!(bench.roll_back("Mine").expect_err("denied").contains("there is no earlier binary"));
}

#[test]
fn a_denied_component_of_a_built_in_leaves_the_native_one() {
    let policy = Policy { execution: [("main", Execution::Wasm)].into(), ..strict() };
    let mut bench = Bench::new(policy, &["NodeName"]);
    assert_eq!(bench.serves("NodeName"), "embedded");
    bench.policy.denied.push("embedded");
    assert_eq!(bench.change_settings("NodeName", Rebuild::Nothing), ["NodeName"]);
    assert_eq!(bench.serves("NodeName"), "native");
}

#[test]
fn a_binary_whose_file_was_deleted_is_not_gone_back_to() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.put("Mine", "a");
    bench.put("Mine", "b");
    bench.remove("Mine");
    bench.put("Mine", "c");
    assert!(bench.roll_back("Mine").is_err());
    bench.fault("Mine", "c", 2);
    assert!(bench.serves("Mine").contains("out of service"), "there is nothing to go back to");
}

#[test]
fn a_file_that_was_no_plugin_is_forgotten_with_its_deletion() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    for name in ["Junk", "Mine"] {
        bench.refuse(name, "bad");
        bench.remove(name);
    }
    assert!(!bench.registry.contains("Junk"));
    assert!(bench.registry.contains("Mine"), "a profile names it");
}

#[test]
fn a_name_that_no_profile_has_any_more_is_forgotten() {
    let mut bench = Bench::new(strict(), &["Mine", "NodeName"]);
    bench.registry.offer(&"Mistyped".into(), "main", &bench.policy);
    assert!(!bench.registry.contains("Mistyped"), "its profile was not built");
    bench.registry.leave_profiles(|_, _| false);
    assert!(!bench.registry.contains("Mine"), "it has no file either");
    assert!(bench.registry.contains("NodeName"), "it is built in");
    let consequences = bench.registry.taken(&"Mine".into(), "main", None, bench.now, &bench.policy);
    bench.take(consequences);
    assert!(!bench.registry.contains("Mine"), "the profile's last word about it came late");
}

#[test]
fn what_is_told_of_a_plugin_is_true_now() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    let reason = |bench: &Bench| bench.status("Mine").reason;
    assert_eq!(reason(&bench).as_deref(), Some("plugin \"Mine\" is missing: Mine.wasm in /plugins does not exist yet"));
    bench.establish("Mine", "a");
    assert_eq!(reason(&bench), None);
    bench.fault("Mine", "a", 3);
    assert_eq!(reason(&bench).as_deref(), Some("3 faults within 10 s; the last was: trapped in filter"));
    bench.advance(30);
    assert_eq!((bench.status("Mine").state, reason(&bench)), (PluginState::Serving, None), "it is over");
    bench.set_disabled("Mine", true);
    assert_eq!(reason(&bench).as_deref(), Some("disabled by an operator"));
    bench.set_disabled("Mine", false);
    assert_eq!(reason(&bench), None);
    bench.refuse("Mine", "bad");
    assert_eq!(reason(&bench).as_deref(), Some("Mine.wasm in /plugins is not a WebAssembly file"));
    bench.put("Mine", "b");
    bench.roll_back("Mine").expect("there is one before");
    let withdrawn = "Mine.wasm in /plugins was withdrawn: rolled back by an operator";
    assert_eq!(reason(&bench).as_deref(), Some(withdrawn));
}

#[test]
fn a_fallback_that_is_no_longer_allowed_leaves_the_probation() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.put("Mine", "a");
    bench.put("Mine", "b");
    let change = SettingsChange { forbidden: None, is_fallback_forbidden: true, rebuild: Rebuild::Nothing };
    assert!(bench.change("Mine", change).is_empty());
    assert_eq!(bench.status("Mine").state, PluginState::Probation);
    bench.fault("Mine", "b", 2);
    let reason = "2 faults on probation; the last was: trapped in filter";
    assert_eq!(bench.serves("Mine"), format!("plugin \"Mine\" is out of service: {reason}"));
}

#[test]
fn a_binary_stays_in_charge_while_it_is_out_of_service_for_a_time() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    let in_charge = |bench: &Bench| {
        let service = bench.registry.in_charge("Mine", "main", &bench.policy);
        service.and_then(|service| service.id())
    };
    assert_eq!(in_charge(&bench), None);
    bench.put("Mine", "a");
    bench.fault("Mine", "a", 3);
    assert_eq!(bench.status("Mine").state, PluginState::Quarantined);
    assert_eq!(in_charge(&bench), Some(BinaryId::Component(digest("a"))));
    bench.set_disabled("Mine", true);
    assert_eq!(in_charge(&bench), None);
    bench.set_disabled("Mine", false);
    bench.remove("Mine");
    assert_eq!(in_charge(&bench), None);
}
