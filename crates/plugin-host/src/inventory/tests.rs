//! Tests of the effect of the operator's rules on the binaries that may serve.

use std::collections::BTreeMap;

use berth_config::{PluginHostSettings, Settings};
use berth_framework::{BuildError, ObjectKind, Permission, Plugin, PluginVersion, Point};
use berth_lifecycle::PluginNoticeKind;
use berth_model::Digest;
use berth_wasm_host::{Binary, Engine, EngineOptions};

use super::*;
use crate::provenance::Provenance;

const HEADER: &str = "apiVersion: berth.dev/v1alpha1\nkind: PluginHostConfiguration\n";

const NOW: Time = Time(1_000_000);

#[derive(Debug)]
struct Fake(Manifest);

impl PluginFactory for Fake {
    fn manifest(&self) -> &Manifest {
        &self.0
    }
    fn points(&self) -> Points {
        [Point::Filter].into_iter().collect()
    }
    fn version(&self) -> PluginVersion {
        PluginVersion::default()
    }
    fn build(&self, _args: &str) -> Result<Box<dyn Plugin>, BuildError> {
        Err(BuildError::Start("nobody builds these".to_owned()))
    }
}

fn binary(manifest: Manifest) -> ReadyBinary {
    ReadyBinary::Native(Arc::new(Fake(manifest)))
}

fn component(letter: u8, manifest: Manifest) -> Component<ReadyBinary> {
    Component { digest: Digest::new([letter; 32]), binary: binary(manifest) }
}

fn plain(letter: u8) -> Component<ReadyBinary> {
    component(letter, Manifest::default())
}

fn that_reads_secrets(letter: u8) -> Component<ReadyBinary> {
    let mut manifest = Manifest::default();
    manifest.needs.objects.push(ObjectKind { api_version: "v1".to_owned(), kind: "Secret".to_owned() });
    component(letter, manifest)
}

fn that_wants_json(letter: u8) -> Component<ReadyBinary> {
    let mut manifest = Manifest::default();
    manifest.needs.pod_json = true;
    component(letter, manifest)
}

fn settings(config: &str) -> PluginHostSettings {
    PluginHostSettings::from_text("test", &format!("{HEADER}{config}")).expect("valid")
}

fn file(config: &str) -> HostFile {
    HostFile { settings: settings(config), ..HostFile::default() }
}

/// One profile that uses all of `plugins`; `NodeName` is built in.
fn inventory(config: &str, plugins: &[&str]) -> PluginInventory {
    let rules = Rules { settings: settings(config), directory: Some("/plugins".into()), ..Rules::default() };
    let mut inventory = PluginInventory::new(rules);
    inventory.registry.add_built_in(&"NodeName".into(), binary(Manifest::default()), None);
    for plugin in plugins {
        inventory.registry.join_profile(&(*plugin).into(), "main", &inventory.rules);
    }
    inventory
}

/// The swaps and the notices.
fn outcome(consequences: &Consequences<ReadyBinary>) -> (Vec<&str>, Vec<&PluginNoticeKind>) {
    let swaps = consequences.swaps.iter().map(|swap| swap.plugin.as_str());
    (swaps.collect(), consequences.notices.iter().map(|notice| &notice.kind).collect())
}

/// The swaps, and the files that must be read again.
fn reconfigure(inventory: &mut PluginInventory, config: &str) -> (Vec<String>, Vec<PluginName>) {
    let (consequences, to_retry) = inventory.settings_changed(file(config), NOW);
    (outcome(&consequences).0.into_iter().map(str::to_owned).collect(), to_retry)
}

#[test]
fn what_a_component_claims_to_need_grants_it_nothing() {
    let mut inventory = inventory("", &["Mine", "NodeName"]);
    for name in ["Mine", "NodeName"] {
        let claims = Manifest { effects: vec![Permission::Evict], ..Manifest::default() };
        inventory.found(&name.into(), component(b'a', claims), NOW);
        assert_eq!(inventory.granted(name, Some(plain(b'a').id())), Granted::default());
    }
}

