//! One scheduling profile: the scheduler name, the plugins for its pods, and their arguments.
//!
//! A profile is read from one entry of `profiles`. The entry is merged with the default plugin set and expanded, and
//! gets complete arguments. Arguments of built-in plugins are checked and completed with defaults. Arguments of other
//! plugins are passed on unchanged, because only the plugin can check them.

use std::collections::{BTreeMap, BTreeSet};

use berth_framework::Point;
use berth_model::{Feature, Features, PluginName};
use serde_json::{Value, json};

use crate::{
    args::{complete_args, has_args},
    error::{ConfigError, Problems},
    expand::{Context, PluginSets, expand},
    fields::{API_VERSION, Fields},
    in_tree::{REMOVED, default_multi_point},
    merge::{EnabledPlugin, PluginSelection, PluginSet},
    point::{PluginCatalogue, points_with_keys},
};

/// The scheduler of pods without a `spec.schedulerName`.
pub(crate) const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";

/// A complete, validated scheduling profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The value of `spec.schedulerName` in the pods that this profile places. It is unique among profiles.
    pub scheduler_name: String,
    /// The percentage of nodes to score, which overrides the global setting for this profile; 0 adapts to the size of
    /// the cluster.
    pub percentage_of_nodes_to_score: Option<u8>,
    /// The plugins that run at each point.
    pub plugins: PluginSets,
    /// Arguments by plugin name. For built-in plugins, they are complete and have no `apiVersion` and `kind`. For other
    /// plugins, they are as written.
    pub plugin_config: BTreeMap<PluginName, Value>,
    /// The features that the built-in plugins get with their arguments.
    pub(crate) features: Features,
    selection: PluginSelection,
}

impl Profile {
    /// Reads one entry of `profiles`; `None` is the default profile. A missing `schedulerName` is `default-scheduler`.
    ///
    /// # Errors
    /// All mistakes in the entry, with paths relative to it.
    pub fn from_json(entry: Option<&Value>, catalogue: &dyn PluginCatalogue) -> Result<Self, ConfigError> {
        let problems = Problems::default();
        let profile = Self::read(Fields::new("", entry, &problems), Some(DEFAULT_SCHEDULER_NAME), catalogue);
        problems.settle("profile")?;
        Ok(profile)
    }

    /// `fallback_name` is used if the file has no name. If it is `None`, the name is required.
    pub(crate) fn read(fields: Fields<'_>, fallback_name: Option<&str>, catalogue: &dyn PluginCatalogue) -> Self {
        let given_name = fields.text("schedulerName").filter(|name| !name.is_empty());
        if given_name.or(fallback_name).is_none() {
            fields.required("schedulerName", "every profile needs a name if there are several");
        }
        let scheduler_name = given_name.or(fallback_name).unwrap_or_default().to_owned();
        let percentage_of_nodes_to_score = read_percentage(&fields);
        let features = catalogue.features();
        let selection = read_plugins(fields.object("plugins"), features);
        let context = Context {
            scheduler_name: &scheduler_name,
            path: &fields.at("plugins"),
            catalogue,
            problems: fields.problems,
        };
        let plugins = expand(&selection, context);
        let mut plugin_config = read_plugin_config(&fields, features);
        add_default_args(&mut plugin_config, plugins.named(), features);
        fields.finish();
        Self { scheduler_name, percentage_of_nodes_to_score, plugins, plugin_config, features, selection }
    }

    /// The plugins that a point's own list enables, each with the point and the key of the list.
    pub(crate) fn enabled_by_point(&self) -> impl Iterator<Item = (Point, &'static str, &PluginName)> {
        points_with_keys().flat_map(move |(point, key)| {
            let enabled = self.selection.points.get(&point).into_iter().flat_map(|own| &own.enabled);
            enabled.map(move |plugin| (point, key, &plugin.name))
        })
    }

    /// The profile as a `profiles` entry that reads back as the same profile.
    pub(crate) fn to_json(&self) -> Value {
        let mut plugins = BTreeMap::from([("multiPoint", set_to_json(&self.selection.multi_point))]);
        for (point, key) in points_with_keys() {
            if let Some(set) = self.selection.points.get(&point) {
                plugins.insert(key, set_to_json(set));
            }
        }
        plugins.extend(self.selection.placement.iter().map(|(field, set)| (*field, set_to_json(set))));
        let plugin_config: Vec<Value> =
            self.plugin_config.iter().map(|(name, args)| args_to_json(name, args)).collect();
        let mut entry = json!({
            "schedulerName": self.scheduler_name,
            "plugins": plugins,
            "pluginConfig": plugin_config,
        });
        if let (Some(percentage), Some(entry)) = (self.percentage_of_nodes_to_score, entry.as_object_mut()) {
            entry.insert("percentageOfNodesToScore".to_owned(), percentage.into());
        }
        entry
    }
}

