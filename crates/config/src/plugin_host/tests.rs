//! Tests with whole documents: the defaults, the order of precedence, and the error texts.

use std::{collections::BTreeSet, time::Duration};

use super::*;

const HEADER: &str = "apiVersion: berth.dev/v1alpha1\nkind: PluginHostConfiguration\n";

fn read(body: &str) -> Result<PluginHostSettings, PluginHostConfigError> {
    PluginHostSettings::from_text("plugins.yaml", &format!("{HEADER}{body}"))
}

/// The message must name the file and contain all of `parts`.
fn check_error(body: &str, parts: &[&str]) {
    let error = read(body).expect_err("must be refused").to_string();
    for part in ["plugins.yaml: "].iter().chain(parts) {
        assert!(error.contains(part), "{body} should say `{part}`, but says: {error}");
    }
}

const FULL: &str = "
defaults:
  limits: {callMilliseconds: 250, memory: 64Mi}
  grants: {effects: [event]}
  execution: wasm
  quarantine: {faults: 3}
plugins:
- name: Own
  limits: {callMilliseconds: 20, lifecycleMilliseconds: 2000, schedulingThreadMilliseconds: 200, postFilterMilliseconds: 300, millisecondsPerSecond: 100,
    burstMilliseconds: 400, outputBytes: 1000, outputElements: 10, logLinesPerSecond: 0}
  grants: {reads: [v1/ConfigMap, apps/v1/Deployment], effects: [bind, waitingPods, wait]}
  failurePolicy: Ignore
  execution: native
  quarantine: {windowSeconds: 10, lostMilliseconds: 700, backoffSeconds: 1}
  probation: {calls: 100, faults: 0}
- name: Plain
profiles:
- schedulerName: canary
  execution: auto
";

#[test]
fn an_empty_document_is_the_default() {
    let settings = read("").expect("an empty document is valid");
    assert_eq!(settings, PluginHostSettings::default());
    let plugin = settings.plugin("Any");
    assert_eq!(plugin.limits.call_time, Duration::from_millis(50));
    assert_eq!(plugin.failure_policy, FailurePolicy::Fail);
    assert_eq!(plugin.grants, None);
    assert_eq!(settings.default_grants(), PluginGrants::default());
    assert_eq!(settings.execution("Any", "any", None), Execution::Auto);
}

#[test]
fn files_may_take_what_is_said() {
    let files = read("files: {maxSize: 1Mi, compileSeconds: 5, compileMemory: 1Gi}\n").expect("valid").files();
    let said =
        FileSettings { max_bytes: 1 << 20, compile_cpu_time: Duration::from_secs(5), compile_memory_bytes: 1 << 30 };
    assert_eq!(files, said);
    let some = read("files: {maxSize: 1Mi}\n").expect("valid").files();
    assert_eq!(some, FileSettings { max_bytes: 1 << 20, ..FileSettings::default() });
    check_error("files: {compileSeconds: 0}\n", &["line 3", "must be at least 1"]);
}

#[test]
fn plugins_and_namespaces_may_take_what_is_said() {
    let milliseconds = Duration::from_millis;
    let said = read("schedulingThread: {pluginsMillisecondsPerSecond: 100}\n").expect("valid").scheduling_thread();
    let plugins_per_second = milliseconds(100);
    assert_eq!(said, SchedulingThreadSettings { plugins_per_second, ..SchedulingThreadSettings::default() });
    let said = read("schedulingThread: {namespaceMillisecondsPerSecond: 700}\n").expect("valid").scheduling_thread();
    assert_eq!((said.plugins_per_second, said.namespace_per_second), (milliseconds(300), milliseconds(700)));
    assert_eq!(said.search, milliseconds(250));
    let said = read("schedulingThread: {searchMilliseconds: 900}\n").expect("valid").scheduling_thread();
    assert_eq!(said.search, milliseconds(900));
    check_error("schedulingThread: {pluginsMillisecondsPerSecond: 0}\n", &["line 3", "must be at least 1"]);
}

