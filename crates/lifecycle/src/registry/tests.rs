//! The lives of plugins, as sequences of events. After each sequence, the tests check which binaries serve.

use std::{cell::Cell, time::Duration};

use berth_model::plugin_policy::{Execution, FailurePolicy, Probation, ProbationSpan, Quarantine};

use super::*;
use crate::{Forbidden, PluginNotice, PluginPolicy, PluginState, Rebuild, SettingsChange};

mod faults;
mod probation;
mod restart;
mod withdrawn;

/// The operator's policy. All plugins have the same policy except `Lax`. If `Lax` is absent, pods are scheduled without
/// it.
struct Policy {
    plugin: PluginPolicy,
    /// The execution, by profile.
    execution: BTreeMap<&'static str, Execution>,
    has_directory: bool,
    denied: Vec<&'static str>,
}

impl OperatorPolicy for Policy {
    fn plugin(&self, plugin: &str) -> PluginPolicy {
        match plugin {
            "Lax" => PluginPolicy { failure_policy: FailurePolicy::Ignore, ..self.plugin },
            _ => self.plugin,
        }
    }

    fn execution(&self, _plugin: &str, scheduler_name: &str) -> Execution {
        self.execution.get(scheduler_name).copied().unwrap_or_default()
    }

    fn is_denied(&self, digest: Digest) -> bool {
        self.denied.iter().any(|name| self::digest(name) == digest)
    }

    fn origin(&self, plugin: &str) -> Option<String> {
        self.has_directory.then(|| format!("{plugin}.wasm in /plugins"))
    }
}

/// A policy in which three faults within 10 s are too many. A probation lasts 60 s and allows one fault. Quarantines
/// begin at 30 s.
fn strict() -> Policy {
    let (window, lost, backoff) = (Duration::from_secs(10), Duration::from_secs(5), Duration::from_secs(30));
    let quarantine = Quarantine { faults: 3, window, lost, backoff };
    let probation = Probation { span: ProbationSpan::Time(Duration::from_secs(60)), faults: 1 };
    Policy {
        plugin: PluginPolicy { failure_policy: FailurePolicy::Fail, quarantine, probation },
        execution: BTreeMap::new(),
        has_directory: true,
        denied: Vec::new(),
    }
}

thread_local! {
    /// The number of questions about pods that the binaries of a test have answered in total.
    static N_ANSWERS: Cell<u64> = const { Cell::new(0) };
}

/// A handle that contains the name of its binary. Every binary was called five times.
#[derive(Clone, Debug)]
struct Handle(String);

impl CountCalls for Handle {
    fn n_calls(&self) -> u64 {
        5
    }

    fn n_answers(&self) -> u64 {
        N_ANSWERS.get()
    }
}

fn digest(name: &str) -> Digest {
    let mut bytes = [0; 32];
    bytes.iter_mut().zip(name.bytes()).for_each(|(byte, letter)| *byte = letter);
    Digest::new(bytes)
}

fn component(name: &str) -> Component<Handle> {
    Component { digest: digest(name), binary: Handle(name.to_owned()) }
}

fn id(name: &str) -> BinaryId {
    BinaryId::Component(digest(name))
}

/// A fault that no pod's cycle caused, and through which the profile `main` lost its instance.
fn fault(binary: &str) -> Fault {
    let (reason, scheduler_names) = ("trapped in filter".to_owned(), vec!["main".to_owned()]);
    Fault { digest: digest(binary), reason, milliseconds: 1, owner: None, scheduler_names }
}

/// A registry, a clock, and the binary that serves in each profile according to the swaps.
struct Bench {
    registry: PluginRegistry<Handle>,
    policy: Policy,
    now: Time,
    serving: BTreeMap<(PluginName, String), Service<Handle>>,
    notices: Vec<PluginNoticeKind>,
}

impl Bench {
    /// A bench with one profile, `main`, which uses all of `plugins`; `NodeName` is built in.
    fn new(policy: Policy, plugins: &[&str]) -> Self {
        Self::with_profiles(policy, &["main"], plugins)
    }

