//! Arguments of NodeResourcesFit and NodeResourcesBalancedAllocation: the resources that count, and their weights.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::{fields::Fields, names::qualified_name_problem};

const LEAST_ALLOCATED: &str = "LeastAllocated";
const REQUESTED_TO_CAPACITY_RATIO: &str = "RequestedToCapacityRatio";
const STRATEGIES: [&str; 3] = [LEAST_ALLOCATED, "MostAllocated", REQUESTED_TO_CAPACITY_RATIO];

/// The resources that matter to every pod.
const DEFAULT_RESOURCES: [&str; 2] = ["cpu", "memory"];

struct Resource {
    path: String,
    name: String,
    weight: i64,
}

pub(super) fn read_balanced_allocation(fields: &Fields<'_>) -> Value {
    let resources = read_resources(fields);
    let mut seen = BTreeSet::new();
    for Resource { path, name, weight } in &resources {
        if *weight != 1 {
            let why = format!("resource weight of {name} should be 1, got {weight}");
            fields.problems.invalid(&format!("{path}.weight"), *weight, why);
        }
        if !seen.insert(name) {
            fields.problems.duplicate(&format!("{path}.name"), name.as_str());
        }
    }
    json!({ "resources": to_json(&resources) })
}

pub(super) fn read_fit(fields: &Fields<'_>) -> Value {
    let ignored_resources = fields.texts("ignoredResources");
    for (path, name) in &ignored_resources {
        if let Some(problem) = qualified_name_problem(name) {
            fields.problems.invalid(path, *name, problem);
        }
    }
    let ignored_groups = fields.texts("ignoredResourceGroups");
    for (path, group) in &ignored_groups {
        if group.contains('/') {
            fields.problems.invalid(path, *group, "resource group name can't contain '/'");
        } else if let Some(problem) = qualified_name_problem(group) {
            fields.problems.invalid(path, *group, problem);
        }
    }
    let mut args = Map::new();
    for (field, names) in [("ignoredResources", ignored_resources), ("ignoredResourceGroups", ignored_groups)] {
        let names: Vec<_> = names.into_iter().map(|(_, name)| name).collect();
        args.insert(field.to_owned(), json!(names));
    }
    let strategy = fields.value("scoringStrategy").map(|_| read_strategy(fields.object("scoringStrategy")));
    let strategy = strategy.unwrap_or_else(|| json!({ "type": LEAST_ALLOCATED, "resources": default_resources() }));
    args.insert("scoringStrategy".to_owned(), strategy);
    args.into()
}

fn read_strategy(fields: Fields<'_>) -> Value {
    let strategy_type = fields.text("type").unwrap_or_default();
    if !STRATEGIES.contains(&strategy_type) {
        fields.problems.unsupported(&fields.at("type"), strategy_type, &STRATEGIES);
    }
    let resources = read_resources(&fields);
    for Resource { path, name, weight } in &resources {
        if !(1..=100).contains(weight) {
            let why = format!("resource weight of {name} not in valid range (0, 100]");
            fields.problems.invalid(&format!("{path}.weight"), *weight, why);
        }
    }
    let mut strategy = Map::new();
    strategy.insert("type".to_owned(), strategy_type.into());
    strategy.insert("resources".to_owned(), to_json(&resources));
    if fields.value("requestedToCapacityRatio").is_some() {
        let ratio = fields.object("requestedToCapacityRatio");
        strategy.insert("requestedToCapacityRatio".to_owned(), json!({ "shape": read_shape(&ratio) }));
        ratio.finish();
    } else if strategy_type == REQUESTED_TO_CAPACITY_RATIO {
        fields.required("requestedToCapacityRatio", "this scoring strategy needs a shape");
    }
    fields.finish();
    strategy.into()
}

/// Reads the points of a piecewise linear function. The utilization is in percent and rises from point to point. Scores
/// are from 0 to 10.
pub(super) fn read_shape(fields: &Fields<'_>) -> Vec<Value> {
    let mut shape = Vec::new();
    let mut previous = None;
    for point in fields.objects("shape") {
        let utilization = point.whole32("utilization").unwrap_or(0);
        let score = point.whole32("score").unwrap_or(0);
        if !(0..=100).contains(&utilization) {
            point.invalid("utilization", utilization, "not in valid range [0, 100]");
        }
        if previous.is_some_and(|previous| utilization <= previous) {
            point.invalid("utilization", utilization, "utilization values must be sorted in increasing order");
        }
        if !(0..=10).contains(&score) {
            point.invalid("score", score, "not in valid range [0, 10]");
        }
        point.finish();
        previous = Some(utilization);
        shape.push(json!({ "utilization": utilization, "score": score }));
    }
    if shape.is_empty() {
        fields.required("shape", "at least one point must be specified");
    }
    shape
}

/// The `resources` list. If it is absent or empty, the resources are cpu and memory. A weight of 0 counts as 1.
fn read_resources(fields: &Fields<'_>) -> Vec<Resource> {
    let mut resources = Vec::new();
    for resource in fields.objects("resources") {
        let name = resource.text("name").unwrap_or_default().to_owned();
        if name.is_empty() {
            resource.required("name", "the name of a resource such as cpu");
        }
        let weight = match resource.whole("weight") {
            None | Some(0) => 1,
            Some(weight) => weight,
        };
        resources.push(Resource { path: resource.path.clone(), name, weight });
        resource.finish();
    }
    if resources.is_empty() {
        let default = |name: &str| Resource { path: String::new(), name: name.to_owned(), weight: 1 };
        return DEFAULT_RESOURCES.into_iter().map(default).collect();
    }
    resources
}

fn default_resources() -> Value {
    DEFAULT_RESOURCES.into_iter().map(|name| json!({ "name": name, "weight": 1 })).collect()
}

fn to_json(resources: &[Resource]) -> Value {
    resources.iter().map(|resource| json!({ "name": resource.name, "weight": resource.weight })).collect()
}
