//! Tests that read single profiles: typical entries, arguments, and mistakes.

use berth_model::{Features, PluginName, Release};
use serde_json::{Value, json};

use crate::{Profile, in_tree::testing::in_tree};

fn read(entry: &Value) -> Profile {
    Profile::from_json(Some(entry), &in_tree()).expect("the entry is valid")
}

#[test]
fn representative_entries_load() {
    let entries = [
        json!({
            "schedulerName": "default-scheduler", "percentageOfNodesToScore": 100,
            "plugins": { "score": { "disabled": [{ "name": "*" }], "enabled": [{ "name": "NodeResourcesFit", "weight": 1 }] } },
        }),
        json!({
            "schedulerName": "default-scheduler",
            "plugins": {
                "multiPoint": { "disabled": [{ "name": "NodePorts" }] },
                "filter": { "disabled": [{ "name": "NodeResourcesFit" }] },
            },
            "pluginConfig": [
                { "name": "NodeResourcesFit", "args": {
                    "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "NodeResourcesFitArgs",
                    "ignoredResourceGroups": ["nvidia.com"],
                    "scoringStrategy": {
                        "type": "RequestedToCapacityRatio", "resources": [{ "name": "cpu", "weight": 1 }],
                        "requestedToCapacityRatio": { "shape": [
                            { "score": 10, "utilization": 0 }, { "score": 0, "utilization": 100 },
                        ] },
                    },
                } },
                { "name": "InterPodAffinity", "args": {
                    "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "InterPodAffinityArgs",
                    "hardPodAffinityWeight": 10, "ignorePreferredTermsOfExistingPods": true,
                } },
            ],
        }),
    ];
    for entry in &entries {
        assert_eq!(read(entry).scheduler_name, "default-scheduler");
    }
    assert_eq!(read(&entries[0]).percentage_of_nodes_to_score, Some(100));
}

#[test]
fn enabled_plugins_have_complete_arguments() {
    let profile = read(&json!({
        "plugins": { "multiPoint": { "disabled": [{ "name": "VolumeBinding" }] } },
        "pluginConfig": [
            { "name": "InterPodAffinity", "args": { "hardPodAffinityWeight": 7 } },
            { "name": "Elsewhere", "args": { "any": ["thing"], "apiVersion": "mine/v1" } },
        ],
    }));
    let names: Vec<_> = profile.plugin_config.keys().map(PluginName::as_str).collect();
    assert_eq!(
        names,
        [
            "DefaultPreemption",
            "DynamicResources",
            "Elsewhere",
            "InterPodAffinity",
            "NodeAffinity",
            "NodeResourcesBalancedAllocation",
            "NodeResourcesFit",
            "PodTopologySpread",
        ]
    );
    assert_eq!(
        profile.plugin_config["InterPodAffinity"],
        json!({ "hardPodAffinityWeight": 7, "ignorePreferredTermsOfExistingPods": false })
    );
    assert_eq!(profile.plugin_config["Elsewhere"], json!({ "any": ["thing"], "apiVersion": "mine/v1" }));
}

/// The feature gate of this point is off in both releases, so no plugin runs there.
#[test]
fn plugins_after_a_group_that_fits_nowhere_can_be_named_from_1_37_on() {
    let entry = json!({ "plugins": { "podGroupPostFilter": { "enabled": [{ "name": "DefaultPreemption" }] } } });
    let [old, new] =
        Release::ALL.map(|release| Profile::from_json(Some(&entry), &in_tree().with_features(Features::of(release))));
    let refused = old.expect_err("1.36 does not have the point").to_string();
    assert!(refused.contains("plugins.podGroupPostFilter: unknown field"), "{refused}");
    let written = new.expect("1.37 has it").to_json();
    assert_eq!(written["plugins"]["podGroupPostFilter"]["enabled"], json!([{ "name": "DefaultPreemption" }]));
}

#[test]
fn every_mistake_is_listed_with_its_path() {
    let error = Profile::from_json(
        Some(&json!({
            "percentageOfNodesToScore": 101,
            "plugins": { "filtre": {}, "score": { "enabled": [{ "weight": "3", "name": "ImageLocality" }, {}] } },
            "pluginConfig": [{ "name": "VolumeZone" }, { "name": "VolumeZone" }, { "name": "CinderLimits" }],
        })),
        &in_tree(),
    )
    .expect_err("must be refused");
    let text = error.to_string();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "profile: percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
            "profile: plugins.score.enabled[0].weight: Invalid value: \"3\": must be a whole number of at most 32 bits",
            "profile: plugins.score.enabled[1].name: Required value: the name of a plugin",
            "profile: plugins.filtre: unknown field; remove it or use one of: multiPoint, preEnqueue, queueSort, \
             preFilter, filter, postFilter, preScore, score, reserve, permit, preBind, bind, postBind, \
             placementGenerate, placementScore",
            "profile: pluginConfig[1].name: Duplicate value: \"VolumeZone\": keep one of them",
            "profile: pluginConfig[2].name: Invalid value: \"CinderLimits\": was invalid in version \
             \"kubescheduler.config.k8s.io/v1\", use NodeVolumeLimits instead",
        ]
    );
}
