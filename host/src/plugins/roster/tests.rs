//! The life of plugins, told as what happens and who answers then.

use berth_config::Execution;
use berth_framework::{BuildError, ObjectKind, Plugin, PluginVersion, Point};
use berth_model::Time;

use super::{
    super::{
        binary::{Figures, Source},
        stand_in::NO_DIGEST,
    },
    *,
};

const HEADER: &str = "apiVersion: berth.dev/v1alpha1\nkind: PluginHostConfiguration\n";

/// Three faults within 10 s are too many, and one on probation, which lasts 60 s; quarantines begin at 30 s.
const STRICT: &str = "
defaults:
  quarantine: {faults: 3, windowSeconds: 10, backoffSeconds: 30}
  probation: {seconds: 60, faults: 1}
plugins:
- {name: Lax, failurePolicy: Ignore}
";

#[derive(Debug)]
struct Fake {
    manifest: Manifest,
    digest: String,
}

impl PluginFactory for Fake {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }
    fn points(&self) -> Points {
        [Point::Filter].into_iter().collect()
    }
    fn version(&self) -> PluginVersion {
        PluginVersion { digest: self.digest.clone(), ..PluginVersion::default() }
    }
    fn build(&self, _args: &str) -> Result<Box<dyn Plugin>, BuildError> {
        Err(BuildError::Start("nobody builds these".to_owned()))
    }
}

#[derive(Debug)]
struct Calls(u64);

impl Figures for Calls {
    fn calls(&self) -> u64 {
        self.0
    }
    fn faults(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::new()
    }
    fn dropped_log_lines(&self) -> u64 {
        0
    }
}

fn binary(digest: &str, source: Source) -> Binary {
    let factory = Arc::new(Fake { manifest: Manifest::default(), digest: digest.to_owned() });
    Binary { factory, source, figures: Some(Arc::new(Calls(5))), component: None }
}

fn component(digest: &str) -> Binary {
    binary(digest, Source::Directory)
}

/// A roster, a clock, and who answers in each profile, as swaps tell it.
struct Bench {
    roster: Roster,
    now: Time,
    answers: BTreeMap<(String, String), Arc<dyn PluginFactory>>,
    news: Vec<News>,
}

impl Bench {
    /// One profile, `main`, which uses all of `plugins`; `NodeName` is built in.
    fn new(config: &str, plugins: &[&str]) -> Self {
        Self::with_profiles(config, &["main"], plugins)
    }

    fn with_profiles(config: &str, profiles: &[&str], plugins: &[&str]) -> Self {
        let settings = PluginHostSettings::from_text("test", &format!("{HEADER}{config}")).expect("valid");
        let rules = Rules { settings, directory: Some("/plugins".into()), ..Rules::default() };
        let mut roster = Roster::new(rules);
        roster.add_native("NodeName", binary("native", Source::Native));
        roster.add_embedded("NodeName", binary("embedded", Source::Embedded));
        let mut answers = BTreeMap::new();
        for plugin in plugins {
            for profile in profiles {
                let choice = roster.enlist(plugin, profile);
                answers.insert(((*plugin).to_owned(), (*profile).to_owned()), factory(plugin, &choice));
            }
        }
        Self { roster, now: Time(1_000_000), answers, news: Vec::new() }
    }

    fn take(&mut self, consequences: Consequences) {
        for swap in consequences.swaps {
            for profile in swap.scheduler_names {
                self.answers.insert((swap.plugin.clone(), profile), Arc::clone(&swap.factory));
            }
        }
        self.news.extend(consequences.news);
    }

    /// A binary is found, and the profiles take it.
    fn put(&mut self, plugin: &str, digest: &str) {
        let consequences = self.roster.found(plugin, component(digest), self.now);
        self.take(consequences);
        self.roster.accepted(plugin, "main", digest, self.now);
    }

    fn fault(&mut self, plugin: &str, digest: &str, times: usize) {
        for _ in 0..times {
            let consequences = self.roster.faulted(plugin, digest, "trapped in filter", self.now);
            self.take(consequences);
        }
    }

    fn advance(&mut self, seconds: u64) {
        self.now = self.now + seconds * 1000;
        let consequences = self.roster.tick(self.now);
        self.take(consequences);
    }

    fn answers_in(&self, plugin: &str, profile: &str) -> String {
        let factory = &self.answers[&(plugin.to_owned(), profile.to_owned())];
        let digest = factory.version().digest;
        if digest != NO_DIGEST {
            return digest;
        }
        let mut stand_in = factory.build("null").expect("stand-ins take everything");
        let source = berth_cache::Cache::new();
        stand_in.sync(&source).map_or_else(|status| status.message(), |()| "skipped".to_owned())
    }