#[test]
fn digests_are_denied() {
    let digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let settings = read(&format!("deniedDigests: [{digest}, 'sha256:{digest}']\n")).expect("valid");
    assert_eq!(settings.denied_digests().iter().map(ToString::to_string).collect::<Vec<_>>(), [digest]);
    check_error("deniedDigests:\n- md5:00\n", &["invalid SHA-256 digest \"md5:00\"", "line 4"]);
}

#[test]
fn the_json_of_pods_is_granted_by_name_or_to_all() {
    let own = read("plugins:\n- name: Nosy\n  grants: {podJson: true}\n").expect("valid");
    assert!(own.grants_pod_json() && own.plugin("Nosy").grants.is_some_and(|grants| grants.pod_json));
    assert!(!own.default_grants().pod_json);
    assert!(read("defaults: {grants: {podJson: true}}\n").expect("valid").grants_pod_json());
    assert!(!read(FULL).expect("valid").grants_pod_json());
}

#[test]
fn entries_are_laid_over_defaults() {
    let settings = read(FULL).expect("the document is valid");
    let own = settings.plugin("Own");
    let limits = PluginLimits {
        call_time: Duration::from_millis(20),
        lifecycle_time: Duration::from_secs(2),
        scheduling_thread_time: Duration::from_millis(200),
        post_filter_time: Duration::from_millis(300),
        time_per_second: Duration::from_millis(100),
        burst: Duration::from_millis(400),
        memory_bytes: 64 << 20,
        output_bytes: 1000,
        output_elements: 10,
        log_lines_per_second: 0,
    };
    assert_eq!(own.limits, limits);
    let grants = own.grants.expect("granted");
    let reads = [("v1", "ConfigMap"), ("apps/v1", "Deployment")];
    let kind = |(version, kind): (&str, &str)| ObjectKind { api_version: version.to_owned(), kind: kind.to_owned() };
    assert_eq!(grants.reads, reads.map(kind));
    assert_eq!(grants.effects, [Permission::Bind, Permission::WaitingPods, Permission::Wait]);
    assert_eq!(own.failure_policy, FailurePolicy::Ignore);
    let (window, backoff) = (Duration::from_secs(10), Duration::from_secs(1));
    let lost = Duration::from_millis(700);
    assert_eq!(own.quarantine, Quarantine { faults: 3, window, lost, backoff });
    assert_eq!(own.probation, Probation { span: ProbationSpan::Calls(100), faults: 0 });
    for other in [settings.plugin("Plain"), settings.plugin("Unnamed")] {
        assert_eq!(other.limits.call_time, Duration::from_millis(250));
        assert_eq!((other.grants, other.quarantine.faults), (None, 3));
    }
    assert_eq!(settings.default_grants().effects, [Permission::Event]);
}

#[test]
fn rules_name_objects_and_verbs() {
    let rules = "plugins:
- name: A
  grants:
    rules:
    - {apiGroups: [''], kinds: [Pod/status], verbs: [patch], objects: pod}
    - {apiGroups: ['', resource.k8s.io], kinds: [PersistentVolumeClaim, ResourceClaim], verbs: [patch], objects: claims}
    - {apiGroups: ['*'], kinds: ['*', '*/status'], verbs: [create, delete]}
    - {apiGroups: [apps], kinds: [Deployment], verbs: [delete], namespaces: [a, b], objects: any}
    - {apiGroups: [''], kinds: [Node], verbs: [patch], namespaces: ['*']}
";
    let rules = read(rules).expect("valid").plugin("A").grants.expect("granted").rules;
    let shown: Vec<String> = rules.iter().map(ToString::to_string).collect();
    let expected = [
        "{apiGroups: [\"\"], kinds: [Pod/status], verbs: [patch], objects: pod}",
        "{apiGroups: [\"\", resource.k8s.io], kinds: [PersistentVolumeClaim, ResourceClaim], verbs: [patch], objects: claims}",
        "{apiGroups: [\"*\"], kinds: [\"*\", \"*/status\"], verbs: [create, delete]}",
        "{apiGroups: [apps], kinds: [Deployment], verbs: [delete], namespaces: [a, b]}",
        "{apiGroups: [\"\"], kinds: [Node], verbs: [patch], namespaces: [\"*\"]}",
    ];
    assert_eq!(shown, expected);
    let again = format!("plugins: [{{name: A, grants: {{rules: [{}]}}}}]\n", shown.join(", "));
    assert_eq!(read(&again).expect("as it is shown").plugin("A").grants.expect("granted").rules, rules);
}

