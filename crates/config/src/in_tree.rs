//! Kubernetes' own plugins: the set from which a profile starts, and the plugins that this build lacks.
//!
//! The description of a built-in plugin has the points that the plugin implements, and [`InTree`] reads this
//! description. This file lists only the plugins and points of kube-scheduler that no built-in plugin covers.

use std::{collections::BTreeMap, sync::Arc};

use berth_framework::{PluginFactory, Point, Points};
use berth_model::{Feature, Features, PluginName};

use crate::{
    merge::{EnabledPlugin, PluginSet},
    point::PluginCatalogue,
};

/// The catalogue of the plugins that ship with kube-scheduler.
#[derive(Clone, Debug)]
pub struct InTree {
    built_ins: BTreeMap<PluginName, Points>,
    features: Features,
}

/// Plugins of earlier releases that a configuration may no longer name.
pub(crate) const REMOVED: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];

/// The plugins of the default profile with the weights in `default_plugins.go`. Zero means that the plugin has no
/// weight there, which counts as 1. The order decides which filter runs first. Weights and order come from
/// `pkg/scheduler/apis/config/v1/default_plugins.go`.
const DEFAULT_PROFILE: [(&str, i32); 20] = [
    ("SchedulingGates", 0),
    ("PrioritySort", 0),
    ("NodeUnschedulable", 0),
    ("NodeName", 0),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 0),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 0),
    ("NodeVolumeLimits", 0),
    ("VolumeBinding", 0),
    ("VolumeZone", 0),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("DefaultPreemption", 0),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", 0),
    ("NodeDeclaredFeatures", 0),
];

/// Plugins that this build lacks. They serve the scheduling of pod groups, an alpha feature that is off by default. A
/// file that names these plugins is valid. Two of the plugins implement only points of pod groups, which never run.
const MISSING_PLUGINS: [(&str, &[Point]); 3] = [
    ("GangScheduling", &[Point::PreEnqueue, Point::Permit]),
    ("TopologyPlacementGenerator", &[]),
    ("PodGroupPodsCount", &[]),
];

/// Points at which kube-scheduler asks a plugin and Berth asks no plugin. While the preemption of a pod is in progress,
/// Berth's scheduler itself holds the pod back, and does not ask DefaultPreemption.
const DONE_BY_THE_SCHEDULER: [(&str, Point); 1] = [("DefaultPreemption", Point::PreEnqueue)];

impl InTree {
    /// The catalogue of kube-scheduler's plugins. `built_ins` are the plugins that are part of this program.
    #[must_use]
    pub fn new(built_ins: &[Arc<dyn PluginFactory>]) -> Self {
        let points = built_ins.iter().map(|factory| (factory.manifest().name.as_str().into(), factory.points()));
        Self { built_ins: points.collect(), features: Features::default() }
    }

    /// The catalogue for a scheduler with these features.
    #[must_use]
    pub fn with_features(self, features: Features) -> Self {
        Self { features, ..self }
    }
}

impl PluginCatalogue for InTree {
    fn features(&self) -> Features {
        self.features
    }

    fn points(&self, plugin: &str) -> Option<Points> {
        let Some(built_in) = self.built_ins.get(plugin) else { return points_of_missing_plugin(plugin) };
        let others = DONE_BY_THE_SCHEDULER.iter().filter(|(name, _)| *name == plugin).map(|(_, point)| *point);
        Some(built_in.iter().chain(others).collect())
    }

    fn names(&self) -> Vec<PluginName> {
        self.built_ins.keys().cloned().chain(missing_plugins()).collect()
    }
}

/// The points of the plugin, if kube-scheduler has the plugin and this build lacks it; `None` for any other name. A
/// profile may enable such a plugin, but its rules have no effect.
#[must_use]
pub fn points_of_missing_plugin(plugin: &str) -> Option<Points> {
    let (_, points) = MISSING_PLUGINS.iter().find(|(name, _)| *name == plugin)?;
    Some(points.iter().copied().collect())
}

/// The plugins that kube-scheduler has and this build lacks.
pub fn missing_plugins() -> impl Iterator<Item = PluginName> {
    MISSING_PLUGINS.iter().map(|(name, _)| PluginName::from(*name))
}

/// The plugins of `plugins.multiPoint` before the operator's changes.
pub(crate) fn default_multi_point(features: Features) -> PluginSet {
    let is_there = |name: &str| name != "NodeDeclaredFeatures" || features.has(Feature::NodeDeclaredFeatures);
    let plugins = DEFAULT_PROFILE.into_iter().filter(|(name, _)| is_there(name));
    let enabled = plugins.map(|(name, weight)| EnabledPlugin { name: name.into(), weight });
    PluginSet { enabled: enabled.collect(), disabled: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KEP-5328.
    #[test]
    fn node_declared_features_is_a_default_plugin_only_with_its_gate() {
        let last = |is_on| {
            let features = Features::default().with(Feature::NodeDeclaredFeatures, is_on);
            default_multi_point(features).enabled.last().map(|plugin| plugin.name.to_string())
        };
        let names = [true, false].map(|is_on| last(is_on).unwrap_or_default());
        assert_eq!(names, ["NodeDeclaredFeatures", "DefaultBinder"]);
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::InTree;

    /// The catalogue of kube-scheduler's plugins with all built-in plugins of this project.
    pub(crate) fn in_tree() -> InTree {
        InTree::new(&berth_builtins::factories())
    }
}