    fn answers(&self, plugin: &str) -> String {
        self.answers_in(plugin, "main")
    }
}

#[test]
fn a_plugin_that_is_not_there_yet_is_waited_for() {
    let mut bench = Bench::new(STRICT, &["Mine", "Lax"]);
    assert_eq!(bench.answers("Mine"), "plugin \"Mine\" is missing: no Mine.wasm in /plugins yet");
    assert_eq!(bench.answers("Lax"), "skipped");
    bench.put("Mine", "a");
    assert_eq!(bench.answers("Mine"), "a");
    let consequences = bench.roster.removed("Mine");
    bench.take(consequences);
    assert!(bench.answers("Mine").contains("is missing"));
    assert!(matches!(bench.news.as_slice(), [News::Absent { .. }]), "{:?}", bench.news);
}

#[test]
fn a_built_in_is_replaced_and_comes_back() {
    let mut bench = Bench::new(STRICT, &["NodeName"]);
    assert_eq!(bench.answers("NodeName"), "native");
    bench.put("NodeName", "a");
    assert_eq!(bench.answers("NodeName"), "a");
    let consequences = bench.roster.removed("NodeName");
    bench.take(consequences);
    assert_eq!(bench.answers("NodeName"), "native");
}

#[test]
fn the_file_that_is_refused_leaves_who_serves() {
    let mut bench = Bench::new(STRICT, &["Mine"]);
    let consequences = bench.roster.refused("Mine", "bad", "is not a WebAssembly file");
    bench.take(consequences);
    assert_eq!(bench.answers("Mine"), "plugin \"Mine\" is refused: Mine.wasm in /plugins is not a WebAssembly file");
    bench.put("Mine", "a");
    let consequences = bench.roster.refused("Mine", "bad", "is not a WebAssembly file");
    assert!(consequences.swaps.is_empty());
    assert_eq!(bench.answers("Mine"), "a");
}

#[test]
fn kinds_that_were_not_granted_refuse_the_binary() {
    let mut bench = Bench::new(STRICT, &["Mine"]);
    bench.put("Mine", "a");
    let mut manifest = Manifest::default();
    manifest.needs.objects.push(ObjectKind { api_version: "v1".to_owned(), kind: "Secret".to_owned() });
    let curious = Binary { factory: Arc::new(Fake { manifest, digest: "b".to_owned() }), ..component("b") };
    let consequences = bench.roster.found("Mine", curious, bench.now);
    let [News::Refused { reason, .. }] = consequences.news.as_slice() else { panic!("{consequences:?}") };
    assert!(reason.contains("v1/Secret"), "{reason}");
    assert!(consequences.swaps.is_empty());
}

#[test]
fn json_of_pods_that_nobody_kept_refuses_the_binary() {
    let that_wants_json = |digest: &str| {
        let mut manifest = Manifest::default();
        manifest.needs.pod_json = true;
        Binary { factory: Arc::new(Fake { manifest, digest: digest.to_owned() }), ..component(digest) }
    };
    let granted = "plugins: [{name: Mine, grants: {podJson: true}}]\n";
    let mut bench = Bench::new("", &["Mine"]);
    assert!(!bench.roster.settle_pod_json(), "nobody may see it");
    let consequences = bench.roster.found("Mine", that_wants_json("a"), bench.now);
    assert!(
        matches!(consequences.news.as_slice(), [News::Refused { reason, .. }, News::Absent { .. }] if reason.contains("grants.podJson"))
    );
    reconfigure(&mut bench, granted);
    let consequences = bench.roster.found("Mine", that_wants_json("a"), bench.now);
    assert!(matches!(consequences.news.as_slice(), [News::Refused { reason, .. }, ..] if reason.contains("restart")));
    let mut bench = Bench::new(granted, &["Mine"]);
    assert!(bench.roster.settle_pod_json(), "somebody may come who may");
    let consequences = bench.roster.found("Mine", that_wants_json("a"), bench.now);
    assert_eq!(consequences.swaps.len(), 1);
}

#[test]
fn too_many_faults_take_a_plugin_out_of_service_for_longer_and_longer() {
    let mut bench = Bench::new(STRICT, &["Mine"]);
    bench.put("Mine", "a");
    for seconds in [30, 60, 120] {
        bench.fault("Mine", "a", 2);
        assert_eq!(bench.answers("Mine"), "a");
        bench.fault("Mine", "a", 1);
        let message = "plugin \"Mine\" is out of service: 3 faults within 10 s, the last: trapped in filter";
        assert_eq!(bench.answers("Mine"), message);
        bench.advance(seconds - 1);
        assert_eq!(bench.answers("Mine"), message);
        bench.advance(1);
        assert_eq!(bench.answers("Mine"), "a", "after {seconds} s");
    }
    // Longer than the last quarantine without a fault: a new beginning.
    bench.advance(121);
    bench.fault("Mine", "a", 3);
    bench.advance(30);
    assert_eq!(bench.answers("Mine"), "a");
}

