//! Tests with whole documents: defaults, every field, the error texts, and documents that are written back.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};

use crate::{ConfigError, Overrides, Program, Settings, in_tree::testing::in_tree};

const HEADER: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

fn read(body: &str) -> Result<Settings, ConfigError> {
    Settings::from_text("kube.yaml", &format!("{HEADER}{body}"), &in_tree())
}

fn check_error(body: &str, expected: &str) {
    let error = read(body).expect_err("must be refused").to_string();
    let lines: Vec<_> = error.lines().map(|line| line.trim_start_matches("kube.yaml: ")).collect();
    assert_eq!(lines.join("\n"), expected, "{body}");
}

const FULL: &str = "
parallelism: 4
percentageOfNodesToScore: 50
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 20
enableProfiling: false
delayCacheUntilActive: true
leaderElection: {leaderElect: false, leaseDuration: 1m30s, resourceName: berth, resourceNamespace: berth-system}
clientConnection: {kubeconfig: /etc/k.conf, acceptContentTypes: application/json, qps: 12.5, burst: 7}
profiles:
- schedulerName: one
- schedulerName: two
  percentageOfNodesToScore: 5
  plugins:
    multiPoint: {disabled: [{name: ImageLocality}]}
    score: {enabled: [{name: NodeAffinity, weight: 9}]}
  pluginConfig:
  - {name: VolumeBinding, args: {bindTimeoutSeconds: 60}}
extenders:
- urlPrefix: https://helper.example.com/scheduler
  filterVerb: filter
  prioritizeVerb: prioritize
  weight: 5
  enableHTTPS: true
  tlsConfig: {serverName: helper, caData: QUJD}
  httpTimeout: 2s
  managedResources: [{name: example.com/gpu, ignoredByScheduler: true}]
