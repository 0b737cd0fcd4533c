//! Expands a merged plugin selection to the exact list of plugins at each extension point.
//!
//! The plugins that are in both the point's own list and `multiPoint` come first. The next plugins are the other
//! `multiPoint` plugins that implement the point. The last plugins are those that only the point's list names. If the
//! point's `disabled` list contains `*`, the plugins of `multiPoint` do not run at the point.

use std::collections::{BTreeMap, BTreeSet};

use berth_framework::{Point, Points};
use berth_model::PluginName;

use crate::{
    error::Problems,
    merge::{ALL_PLUGINS, EnabledPlugin, PluginSelection, PluginSet},
    nearest::nearest,
    point::{PluginCatalogue, configurable_points, points_with_keys},
};

/// The plugins that run at each extension point of a profile, in order.
///
/// Names are as configured. The caller must check whether the running program has the plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginSets {
    by_point: BTreeMap<Point, Vec<PluginName>>,
    wanted_by_point: BTreeMap<Point, Vec<PluginName>>,
    score_weights: BTreeMap<PluginName, i64>,
    named: Vec<PluginName>,
}

/// The highest score of one plugin for one node, after normalising.
const MAX_NODE_SCORE: i64 = 100;

const PRIORITY_SORT: &str = "PrioritySort";

impl PluginSets {
    /// The plugins at `point`, in the order in which they run.
    #[must_use]
    pub fn at(&self, point: Point) -> &[PluginName] {
        self.by_point.get(&point).map_or(&[], Vec::as_slice)
    }

    /// The plugins that would run at `point`, in order, if every plugin of `multiPoint` implemented the point. A later
    /// binary of a plugin may implement more points. At QueueSort, the list only has the plugins that implement the
    /// point. A plugin that may be loaded later is added if no other plugin sorts the queue.
    #[must_use]
    pub fn wanted_at(&self, point: Point) -> &[PluginName] {
        self.wanted_by_point.get(&point).map_or(&[], Vec::as_slice)
    }

    /// The weight of the plugin's scores, if the plugin gives scores.
    #[must_use]
    pub fn weight(&self, plugin: &str) -> i64 {
        self.score_weights.get(plugin).copied().unwrap_or(1)
    }

    /// The score plugins in order, with their weights.
    pub fn score_weights(&self) -> impl Iterator<Item = (&str, i64)> {
        self.at(Point::Score).iter().map(|name| (name.as_str(), self.weight(name)))
    }

    /// Every plugin that the profile enables, without repetitions, including plugins that run at no point.
    #[must_use]
    pub fn named(&self) -> &[PluginName] {
        &self.named
    }
}

/// The place of the profile in the document, for messages.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) scheduler_name: &'a str,
    /// The path of the profile's `plugins`.
    pub(crate) path: &'a str,
    pub(crate) catalogue: &'a dyn PluginCatalogue,
    pub(crate) problems: &'a Problems,
}

/// Determines the plugins at each extension point from `selection`, and checks them.
pub(crate) fn expand(selection: &PluginSelection, context: Context<'_>) -> PluginSets {
    check_multi_point(&selection.multi_point, context);
    let no_plugins = PluginSet::default();
    let mut sets = PluginSets { named: selection.enabled_names(), ..PluginSets::default() };
    for (point, key) in points_with_keys() {
        let own = selection.points.get(&point).unwrap_or(&no_plugins);
        check_point(point, key, own, context);
        let implements = |name: &str| context.catalogue.points(name).is_some_and(|points| points.contains(point));
        sets.by_point.insert(point, plugins_at(own, &selection.multi_point, implements));
        // A plugin that may be loaded later sorts the queue if no other plugin sorts it.
        let is_without = point == Point::QueueSort && sets.at(point).is_empty();
        let may_implement = |name: &str| {
            point != Point::QueueSort || implements(name) || is_without && context.catalogue.awaits_only(name)
        };
        sets.wanted_by_point.insert(point, plugins_at(own, &selection.multi_point, may_implement));
    }
    let own_scores = selection.points.get(&Point::Score).unwrap_or(&no_plugins);
    for name in sets.wanted_at(Point::Score).to_vec() {
        let weight = weight_of(&name, own_scores, &selection.multi_point);
        sets.score_weights.insert(name, weight);
    }
    check_outcome(&sets, context);
    sets
}

fn plugins_at(own: &PluginSet, multi_point: &PluginSet, implements: impl Fn(&str) -> bool) -> Vec<PluginName> {
    let is_inherited =
        |plugin: &EnabledPlugin| !own.disables(ALL_PLUGINS) && !own.disables(&plugin.name) && implements(&plugin.name);
    let is_overriding =
        |name: &str| multi_point.enabled.iter().any(|plugin| plugin.name == name && is_inherited(plugin));

    let (overriding, only_own): (Vec<_>, Vec<_>) =
        own.enabled.iter().map(|plugin| plugin.name.clone()).partition(|name| is_overriding(name));
    let inherited = multi_point.enabled.iter().filter(|plugin| !own.enables(&plugin.name) && is_inherited(plugin));

    let mut names = overriding;
    names.extend(inherited.map(|plugin| plugin.name.clone()));
    names.extend(only_own);
    names
}

