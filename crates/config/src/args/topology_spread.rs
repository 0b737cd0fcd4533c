//! Arguments of PodTopologySpread: constraints for pods without their own constraints.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{fields::Fields, names::qualified_name_problem};

const SYSTEM: &str = "System";
const LIST: &str = "List";
const WHEN_UNSATISFIABLE: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
const NODE_POLICIES: [&str; 2] = ["Honor", "Ignore"];

pub(super) fn read(fields: &Fields<'_>) -> Value {
    let given_type = fields.text("defaultingType").filter(|text| !text.is_empty());
    let defaulting_type = given_type.unwrap_or(SYSTEM);
    if ![SYSTEM, LIST].contains(&defaulting_type) {
        fields.problems.unsupported(&fields.at("defaultingType"), defaulting_type, &[SYSTEM, LIST]);
    }
    let constraints = fields.list("defaultConstraints");
    if defaulting_type == SYSTEM && !constraints.is_empty() {
        fields.invalid("defaultingType", SYSTEM, "when .defaultConstraints are not empty, use List");
    }
    let mut seen = BTreeSet::new();
    for constraint in fields.objects("defaultConstraints") {
        let pair = check_constraint(&constraint);
        let shown = format!("{{{:?}, {:?}}}", pair.0, pair.1);
        if !seen.insert(pair) {
            fields.problems.duplicate(&constraint.path, shown);
        }
        constraint.finish();
    }
    let constraints: Vec<_> = constraints.into_iter().map(|(_, constraint)| constraint).collect();
    json!({ "defaultingType": defaulting_type, "defaultConstraints": constraints })
}

/// Returns the pair that must be unique: the topology key, and the action if a node violates the constraint.
fn check_constraint<'a>(constraint: &Fields<'a>) -> (&'a str, &'a str) {
    let problems = constraint.problems;
    let max_skew = constraint.whole32("maxSkew").unwrap_or(0);
    if max_skew <= 0 {
        constraint.invalid("maxSkew", max_skew, "not in valid range (0, inf)");
    }
    let topology_key = constraint.text("topologyKey").unwrap_or_default();
    if topology_key.is_empty() {
        constraint.required("topologyKey", "can not be empty");
    } else if let Some(problem) = qualified_name_problem(topology_key) {
        constraint.invalid("topologyKey", topology_key, &problem);
    }
    let when = constraint.text("whenUnsatisfiable").unwrap_or_default();
    if when.is_empty() {
        constraint.required("whenUnsatisfiable", "can not be empty");
    } else if !WHEN_UNSATISFIABLE.contains(&when) {
        problems.unsupported(&constraint.at("whenUnsatisfiable"), when, &WHEN_UNSATISFIABLE);
    }
    if constraint.value("labelSelector").is_some() {
        let why = "constraint must not define a selector, as they deduced for each pod";
        problems.forbidden(&constraint.at("labelSelector"), why);
    }
    if let Some(min_domains) = constraint.whole32("minDomains").filter(|min_domains| *min_domains <= 0) {
        constraint.invalid("minDomains", min_domains, "must be greater than 0");
    }
    for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        if let Some(policy) = constraint.text(name).filter(|policy| !NODE_POLICIES.contains(policy)) {
            problems.unsupported(&constraint.at(name), policy, &NODE_POLICIES);
        }
    }
    constraint.texts("matchLabelKeys");
    (topology_key, when)
}