#[test]
fn rules_that_say_too_little_or_nothing_are_refused() {
    for (rule, part) in [
        ("kinds: [Pod], verbs: [patch]", "apiGroups"),
        ("apiGroups: [], kinds: [Node], verbs: [patch]", "at least one entry in apiGroups"),
        ("apiGroups: [''], kinds: [], verbs: [patch]", "at least one entry in kinds"),
        ("apiGroups: [''], kinds: [Node], verbs: []", "at least one entry in verbs"),
        ("apiGroups: [''], kinds: [Node], verbs: ['*']", "patch"),
        ("apiGroups: [v1], kinds: [Node], verbs: [patch]", "leave out the version"),
        ("apiGroups: [apps/v1], kinds: [Deployment], verbs: [patch]", "leave out the version"),
        ("apiGroups: ['*', apps], kinds: [Deployment], verbs: [patch]", "remove the other entries of apiGroups"),
        ("apiGroups: [''], kinds: [nodes], verbs: [patch]", "expected Kind or Kind/subresource"),
        ("apiGroups: [''], kinds: [Node/], verbs: [patch]", "expected Kind or Kind/subresource"),
        ("apiGroups: [''], kinds: [v1/Node], verbs: [patch]", "expected Kind or Kind/subresource"),
        ("apiGroups: [''], kinds: [Node], verbs: [patch], resourceNames: [a]", "resourceNames"),
        ("apiGroups: [''], kinds: [Node], verbs: [patch], objects: all", "all"),
        ("apiGroups: [''], kinds: [Secret], verbs: [patch], namespaces: ['']", "must not be empty"),
        (
            "apiGroups: [''], kinds: [Secret], verbs: [patch], namespaces: ['*', a]",
            "remove the other entries of namespaces",
        ),
        ("apiGroups: [''], kinds: [Pod], verbs: [patch], objects: pod, namespaces: [a]", "own namespace"),
        ("apiGroups: [''], kinds: [Pod, Node], verbs: [patch], objects: pod", "but not \"Node\""),
        ("apiGroups: ['*'], kinds: [Pod], verbs: [patch], objects: pod", "but not \"*\""),
        ("apiGroups: [''], kinds: [Pod], verbs: [create], objects: pod", "cannot be created"),
        ("apiGroups: [''], kinds: [Secret], verbs: [patch], objects: claims", "but not \"Secret\""),
    ] {
        check_error(&format!("defaults:\n  grants:\n    rules:\n    - {{{rule}}}\n"), &[part, "line 6"]);
    }
}

#[test]
fn the_nearest_word_on_execution_counts() {
    let settings = read(FULL).expect("the document is valid");
    assert_eq!(settings.execution("Own", "canary", Some(Execution::Wasm)), Execution::Native);
    assert_eq!(settings.execution("Plain", "canary", Some(Execution::Native)), Execution::Auto);
    assert_eq!(settings.execution("Plain", "other", Some(Execution::Native)), Execution::Native);
    assert_eq!(settings.execution("Plain", "other", None), Execution::Wasm);
}

#[test]
fn unknown_fields_are_refused_with_their_place() {
    check_error("defaults:\n  limitz: {}\n", &["limitz", "line 4"]);
    check_error("plugins:\n- name: A\n  limits:\n    callSeconds: 1\n", &["callSeconds", "line 6"]);
    check_error("plugins:\n- name: A\n  grant: {}\n", &["grant", "line 5"]);
    check_error("shadow: true\n", &["shadow", "line 3"]);
}

