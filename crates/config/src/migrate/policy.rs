//! Policy files: predicates and priorities, which later became plugins.

use std::{collections::BTreeSet, time::Duration};

use berth_model::duration::render_duration;
use serde_json::{Map, Value, json};

use crate::{
    fields::API_VERSION,
    migrate::plugins::{ProfilePlugins, advice, args_of, strategy_of},
    profile::DEFAULT_SCHEDULER_NAME,
};

/// Predicates, each with the plugins whose filters replace it.
const PREDICATES: [(&str, &[&str]); 24] = [
    ("CheckNodeCondition", &["NodeUnschedulable", "TaintToleration"]),
    ("CheckNodeDiskPressure", &["TaintToleration"]),
    ("CheckNodeMemoryPressure", &["TaintToleration"]),
    ("CheckNodePIDPressure", &["TaintToleration"]),
    ("CheckNodeUnschedulable", &["NodeUnschedulable"]),
    ("CheckVolumeBinding", &["VolumeBinding"]),
    ("EvenPodsSpread", &["PodTopologySpread"]),
    ("GeneralPredicates", &["NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity"]),
    ("HostName", &["NodeName"]),
    ("MatchInterPodAffinity", &["InterPodAffinity"]),
    ("MatchNodeSelector", &["NodeAffinity"]),
    ("MaxAzureDiskVolumeCount", &["NodeVolumeLimits"]),
    ("MaxCSIVolumeCountPred", &["NodeVolumeLimits"]),
    ("MaxCinderVolumeCount", &["NodeVolumeLimits"]),
    ("MaxEBSVolumeCount", &["NodeVolumeLimits"]),
    ("MaxGCEPDVolumeCount", &["NodeVolumeLimits"]),
    ("NoDiskConflict", &["VolumeRestrictions"]),
    ("NoVolumeZoneConflict", &["VolumeZone"]),
    ("PodFitsHost", &["NodeName"]),
    ("PodFitsHostPorts", &["NodePorts"]),
    ("PodFitsPorts", &["NodePorts"]),
    ("PodFitsResources", &["NodeResourcesFit"]),
    ("PodToleratesNodeNoExecuteTaints", &["TaintToleration"]),
    ("PodToleratesNodeTaints", &["TaintToleration"]),
];

/// Priorities and the plugins that score in the same way, with the scoring strategy of NodeResourcesFit.
const PRIORITIES: [(&str, &str, Option<&str>); 12] = [
    ("BalancedResourceAllocation", "NodeResourcesBalancedAllocation", None),
    ("EvenPodsSpreadPriority", "PodTopologySpread", None),
    ("ImageLocalityPriority", "ImageLocality", None),
    ("InterPodAffinityPriority", "InterPodAffinity", None),
    ("LeastRequestedPriority", "NodeResourcesFit", Some("LeastAllocated")),
    ("MostRequestedPriority", "NodeResourcesFit", Some("MostAllocated")),
    ("NodeAffinityPriority", "NodeAffinity", None),
    ("RequestedToCapacityRatioPriority", "NodeResourcesFit", Some("RequestedToCapacityRatio")),
    ("SelectorSpreadPriority", "PodTopologySpread", None),
    ("ServiceSpreadingPriority", "PodTopologySpread", None),
    ("TaintTolerationPriority", "TaintToleration", None),
    ("NodePreferAvoidPodsPriority", "", None),
];

/// The priority for which a Policy could choose any name, together with this argument.
const CAPACITY_RATIO: (&str, &str) =
    ("RequestedToCapacityRatioPriority", "/argument/requestedToCapacityRatioArguments");

/// The arguments of the other predicates and priorities with a free name, and the plugins that had these arguments.
const ARGUMENTS: [(&str, &str); 4] = [
    ("/argument/labelPreference", "NodeLabel"),
    ("/argument/labelsPresence", "NodeLabel"),
    ("/argument/serviceAffinity", "ServiceAffinity"),
    ("/argument/serviceAntiAffinity", "ServiceAffinity"),
];

/// Plugins that every profile had regardless of its Policy, or that kube-scheduler got later.
const ALWAYS: [&str; 7] = [
    "SchedulingGates",
    "PrioritySort",
    "NodeUnschedulable",
    "TaintToleration",
    "DynamicResources",
    "DefaultPreemption",
    "DefaultBinder",
];

/// Makes a configuration with one profile from a Policy.
pub(super) fn configuration(policy: &Map<String, Value>, notes: &mut Vec<String>) -> Value {
    let mut profile = Map::new();
    profile.insert("schedulerName".to_owned(), DEFAULT_SCHEDULER_NAME.into());
    let mut plugins = ProfilePlugins::take(&mut profile, notes);
    if let Some(predicates) = policy.get("predicates").and_then(Value::as_array) {
        filters(predicates, &mut plugins, notes);
    }
    if let Some(priorities) = policy.get("priorities").and_then(Value::as_array) {
        scores(priorities, &mut profile, &mut plugins, notes);
    }
    if let Some(weight) = policy.get("hardPodAffinitySymmetricWeight") {
        args_of(&mut profile, "InterPodAffinity").insert("hardPodAffinityWeight".to_owned(), weight.clone());
    }
    if policy.contains_key("alwaysCheckAllPredicates") {
        notes.push("alwaysCheckAllPredicates was removed: no filter runs after one that rejects a node".to_owned());
    }
    plugins.put(&mut profile);
    let mut configuration =
        json!({ "apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration", "profiles": [profile] });
    if let Some(of_policy) = policy.get("extenders").or_else(|| policy.get("extenderConfigs")) {
        configuration["extenders"] = extenders(of_policy, notes);
    }
    configuration
}

