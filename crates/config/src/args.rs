//! Arguments of the built-in plugins: this module fills in the defaults and checks the values.
//!
//! The result is JSON without `apiVersion` and `kind`. The result is complete, so a plugin needs no defaults of its
//! own. Wording and limits are kube-scheduler's. A plugin with more than a few numbers to check has a separate file.

mod node_affinity;
mod resources;
mod topology_spread;

use berth_model::{
    Feature, Features,
    duration::{NANOS_PER_SECOND, from_nanos, render_duration},
};
use serde_json::{Value, json};

use crate::{error::Problems, fields::Fields};

type ReadArgs = fn(&Fields<'_>, Features) -> Value;

/// Whether `plugin` is a built-in plugin that takes arguments.
pub(crate) fn has_args(plugin: &str) -> bool {
    reader_of(plugin).is_some()
}

/// The checked and complete arguments of a built-in plugin; `None` for any other plugin. Some arguments are allowed
/// only with some of `features`, and some defaults depend on them.
pub(crate) fn complete_args(
    plugin: &str,
    features: Features,
    path: &str,
    given: Option<&Value>,
    problems: &Problems,
) -> Option<Value> {
    let read = reader_of(plugin)?;
    let fields = Fields::new(path, given, problems);
    fields.envelope(&format!("{plugin}Args"));
    let args = read(&fields, features);
    fields.finish();
    Some(args)
}

fn reader_of(plugin: &str) -> Option<ReadArgs> {
    match plugin {
        "DefaultPreemption" => Some(default_preemption),
        "DynamicResources" => Some(dynamic_resources),
        "InterPodAffinity" => Some(inter_pod_affinity),
        "NodeAffinity" => Some(|fields, _| node_affinity::read(fields)),
        "NodeResourcesBalancedAllocation" => Some(|fields, _| resources::read_balanced_allocation(fields)),
        "NodeResourcesFit" => Some(|fields, _| resources::read_fit(fields)),
        "PodTopologySpread" => Some(|fields, _| topology_spread::read(fields)),
        "VolumeBinding" => Some(volume_binding),
        _ => None,
    }
}

/// Preemption tries a tenth of the nodes, but at least a hundred, as places for a preemptor.
fn default_preemption(fields: &Fields<'_>, _: Features) -> Value {
    let (percentage_field, absolute_field) = ("minCandidateNodesPercentage", "minCandidateNodesAbsolute");
    let percentage = fields.whole32(percentage_field).unwrap_or(10);
    let absolute = fields.whole32(absolute_field).unwrap_or(100);
    if !(0..=100).contains(&percentage) {
        fields.invalid(percentage_field, percentage, "not in valid range [0, 100]");
    }
    if absolute < 0 {
        fields.invalid(absolute_field, absolute, "not in valid range [0, inf)");
    }
    if percentage == 0 && absolute == 0 {
        for (field, other) in [(percentage_field, absolute_field), (absolute_field, percentage_field)] {
            fields.invalid(field, 0, &format!("cannot be zero at the same time as {}", fields.at(other)));
        }
    }
    json!({ percentage_field: percentage, absolute_field: absolute })
}

/// Allocation may search for ten seconds, and devices may take ten minutes to become ready.
fn dynamic_resources(fields: &Fields<'_>, _: Features) -> Value {
    let filter_nanos = fields.duration_nanos("filterTimeout").unwrap_or(10 * NANOS_PER_SECOND);
    if filter_nanos < 0 {
        fields.invalid("filterTimeout", fields.text("filterTimeout"), "must be zero (no timeout) or positive");
    }
    let binding_nanos = fields.duration_nanos("bindingTimeout").unwrap_or(600 * NANOS_PER_SECOND);
    if binding_nanos < NANOS_PER_SECOND {
        fields.invalid("bindingTimeout", fields.text("bindingTimeout"), "must be at least 1 second");
    }
    json!({
        "filterTimeout": render_duration(from_nanos(filter_nanos)),
        "bindingTimeout": render_duration(from_nanos(binding_nanos)),
    })
}

/// By default, a required affinity of a running pod counts as a preference of weight 1 for an incoming pod that matches
/// it.
fn inter_pod_affinity(fields: &Fields<'_>, _: Features) -> Value {
    let weight = fields.whole32("hardPodAffinityWeight").unwrap_or(1);
    if !(0..=100).contains(&weight) {
        fields.invalid("hardPodAffinityWeight", weight, "not in valid range [0, 100]");
    }
    let ignore = fields.flag("ignorePreferredTermsOfExistingPods").unwrap_or(false);
    json!({ "hardPodAffinityWeight": weight, "ignorePreferredTermsOfExistingPods": ignore })
}

/// Provisioning a volume may take ten minutes.
fn volume_binding(fields: &Fields<'_>, features: Features) -> Value {
    let timeout = fields.whole("bindTimeoutSeconds").unwrap_or(600);
    if timeout < 0 {
        fields.invalid("bindTimeoutSeconds", timeout, "invalid BindTimeoutSeconds, should not be a negative value");
    }
    let shape = fields.value("shape");
    if features.has(Feature::StorageCapacityScoring) {
        let is_absent = shape.is_none_or(|shape| shape.is_null() || shape.as_array().is_some_and(Vec::is_empty));
        // Nodes with much room get high scores.
        let default = || json!([{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]);
        let shape = if is_absent { default() } else { resources::read_shape(fields).into() };
        return json!({ "bindTimeoutSeconds": timeout, "shape": shape });
    }
    if shape.is_some() {
        let why = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring";
        fields.problems.forbidden(&fields.at("shape"), why);
    }
    json!({ "bindTimeoutSeconds": timeout })
}

#[cfg(test)]
mod tests;