#[test]
fn denied_digests_are_out_of_service_until_they_are_allowed_again() {
    let digest = |letter: u8| Digest::new([letter; 32]);
    let denied = |letter: u8| format!("deniedDigests: [{}]\n", digest(letter));
    let mut inventory = inventory("", &["Mine"]);
    inventory.registry.add_installed(&"Mine".into(), plain(b'a'));
    inventory.found(&"Mine".into(), plain(b'b'), NOW);
    assert_eq!(reconfigure(&mut inventory, &denied(b'b')).0, ["Mine"]);
    assert_eq!(inventory.registry.installed("Mine").map(|component| component.digest), Some(digest(b'a')));
    let consequences = inventory.found(&"Mine".into(), plain(b'b'), NOW).consequences;
    assert!(
        matches!(outcome(&consequences).1.as_slice(), [PluginNoticeKind::Refused { reason, .. }] if reason.contains("denied digest")),
        "{consequences:?}"
    );
    let (swapped, to_retry) = reconfigure(&mut inventory, "");
    assert_eq!((swapped, to_retry), (Vec::new(), vec!["Mine".into()]));
    inventory.found(&"Mine".into(), plain(b'b'), NOW);
    reconfigure(&mut inventory, &denied(b'a'));
    assert!(inventory.registry.fallback("Mine").is_none(), "no rollback to a denied binary");
    assert!(inventory.check(&"Mine".into(), &plain(b'a')).is_err());
}

#[test]
fn the_grants_of_a_built_in_belong_to_its_binaries() {
    let mut inventory = inventory("", &[]);
    let name = PluginName::from("DefaultBinder");
    let native = ReadyBinary::Native(berth_builtins::factory(&name).expect("built in"));
    inventory.registry.add_built_in(&name, native, None);
    let embedded = berth_components::COMPONENTS.iter().find(|component| name == component.name).expect("embedded");
    let digest = Binary::embedded(embedded.name, embedded.bytes()).digest();
    for own in [BinaryId::Native, BinaryId::Component(digest)] {
        assert_eq!(inventory.granted(&name, Some(own)).effects, [Permission::Bind], "{own}");
        assert_eq!(inventory.granted("Mine", Some(own)), Granted::default(), "under another name");
    }
    for other in [Some(plain(b'a').id()), None] {
        assert_eq!(inventory.granted(&name, other), Granted::default());
    }
    inventory.registry.join_profile(&name, "main", &inventory.rules);
    assert!(inventory.serving_granted(&name).grants().allows(Permission::Bind));
    inventory.found(&name, plain(b'a'), NOW);
    assert!(!inventory.serving_granted(&name).grants().allows(Permission::Bind), "the file serves");
    let granted = "plugins: [{name: DefaultBinder, grants: {effects: [bind]}}]\n";
    assert_eq!(reconfigure(&mut inventory, granted).0, ["DefaultBinder"]);
    assert!(inventory.serving_granted(&name).grants().allows(Permission::Bind));
}

/// With the gate DRANodeAllocatableResources, DynamicResources needs the pod's JSON.
#[test]
fn a_copy_of_an_own_component_gets_what_its_gate_needs() {
    let mut components = berth_components::COMPONENTS.iter();
    let embedded = components.find(|component| component.name == "DynamicResources").expect("embedded");
    let features = Features::default().with(Feature::DRANodeAllocatableResources, true);
    let args = serde_json::json!({ Features::IN_ARGS: features }).to_string();
    let engine = Engine::new(EngineOptions::default()).expect("an engine");
    let loaded = engine.load(&Binary::new(embedded.name, embedded.bytes())).expect("a plugin");
    let sees_json = |factory: &dyn PluginFactory| factory.build(&args).expect("it starts").manifest().needs.pod_json;
    assert!(!sees_json(&loaded));
    let copy = crate::ready_binary::component(Arc::new(loaded), crate::ready_binary::Origin::default());
    assert!(sees_json(&*copy.binary.factory()));
}

#[test]
fn kinds_that_were_not_granted_refuse_the_binary() {
    let mut inventory = inventory("", &["Mine"]);
    inventory.found(&"Mine".into(), plain(b'a'), NOW);
    let consequences = inventory.found(&"Mine".into(), that_reads_secrets(b'b'), NOW).consequences;
    let (swaps, notices) = outcome(&consequences);
    let [PluginNoticeKind::Refused { reason, .. }] = notices.as_slice() else { panic!("{consequences:?}") };
    assert!(reason.contains("v1/Secret"), "{reason}");
    assert!(swaps.is_empty());
}