#[test]
fn faults_that_are_far_apart_are_forgiven() {
    let mut bench = Bench::new(STRICT, &["Mine"]);
    bench.put("Mine", "a");
    for _ in 0..10 {
        bench.fault("Mine", "a", 1);
        bench.advance(6);
    }
    assert_eq!(bench.answers("Mine"), "a");
}

#[test]
fn a_plugin_that_may_be_ignored_is_skipped_while_it_is_out_of_service() {
    let mut bench = Bench::new(STRICT, &["Lax"]);
    bench.put("Lax", "a");
    bench.fault("Lax", "a", 3);
    assert_eq!(bench.answers("Lax"), "skipped");
    bench.advance(30);
    assert_eq!(bench.answers("Lax"), "a");
}

#[test]
fn a_new_binary_ends_the_quarantine() {
    let mut bench = Bench::new(STRICT, &["Mine"]);
    bench.put("Mine", "a");
    bench.fault("Mine", "a", 3);
    bench.put("Mine", "b");
    assert_eq!(bench.answers("Mine"), "b");
    bench.fault("Mine", "b", 2);
    // On probation, it gave way to a binary whose sentence is served.
    assert_eq!(bench.answers("Mine"), "a");
}

#[test]
fn a_new_binary_that_faults_gives_way_to_the_one_before() {
    let mut bench = Bench::new(STRICT, &["Mine"]);
    bench.put("Mine", "a");
    bench.put("Mine", "b");
    bench.fault("Mine", "b", 1);
    assert_eq!(bench.answers("Mine"), "b", "one is forgiven");
    bench.fault("Mine", "b", 1);
    assert_eq!(bench.answers("Mine"), "a");
    let reason = "2 faults on probation, the last: trapped in filter".to_owned();
    assert_eq!(bench.news, [News::RolledBack { plugin: "Mine".to_owned(), digest: "b".to_owned(), reason }]);
    let refused = bench.roster.get("Mine").and_then(|entry| entry.refused.clone()).expect("remembered");
    assert_eq!(refused.digest, "b");
    bench.fault("Mine", "b", 5);
    assert_eq!(bench.answers("Mine"), "a", "what its last instances say is no longer of interest");
    bench.put("Mine", "c");
    assert_eq!(bench.answers("Mine"), "c");
}

#[test]
fn a_component_on_probation_gives_way_to_the_built_in() {
    let mut bench = Bench::new(STRICT, &["NodeName"]);
    bench.put("NodeName", "a");
    bench.fault("NodeName", "a", 2);
    assert_eq!(bench.answers("NodeName"), "native");
}

#[test]
fn after_its_probation_a_binary_is_quarantined_instead() {
    let mut bench = Bench::new(STRICT, &["Mine"]);
    bench.put("Mine", "a");
    bench.put("Mine", "b");
    bench.advance(60);
    assert_eq!(bench.news, [News::Proven { plugin: "Mine".to_owned() }]);
    bench.fault("Mine", "b", 2);
    assert_eq!(bench.answers("Mine"), "b");
    bench.fault("Mine", "b", 1);
    assert!(bench.answers("Mine").contains("out of service"));
}

#[test]
fn a_probation_can_be_a_number_of_calls() {
    // Each of these binaries says that it was called five times.
    for (calls, expected) in [(6, "a"), (5, "b")] {
        let mut bench = Bench::new(&format!("defaults: {{probation: {{calls: {calls}, faults: 0}}}}"), &["Mine"]);
        bench.put("Mine", "a");
        bench.put("Mine", "b");
        bench.fault("Mine", "b", 1);
        assert_eq!(bench.answers("Mine"), expected, "{calls} calls");
    }
}