    fn with_profiles(policy: Policy, profiles: &[&str], plugins: &[&str]) -> Self {
        let mut registry = PluginRegistry::default();
        registry.add_built_in(&"NodeName".into(), Handle("native".to_owned()), Some(component("embedded")));
        let mut bench = Self { registry, policy, now: Time(1_000_000), serving: BTreeMap::new(), notices: Vec::new() };
        for plugin in plugins {
            for profile in profiles {
                bench.join(plugin, profile);
            }
        }
        bench
    }

    fn join(&mut self, plugin: &str, profile: &str) {
        let name = PluginName::from(plugin);
        let service = self.registry.join_profile(&name, profile, &self.policy);
        self.serving.insert((name, profile.to_owned()), service);
    }

    /// Carries out the decisions. Returns the plugins that were swapped, with one entry for each swap.
    fn take(&mut self, consequences: Consequences<Handle>) -> Vec<PluginName> {
        let plugins = consequences.swaps.iter().map(|swap| swap.plugin.clone()).collect();
        for swap in consequences.swaps {
            for profile in swap.scheduler_names {
                self.serving.insert((swap.plugin.clone(), profile), swap.service.clone());
            }
        }
        self.notices.extend(consequences.notices.into_iter().map(|PluginNotice { kind, .. }| kind));
        plugins
    }

    fn find(&mut self, plugin: &str, binary: &str) -> Vec<PluginName> {
        let consequences = self.registry.found(&plugin.into(), component(binary), self.now, &self.policy);
        self.take(consequences)
    }

    /// Finds a binary that the profile `main` then takes into service.
    fn put(&mut self, plugin: &str, binary: &str) {
        self.find(plugin, binary);
        let consequences = self.registry.taken(&plugin.into(), "main", Some(id(binary)), self.now, &self.policy);
        self.take(consequences);
    }

    /// Finds a binary that the profile `main` then takes into service, and ends the probation of the binary.
    fn establish(&mut self, plugin: &str, binary: &str) {
        self.put(plugin, binary);
        self.advance(60);
        self.notices.retain(|notice| *notice != PluginNoticeKind::ProbationOver);
    }

    fn remove(&mut self, plugin: &str) {
        let consequences = self.registry.removed(&plugin.into(), self.now, &self.policy);
        self.take(consequences);
    }

    fn refuse(&mut self, plugin: &str, binary: &str) -> Vec<PluginName> {
        let reason = "is not a WebAssembly file";
        let consequences = self.registry.refused(&plugin.into(), Some(digest(binary)), reason, self.now, &self.policy);
        self.take(consequences)
    }

    fn fault(&mut self, plugin: &str, binary: &str, times: usize) {
        for _ in 0..times {
            self.fault_as(plugin, Fault { scheduler_names: Vec::new(), ..fault(binary) });
        }
    }

    fn fault_as(&mut self, plugin: &str, fault: Fault) -> Vec<PluginName> {
        let consequences = self.registry.faulted(&plugin.into(), fault, self.now, &self.policy);
        self.take(consequences)
    }

    fn not_taken(&mut self, plugin: &str, binary: &str, reason: &str) -> Vec<PluginName> {
        let consequences = self.registry.not_taken(&plugin.into(), Some(id(binary)), reason, self.now, &self.policy);
        self.take(consequences)
    }

    /// Lets time pass in which pods are tried.
    fn advance(&mut self, seconds: u64) {
        N_ANSWERS.set(N_ANSWERS.get() + 1);
        self.wait(seconds);
    }

    /// Lets time pass in which no pod is tried.
    fn wait(&mut self, seconds: u64) {
        self.now = self.now + seconds * 1000;
        let consequences = self.registry.tick(self.now, &self.policy);
        self.take(consequences);
    }

    fn set_disabled(&mut self, plugin: &str, disabled: bool) {
        let consequences = self.registry.set_disabled(&plugin.into(), disabled, self.now, &self.policy);
        self.take(consequences.expect("it is there"));
    }

