//! Kubernetes 1.36's own plugins: what each implements, and the set that a profile starts from.
//!
//! The order of [`IN_TREE`] is the order of the default profile, so it decides which filter speaks first. Being listed
//! here says nothing about whether the running program has the plugin; that is for the caller to find out.

use crate::merge::{EnabledPlugin, PluginSet};
use crate::point::Point::{
    Bind, Filter, Permit, PostFilter, PreBind, PreEnqueue, PreFilter, PreScore, QueueSort, Reserve, Score,
};
use crate::point::{PluginCatalogue, PointSet};

/// The catalogue of the plugins that ship with kube-scheduler.
#[derive(Clone, Copy, Debug, Default)]
pub struct InTree;

/// Plugins of earlier releases that a configuration may no longer name.
pub(crate) const REMOVED: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];

struct Row {
    name: &'static str,
    in_default_profile: bool,
    /// The weight that the default profile writes down; zero means none, which counts as 1.
    weight: i32,
    points: PointSet,
}

impl PluginCatalogue for InTree {
    fn points(&self, plugin: &str) -> Option<PointSet> {
        IN_TREE.iter().find(|row| row.name == plugin).map(|row| row.points)
    }
}

/// What `plugins.multiPoint` holds before the operator says anything.
pub(crate) fn default_multi_point() -> PluginSet {
    let enabled = IN_TREE
        .iter()
        .filter(|row| row.in_default_profile)
        .map(|row| EnabledPlugin { name: row.name.to_owned(), weight: row.weight })
        .collect();
    PluginSet { enabled, disabled: Vec::new() }
}

const fn by_default(name: &'static str, weight: i32, points: PointSet) -> Row {
    Row { name, in_default_profile: true, weight, points }
}

const fn on_request(name: &'static str, points: PointSet) -> Row {
    Row { name, in_default_profile: false, weight: 0, points }
}

const FILTERS: PointSet = PointSet::of(&[PreFilter, Filter]);
const FILTERS_AND_SCORES: PointSet = PointSet::of(&[PreFilter, Filter, PreScore, Score]);

const IN_TREE: [Row; 23] = [
    by_default("SchedulingGates", 0, PointSet::of(&[PreEnqueue])),
    by_default("PrioritySort", 0, PointSet::of(&[QueueSort])),
    by_default("NodeUnschedulable", 0, PointSet::of(&[Filter])),
    by_default("NodeName", 0, PointSet::of(&[Filter])),
    by_default("TaintToleration", 3, PointSet::of(&[Filter, PreScore, Score])),
    by_default("NodeAffinity", 2, FILTERS_AND_SCORES),
    by_default("NodePorts", 0, FILTERS),
    by_default("NodeResourcesFit", 1, FILTERS_AND_SCORES),
    by_default("VolumeRestrictions", 0, FILTERS),
    by_default("NodeVolumeLimits", 0, FILTERS),
    by_default("VolumeBinding", 0, PointSet::of(&[PreFilter, Filter, PreScore, Score, Reserve, PreBind])),
    by_default("VolumeZone", 0, FILTERS),
    by_default("PodTopologySpread", 2, FILTERS_AND_SCORES),
    by_default("InterPodAffinity", 2, FILTERS_AND_SCORES),
    by_default(
        "DynamicResources",
        2,
        PointSet::of(&[PreEnqueue, PreFilter, Filter, PostFilter, Score, Reserve, PreBind]),
    ),
    by_default("DefaultPreemption", 0, PointSet::of(&[PreEnqueue, PostFilter])),
    by_default("NodeResourcesBalancedAllocation", 1, PointSet::of(&[PreScore, Score])),
    by_default("ImageLocality", 1, PointSet::of(&[Score])),
    by_default("DefaultBinder", 0, PointSet::of(&[Bind])),
    by_default("NodeDeclaredFeatures", 0, FILTERS),
    on_request("GangScheduling", PointSet::of(&[PreEnqueue, Permit])),
    on_request("TopologyPlacementGenerator", PointSet::EMPTY),
    on_request("PodGroupPodsCount", PointSet::EMPTY),
];