#[test]
fn impossible_values_are_refused_with_their_place() {
    check_error("plugins:\n- name: A\n  limits:\n    memory: lots\n", &["lots", "64Mi", "line 6"]);
    check_error("defaults:\n  limits:\n    callMilliseconds: 0\n", &["at least 1", "line 5"]);
    check_error("defaults:\n  quarantine:\n    faults: 0\n", &["at least 1", "line 5"]);
    check_error("defaults:\n  grants:\n    effects: [destroy]\n", &["destroy", "line 5"]);
    check_error("defaults:\n  grants:\n    reads: [ConfigMap]\n", &["ConfigMap", "v1/ConfigMap", "line 5"]);
    check_error(
        "defaults:\n  grants:\n    effects: [bind, patch]\n",
        &["grants.effects: \"patch\"", "rules: [{apiGroups: [\"*\"], kinds: [\"*\"], verbs: [patch]", "line 5"],
    );
    check_error("defaults:\n  failurePolicy: Never\n", &["Never", "line 4"]);
    check_error("defaults:\n  probation: {seconds: 1, calls: 1}\n", &["keep one", "line 4"]);
    check_error("plugins:\n- name: A\n- name: A\n", &["\"A\" twice", "line"]);
    check_error("plugins:\n- limits: {}\n", &["name", "line"]);
}

#[test]
fn a_value_that_is_no_list_comes_with_its_field_and_a_list() {
    let reads = "plugins.yaml: plugins[0].grants.reads: write a list, as in [v1/ConfigMap]: ";
    check_error("plugins:\n- name: A\n  grants:\n    reads: v1/ConfigMap\n", &[reads, "6"]);
    let plugins = "plugins.yaml: plugins: write a list, as in [{name: NAME, grants: {effects: [bind]}}]: ";
    check_error("plugins:\n  A: {}\n", &[plugins]);
    let kinds = "defaults.grants.rules[0].kinds: write a list, as in [A, B]: ";
    check_error("defaults: {grants: {rules: [{apiGroups: [''], kinds: ConfigMap, verbs: [patch]}]}}\n", &[kinds]);
    let other = read("plugins:\n- name: A\n  limits: [1]\n").expect_err("a map is expected").to_string();
    assert!(!other.contains("write a list"), "{other}");
}

#[test]
fn foreign_documents_are_named_as_such() {
    let error = PluginHostSettings::from_text("a.yaml", "apiVersion: v1\nkind: PluginHostConfiguration\n");
    let error = error.expect_err("must be refused").to_string();
    assert!(error.contains("a.yaml: ") && error.contains("berth.dev/v1alpha1"), "{error}");
    let error = PluginHostSettings::from_text("a.yaml", "apiVersion: berth.dev/v1alpha1\nkind: Pod\n");
    assert!(error.expect_err("must be refused").to_string().contains("PluginHostConfiguration"));
}

#[test]
fn the_example_says_what_holds_without_it() {
    let example = include_str!("../../../../examples/plugin-host.yaml");
    let settings = PluginHostSettings::from_text("plugin-host.yaml", example).expect("the example is valid");
    assert_eq!(settings.plugin("Any"), PluginSettings::default());
    assert_eq!(settings.default_grants(), PluginGrants::default());
    assert_eq!(settings.plugin("Coscheduling").failure_policy, FailurePolicy::Ignore);
    assert_eq!(settings.execution("Any", "canary", None), Execution::Wasm);
}

const PROVENANCE: &str = "
registries:
- host: registry.example:5000
  mirrors: [mirror.example/cache]
  plainHTTP: true
  caFile: /ca.pem
  pullSecretFile: /config.json
signers:
- {name: release, publicKeyFile: /release.pub}
- name: ci
  keyless: {fulcioRootsFile: /fulcio.pem, rekorKeyFile: /rekor.pub, issuer: 'https://ci.example', subjectPrefix: 'https://ci.example/team/'}
signatures:
- {source: directory, signers: [release, ci]}
- {source: 'oci://registry.example:5000/team/', signers: [ci], unsigned: warn}
- {source: 'oci://', unsigned: allow}
plugins:
- name: Zone
  source: {oci: 'registry.example:5000/team/zone:1', pullIntervalSeconds: 30}
- name: Plain
  source: {oci: 'registry.example:5000/plain:1'}
";