    fn roll_back(&mut self, plugin: &str) -> Result<(), String> {
        let consequences = self.registry.roll_back(&plugin.into(), self.now, &self.policy);
        self.take(consequences.map_err(|error| error.to_string())?);
        Ok(())
    }

    fn change_settings(&mut self, plugin: &str, rebuild: Rebuild) -> Vec<PluginName> {
        self.change(plugin, SettingsChange { forbidden: None, is_fallback_forbidden: false, rebuild })
    }

    fn change(&mut self, plugin: &str, change: SettingsChange) -> Vec<PluginName> {
        let consequences = self.registry.settings_changed(&plugin.into(), change, self.now, &self.policy);
        self.take(consequences)
    }

    fn serves_in(&self, plugin: &str, profile: &str) -> String {
        match &self.serving[&(plugin.into(), profile.to_owned())] {
            Service::Native(handle) => handle.0.clone(),
            Service::Embedded(component) | Service::Directory(component) => component.binary.0.clone(),
            Service::Pass(_) => "skipped".to_owned(),
            Service::Hold(reason) => reason.clone(),
        }
    }

    fn serves(&self, plugin: &str) -> String {
        self.serves_in(plugin, "main")
    }

    fn status(&self, plugin: &str) -> PluginStatus<'_, Handle> {
        self.registry.status(plugin, &self.policy).expect("it is known")
    }
}

#[test]
fn a_plugin_that_is_not_there_yet_is_waited_for() {
    let mut bench = Bench::new(strict(), &["Mine", "Lax"]);
    assert_eq!(bench.serves("Mine"), "plugin \"Mine\" is missing: Mine.wasm in /plugins does not exist yet");
    assert_eq!(bench.serves("Lax"), "skipped");
    bench.put("Mine", "a");
    assert_eq!(bench.serves("Mine"), "a");
    bench.remove("Mine");
    assert_eq!(bench.serves("Mine"), "plugin \"Mine\" is missing: Mine.wasm in /plugins does not exist any more");
    assert!(matches!(bench.notices.as_slice(), [PluginNoticeKind::NotServed { .. }]), "{:?}", bench.notices);
}

#[test]
fn a_built_in_is_replaced_and_comes_back() {
    let mut bench = Bench::new(strict(), &["NodeName"]);
    assert_eq!(bench.serves("NodeName"), "native");
    bench.put("NodeName", "a");
    assert_eq!(bench.serves("NodeName"), "a");
    bench.remove("NodeName");
    assert_eq!(bench.serves("NodeName"), "native");
}

#[test]
fn the_file_that_is_refused_leaves_who_serves() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.refuse("Mine", "bad");
    assert_eq!(bench.serves("Mine"), "plugin \"Mine\" is refused: Mine.wasm in /plugins is not a WebAssembly file");
    assert_eq!(bench.status("Mine").state, PluginState::Refused);
    bench.establish("Mine", "a");
    assert!(bench.refuse("Mine", "bad").is_empty());
    assert_eq!(bench.serves("Mine"), "a");
    assert_eq!(
        (bench.status("Mine").state, bench.status("Mine").refused_digest),
        (PluginState::Serving, Some(digest("bad")))
    );
}

#[test]
fn too_many_faults_take_a_plugin_out_of_service_for_longer_and_longer() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.establish("Mine", "a");
    for seconds in [30, 60, 120] {
        bench.fault("Mine", "a", 2);
        assert_eq!(bench.serves("Mine"), "a");
        bench.fault("Mine", "a", 1);
        let message = "plugin \"Mine\" is out of service: 3 faults within 10 s; the last was: trapped in filter";
        assert_eq!(bench.serves("Mine"), message);
        let quarantine = bench.status("Mine").quarantine.expect("quarantined");
        assert_eq!((quarantine.digest, quarantine.until), (digest("a"), bench.now + seconds * 1000));
        bench.advance(seconds - 1);
        assert_eq!(bench.serves("Mine"), message);
        bench.advance(1);
        assert_eq!(bench.serves("Mine"), "a", "after {seconds} s");
    }
    // The time without a fault is longer than the last quarantine, so the count starts again.
    bench.advance(121);
    bench.fault("Mine", "a", 3);
    bench.advance(30);
    assert_eq!(bench.serves("Mine"), "a");
}

