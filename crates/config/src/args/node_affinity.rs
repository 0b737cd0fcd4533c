//! Arguments of NodeAffinity: an affinity that is added to every pod of the profile.
//!
//! The affinity is passed on as written. Only its selectors are checked, because a selector that cannot be parsed would
//! match no node, and every pod would stay pending.

use serde_json::{Map, Value};

use crate::{
    fields::Fields,
    names::{label_value_problem, qualified_name_problem},
};

const OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
const FIELD_OPERATORS: [&str; 2] = ["In", "NotIn"];

pub(super) fn read(fields: &Fields<'_>) -> Value {
    let mut args = Map::new();
    if let Some(affinity) = fields.value("addedAffinity") {
        check_affinity(fields.object("addedAffinity"));
        args.insert("addedAffinity".to_owned(), affinity.clone());
    }
    args.into()
}

fn check_affinity(affinity: Fields<'_>) {
    let (required, preferred) =
        ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution");
    if affinity.value(required).is_some() {
        let selector = affinity.object(required);
        let terms = selector.objects("nodeSelectorTerms");
        if terms.is_empty() {
            selector.required("nodeSelectorTerms", "must have at least one node selector term");
        }
        terms.into_iter().for_each(check_term);
        selector.finish();
    }
    for weighted in affinity.objects(preferred) {
        let weight = weighted.whole32("weight").unwrap_or(0);
        if !(1..=100).contains(&weight) {
            weighted.invalid("weight", weight, "must be in the range 1-100");
        }
        check_term(weighted.object("preference"));
        weighted.finish();
    }
    affinity.finish();
}

fn check_term(term: Fields<'_>) {
    for requirement in term.objects("matchExpressions") {
        let key = requirement.text("key").unwrap_or_default();
        if let Some(problem) = qualified_name_problem(key) {
            requirement.invalid("key", key, &problem);
        }
        check_expression(&requirement);
        requirement.finish();
    }
    for requirement in term.objects("matchFields") {
        let key = requirement.text("key").unwrap_or_default();
        if key != "metadata.name" {
            requirement.invalid("key", key, "not a valid field selector key, only metadata.name is");
        }
        let operator = requirement.text("operator").unwrap_or_default();
        if !FIELD_OPERATORS.contains(&operator) {
            requirement.problems.unsupported(&requirement.at("operator"), operator, &FIELD_OPERATORS);
        }
        if requirement.texts("values").len() != 1 {
            requirement.required(
                "values",
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            );
        }
        requirement.finish();
    }
    term.finish();
}

fn check_expression(requirement: &Fields<'_>) {
    let operator = requirement.text("operator").unwrap_or_default();
    let values = requirement.texts("values");
    match operator {
        "In" | "NotIn" => {
            if values.is_empty() {
                requirement.required("values", "must be specified when `operator` is 'In' or 'NotIn'");
            }
            for (path, value) in &values {
                if let Some(problem) = label_value_problem(value) {
                    requirement.problems.invalid(path, *value, problem);
                }
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                requirement.problems.forbidden(&requirement.at("values"), why);
            }
        }
        "Gt" | "Lt" => {
            if !matches!(values.as_slice(), [(_, value)] if value.parse::<i64>().is_ok()) {
                requirement.required("values", "must be one whole number when `operator` is 'Lt' or 'Gt'");
            }
        }
        other => requirement.problems.unsupported(&requirement.at("operator"), other, &OPERATORS),
    }
}
