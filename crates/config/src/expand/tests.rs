//! Tests for the expansion of plugin lists, against kube-scheduler's rules and error texts.

use berth_framework::{Point, Points};
use berth_model::PluginName;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    PluginCatalogue, Profile, configurable_points,
    in_tree::testing::in_tree,
    merge::{ALL_PLUGINS, EnabledPlugin, PluginSet},
};

const DEFAULT_SCORES: &str = "TaintToleration 3, NodeAffinity 2, NodeResourcesFit 1, VolumeBinding 1, \
    PodTopologySpread 2, InterPodAffinity 2, DynamicResources 2, NodeResourcesBalancedAllocation 1, ImageLocality 1";

const DEFAULT_FILTERS: &str = "NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, NodePorts, \
    NodeResourcesFit, VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone, PodTopologySpread, \
    InterPodAffinity, DynamicResources, NodeDeclaredFeatures";

/// The in-tree plugins, and another one that filters and sorts.
struct WithMine;

impl PluginCatalogue for WithMine {
    fn points(&self, plugin: &str) -> Option<Points> {
        match plugin {
            "Mine" => Some([Point::Filter, Point::QueueSort].into_iter().collect()),
            other => in_tree().points(other),
        }
    }

    fn names(&self) -> Vec<PluginName> {
        in_tree().names()
    }
}

/// A catalogue in which the plugin `Later` may be loaded later.
struct WithLater;

impl PluginCatalogue for WithLater {
    fn points(&self, plugin: &str) -> Option<Points> {
        WithMine.points(plugin)
    }

    fn names(&self) -> Vec<PluginName> {
        in_tree().names()
    }

    fn awaits(&self, plugin: &str) -> bool {
        plugin == "Later"
    }
}

fn profile(plugins: &Value) -> Profile {
    Profile::from_json(Some(&json!({ "plugins": plugins })), &WithMine).expect("the profile is valid")
}

fn scores(profile: &Profile) -> String {
    let scores: Vec<_> = profile.plugins.score_weights().map(|(name, weight)| format!("{name} {weight}")).collect();
    scores.join(", ")
}

fn check_scores(plugins: &Value, expected: &str) {
    assert_eq!(scores(&profile(plugins)), expected, "{plugins}");
}

fn check_error(plugins: &Value, expected: &str) {
    let error = Profile::from_json(Some(&json!({ "plugins": plugins })), &WithMine).expect_err("must be refused");
    assert_eq!(error.to_string(), expected, "{plugins}");
}

#[test]
fn default_profile_runs_in_kube_scheduler_order() {
    let plugins = Profile::from_json(None, &in_tree()).expect("defaults are valid").plugins;
    let at = |point| plugins.at(point).join(", ");
    assert_eq!(at(Point::PreEnqueue), "SchedulingGates, DynamicResources, DefaultPreemption");
    assert_eq!(at(Point::QueueSort), "PrioritySort");
    assert_eq!(
        at(Point::PreFilter),
        "NodeAffinity, NodePorts, NodeResourcesFit, VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone, \
         PodTopologySpread, InterPodAffinity, DynamicResources, NodeDeclaredFeatures"
    );
    assert_eq!(at(Point::Filter), DEFAULT_FILTERS);
    assert_eq!(at(Point::PostFilter), "DynamicResources, DefaultPreemption");
    assert_eq!(
        at(Point::PreScore),
        "TaintToleration, NodeAffinity, NodeResourcesFit, VolumeBinding, PodTopologySpread, InterPodAffinity, \
         NodeResourcesBalancedAllocation"
    );
    assert_eq!(at(Point::Reserve), "VolumeBinding, DynamicResources");
    assert_eq!(at(Point::Permit), "");
    assert_eq!(at(Point::PreBind), "VolumeBinding, DynamicResources");
    assert_eq!(at(Point::Bind), "DefaultBinder");
    assert_eq!(at(Point::PostBind), "");
    assert_eq!(plugins.named().len(), 20);
}