#[test]
fn faults_that_are_far_apart_are_forgiven() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.put("Mine", "a");
    for _ in 0..10 {
        bench.fault("Mine", "a", 1);
        bench.advance(6);
    }
    assert_eq!(bench.serves("Mine"), "a");
}

#[test]
fn a_plugin_that_may_be_ignored_is_skipped_while_it_is_out_of_service() {
    let mut bench = Bench::new(strict(), &["Lax"]);
    bench.put("Lax", "a");
    bench.fault("Lax", "a", 3);
    assert_eq!(bench.serves("Lax"), "skipped");
    bench.advance(30);
    assert_eq!(bench.serves("Lax"), "a");
}

#[test]
fn a_new_binary_ends_the_quarantine() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.put("Mine", "a");
    bench.fault("Mine", "a", 3);
    bench.put("Mine", "b");
    assert_eq!(bench.serves("Mine"), "b");
    bench.fault("Mine", "b", 2);
    // The binary failed on probation, and a binary whose quarantine is over replaced it.
    assert_eq!(bench.serves("Mine"), "a");
}

#[test]
fn the_same_binary_loaded_again_ends_the_quarantine() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.put("Mine", "a");
    bench.fault("Mine", "a", 3);
    assert_eq!(bench.status("Mine").state, PluginState::Quarantined);
    assert_eq!(bench.find("Mine", "a"), ["Mine"]);
    assert_eq!(bench.status("Mine").state, PluginState::Serving);
}

#[test]
fn a_file_that_is_refused_does_not_end_the_quarantine() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.put("Mine", "a");
    bench.fault("Mine", "a", 3);
    assert!(bench.refuse("Mine", "bad").is_empty());
    assert_eq!(bench.status("Mine").state, PluginState::Quarantined);
    bench.advance(30);
    assert_eq!((bench.serves("Mine").as_str(), bench.status("Mine").refused_digest), ("a", Some(digest("bad"))));
}

#[test]
fn an_operator_goes_back_and_forth() {
    let mut bench = Bench::new(strict(), &["Mine", "NodeName"]);
    assert_eq!(
        bench.roll_back("Nobody"),
        Err("unknown plugin \"Nobody\"; `berth plugin list` shows all plugins".to_owned())
    );
    let nothing = "plugin \"NodeName\" cannot be rolled back: the plugin in use does not come from the plugins \
                   directory";
    assert_eq!(bench.roll_back("NodeName"), Err(nothing.to_owned()));
    bench.put("Mine", "a");
    let nothing = "plugin \"Mine\" cannot be rolled back: there is no earlier binary";
    assert_eq!(bench.roll_back("Mine"), Err(nothing.to_owned()));
    bench.put("Mine", "b");
    bench.advance(600);
    bench.roll_back("Mine").expect("even long after its probation");
    assert_eq!(bench.serves("Mine"), "a");
    bench.put("Mine", "b");
    assert_eq!(bench.serves("Mine"), "b", "loaded again by an operator");
    bench.set_disabled("Mine", true);
    assert_eq!((bench.serves("Mine").as_str(), bench.status("Mine").state), ("skipped", PluginState::Disabled));
    bench.set_disabled("Mine", false);
    assert_eq!(bench.serves("Mine"), "b");
}

#[test]
fn what_happens_while_a_plugin_is_switched_off_shows_when_it_is_switched_on() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.put("Mine", "a");
    bench.set_disabled("Mine", true);
    bench.set_disabled("Mine", true);
    bench.put("Mine", "b");
    assert_eq!(bench.serves("Mine"), "skipped");
    bench.set_disabled("Mine", false);
    assert_eq!((bench.serves("Mine").as_str(), bench.status("Mine").state), ("b", PluginState::Probation));
}

