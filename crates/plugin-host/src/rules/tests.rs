//! Tests of the grants of names, binaries and configurations, and of their effects.

use berth_framework::{ClusterEvent, Needs};

use super::*;

fn rules(plugins: &str) -> Rules {
    let text = format!("apiVersion: berth.dev/v1alpha1\nkind: PluginHostConfiguration\n{plugins}");
    Rules { settings: PluginHostSettings::from_text("test", &text).expect("valid"), ..Rules::default() }
}

fn kind(kind: &str) -> ObjectKind {
    ObjectKind { api_version: "v1".to_owned(), kind: kind.to_owned() }
}

fn that_reads(kinds: &[&str]) -> Manifest {
    let needs = Needs { objects: kinds.iter().copied().map(kind).collect(), ..Needs::default() };
    Manifest { needs, ..Manifest::default() }
}

fn that_hears_of(resources: &[&str]) -> Manifest {
    let events = resources.iter().map(|resource| ClusterEvent::new(resource, ClusterEvent::ADD));
    Manifest { events_to_register: Some(events.collect()), ..Manifest::default() }
}

#[test]
fn a_strange_name_is_granted_nothing() {
    assert_eq!(Rules::default().granted("Strange", None), Granted::default());
    // The name of a built-in gives no grants.
    assert_eq!(Rules::default().granted("VolumeBinding", None), Granted::default());
    let wanted = that_reads(&["Secret", "ConfigMap"]);
    let error = Granted::default().check_reads("Mine", &wanted, None).expect_err("not granted").to_string();
    assert!(error.starts_with("wants to read v1/Secret, v1/ConfigMap, but its grants.reads"), "{error}");
    assert!(error.ends_with(": plugins: [{name: Mine, grants: {reads: [v1/Secret, v1/ConfigMap]}}]"), "{error}");
}

/// The text of a file that an operator can write as it stands.
#[test]
fn an_operator_without_a_file_is_told_the_whole_file() {
    let wanted = that_reads(&["ConfigMap"]);
    let error = Granted::default().check_reads("Mine", &wanted, None).expect_err("not granted").without_file();
    let told = error.to_string();
    let (_, file) = told.split_once("give --plugin-config FILE, a file with this line: ").expect("a file");
    let settings = PluginHostSettings::from_text("test", &format!("{file}\n")).expect("valid");
    let rules = Rules { settings, ..Rules::default() };
    rules.granted("Mine", None).check_reads("Mine", &wanted, None).expect("granted");
}

#[test]
fn a_misspelt_kind_is_replaced_in_the_hint() {
    let granted = Granted { reads: vec![kind("configmap"), kind("Secret")], ..Granted::default() };
    let error = granted.check_reads("Mine", &that_reads(&["ConfigMap"]), None).expect_err("not granted").to_string();
    assert!(error.ends_with("add: plugins: [{name: Mine, grants: {reads: [v1/Secret, v1/ConfigMap]}}]"), "{error}");
    let herd = |kind: &str| ObjectKind { api_version: "example.com/v1".to_owned(), kind: kind.to_owned() };
    assert!(means(&herd("herd"), &herd("Herd")) && !means(&herd("Herd"), &herd("Herd")));
    assert!(!means(&herd("Flock"), &herd("Herd")), "both may exist");
}

#[test]
fn a_built_in_is_granted_what_it_needs() {
    let built_in = Manifest { effects: vec![Permission::Bind], ..that_reads(&["PersistentVolumeClaim"]) };
    let granted = Rules::default().granted("DefaultBinder", Some(&built_in));
    assert_eq!(granted.effects, [Permission::Bind]);
    assert!(granted.grants().allows(Permission::Bind) && !granted.grants().allows(Permission::Evict));
    granted.check_reads("DefaultBinder", &that_reads(&["PersistentVolumeClaim"]), None).expect("as the built-in");
    granted.check_reads("DefaultBinder", &that_reads(&["Secret"]), None).expect_err("the built-in does not");
}

#[test]
fn who_takes_the_name_of_a_built_in_is_told_all_that_it_needs() {
    let devices = berth_builtins::factory("DynamicResources").expect("built in");
    let devices = devices.manifest();
    let granted = Rules::default().granted("DynamicResources", None);
    assert!(granted.is_empty());
    let error = granted.check_reads("DynamicResources", devices, Some(devices)).expect_err("not granted").to_string();
    let lines = error.split_once("to grant it, add: ").expect("lines").1;
    let rules = rules(&format!("{lines}\n"));
    let by_name = |mut granted: Granted| {
        granted.effects.sort_by_key(|effect| format!("{effect:?}"));
        granted
    };
    assert_eq!(by_name(rules.granted("DynamicResources", None)), by_name(Granted::of_built_in(devices)));
}

