//! Tests with documents of earlier releases, and the valid documents that are made from them.

use serde_json::json;

use super::*;
use crate::{InTree, Settings, in_tree::testing::in_tree};

/// The document of the current version, which is valid, and the notes.
fn migrated(text: &str) -> (Value, Vec<String>) {
    let Migration { configuration, notes } = migrate(text).expect("it is a document");
    let plugins: InTree = in_tree();
    Settings::from_text("migrated", &configuration.to_string(), &plugins).expect("it is valid");
    (configuration, notes)
}

#[test]
fn names_and_versions_that_are_gone_become_todays() {
    let (configuration, notes) = migrated(
        "apiVersion: kubescheduler.config.k8s.io/v1beta2
kind: KubeSchedulerConfiguration
healthzBindAddress: 0.0.0.0:10251
profiles:
- schedulerName: packing
  plugins:
    filter:
      enabled: [{name: EBSLimits}, {name: GCEPDLimits}]
    score:
      enabled: [{name: NodeResourcesMostAllocated, weight: 5}, {name: NodePreferAvoidPods}]
      disabled: [{name: NodeResourcesLeastAllocated}, {name: SelectorSpread}]
  pluginConfig:
  - name: NodeResourcesMostAllocated
    args: {resources: [{name: cpu, weight: 2}]}
  - name: InterPodAffinity
    args: {apiVersion: kubescheduler.config.k8s.io/v1beta2, kind: InterPodAffinityArgs, hardPodAffinityWeight: 7}
",
    );
    let profile = &configuration["profiles"][0];
    assert_eq!(configuration["apiVersion"], API_VERSION);
    assert!(configuration.get("healthzBindAddress").is_none());
    assert_eq!(profile["plugins"]["filter"], json!({"enabled": [{"name": "NodeVolumeLimits"}]}));
    assert_eq!(profile["plugins"]["score"], json!({"enabled": [{"name": "NodeResourcesFit", "weight": 5}]}));
    let args = |plugin: &str| {
        let entries = profile["pluginConfig"].as_array().expect("a list");
        entries.iter().find(|entry| entry["name"] == plugin).map(|entry| entry["args"].clone())
    };
    let strategy = json!({"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 2}]});
    assert_eq!(args("NodeResourcesFit"), Some(json!({"scoringStrategy": strategy})));
    assert_eq!(args("PodTopologySpread"), Some(json!({"defaultingType": "List"})));
    assert_eq!(args("InterPodAffinity").map(|args| args["apiVersion"].clone()), Some(API_VERSION.into()));
    let has = |text: &str| notes.iter().any(|note| note.contains(text));
    assert!(has("no plugin replaces NodePreferAvoidPods") && has("replaces EBSLimits") && has("in v1beta2"));
}

#[test]
fn a_policy_becomes_a_profile() {
    let (configuration, notes) = migrated(
        r#"{"kind": "Policy", "apiVersion": "v1", "hardPodAffinitySymmetricWeight": 10,
            "predicates": [{"name": "GeneralPredicates"}, {"name": "MaxEBSVolumeCount"}, {"name": "Odd"}],
            "priorities": [{"name": "LeastRequestedPriority", "weight": 1}, {"name": "SelectorSpreadPriority", "weight": 2},
                           {"name": "NodePreferAvoidPodsPriority", "weight": 10000}]}"#,
    );
    let plugins = &configuration["profiles"][0]["plugins"];
    let names = |point: &str| {
        let entries = plugins[point]["enabled"].as_array().expect("a list").iter();
        entries.map(|entry| entry["name"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("score"), ["NodeResourcesFit", "PodTopologySpread"]);
    assert_eq!(
        names("multiPoint")[7..],
        ["NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity", "NodeVolumeLimits"]
    );
    let has = |text: &str| notes.iter().any(|note| note.contains(text));
    assert!(has("no plugin replaces predicate Odd") && has("no plugin replaces priority NodePreferAvoidPodsPriority"));
}

/// Predicates and priorities with arguments had any name (`LegacyExtender` and `PriorityArgument` in `v1` of Policy).
#[test]
fn arguments_and_extenders_of_a_policy_get_todays_form() {
    let (configuration, notes) = migrated(
        r#"{"kind": "Policy", "apiVersion": "v1",
            "predicates": [{"name": "Racks", "argument": {"labelsPresence": {"labels": ["rack"], "presence": true}}}],
            "priorities": [
                {"name": "Packing", "weight": 3, "argument": {"requestedToCapacityRatioArguments": {
                    "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
                    "resources": [{"name": "cpu", "weight": 2}]}}},
                {"name": "Spread", "weight": 1, "argument": {"serviceAntiAffinity": {"label": "rack"}}}],
            "extenders": [
                {"urlPrefix": "https://a.example.com", "filterVerb": "filter", "enableHttps": true, "httpTimeout": 5000000000},
                {"urlPrefix": "http://b.example.com", "filterVerb": "filter", "httpTimeout": 1500000}]}"#,
    );
    let profile = &configuration["profiles"][0];
    assert_eq!(profile["plugins"]["score"]["enabled"], json!([{"name": "NodeResourcesFit", "weight": 3}]));
    let strategy = &profile["pluginConfig"][0]["args"]["scoringStrategy"];
    let shape = json!({"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]});
    assert_eq!(strategy["type"], "RequestedToCapacityRatio");
    assert_eq!(strategy["requestedToCapacityRatio"], shape);
    assert_eq!(strategy["resources"], json!([{"name": "cpu", "weight": 2}]));
    let extenders = &configuration["extenders"];
    assert_eq!((&extenders[0]["enableHTTPS"], &extenders[0]["httpTimeout"]), (&json!(true), &json!("5s")));
    assert_eq!((extenders[0].get("enableHttps"), &extenders[1]["httpTimeout"]), (None, &json!("1.5ms")));
    let has = |text: &str| notes.iter().any(|note| note.contains(text));
    assert!(has("no plugin replaces predicate Racks: addedAffinity of NodeAffinityArgs"), "{notes:?}");
    assert!(has("no plugin replaces priority Spread: affinity terms of pods"), "{notes:?}");
    assert!(has("enableHTTPS replaces enableHttps") && has("becomes 5s"), "{notes:?}");
}

#[test]
fn todays_document_stays_as_it_is() {
    let text = "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, profiles: [{schedulerName: a}]}";
    let (configuration, notes) = migrated(text);
    assert_eq!(configuration, serde_saphyr::from_str::<Value>(text).expect("YAML"));
    assert_eq!(notes, [""; 0]);
    assert!(migrate("kind: Pod").is_err());
    let misshapen = "{apiVersion: kubescheduler.config.k8s.io/v1beta3, kind: KubeSchedulerConfiguration, \
                     profiles: [{plugins: {score: {enabled: Fit}}}]}";
    let error = migrate(misshapen).expect_err("nothing is lost").to_string();
    assert_eq!(error, "profiles[0].plugins.score.enabled: expected a valid list");
}

#[test]
fn fields_of_the_document_go_into_profiles() {
    let (configuration, _) = migrated(
        "{apiVersion: kubescheduler.config.k8s.io/v1alpha1, kind: KubeSchedulerConfiguration, schedulerName: old, \
         disablePreemption: true, hardPodAffinitySymmetricWeight: 3}",
    );
    let profile = &configuration["profiles"][0];
    assert_eq!(profile["schedulerName"], "old");
    assert_eq!(profile["plugins"]["postFilter"]["disabled"], json!([{"name": "DefaultPreemption"}]));
    assert_eq!(profile["pluginConfig"][0]["args"], json!({"hardPodAffinityWeight": 3}));
}