#[test]
fn an_operator_goes_back_and_forth() {
    let mut bench = Bench::new(STRICT, &["Mine", "NodeName"]);
    bench.roster.roll_back("Nobody").expect_err("no such plugin");
    bench.roster.roll_back("NodeName").expect_err("nothing came in its place");
    bench.put("Mine", "a");
    bench.roster.roll_back("Mine").expect_err("nothing served before");
    bench.put("Mine", "b");
    bench.advance(600);
    let consequences = bench.roster.roll_back("Mine").expect("even long after its probation");
    bench.take(consequences);
    assert_eq!(bench.answers("Mine"), "a");
    bench.put("Mine", "b");
    assert_eq!(bench.answers("Mine"), "b", "loaded again by an operator");
    let consequences = bench.roster.set_disabled("Mine", true).expect("it is there");
    bench.take(consequences);
    assert_eq!(bench.answers("Mine"), "skipped");
    let consequences = bench.roster.set_disabled("Mine", false).expect("it is there");
    bench.take(consequences);
    assert_eq!(bench.answers("Mine"), "b");
}

#[test]
fn a_binary_that_no_profile_can_take_is_refused() {
    let mut bench = Bench::new(STRICT, &["Mine", "NodeName"]);
    bench.put("Mine", "a");
    let found = bench.roster.found("Mine", component("b"), bench.now);
    assert_eq!(found.swaps.len(), 1);
    // The scheduler kept `a`, so there is nothing to swap.
    let consequences = bench.roster.not_taken("Mine", "b", "unknown argument", bench.now);
    assert!(consequences.swaps.is_empty(), "{consequences:?}");
    assert!(matches!(consequences.news.as_slice(), [News::RolledBack { reason, .. }] if reason == "unknown argument"));
    bench.put("Mine", "c");
    assert_eq!(bench.answers("Mine"), "c");
    // Nothing to go back to: pods learn why.
    let mut bench = Bench::new(STRICT, &["Mine"]);
    let found = bench.roster.found("Mine", component("a"), bench.now);
    drop(found);
    let consequences = bench.roster.not_taken("Mine", "a", "needs an argument", bench.now);
    bench.take(consequences);
    assert_eq!(bench.answers("Mine"), "plugin \"Mine\" is refused: Mine.wasm in /plugins needs an argument");
}

#[test]
fn a_binary_that_cannot_be_started_again_stays_out_of_service() {
    let mut bench = Bench::new(STRICT, &["Mine"]);
    bench.put("Mine", "a");
    bench.fault("Mine", "a", 3);
    bench.now = bench.now + 30_000;
    let released = bench.roster.tick(bench.now);
    assert_eq!(released.swaps.len(), 1);
    let consequences = bench.roster.not_taken("Mine", "a", "trapped in configure", bench.now);
    bench.take(consequences);
    assert_eq!(bench.answers("Mine"), "plugin \"Mine\" is out of service: trapped in configure");
    bench.advance(59);
    assert!(bench.answers("Mine").contains("out of service"));
    bench.advance(1);
    assert_eq!(bench.answers("Mine"), "a");
}

#[test]
fn execution_may_differ_by_profile() {
    let config = "profiles: [{schedulerName: canary, execution: wasm}, {schedulerName: old, execution: native}]\n";
    let mut bench = Bench::with_profiles(config, &["main", "canary", "old"], &["NodeName"]);
    let everywhere = |bench: &Bench| ["main", "canary", "old"].map(|profile| bench.answers_in("NodeName", profile));
    assert_eq!(everywhere(&bench), ["native", "embedded", "native"]);
    bench.put("NodeName", "a");
    assert_eq!(everywhere(&bench), ["a", "a", "native"]);
    bench.fault("NodeName", "a", 3);
    assert_eq!(everywhere(&bench), ["native", "embedded", "native"]);
    bench.fault("NodeName", "embedded", 5);
    assert!(bench.answers_in("NodeName", "canary").contains("out of service"));
    assert_eq!(bench.answers_in("NodeName", "main"), "native", "which never faults");
}

#[test]
fn profiles_that_get_the_same_binary_change_over_together() {
    let mut bench = Bench::with_profiles(STRICT, &["main", "other"], &["Mine"]);
    let found = bench.roster.found("Mine", component("a"), bench.now);
    let [swap] = found.swaps.as_slice() else { panic!("{found:?}") };
    assert_eq!(swap.scheduler_names, ["main", "other"]);
}

#[test]
fn without_a_directory_absent_plugins_of_kube_scheduler_are_left_out() {
    let mut roster = Roster::new(Rules { on_command_line: Some(Execution::Auto), ..Rules::default() });
    let choice = roster.enlist("NodeVolumeLimits", "main");
    assert!(matches!(&choice, Choice::Skip(reason) if reason.contains("not in this build")), "{choice:?}");
    let mut bench = Bench::new(STRICT, &[]);
    bench.roster.add_optional("NodeVolumeLimits");
    let choice = bench.roster.enlist("NodeVolumeLimits", "main");
    assert!(matches!(&choice, Choice::Skip(_)), "{choice:?}");
    bench.take(Consequences::default());
    bench.put("NodeVolumeLimits", "a");
    assert_eq!(bench.answers("NodeVolumeLimits"), "a", "somebody brought it");
}

