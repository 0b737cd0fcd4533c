//! Merges the operator's plugin lists into the default lists. This happens before the lists are expanded to extension
//! points.
//!
//! An entry that names a default plugin replaces the default entry in place, so a changed weight does not move the
//! plugin. If a plugin is named in both `disabled` and `enabled`, its entry moves to the end.

use std::collections::{BTreeMap, BTreeSet};

use berth_framework::Point;
use berth_model::PluginName;

/// The entry of a `disabled` list that stands for all plugins that are enabled by default.
pub(crate) const ALL_PLUGINS: &str = "*";

/// A plugin to run, with the weight from the document. Zero means that the document has no weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EnabledPlugin {
    pub(crate) name: PluginName,
    pub(crate) weight: i32,
}

/// One key of `plugins`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PluginSet {
    pub(crate) enabled: Vec<EnabledPlugin>,
    /// Names, or [`ALL_PLUGINS`].
    pub(crate) disabled: Vec<PluginName>,
}

impl PluginSet {
    pub(crate) fn disables(&self, plugin: &str) -> bool {
        self.disabled.iter().any(|name| name == plugin)
    }

    pub(crate) fn enables(&self, plugin: &str) -> bool {
        self.enabled.iter().any(|enabled| enabled.name == plugin)
    }

    /// The default set `self` with the operator's changes `custom`.
    pub(crate) fn overlaid_by(&self, custom: &Self) -> Self {
        let mut disabled = custom.disabled.clone();
        for name in &self.disabled {
            if !custom.disables(name) {
                disabled.push(name.clone());
            }
        }
        let mut merged = Self { enabled: Vec::new(), disabled };
        let mut taken = BTreeSet::new();
        if !merged.disables(ALL_PLUGINS) {
            for default in &self.enabled {
                if merged.disables(&default.name) {
                    continue;
                }
                // The last entry of a name replaces the default. An earlier entry stays in the list and is later
                // refused as a second registration.
                let replacement = custom.enabled.iter().enumerate().rfind(|(_, plugin)| plugin.name == default.name);
                if let Some((idx, plugin)) = replacement {
                    taken.insert(idx);
                    merged.enabled.push(plugin.clone());
                } else {
                    merged.enabled.push(default.clone());
                }
            }
        }
        let left = custom.enabled.iter().enumerate().filter(|(idx, _)| !taken.contains(idx));
        merged.enabled.extend(left.map(|(_, plugin)| plugin.clone()));
        merged
    }
}

/// All of `plugins`, after merging and before `multiPoint` is expanded to the points that its plugins implement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PluginSelection {
    pub(crate) multi_point: PluginSet,
    /// Only the points that the document mentions.
    pub(crate) points: BTreeMap<Point, PluginSet>,
    /// The points of pod-group scheduling, which is a feature that is off. They are kept for display. Their plugins
    /// never run.
    pub(crate) placement: BTreeMap<&'static str, PluginSet>,
}

impl PluginSelection {
    /// Every plugin that is enabled at any point, without repetitions, `multiPoint` first.
    pub(crate) fn enabled_names(&self) -> Vec<PluginName> {
        let mut names: Vec<PluginName> = Vec::new();
        for set in std::iter::once(&self.multi_point).chain(self.points.values()) {
            for plugin in &set.enabled {
                if !names.contains(&plugin.name) {
                    names.push(plugin.name.clone());
                }
            }
        }
        names
    }
}