/// The weight of a plugin. The weight in the point's own list has precedence over the weight in `multiPoint`. A plugin
/// without a weight has the weight 1.
fn weight_of(name: &str, own: &PluginSet, multi_point: &PluginSet) -> i64 {
    let mut entries = own.enabled.iter().chain(&multi_point.enabled);
    let weight = entries.find(|plugin| plugin.name == name).map_or(0, |plugin| i64::from(plugin.weight));
    if weight == 0 { 1 } else { weight }
}

fn check_multi_point(multi_point: &PluginSet, context: Context<'_>) {
    let path = format!("{}.multiPoint", context.path);
    let mut seen = BTreeSet::new();
    for EnabledPlugin { name, .. } in &multi_point.enabled {
        let Some(points) = context.catalogue.points(name) else {
            if context.catalogue.awaits(name) {
                if !seen.insert(name) {
                    context.problems.add(&path, already_registered(Point::PreFilter, name));
                }
                continue;
            }
            // PreFilter is the first point that kube-scheduler expands, so its error is about PreFilter.
            context.problems.add(&path, does_not_exist(Point::PreFilter, name, context.catalogue));
            continue;
        };
        let first_point = configurable_points().find(|point| points.contains(*point));
        if let Some(point) = first_point.filter(|_| !seen.insert(name)) {
            context.problems.add(&path, already_registered(point, name));
        }
    }
}

/// The text begins with kube-scheduler's words. A missing plugin may still come from a plugins directory or a registry.
/// The error is for a program without plugins directory and registry.
fn does_not_exist(point: Point, name: &str, catalogue: &dyn PluginCatalogue) -> String {
    let known = catalogue.names();
    let meant = nearest(name, &known.iter().map(PluginName::as_str).collect::<Vec<_>>());
    let meant = meant.map(|meant| format!(" (did you mean {meant:?}?)")).unwrap_or_default();
    format!(
        "{}Plugin {name:?} does not exist{meant}: correct the name, give --plugins-dir DIR with {name}.wasm in it, \
         or give --plugin-config FILE with the `source` of {name}",
        point.as_str()
    )
}

fn check_point(point: Point, key: &str, own: &PluginSet, context: Context<'_>) {
    let path = format!("{}.{key}", context.path);
    let mut seen = BTreeSet::new();
    for EnabledPlugin { name, .. } in &own.enabled {
        let message = match context.catalogue.points(name) {
            None if context.catalogue.awaits(name) => {
                if seen.insert(name) {
                    continue;
                }
                already_registered(point, name)
            }
            None => does_not_exist(point, name, context.catalogue),
            Some(points) if !points.contains(point) => does_not_extend(point, name, points),
            Some(_) if !seen.insert(name) => already_registered(point, name),
            Some(_) => continue,
        };
        context.problems.add(&path, message);
    }
}

/// The text begins with kube-scheduler's words.
pub(crate) fn does_not_extend(point: Point, name: &str, implemented: Points) -> String {
    let keys = points_with_keys().filter(|(own, _)| implemented.contains(*own)).map(|(_, key)| key);
    let keys: Vec<&str> = keys.collect();
    let instead = if keys.is_empty() {
        "it implements no point at which a profile can enable it".to_owned()
    } else {
        format!("it implements {}: enable it there, or under multiPoint", keys.join(", "))
    };
    format!("plugin {name:?} does not extend {}Plugin plugin: {instead}", point.as_str())
}

fn already_registered(point: Point, name: &str) -> String {
    format!("plugin {name:?} already registered as \"{}Plugin\"", point.as_str())
}

fn check_outcome(sets: &PluginSets, context: Context<'_>) {
    let Context { scheduler_name, path, problems, .. } = context;
    let n_queue_sorts = sets.at(Point::QueueSort).len();
    let may_sort = n_queue_sorts == 0 && !sets.wanted_at(Point::QueueSort).is_empty();
    if n_queue_sorts != 1 && !may_sort {
        let required = "only one queue sort plugin required for profile with scheduler name";
        let advice = queue_sort_advice(sets.at(Point::QueueSort));
        problems.add(path, format!("{required} {scheduler_name:?}, but got {n_queue_sorts}: {advice}"));
    }
    let may_bind = |name: &PluginName| context.catalogue.awaits(name);
    if sets.at(Point::Bind).is_empty() && !sets.wanted_at(Point::Bind).iter().any(may_bind) {
        problems.add(
            path,
            format!("at least one bind plugin is needed for profile with scheduler name {scheduler_name:?}"),
        );
    }
    let total = sets
        .score_weights()
        .try_fold(0_i64, |total, (_, weight)| total.checked_add(weight.checked_mul(MAX_NODE_SCORE)?));
    if total.is_none() {
        problems.add(&format!("{path}.score"), "total score of Score plugins could overflow");
    }
}

/// The list with which exactly one of these plugins sorts the queue. A plugin of the operator is preferred, because
/// PrioritySort sorts the queue of every profile that does not disable it.
fn queue_sort_advice(found: &[PluginName]) -> String {
    let names = found.iter().map(PluginName::as_str);
    let Some(name) = names.clone().rfind(|name| *name != PRIORITY_SORT) else {
        return format!("enable one, as in queueSort: {{enabled: [{{name: {PRIORITY_SORT}}}]}}");
    };
    let all = names.collect::<Vec<_>>().join(" and ");
    format!(
        "{all} sort the queue; keep one, as in queueSort: {{enabled: [{{name: {name}}}], disabled: [{{name: \"*\"}}]}}"
    )
}

#[cfg(test)]
mod tests;