#[test]
fn scores_follow_the_lists() {
    check_scores(&json!({}), DEFAULT_SCORES);
    check_scores(
        &json!({ "score": { "disabled": [{ "name": "ImageLocality" }] } }),
        DEFAULT_SCORES.trim_end_matches(", ImageLocality 1"),
    );
    check_scores(
        &json!({ "score": { "enabled": [{ "name": "NodeAffinity", "weight": 10 }] } }),
        &format!("NodeAffinity 10, {}", DEFAULT_SCORES.replace("NodeAffinity 2, ", "")),
    );
    check_scores(
        &json!({ "multiPoint": { "enabled": [{ "name": "NodeAffinity", "weight": 5 }] } }),
        &DEFAULT_SCORES.replace("NodeAffinity 2", "NodeAffinity 5"),
    );
    let moved =
        json!({ "disabled": [{ "name": "NodeAffinity" }], "enabled": [{ "name": "NodeAffinity", "weight": 5 }] });
    let at_the_end = format!("{}, NodeAffinity 5", DEFAULT_SCORES.replace("NodeAffinity 2, ", ""));
    check_scores(&json!({ "multiPoint": moved }), &at_the_end);
    check_scores(&json!({ "score": moved }), &at_the_end);
    check_scores(
        &json!({ "score": {
            "disabled": [{ "name": "*" }], "enabled": [{ "name": "NodeResourcesFit" }, { "name": "ImageLocality" }],
        } }),
        "NodeResourcesFit 1, ImageLocality 1",
    );
    check_scores(
        &json!({
            "multiPoint": { "enabled": [{ "name": "NodeResourcesFit", "weight": 16 }] },
            "score": { "disabled": [{ "name": "NodeResourcesFit" }] },
        }),
        &DEFAULT_SCORES.replace("NodeResourcesFit 1, ", ""),
    );
}

#[test]
fn disabling_reaches_as_far_as_its_list() {
    let only_fit_scores = profile(&json!({
        "score": { "disabled": [{ "name": "*" }], "enabled": [{ "name": "NodeResourcesFit", "weight": 1 }] },
    }));
    assert!(only_fit_scores.plugins.at(Point::PreScore).contains(&"NodeResourcesFit".into()));

    let no_preemption = profile(&json!({ "multiPoint": { "disabled": [{ "name": "DefaultPreemption" }] } }));
    assert_eq!(no_preemption.plugins.at(Point::PostFilter), ["DynamicResources"]);
    assert_eq!(no_preemption.plugins.at(Point::PreEnqueue), ["SchedulingGates", "DynamicResources"]);

    let bare = profile(&json!({ "multiPoint": {
        "disabled": [{ "name": "*" }], "enabled": [{ "name": "PrioritySort" }, { "name": "DefaultBinder" }],
    } }));
    assert_eq!(bare.plugins.named(), ["PrioritySort", "DefaultBinder"]);
    assert!(bare.plugins.at(Point::Filter).is_empty());

    let nowhere = profile(&json!({ "score": { "disabled": [{ "name": "ImageLocality" }] } }));
    assert!(nowhere.plugins.named().contains(&"ImageLocality".into()));
}

#[test]
fn own_list_goes_first_only_for_what_multi_point_shares() {
    let profile = profile(&json!({
        "filter": { "enabled": [{ "name": "Mine" }, { "name": "NodeName" }] },
    }));
    let expected = format!("NodeName, {}, Mine", DEFAULT_FILTERS.replace(" NodeName,", ""));
    assert_eq!(profile.plugins.at(Point::Filter).join(", "), expected);
}

#[test]
fn a_misspelt_plugin_is_refused_with_the_nearest_name() {
    for (key, kind) in [("multiPoint", "PreFilterPlugin"), ("filter", "FilterPlugin")] {
        check_error(
            &json!({ key: { "enabled": [{ "name": "NodeResourceFit" }] } }),
            &format!(
                "profile: plugins.{key}: {kind} \"NodeResourceFit\" does not exist (did you mean \
                 \"NodeResourcesFit\"?): correct the name, give --plugins-dir DIR with NodeResourceFit.wasm in it, or \
                 give --plugin-config FILE with the `source` of NodeResourceFit"
            ),
        );
    }
}