- {urlPrefix: http://other.example.com, bindVerb: bind, ignorable: true}
";

#[test]
fn empty_document_is_the_default() {
    let settings = read("").expect("an empty document is valid");
    assert_eq!(settings, Settings::defaults(&in_tree()));
    assert_eq!(settings.parallelism, 16);
    assert_eq!(settings.pod_max_backoff, Duration::from_secs(10));
    assert_eq!(settings.leader_election.lease_duration, Duration::from_secs(15));
    assert!(settings.enable_contention_profiling);
    let names: Vec<_> = settings.profiles.iter().map(|profile| profile.scheduler_name.as_str()).collect();
    assert_eq!(names, ["default-scheduler"]);
}

#[test]
fn the_chart_allows_the_fields_of_the_document_and_no_others() {
    let schema = include_str!("../../../../deploy/chart/values.schema.json");
    let schema: Value = serde_json::from_str(schema).expect("a schema");
    let allowed = &schema["definitions"]["kubeSchedulerConfiguration"]["propertyNames"]["enum"];
    let allowed: BTreeSet<String> = serde_json::from_value(allowed.clone()).expect("names");
    let document = Settings::defaults(&in_tree()).to_json();
    let fields: BTreeSet<String> = document.as_object().expect("an object").keys().cloned().collect();
    assert_eq!(allowed, fields);
}

#[test]
fn every_field_is_read() {
    let settings = read(FULL).expect("the document is valid");
    assert_eq!(settings.parallelism, 4);
    assert_eq!(settings.percentage_of_nodes_to_score, 50);
    assert_eq!(settings.pod_initial_backoff, Duration::from_secs(2));
    assert!(!settings.enable_contention_profiling);
    assert!(settings.delay_cache_until_active);
    assert_eq!(settings.leader_election.lease_duration, Duration::from_secs(90));
    assert_eq!(settings.leader_election.resource_name, "berth");
    assert_eq!((settings.client_connection.qps, settings.client_connection.burst), (12.5, 7));
    assert_eq!(settings.profiles[1].percentage_of_nodes_to_score, Some(5));
    assert_eq!(settings.profiles[1].plugin_config["VolumeBinding"]["bindTimeoutSeconds"], 60);
    assert_eq!(settings.extenders[0].http_timeout, Duration::from_secs(2));
    assert_eq!(settings.extenders[1].http_timeout, Duration::from_secs(5));
    assert!(settings.extenders[0].managed_resources[0].ignored_by_scheduler);
}

#[test]
fn effective_configuration_reads_back_unchanged() {
    for settings in [Settings::defaults(&in_tree()), read(FULL).expect("the document is valid")] {
        let yaml = settings.to_yaml().expect("settings render");
        let again = Settings::from_text("again.yaml", &yaml, &in_tree()).expect("rendered settings are valid");
        assert_eq!(again, settings, "{yaml}");
        let json = settings.to_json().to_string();
        let again = Settings::from_text("again.json", &json, &in_tree()).expect("JSON is valid");
        assert_eq!(again, settings, "{json}");
    }
}

#[test]
fn foreign_documents_are_named_as_such() {
    let error = Settings::from_text("pod.yaml", "apiVersion: v1\nkind: Pod\nspec: {}\n", &in_tree());
    assert_eq!(
        error.expect_err("must be refused").to_string(),
        "pod.yaml: apiVersion: Unsupported value: \"v1\": supported values: \"kubescheduler.config.k8s.io/v1\"\n\
         pod.yaml: kind: Unsupported value: \"Pod\": supported values: \"KubeSchedulerConfiguration\""
    );
    let error = Settings::from_text("empty.yaml", "", &in_tree()).expect_err("must be refused").to_string();
    assert!(error.contains("apiVersion: Required value: begin the document with"), "{error}");
}

#[test]
fn bad_syntax_and_duplicate_keys_name_the_file() {
    for body in ["parallelism: [", "parallelism: 1\nparallelism: 2\n"] {
        let error = read(body).expect_err("must be refused");
        assert!(matches!(error, ConfigError::Syntax { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.starts_with("kube.yaml: not valid YAML or JSON, correct the syntax: "), "{text}");
        assert!(text.contains("line"), "{text}");
    }
    assert!(read("parallelism: 1\nparallelism: 2\n").expect_err("duplicate").to_string().contains("parallelism"));
}

#[test]
fn top_level_mistakes_are_listed_together() {
    check_error(
        "parallelism: 0\npercentageOfNodesToScore: 101\npodInitialBackoffSeconds: 0\npodMaxBackoffSeconds: -1\n\
         leaderElection: {renewDeadline: 20s, resourceLock: endpoints}\nclientConnection: {burst: -1}\n\
         healthzBindAddress: x\n",
        "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0\n\
         podMaxBackoffSeconds: Invalid value: -1: must be greater than or equal to PodInitialBackoffSeconds\n\
         parallelism: Invalid value: 0: should be an integer value greater than zero\n\
         percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]\n\
         leaderElection.leaseDuration: Invalid value: \"15s\": LeaseDuration must be greater than RenewDeadline\n\
         leaderElection.resourceLock: Invalid value: \"endpoints\": resourceLock value must be \"leases\"\n\
         clientConnection.burst: Invalid value: -1: must be non-negative\n\
         healthzBindAddress: unknown field; remove it or use one of: apiVersion, kind, profiles, \
         podInitialBackoffSeconds, podMaxBackoffSeconds, enableProfiling, parallelism, percentageOfNodesToScore, \
         leaderElection, clientConnection, enableContentionProfiling, delayCacheUntilActive, extenders",
    );
    check_error(
        "leaderElection: {leaseDuration: 5, retryPeriod: 9s}",
        "leaderElection.leaseDuration: Invalid value: 5: must be a duration such as \"15s\" or \"1m30s\"\n\
         leaderElection.renewDeadline: Invalid value: \"10s\": must be greater than 1.2 times retryPeriod",
    );
}

#[test]
fn profiles_must_agree_with_each_other() {
    check_error(
        "profiles: [{}, {schedulerName: a}, {schedulerName: a}]",
        "profiles[0].schedulerName: Required value: every profile needs a name if there are several\n\
         profiles[2].schedulerName: Duplicate value: \"a\": keep one of them",
    );
    check_error(
        "profiles: [{schedulerName: a}, {schedulerName: b, pluginConfig: [{name: PrioritySort, args: {x: 1}}]}]",
        "profiles[1].pluginConfig: Invalid value: \"PrioritySort\": args of the queue sort plugin must be the same for \
         all profiles",
    );
}

#[test]
fn node_resources_fit_passes_over_what_extenders_manage() {
    let mut settings = read(FULL).expect("valid");
    settings.ignore_managed_resources();
    for profile in &settings.profiles {
        assert_eq!(
            profile.plugin_config["NodeResourcesFit"]["ignoredResources"],
            serde_json::json!(["example.com/gpu"])
        );
    }
}

#[test]
fn extenders_are_checked() {
    check_error(
        "extenders:\n\
         - {urlPrefix: a, prioritizeVerb: p, bindVerb: b, managedResources: [{name: example.com/a}]}\n\
         - {urlPrefix: b, bindVerb: b, managedResources: [{name: example.com/a}, {name: cpu}], httpTimeout: -1s}\n",
        "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it\n\
         extenders[1].httpTimeout: Invalid value: \"-1s\": must not be negative\n\
         extenders[1].managedResources[0].name: Invalid value: \"example.com/a\": duplicate extender managed resource \
         name\n\
         extenders[1].managedResources[1].name: Invalid value: \"cpu\": must be an extended resource name such as \
         example.com/gpu, outside kubernetes.io\n\
         extenders: Invalid value: \"found 2 extenders implementing bind\": only one extender can implement bind",
    );
}

fn check_command(overrides: &Overrides, body: Option<&str>, profile: &str, lease: &str) {
    let settings = match body {
        Some(body) => Settings::from_text_and("kube.yaml", &format!("{HEADER}{body}"), overrides, &in_tree()),
        None => Settings::without_text(overrides, &in_tree()),
    };
    let settings = settings.expect("valid settings");
    let names: Vec<_> = settings.profiles.iter().map(|profile| profile.scheduler_name.as_str()).collect();
    assert_eq!(
        (names.as_slice(), settings.leader_election.resource_name.as_str()),
        (&[profile][..], lease),
        "{body:?}"
    );
}

#[test]
fn two_schedulers_share_neither_pods_nor_a_lease_unless_told_to() {
    let kube_scheduler = Overrides::default();
    let berth = Overrides { program: Program::Berth, ..Overrides::default() };
    let named = |name: &str| Overrides { scheduler_name: Some(name.to_owned()), ..berth.clone() };
    check_command(&kube_scheduler, None, "default-scheduler", "kube-scheduler");
    check_command(&kube_scheduler, Some("profiles: [{schedulerName: a}]"), "a", "kube-scheduler");
    check_command(&berth, None, "berth", "berth");
    check_command(&named("a"), None, "a", "berth");
    check_command(&named("default-scheduler"), None, "default-scheduler", "kube-scheduler");
    check_command(&berth, Some(""), "default-scheduler", "kube-scheduler");
    check_command(&named("a"), Some(""), "a", "berth");
    check_command(&berth, Some("profiles: [{schedulerName: a}]"), "a", "berth");
    check_command(&berth, Some("leaderElection: {resourceName: b}"), "default-scheduler", "b");
}

#[test]
fn the_command_line_goes_before_the_document() {
    let fields = json!({"leaderElection": {"leaderElect": false, "leaseDuration": "20s"}, "parallelism": 2});
    let overrides = Overrides { fields: fields.as_object().expect("fields").clone(), ..Overrides::default() };
    let document = format!("{HEADER}leaderElection: {{leaseDuration: 30s, retryPeriod: 1s}}");
    let settings = Settings::from_text_and("kube.yaml", &document, &overrides, &in_tree()).expect("valid settings");
    assert!(!settings.leader_election.leader_elect);
    assert_eq!(settings.leader_election.lease_duration, Duration::from_secs(20));
    assert_eq!(settings.leader_election.retry_period, Duration::from_secs(1));
    assert_eq!(settings.parallelism, 2);
}

#[test]
fn one_name_does_not_do_for_two_profiles() {
    let overrides = Overrides { scheduler_name: Some("c".to_owned()), ..Overrides::default() };
    let document = format!("{HEADER}profiles: [{{schedulerName: a}}, {{schedulerName: b}}]");
    let error = Settings::from_text_and("kube.yaml", &document, &overrides, &in_tree()).expect_err("refused");
    assert!(error.to_string().contains("leave out --scheduler-name c"), "{error}");
}