#[test]
fn a_binary_that_no_profile_can_take_is_refused() {
    let mut bench = Bench::new(strict(), &["Mine", "NodeName"]);
    bench.put("Mine", "a");
    assert_eq!(bench.find("Mine", "b").len(), 1);
    // The scheduler kept `a`, so there is nothing to swap.
    assert!(bench.not_taken("Mine", "b", "unknown argument").is_empty());
    assert!(
        matches!(bench.notices.as_slice(), [PluginNoticeKind::RolledBack { reason, .. }] if reason == "unknown argument")
    );
    bench.put("Mine", "c");
    assert_eq!(bench.serves("Mine"), "c");
    // Pods get the reason if the plugin has no fallback.
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.find("Mine", "a");
    bench.not_taken("Mine", "a", "needs an argument");
    assert_eq!(bench.serves("Mine"), "plugin \"Mine\" is refused: Mine.wasm in /plugins needs an argument");
}

#[test]
fn a_binary_that_cannot_be_started_again_stays_out_of_service() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.put("Mine", "a");
    bench.fault("Mine", "a", 3);
    bench.now = bench.now + 30_000;
    let released = bench.registry.tick(bench.now, &bench.policy);
    assert_eq!(released.swaps.len(), 1);
    bench.not_taken("Mine", "a", "trapped in configure");
    assert_eq!(bench.serves("Mine"), "plugin \"Mine\" is out of service: trapped in configure");
    bench.advance(59);
    assert!(bench.serves("Mine").contains("out of service"));
    bench.advance(1);
    assert_eq!(bench.serves("Mine"), "a");
}

#[test]
fn execution_may_differ_by_profile() {
    let mut policy = strict();
    policy.execution = BTreeMap::from([("canary", Execution::Wasm), ("old", Execution::Native)]);
    policy.plugin.quarantine.faults = 5;
    let mut bench = Bench::with_profiles(policy, &["main", "canary", "old"], &["NodeName"]);
    let everywhere = |bench: &Bench| ["main", "canary", "old"].map(|profile| bench.serves_in("NodeName", profile));
    assert_eq!(everywhere(&bench), ["native", "embedded", "native"]);
    bench.put("NodeName", "a");
    assert_eq!(everywhere(&bench), ["a", "a", "native"]);
    bench.fault("NodeName", "a", 3);
    assert_eq!(everywhere(&bench), ["native", "embedded", "native"]);
    bench.fault("NodeName", "embedded", 5);
    assert!(bench.serves_in("NodeName", "canary").contains("out of service"));
    assert_eq!(bench.serves_in("NodeName", "main"), "native", "which never faults");
}

#[test]
fn profiles_that_get_the_same_binary_change_over_together() {
    let mut bench = Bench::with_profiles(strict(), &["main", "other"], &["Mine"]);
    let found = bench.registry.found(&"Mine".into(), component("a"), bench.now, &bench.policy);
    let [swap] = found.swaps.as_slice() else { panic!("{found:?}") };
    assert_eq!(swap.scheduler_names, ["main", "other"]);
}

#[test]
fn without_a_directory_absent_plugins_of_kube_scheduler_are_left_out() {
    let policy = Policy { has_directory: false, ..strict() };
    let mut registry = PluginRegistry::<Handle>::default();
    let service = registry.join_profile(&"NodeVolumeLimits".into(), "main", &policy);
    assert!(matches!(&service, Service::Pass(reason) if reason.contains("not in this build")), "{service:?}");
    let mut bench = Bench::new(strict(), &[]);
    bench.registry.add_left_out(&"NodeVolumeLimits".into());
    bench.join("NodeVolumeLimits", "main");
    assert_eq!(bench.serves("NodeVolumeLimits"), "skipped");
    bench.put("NodeVolumeLimits", "a");
    assert_eq!(bench.serves("NodeVolumeLimits"), "a", "the binary of the directory serves");
}