#[test]
fn impossible_selections_are_refused_in_kube_scheduler_words() {
    let advice = "correct the name, give --plugins-dir DIR with Nope.wasm in it, or give --plugin-config FILE with the \
                  `source` of Nope";
    check_error(
        &json!({ "multiPoint": { "enabled": [{ "name": "Nope" }] } }),
        &format!("profile: plugins.multiPoint: PreFilterPlugin \"Nope\" does not exist: {advice}"),
    );
    check_error(
        &json!({ "filter": { "enabled": [{ "name": "Nope" }] } }),
        &format!("profile: plugins.filter: FilterPlugin \"Nope\" does not exist: {advice}"),
    );
    check_error(
        &json!({ "filter": { "enabled": [{ "name": "ImageLocality" }] } }),
        "profile: plugins.filter: plugin \"ImageLocality\" does not extend FilterPlugin plugin: it implements \
         score: enable it there, or under multiPoint",
    );
    check_error(
        &json!({ "filter": { "enabled": [{ "name": "NodeName" }, { "name": "NodeName" }] } }),
        "profile: plugins.filter: plugin \"NodeName\" already registered as \"FilterPlugin\"",
    );
    check_error(
        &json!({ "multiPoint": { "enabled": [{ "name": "NodeName" }, { "name": "NodeName" }] } }),
        "profile: plugins.multiPoint: plugin \"NodeName\" already registered as \"FilterPlugin\"",
    );
    check_error(
        &json!({ "queueSort": { "enabled": [{ "name": "Mine" }] } }),
        "profile: plugins: only one queue sort plugin required for profile with scheduler name \"default-scheduler\", \
         but got 2: PrioritySort and Mine sort the queue; keep one, as in queueSort: {enabled: [{name: Mine}], disabled: \
         [{name: \"*\"}]}",
    );
    check_error(
        &json!({ "multiPoint": { "disabled": [{ "name": "*" }] } }),
        "profile: plugins: only one queue sort plugin required for profile with scheduler name \"default-scheduler\", \
         but got 0: enable one, as in queueSort: {enabled: [{name: PrioritySort}]}\n\
         profile: plugins: at least one bind plugin is needed for profile with scheduler name \"default-scheduler\"",
    );
}

#[test]
fn a_removed_plugin_may_be_disabled_and_not_enabled() {
    let plugins = json!({ "score": { "enabled": [{ "name": "EBSLimits" }] } });
    let refused = Profile::from_json(Some(&json!({ "plugins": plugins })), &WithMine).expect_err("refused").to_string();
    let text = "profile: plugins.score.enabled[0]: Invalid value: \"EBSLimits\": was invalid in version \
                \"kubescheduler.config.k8s.io/v1\", use NodeVolumeLimits instead";
    assert!(refused.contains(text), "{refused}");
    let disabled = profile(&json!({ "score": { "disabled": [{ "name": "EBSLimits" }] } }));
    assert_eq!(scores(&disabled), DEFAULT_SCORES);
}

/// The list in the message about two QueueSort plugins leaves one plugin.
#[test]
fn the_advised_list_leaves_one_plugin_that_sorts_the_queue() {
    let list = json!({ "enabled": [{ "name": "Mine" }], "disabled": [{ "name": "*" }] });
    let profile = profile(&json!({ "multiPoint": { "enabled": [{ "name": "Mine" }] }, "queueSort": list }));
    assert_eq!(profile.plugins.at(Point::QueueSort), ["Mine"]);
    assert!(profile.plugins.at(Point::Filter).contains(&"Mine".into()));
}

fn plugin_set() -> impl Strategy<Value = PluginSet> {
    let name = || prop::sample::select(vec!["a", "b", "c", "d", "e", "f"]);
    let enabled = prop::collection::btree_set(name(), 0..6);
    let disabled = prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "d", "e", "f", "*"]), 0..3);
    (enabled, disabled, any::<bool>()).prop_map(|(enabled, disabled, backwards)| {
        let mut enabled: Vec<_> =
            enabled.into_iter().map(|name| EnabledPlugin { name: name.into(), weight: 0 }).collect();
        if backwards {
            enabled.reverse();
        }
        PluginSet { enabled, disabled: disabled.into_iter().map(PluginName::from).collect() }
    })
}