fn settings(config: &str) -> PluginHostSettings {
    PluginHostSettings::from_text("test", &format!("{HEADER}{config}")).expect("valid")
}

fn reconfigure(bench: &mut Bench, config: &str) -> (Vec<String>, Vec<String>) {
    let (consequences, to_retry) = bench.roster.reconfigure(settings(config), |_, _| Limits::default());
    let swapped = consequences.swaps.iter().map(|swap| swap.plugin.clone()).collect();
    bench.take(consequences);
    (swapped, to_retry)
}

#[test]
fn other_limits_and_grants_are_given_to_new_instances_of_whom_they_concern() {
    let mut bench = Bench::new("", &["Mine", "Other", "NodeName"]);
    bench.put("Mine", "a");
    bench.put("Other", "o");
    let limits = "plugins: [{name: Mine, limits: {memory: 1Mi}}]\n";
    assert_eq!(reconfigure(&mut bench, limits).0, ["Mine"]);
    assert!(reconfigure(&mut bench, limits).0.is_empty(), "nothing differs");
    assert_eq!(reconfigure(&mut bench, "defaults: {grants: {effects: [event]}}\n").0, ["Mine", "NodeName", "Other"]);
    assert!(bench.roster.grants("Mine").allows(berth_framework::Permission::Event));
}

#[test]
fn an_instance_that_cannot_be_built_anew_leaves_the_one_before() {
    let mut bench = Bench::new("", &["Mine"]);
    bench.put("Mine", "a");
    reconfigure(&mut bench, "plugins: [{name: Mine, limits: {memory: 1Mi}}]\n");
    let consequences = bench.roster.not_taken("Mine", "a", "asked for too much memory", bench.now);
    assert!(consequences.swaps.is_empty() && consequences.news.is_empty(), "{consequences:?}");
    assert_eq!(bench.answers("Mine"), "a");
}

#[test]
fn what_is_no_longer_granted_is_taken_back() {
    let reads = "plugins: [{name: Mine, grants: {reads: [v1/Secret]}}]\n";
    let mut bench = Bench::new(reads, &["Mine"]);
    let kind = berth_framework::ObjectKind { api_version: "v1".to_owned(), kind: "Secret".to_owned() };
    let mut manifest = Manifest::default();
    manifest.needs.objects.push(kind);
    let factory = Arc::new(Fake { manifest, digest: "a".to_owned() });
    let nosy = Binary { factory, source: Source::Directory, figures: None, component: None };
    let found = bench.roster.found("Mine", nosy, bench.now);
    bench.take(found);
    assert_eq!(bench.answers("Mine"), "a");
    assert_eq!(reconfigure(&mut bench, "").0, ["Mine"]);
    assert!(bench.answers("Mine").contains("wants to read v1/Secret"), "{}", bench.answers("Mine"));
    assert!(matches!(bench.news.as_slice(), [.., News::Refused { .. }, News::Absent { .. }]), "{:?}", bench.news);
    assert_eq!(reconfigure(&mut bench, reads).1, ["Mine"], "its file is worth another look");
}

#[test]
fn another_policy_holds_at_once() {
    let mut bench = Bench::new("", &["Mine"]);
    assert!(bench.answers("Mine").contains("is missing"));
    assert_eq!(reconfigure(&mut bench, "defaults: {failurePolicy: Ignore}\n").0, ["Mine"]);
    assert!(!bench.answers("Mine").contains("is missing"));
}

#[test]
fn a_binary_that_nobody_tried_is_nothing_to_go_back_to() {
    let mut bench = Bench::new(STRICT, &["Mine"]);
    bench.put("Mine", "a");
    for digest in ["b", "c"] {
        let consequences = bench.roster.found("Mine", component(digest), bench.now);
        bench.take(consequences);
    }
    // The profile is slow to say so: `b` was refused, and then `c`.
    for digest in ["b", "c"] {
        let consequences = bench.roster.not_taken("Mine", digest, "refuses its arguments", bench.now);
        bench.take(consequences);
    }
    assert_eq!(bench.roster.get("Mine").unwrap().installed.as_ref().unwrap().digest(), "a");
    assert_eq!(bench.roster.get("Mine").unwrap().serving["main"].now.digest(), "a");
    bench.fault("Mine", "a", 1);
    assert_eq!(bench.roster.get("Mine").unwrap().last_reason.as_deref(), Some("trapped in filter"));
}