#[test]
fn sources_and_signers_are_read() {
    let settings = read(PROVENANCE).expect("valid");
    let provenance = settings.provenance();
    let registry = provenance.registries.first().expect("a registry");
    assert_eq!((registry.host.as_str(), registry.plain_http), ("registry.example:5000", true));
    assert_eq!(registry.mirrors, ["mirror.example/cache"]);
    let sources: Vec<String> = provenance.signatures.iter().map(|rule| rule.source.to_string()).collect();
    assert_eq!(sources, ["directory", "oci://registry.example:5000/team", "oci://"]);
    let unsigned: Vec<Unsigned> = provenance.signatures.iter().map(|rule| rule.unsigned).collect();
    assert_eq!(unsigned, [Unsigned::Deny, Unsigned::Warn, Unsigned::Allow]);
    let interval = |name: &str| settings.plugin(name).source.map(|source| source.pull_interval.as_secs());
    assert_eq!((interval("Zone"), interval("Plain"), interval("Other")), (Some(30), Some(300), None));
}

#[test]
fn mistakes_about_sources_and_signers_are_named() {
    for (body, words) in [
        ("registries: [{host: a.example}, {host: a.example}]", "registries names \"a.example\" twice"),
        ("registries: [{host: a.example, plainHttp: true}]", "unknown field"),
        ("signers: [{name: x}]", "signer \"x\" needs either publicKeyFile or keyless"),
        (
            "signers: [{name: x, keyless: {fulcioRootsFile: f, rekorKeyFile: r, issuer: i}}]",
            "needs either subject or subjectPrefix",
        ),
        ("signatures: [{source: directory, signers: [x]}]", "names the signer \"x\", which is not in signers"),
        ("signatures: [{source: directory}]", "without signers rejects every plugin"),
        ("signatures: [{source: registry.example, unsigned: allow}]", "invalid source"),
        (
            "signatures: [{source: directory, unsigned: allow}, {source: directory, unsigned: allow}]",
            "signatures names \"directory\" twice",
        ),
        ("plugins: [{name: Zone, source: {oci: x, pullIntervalSeconds: 0}}]", "pullIntervalSeconds must be at least 1"),
        ("defaults: {source: {oci: x}}", "unknown field"),
    ] {
        check_error(&format!("{body}\n"), &[words]);
    }
}

/// All names under `properties`, at any depth.
fn properties(schema: &serde_json::Value, names: &mut BTreeSet<String>) {
    if let Some(own) = schema["properties"].as_object() {
        names.extend(own.keys().cloned());
    }
    match schema {
        serde_json::Value::Object(fields) => fields.values().for_each(|value| properties(value, names)),
        serde_json::Value::Array(items) => items.iter().for_each(|item| properties(item, names)),
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_) => {}
    }
}

#[test]
fn the_chart_allows_the_fields_of_the_document_and_no_others() {
    let chart = include_str!("../../../../deploy/chart/values.schema.json");
    let chart: serde_json::Value = serde_json::from_str(chart).unwrap();
    let allowed = &chart["definitions"]["pluginHostConfiguration"]["propertyNames"]["enum"];
    let allowed: BTreeSet<String> = serde_json::from_value(allowed.clone()).unwrap();
    let schema = include_str!("../../../../docs/schemas/plugin-host-configuration.json");
    let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
    let fields: BTreeSet<String> = schema["properties"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(allowed, fields);
}

#[test]
fn the_guide_and_the_schema_name_the_same_fields() {
    let schema = include_str!("../../../../docs/schemas/plugin-host-configuration.json");
    let mut known = BTreeSet::new();
    properties(&serde_json::from_str(schema).unwrap(), &mut known);
    let page = include_str!("../../../../docs/src/configuration.md");
    let guide = [page, include_str!("../../../../docs/src/provenance.md")].concat();
    let words: BTreeSet<&str> = guide.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let missing: Vec<&String> = known.iter().filter(|name| !words.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "the guide does not name {missing:?}");
    // Tables of fields have the fields in the first column.
    let mut in_table = false;
    for line in page.lines() {
        in_table = line.starts_with("| field |") || in_table && line.starts_with('|');
        let cell = line.split(" | ").next().unwrap_or_default();
        for name in cell.split('`').skip(1).step_by(2).filter(|_| in_table) {
            let field = name.rsplit(['.', ' ']).next().unwrap_or_default();
            assert!(known.contains(field), "configuration.md has a field {name:?} that does not exist");
        }
    }
}