proptest! {
    #[test]
    fn merge_keeps_order_and_respects_disabled(default in plugin_set(), custom in plugin_set()) {
        let merged = default.overlaid_by(&custom);
        let names: Vec<_> = merged.enabled.iter().map(|plugin| plugin.name.as_str()).collect();
        let is_disabled = |name: &str| merged.disables(ALL_PLUGINS) || merged.disables(name);

        let inherited: Vec<_> =
            default.enabled.iter().map(|plugin| plugin.name.as_str()).filter(|name| !is_disabled(name)).collect();
        let added: Vec<_> =
            custom.enabled.iter().map(|plugin| plugin.name.as_str()).filter(|name| !inherited.contains(name)).collect();
        prop_assert_eq!(&names, &[inherited, added].concat());

        for name in &names {
            prop_assert!(!is_disabled(name) || custom.enables(name));
            prop_assert_eq!(names.iter().filter(|other| *other == name).count(), 1);
        }
    }
}

#[test]
fn plugins_that_may_come_later_are_wanted_wherever_they_are_named() {
    let plugins = json!({
        "multiPoint": {"enabled": [{"name": "Later", "weight": 7}]},
        "filter": {"enabled": [{"name": "Later"}]},
        "postFilter": {"disabled": [{"name": "Later"}]},
    });
    let profile = Profile::from_json(Some(&json!({ "plugins": plugins })), &WithLater).expect("it may come");
    let wanted = |point| profile.plugins.wanted_at(point).iter().any(|name| name == "Later");
    assert!(wanted(Point::PreFilter) && wanted(Point::Bind) && wanted(Point::Score));
    assert!(!wanted(Point::QueueSort) && !wanted(Point::PostFilter));
    assert_eq!(profile.plugins.wanted_at(Point::Filter).first().map(PluginName::as_str), Some("Later"));
    assert_eq!(profile.plugins.weight("Later"), 7);
    assert!(!profile.plugins.at(Point::Score).contains(&"Later".into()));
    let alone = json!({"bind": {"disabled": [{"name": "*"}], "enabled": [{"name": "Later"}]}});
    Profile::from_json(Some(&json!({ "plugins": alone })), &WithLater).expect("it may bind once it is there");
    let twice = json!({"score": {"enabled": [{"name": "Later"}, {"name": "Later"}]}});
    let error = Profile::from_json(Some(&json!({ "plugins": twice })), &WithLater).expect_err("named twice");
    assert!(error.to_string().contains("already registered"), "{error}");
}

#[test]
fn what_runs_is_what_is_wanted_as_far_as_it_is_implemented() {
    let plugins = json!({
        "multiPoint": {"enabled": [{"name": "Mine"}], "disabled": [{"name": "PrioritySort"}]},
        "score": {"enabled": [{"name": "ImageLocality", "weight": 3}]},
    });
    let plugins = profile(&plugins).plugins;
    for point in configurable_points() {
        let implemented = |name: &&PluginName| WithMine.points(name).is_some_and(|points| points.contains(point));
        let wanted: Vec<_> = plugins.wanted_at(point).iter().filter(implemented).collect();
        assert_eq!(wanted, plugins.at(point).iter().collect::<Vec<_>>(), "{point:?}");
    }
}

/// Whether a configuration is valid must not depend on the files that are loaded when the configuration is read.
#[test]
fn a_plugin_that_comes_later_may_be_the_only_one_to_sort_the_queue() {
    let read = |plugins: &Value| Profile::from_json(Some(&json!({ "plugins": plugins })), &WithLater);
    let alone = json!({"multiPoint": {"disabled": [{"name": "PrioritySort"}], "enabled": [{"name": "Later"}]}});
    assert_eq!(read(&alone).expect("valid").plugins.wanted_at(Point::QueueSort), ["Later"]);
    let beside = json!({"multiPoint": {"enabled": [{"name": "Later"}]}});
    assert_eq!(read(&beside).expect("valid").plugins.wanted_at(Point::QueueSort), ["PrioritySort"]);
    let nobody = json!({"multiPoint": {"disabled": [{"name": "PrioritySort"}]}});
    assert!(read(&nobody).is_err());
}