#[test]
fn pods_are_shown_whole_only_if_granted() {
    let needs = Needs { pod_json: true, ..Needs::default() };
    let nosy = Manifest { needs, ..Manifest::default() };
    let error = Rules::default().granted("Nosy", None).check_reads("Nosy", &nosy, None).expect_err("not granted");
    assert!(error.to_string().contains("grants.podJson"), "{error}");
    rules("plugins: [{name: Nosy, grants: {podJson: true}}]\n")
        .granted("Nosy", None)
        .check_reads("Nosy", &nosy, None)
        .expect("granted");
    Rules::default().granted("Nosy", Some(&nosy)).check_reads("Nosy", &nosy, None).expect("as the built-in");
}

#[test]
fn events_are_free_of_kinds_that_built_ins_watch() {
    let none = Granted::default();
    let free = that_hears_of(&["Pod", "Node", "*", "PersistentVolumeClaim", "resource.k8s.io/ResourceClaim", "odd"]);
    none.check_reads("Mine", &free, None).expect("watched in any case");
    let error = none
        .check_reads("Mine", &that_hears_of(&["Node", "secrets.v1.", "herds.v1.example.com"]), None)
        .expect_err("not granted");
    let expected = "registers for events of herds.v1.example.com, secrets.v1. (`events-to-register` in its manifest), \
                    which the built-in plugins do not watch: add a kind of each of these apiVersions to its grants.reads \
                    in --plugin-config: example.com/v1, v1";
    assert_eq!(error.to_string(), expected);
    let granted = rules("plugins: [{name: Mine, grants: {reads: [example.com/v1/Herd]}}]\n").granted("Mine", None);
    granted.check_reads("Mine", &that_hears_of(&["herds.v1.example.com"]), None).expect("granted");
    granted.check_reads("Mine", &that_hears_of(&["herds.v2.example.com"]), None).expect_err("another version");
    granted.check_reads("Mine", &that_hears_of(&["ConfigMap"]), None).expect_err("another group");
}

#[test]
fn default_grants_add_and_own_grants_decide() {
    let built_in = Manifest { effects: vec![Permission::Bind], ..Manifest::default() };
    let rules = rules(
        "defaults: {grants: {effects: [event]}}\n\
         plugins:\n- name: DefaultBinder\n  grants: {}\n- name: Mine\n  grants: {reads: [v1/Secret], effects: [evict]}\n",
    );
    assert_eq!(rules.granted("DefaultBinder", Some(&built_in)), Granted::default());
    let mine = Granted { effects: vec![Permission::Evict], reads: vec![kind("Secret")], ..Granted::default() };
    assert_eq!(rules.granted("Mine", None), mine);
    assert_eq!(rules.granted("Other", None).effects, [Permission::Event]);
    let rules = self::rules("defaults: {grants: {effects: [event]}}\n");
    let effects = rules.granted("DefaultBinder", Some(&built_in)).effects;
    assert_eq!(effects, [Permission::Event, Permission::Bind]);
}

#[test]
fn built_ins_are_compiled_only_where_they_may_run_as_components() {
    assert!(!Rules::default().may_run_as_component("NodeName"));
    assert!(rules("profiles: [{schedulerName: canary, execution: wasm}]\n").may_run_as_component("NodeName"));
    let one = rules("plugins: [{name: NodeName, execution: wasm}]\n");
    assert!(one.may_run_as_component("NodeName") && !one.may_run_as_component("NodePorts"));
    let all = Rules { on_command_line: Some(Execution::Wasm), ..Rules::default() };
    assert!(all.may_run_as_component("NodeName"));
}

/// The example names all built-ins that have grants, with these grants.
#[test]
fn the_example_grants_what_built_ins_need() {
    let example = include_str!("../../../../examples/replaced-built-ins.yaml");
    let settings = PluginHostSettings::from_text("replaced-built-ins.yaml", example).expect("the example is valid");
    let rules = Rules { settings, ..Rules::default() };
    let mut needed = BTreeSet::new();
    for factory in berth_builtins::factories() {
        let needs = Granted::of_built_in(factory.manifest());
        let name = factory.manifest().name.clone();
        assert_eq!(rules.granted(&name, None), needs, "{}", needs.lines(&name));
        needed.extend((!needs.is_empty()).then_some(name));
    }
    assert_eq!(rules.settings.named().map(|name| name.to_string()).collect::<BTreeSet<_>>(), needed);
}