#[test]
fn a_binary_that_wants_json_of_pods_serves_once_the_pods_are_listed_with_it() {
    let granted = "plugins: [{name: Mine, grants: {podJson: true}}]\n";
    let mut inventory = inventory("", &["Mine"]);
    assert!(!inventory.settle_pod_json() && !inventory.wants_pod_json(), "no plugin has the grant");
    let consequences = inventory.found(&"Mine".into(), that_wants_json(b'a'), NOW).consequences;
    assert!(matches!(
        outcome(&consequences).1.as_slice(),
        [PluginNoticeKind::Refused { reason, .. }, PluginNoticeKind::NotServed { .. }] if reason.contains("grants.podJson")
    ));
    reconfigure(&mut inventory, granted);
    let consequences = inventory.found(&"Mine".into(), that_wants_json(b'a'), NOW).consequences;
    assert!(matches!(
        outcome(&consequences).1.as_slice(),
        [PluginNoticeKind::Refused { reason, .. }, ..] if reason.contains("which are being listed")
    ));
    assert!(inventory.wants_pod_json());
    assert_eq!(inventory.pod_json_listed(), ["Mine"]);
    assert!(!inventory.wants_pod_json(), "they are listed");
    let consequences = inventory.found(&"Mine".into(), that_wants_json(b'a'), NOW).consequences;
    assert_eq!(outcome(&consequences).0, ["Mine"]);
    let mut inventory = self::inventory(granted, &["Mine"]);
    assert!(inventory.settle_pod_json(), "a plugin with the grant may be added");
    let consequences = inventory.found(&"Mine".into(), that_wants_json(b'a'), NOW).consequences;
    assert_eq!(outcome(&consequences).0, ["Mine"]);
}

#[test]
fn other_limits_and_grants_are_given_to_new_instances_of_whom_they_concern() {
    let mut inventory = inventory("", &["Mine", "Other", "NodeName"]);
    inventory.found(&"Mine".into(), plain(b'a'), NOW);
    inventory.found(&"Other".into(), plain(b'o'), NOW);
    let limits = "plugins: [{name: Mine, limits: {memory: 1Mi}}]\n";
    assert_eq!(reconfigure(&mut inventory, limits).0, ["Mine"]);
    assert!(reconfigure(&mut inventory, limits).0.is_empty(), "nothing differs");
    let grants = "defaults: {grants: {effects: [event]}}\n";
    assert_eq!(reconfigure(&mut inventory, grants).0, ["Mine", "NodeName", "Other"]);
    assert!(inventory.serving_granted("Mine").grants().allows(Permission::Event));
}

#[test]
fn what_is_no_longer_granted_is_taken_back() {
    let reads = "plugins: [{name: Mine, grants: {reads: [v1/Secret]}}]\n";
    let mut inventory = inventory(reads, &["Mine"]);
    inventory.found(&"Mine".into(), that_reads_secrets(b'a'), NOW);
    assert!(inventory.registry.installed("Mine").is_some());
    let (consequences, _) = inventory.settings_changed(file(""), NOW);
    let (swaps, notices) = outcome(&consequences);
    assert_eq!(swaps, ["Mine"]);
    assert!(
        matches!(notices.as_slice(), [PluginNoticeKind::Refused { .. }, PluginNoticeKind::NotServed { reason }]
            if reason.contains("wants to read v1/Secret")),
        "{notices:?}"
    );
    assert_eq!(reconfigure(&mut inventory, reads).1, ["Mine"], "its file is worth another look");
}

#[test]
fn a_fallback_that_may_no_longer_read_is_dropped() {
    let reads = "plugins: [{name: Mine, grants: {reads: [v1/Secret]}}]\n";
    let mut inventory = inventory(reads, &["Mine"]);
    inventory.check(&"Mine".into(), &that_reads_secrets(b'a')).expect("granted");
    inventory.registry.add_installed(&"Mine".into(), that_reads_secrets(b'a'));
    inventory.found(&"Mine".into(), plain(b'b'), NOW);
    assert!(inventory.registry.fallback("Mine").is_some());
    reconfigure(&mut inventory, "");
    assert!(inventory.registry.fallback("Mine").is_none());
}

