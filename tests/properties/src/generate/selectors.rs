//! Selectors, terms and constraints over small alphabets, so that they often match.

use serde_json::{Value, json};

use super::{NAMESPACES, random::Random};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const KEYS: [&str; 6] = [ZONE, ZONE, HOSTNAME, "rack", "topology.kubernetes.io/region", "nowhere"];

/// A selector that is absent (`null`), empty, by labels or by expressions.
pub(super) fn labels(random: &mut Random) -> Value {
    match random.below(12) {
        0 => Value::Null,
        1 => json!({}),
        2..7 => json!({"matchLabels": {"app": random.pick(&["web", "db", "cache"])}}),
        7 => json!({"matchLabels": {"app": random.pick(&["web", "db"]), "tier": random.pick(&["front", "back"])}}),
        8 => json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": random.some(&["web", "db"])}]}),
        9 => json!({"matchExpressions": [{"key": "tier", "operator": random.pick(&["Exists", "DoesNotExist"])}]}),
        10 => json!({"matchExpressions": [{"key": "rev", "operator": "In", "values": ["1", "2"]}]}),
        _ => {
            json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "rev", "operator": "In", "values": [random.pick(&["1", "2"])]}]})
        }
    }
}

fn node_expression(random: &mut Random) -> Value {
    match random.below(6) {
        0 => json!({"key": ZONE, "operator": "In", "values": [random.pick(&["z0", "z1", "z2"]), "z2"]}),
        1 => json!({"key": "disk", "operator": "NotIn", "values": [random.pick(&["ssd", "hdd"])]}),
        2 => {
            json!({"key": "rank", "operator": "Gt", "values": [random.pick(&["0", "4", "-5", "9223372036854775807"])]})
        }
        3 => json!({"key": "rank", "operator": "Lt", "values": [random.pick(&["6", "0", "11"])]}),
        4 => json!({"key": "rack", "operator": random.pick(&["Exists", "DoesNotExist"])}),
        _ => {
            json!({"key": "rack", "operator": "In", "values": random.some(&["r0", "r1", "r2"]).into_iter().chain([&"r3"]).collect::<Vec<_>>()})
        }
    }
}

/// A term of a node selector. A term without requirements selects nothing.
pub(super) fn node_term(random: &mut Random) -> Value {
    match random.below(8) {
        0 => json!({}),
        1 => {
            let operator = random.pick(&["In", "NotIn"]);
            let name = super::nodes::name(u8::try_from(random.below(10)).unwrap_or(0));
            json!({"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]}]})
        }
        2 => json!({"matchExpressions": [node_expression(random), node_expression(random)]}),
        _ => json!({"matchExpressions": [node_expression(random)]}),
    }
}

pub(super) fn pod_term(random: &mut Random) -> Value {
    let mut term = json!({"labelSelector": labels(random), "topologyKey": random.pick(&KEYS)});
    if random.chance(30) {
        term["namespaces"] = json!(random.some(&NAMESPACES));
    }
    match random.below(8) {
        0 => term["namespaceSelector"] = json!({}),
        1 => term["namespaceSelector"] = json!({"matchLabels": {"team": random.pick(&["a", "b"])}}),
        _ => {}
    }
    if random.chance(15) && !term["labelSelector"].is_null() {
        term[*random.pick(&["matchLabelKeys", "mismatchLabelKeys"])] = json!(["rev"]);
    }
    term
}

pub(super) fn spread(random: &mut Random, action: &str) -> Value {
    let mut constraint = json!({
        "maxSkew": random.pick(&[1, 1, 2, 5]), "topologyKey": random.pick(&KEYS), "whenUnsatisfiable": action,
        "labelSelector": labels(random),
    });
    if action == "DoNotSchedule" && random.chance(30) {
        constraint["minDomains"] = json!(1 + random.below(5));
    }
    if random.chance(30) {
        constraint["nodeAffinityPolicy"] = json!(random.pick(&["Honor", "Ignore"]));
    }
    if random.chance(30) {
        constraint["nodeTaintsPolicy"] = json!(random.pick(&["Honor", "Ignore"]));
    }
    if random.chance(20) && !constraint["labelSelector"].is_null() {
        constraint["matchLabelKeys"] = json!(["rev"]);
    }
    constraint
}