#[test]
fn new_instances_are_made_of_what_goes_on() {
    let mut bench = Bench::new(strict(), &["Mine", "NodeName"]);
    bench.put("Mine", "a");
    assert!(bench.change_settings("Mine", Rebuild::Nothing).is_empty());
    assert_eq!(bench.change_settings("Mine", Rebuild::Components), ["Mine"]);
    assert!(bench.change_settings("NodeName", Rebuild::Components).is_empty(), "native code has no limits");
    assert_eq!(bench.change_settings("NodeName", Rebuild::Everything), ["NodeName"]);
}

#[test]
fn an_instance_that_cannot_be_built_anew_leaves_the_one_before() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.put("Mine", "a");
    bench.change_settings("Mine", Rebuild::Components);
    assert!(bench.not_taken("Mine", "a", "asked for too much memory").is_empty());
    assert!(bench.notices.is_empty(), "{:?}", bench.notices);
    assert_eq!(bench.serves("Mine"), "a");
}

#[test]
fn a_binary_that_is_no_longer_allowed_gives_way_at_once() {
    let forbidden = |rebuild| {
        let reason = Forbidden::NotGranted("wants to read v1/Secret".to_owned());
        SettingsChange { forbidden: Some(reason), is_fallback_forbidden: false, rebuild }
    };
    let mut bench = Bench::new(strict(), &["Mine", "NodeName"]);
    bench.put("Mine", "a");
    assert_eq!(bench.change("Mine", forbidden(Rebuild::Everything)), ["Mine"]);
    assert!(bench.serves("Mine").contains("wants to read v1/Secret"), "{}", bench.serves("Mine"));
    assert!(
        matches!(bench.notices.as_slice(), [PluginNoticeKind::Refused { .. }, PluginNoticeKind::NotServed { .. }]),
        "{:?}",
        bench.notices
    );
    assert!(bench.registry.has_refused_file("Mine"), "its file is worth another look");
    // The built-in is given to the profile only once, not again as a new instance.
    bench.put("NodeName", "a");
    assert_eq!(bench.change("NodeName", forbidden(Rebuild::Everything)), ["NodeName"]);
    assert_eq!(bench.serves("NodeName"), "native");
}

#[test]
fn another_failure_policy_holds_at_once() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    assert!(bench.serves("Mine").contains("is missing"));
    bench.policy.plugin.failure_policy = FailurePolicy::Ignore;
    assert_eq!(bench.change_settings("Mine", Rebuild::Nothing), ["Mine"]);
    assert_eq!(bench.serves("Mine"), "skipped");
}

#[test]
fn a_binary_that_nobody_tried_is_nothing_to_go_back_to() {
    let mut bench = Bench::new(strict(), &["Mine"]);
    bench.put("Mine", "a");
    for binary in ["b", "c"] {
        bench.find("Mine", binary);
    }
    // The profile answers late, after `b` and then `c` were refused.
    for binary in ["b", "c"] {
        bench.not_taken("Mine", binary, "refuses its arguments");
    }
    assert_eq!(bench.registry.installed("Mine").map(|component| component.digest), Some(digest("a")));
    // The profile has the binary already.
    assert!(bench.change_settings("Mine", Rebuild::Nothing).is_empty());
    assert_eq!(bench.change_settings("Mine", Rebuild::Components), ["Mine"]);
    bench.fault("Mine", "a", 1);
    assert_eq!(bench.status("Mine").last_reason, Some("trapped in filter"));
}

#[test]
fn a_profile_that_is_gone_is_given_nothing() {
    let mut bench = Bench::with_profiles(strict(), &["main", "other"], &["Mine"]);
    let left = bench.registry.leave_profiles(|_, profile| profile == "main");
    assert_eq!(left, [("Mine".into(), "other".to_owned())]);
    let consequences = bench.registry.found(&"Mine".into(), component("a"), bench.now, &bench.policy);
    let profiles: Vec<&String> = consequences.swaps.iter().flat_map(|swap| &swap.scheduler_names).collect();
    assert_eq!(profiles, ["main"]);
    // An offer to a profile that may be built changes nothing.
    bench.registry.offer(&"Mine".into(), "third", &bench.policy);
    assert_eq!(bench.find("Mine", "b").len(), 1);
}