/// The configuration was read before the plugin was loaded, so nothing refused the list of `reserve`.
#[test]
fn a_list_of_a_point_that_the_binary_lacks_is_the_reason_of_the_plugin() {
    let mut inventory = inventory("", &["Mine"]);
    let config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n\
                  - schedulerName: main\n  plugins:\n    filter: {enabled: [{name: Mine}]}\n    \
                  reserve: {enabled: [{name: Mine}]}\n";
    let settings = Settings::from_text("file", config, &inventory).expect("the plugin may come later");
    inventory.named_points = NamedPoints::of(&settings);
    assert!(inventory.missed_points("Mine", "main").is_empty(), "nothing serves yet");
    inventory.found(&"Mine".into(), plain(b'a'), NOW);
    let told = "profiles[0].plugins.reserve: plugin \"Mine\" does not extend ReservePlugin plugin: it implements filter: \
                enable it there, or under multiPoint";
    assert_eq!(inventory.missed_points("Mine", "main"), [told]);
    let report = crate::report::one(&inventory, "Mine").expect("it is known");
    assert_eq!((report.missed_points.as_slice(), report.reason.as_deref()), ([told.to_owned()].as_slice(), Some(told)));
    let complaints = report.complaints();
    assert!(complaints.iter().any(|it| it.is_problem && it.text.contains(told)), "{complaints:?}");
    let refused = Settings::from_text("file", config, &inventory).expect_err("it is refused from now on");
    assert!(refused.to_string().contains(told), "{refused}");
}

/// No binary serves, so the report says where the refused binary was found.
#[test]
fn a_refused_binary_is_named_by_its_file_or_by_its_reference() {
    let config = "plugins: [{name: Pulled, source: {oci: 'registry.example/team/pulled:1'}}]\n";
    let mut inventory = inventory(config, &["Pulled", "Mine"]);
    inventory.rules.provenance = Provenance::read(&settings(config)).expect("no file is named");
    for (name, place, source) in
        [("Pulled", "registry.example/team/pulled:1", "registry"), ("Mine", "Mine.wasm in /plugins", "directory")]
    {
        inventory.registry.refused(&name.into(), None, "has no signature", NOW, &inventory.rules);
        let report = crate::report::one(&inventory, name).expect("it is known");
        let reason = format!("{place} has no signature");
        assert_eq!((report.source.as_str(), report.reason.as_ref()), (source, Some(&reason)));
        let fix = &report.complaints()[0].fix;
        assert_eq!(fix.contains("push another version to its registry"), source == "registry", "{fix}");
    }
}

#[test]
fn a_placeholder_holds_pods_or_lets_them_pass() {
    let inventory = inventory("plugins: [{name: Lax, failurePolicy: Ignore}]\n", &[]);
    let mut says = BTreeMap::new();
    for plugin in ["Mine", "Lax"] {
        let name = plugin.into();
        let service = inventory.registry.offer(&name, "main", &inventory.rules);
        let placeholder = inventory.factory(&name, "main", &service).build("null");
        let mut placeholder = placeholder.expect("placeholders take everything");
        says.insert(plugin, placeholder.sync(&berth_cache::Cache::new()).map_err(|status| status.message()));
    }
    let missing = "plugin \"Mine\" is missing: Mine.wasm in /plugins does not exist yet";
    assert_eq!(says, BTreeMap::from([("Mine", Err(missing.to_owned())), ("Lax", Ok(()))]));
}

#[test]
fn a_placeholder_names_the_kinds_of_a_plugin_that_will_serve_again() {
    let mut inventory = inventory("plugins: [{name: Mine, grants: {reads: [v1/Secret]}}]\n", &["Mine"]);
    let name: PluginName = "Mine".into();
    let n_kinds = |inventory: &PluginInventory| {
        let service = Service::Hold("out of service".to_owned());
        inventory.factory(&name, "main", &service).manifest().needs.objects.len()
    };
    inventory.found(&name, that_reads_secrets(b'a'), NOW);
    assert_eq!(n_kinds(&inventory), 1);
    let ordered = inventory.registry.set_disabled(&name, true, NOW, &inventory.rules);
    assert!(ordered.is_ok() && n_kinds(&inventory) == 0, "an operator switched it off");
    let ordered = inventory.registry.set_disabled(&name, false, NOW, &inventory.rules);
    assert!(ordered.is_ok() && n_kinds(&inventory) == 1, "it is on again");
    let consequences = inventory.registry.removed(&name, NOW, &inventory.rules);
    assert!(!consequences.swaps.is_empty() && n_kinds(&inventory) == 0, "its file is gone");
}