/// The extenders of a Policy with today's names and units of fields.
fn extenders(of_policy: &Value, notes: &mut Vec<String>) -> Value {
    let mut extenders = of_policy.clone();
    for extender in extenders.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(enabled) = extender.remove("enableHttps") {
            notes.push("extenders: enableHTTPS replaces enableHttps".to_owned());
            extender.insert("enableHTTPS".to_owned(), enabled);
        }
        if let Some(nanoseconds) = extender.get("httpTimeout").and_then(Value::as_u64) {
            let timeout = render_duration(Duration::from_nanos(nanoseconds));
            notes.push(format!("extenders: httpTimeout {nanoseconds} was in nanoseconds and becomes {timeout}"));
            extender.insert("httpTimeout".to_owned(), timeout.into());
        }
    }
    extenders
}

/// Says that no plugin replaces a predicate or priority of a Policy.
fn without_successor(what: &str, entry: &Value) -> String {
    let name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
    let argument = ARGUMENTS.iter().find(|(argument, _)| entry.pointer(argument).is_some());
    let instead = argument.and_then(|(_, plugin)| advice(plugin));
    instead.map_or_else(
        || format!("no plugin replaces {what} {name}"),
        |instead| format!("no plugin replaces {what} {name}: {instead}"),
    )
}

/// Enables these filters and no others, with the other extension points of their plugins.
fn filters(predicates: &[Value], plugins: &mut ProfilePlugins, notes: &mut Vec<String>) {
    plugins.disable("multiPoint", "*");
    let mut enabled = BTreeSet::new();
    for plugin in ALWAYS {
        enabled.insert(plugin);
        plugins.enable("multiPoint", plugin, None);
    }
    notes.push(format!("these plugins are always enabled: {}", ALWAYS.join(", ")));
    for predicate in predicates {
        let name = predicate.get("name").and_then(Value::as_str).unwrap_or_default();
        let Some((_, successors)) = PREDICATES.iter().find(|(old, _)| *old == name) else {
            notes.push(without_successor("predicate", predicate));
            continue;
        };
        notes.push(format!("predicate {name}: {}", successors.join(", ")));
        for plugin in *successors {
            if enabled.insert(plugin) {
                plugins.enable("multiPoint", plugin, None);
            }
        }
    }
}

/// Enables these scores and no others.
fn scores(
    priorities: &[Value],
    profile: &mut Map<String, Value>,
    plugins: &mut ProfilePlugins,
    notes: &mut Vec<String>,
) {
    plugins.disable("preScore", "*");
    plugins.disable("score", "*");
    let mut enabled = BTreeSet::new();
    for priority in priorities {
        let name = priority.get("name").and_then(Value::as_str).unwrap_or_default();
        let (capacity_ratio, its_argument) = CAPACITY_RATIO;
        let known = if priority.pointer(its_argument).is_some() { capacity_ratio } else { name };
        let successor = PRIORITIES.iter().find(|(old, plugin, _)| *old == known && !plugin.is_empty());
        let Some((_, plugin, strategy)) = successor else {
            notes.push(without_successor("priority", priority));
            continue;
        };
        if !enabled.insert(*plugin) {
            notes.push(format!("priority {name} is ignored: an earlier priority already enables {plugin}"));
            continue;
        }
        notes.push(format!("priority {name}: {plugin}"));
        if PRE_SCORED.contains(plugin) {
            plugins.enable("preScore", plugin, None);
        }
        plugins.enable("score", plugin, priority.get("weight"));
        if let Some(strategy) = strategy {
            set_strategy(profile, strategy, priority);
        }
    }
}

/// Plugins with scores that need the results of their own PreScore.
const PRE_SCORED: [&str; 6] = [
    "InterPodAffinity",
    "NodeAffinity",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "PodTopologySpread",
    "TaintToleration",
];

fn set_strategy(profile: &mut Map<String, Value>, strategy: &str, priority: &Value) {
    let chosen = strategy_of(profile);
    chosen.insert("type".to_owned(), strategy.into());
    let Some(arguments) = priority.pointer(CAPACITY_RATIO.1) else { return };
    if let Some(shape) = arguments.get("shape") {
        chosen.insert("requestedToCapacityRatio".to_owned(), json!({ "shape": shape }));
    }
    if let Some(resources) = arguments.get("resources") {
        chosen.insert("resources".to_owned(), resources.clone());
    }
}