/// A share of the nodes, in the document or in a profile.
pub(crate) fn read_percentage(fields: &Fields<'_>) -> Option<u8> {
    let percentage = fields.whole32("percentageOfNodesToScore")?;
    let valid = u8::try_from(percentage).ok().filter(|percentage| *percentage <= 100);
    if valid.is_none() {
        fields.invalid("percentageOfNodesToScore", percentage, "not in valid range [0-100]");
    }
    valid
}

fn read_plugins(fields: Fields<'_>, features: Features) -> PluginSelection {
    let mut selection = PluginSelection {
        multi_point: default_multi_point(features).overlaid_by(&read_set(fields.object("multiPoint"))),
        ..PluginSelection::default()
    };
    for (point, key) in points_with_keys() {
        let set = read_set(fields.object(key));
        refuse_removed(&fields.at(key), &set, fields.problems);
        if set != PluginSet::default() {
            selection.points.insert(point, set);
        }
    }
    let since_1_37 = features.has(Feature::PodGroupPostFilterIsAPoint).then_some("podGroupPostFilter");
    for field in ["placementGenerate", "placementScore"].into_iter().chain(since_1_37) {
        let set = read_set(fields.object(field));
        if set != PluginSet::default() {
            selection.placement.insert(field, set);
        }
    }
    fields.finish();
    selection
}

fn read_set(fields: Fields<'_>) -> PluginSet {
    let mut set = PluginSet::default();
    for plugin in fields.objects("enabled") {
        let weight = plugin.whole32("weight").unwrap_or(0);
        set.enabled.extend(read_name(&plugin).map(|name| EnabledPlugin { name, weight }));
        plugin.finish();
    }
    for plugin in fields.objects("disabled") {
        set.disabled.extend(read_name(&plugin));
        // Kubernetes uses one type for `enabled` and `disabled`, so a weight is allowed in this list, but has no
        // meaning.
        plugin.whole32("weight");
        plugin.finish();
    }
    fields.finish();
    set
}

fn read_name(plugin: &Fields<'_>) -> Option<PluginName> {
    let name = plugin.text("name").filter(|name| !name.is_empty());
    if name.is_none() {
        plugin.required("name", "the name of a plugin");
    }
    name.map(PluginName::from)
}

/// Refuses enabled plugins that no longer exist. As in kube-scheduler, such a plugin may be disabled
/// (`validatePluginSetForInvalidPlugins` in `pkg/scheduler/apis/config/validation/validation.go`).
fn refuse_removed(path: &str, set: &PluginSet, problems: &Problems) {
    for (idx, EnabledPlugin { name, .. }) in set.enabled.iter().enumerate() {
        if REMOVED.contains(&name.as_str()) {
            problems.invalid(&format!("{path}.enabled[{idx}]"), name.as_str(), removed_message());
        }
    }
}

fn removed_message() -> String {
    format!("was invalid in version {API_VERSION:?}, use NodeVolumeLimits instead")
}

fn read_plugin_config(fields: &Fields<'_>, features: Features) -> BTreeMap<PluginName, Value> {
    let mut plugin_config = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for entry in fields.objects("pluginConfig") {
        let given = entry.value("args");
        let Some(name) = read_name(&entry) else { continue };
        if REMOVED.contains(&name.as_str()) {
            entry.invalid("name", name.as_str(), &removed_message());
        }
        if !seen.insert(name.clone()) {
            fields.problems.duplicate(&entry.at("name"), name.as_str());
        }
        let args = complete_args(&name, features, &entry.at("args"), given, fields.problems);
        let args = args.or(given.cloned());
        plugin_config.extend(args.map(|args| (name, args)));
        entry.finish();
    }
    plugin_config
}

fn add_default_args(plugin_config: &mut BTreeMap<PluginName, Value>, plugins: &[PluginName], features: Features) {
    // The defaults have no problems.
    let no_problems = Problems::default();
    for name in plugins {
        if !plugin_config.contains_key(name) {
            let args = complete_args(name, features, "", None, &no_problems);
            plugin_config.extend(args.map(|args| (name.clone(), args)));
        }
    }
}

fn set_to_json(set: &PluginSet) -> Value {
    let enabled: Vec<Value> = set.enabled.iter().map(enabled_to_json).collect();
    let disabled: Vec<Value> = set.disabled.iter().map(|name| json!({ "name": name.as_str() })).collect();
    let mut lists = BTreeMap::new();
    if !enabled.is_empty() {
        lists.insert("enabled", enabled);
    }
    if !disabled.is_empty() {
        lists.insert("disabled", disabled);
    }
    json!(lists)
}

fn enabled_to_json(plugin: &EnabledPlugin) -> Value {
    match plugin.weight {
        0 => json!({ "name": plugin.name.as_str() }),
        weight => json!({ "name": plugin.name.as_str(), "weight": weight }),
    }
}

fn args_to_json(name: &str, args: &Value) -> Value {
    let mut args = args.clone();
    if let Some(args) = args.as_object_mut().filter(|_| has_args(name)) {
        args.insert("apiVersion".to_owned(), API_VERSION.into());
        args.insert("kind".to_owned(), format!("{name}Args").into());
    }
    json!({ "name": name, "args": args })
}

#[cfg(test)]
mod tests;
