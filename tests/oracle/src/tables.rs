//! Rows of the recorded tables, each checked against one small function of `berth-model`.
//!
//! A row contains Kubernetes' answer to one question. [`run`] checks every row of a table, and describes each row for
//! which Berth's answer differs. The function that checks a row describes its content.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use berth_model::api::{self, StringMap};
use berth_model::backoff::backoff_duration;
use berth_model::quantity::{Format, Quantity};
use berth_model::requests::{self, Options, Resizes};
use berth_model::sampling::num_feasible_nodes_to_find;
use berth_model::selector::{LabelMatcher, NodeMatcher, PreferredMatcher};
use berth_model::toleration::{first_untolerated, tolerates};

/// The value of the recorded release.
const RESIZES: Resizes = Resizes::MaximumOfEachContainer;

/// The results for a table's rows.
#[derive(Debug, Default)]
#[allow(unreachable_pub, reason = "the crate's tests include this file as a private module")]
pub struct TableReport {
    /// The number of rows that were checked.
    pub rows: usize,
    /// One text for each row with another answer from Berth: its number (from 1), the row, and both answers.
    pub mismatches: Vec<String>,
}

/// Checks every row of the table `name`. An unknown name and a row that can't be read are also mismatches.
#[allow(unreachable_pub, reason = "the crate's tests include this file as a private module")]
pub fn run(name: &str, rows: impl Iterator<Item = Value>) -> TableReport {
    let mut report = TableReport::default();
    for row in rows {
        report.rows += 1;
        let answer = match name {
            "quantity" => Ok(quantity(&row)),
            "pod_requests" => pod_requests(&row),
            "selectors" => selectors(&row),
            "tolerations" => tolerations(&row),
            "numeric" => numeric(&row),
            _ => Ok(vec![format!("there is no table `{name}`")]),
        };
        let differences = answer.unwrap_or_else(|error| vec![format!("the row can't be read: {error}")]);
        if !differences.is_empty() {
            report.mismatches.push(describe(report.rows, &row, &differences));
        }
    }
    report
}

fn describe(number: usize, row: &Value, differences: &[String]) -> String {
    format!("row {number}: {row}\n    {}", differences.join("\n    "))
}

/// One line for each field of `actual` that differs in the row.
fn differing_fields(row: &Value, actual: &Value) -> Vec<String> {
    let fields = actual.as_object().into_iter().flatten();
    fields
        .filter(|(field, actual)| row.get(field.as_str()).unwrap_or(&Value::Null) != *actual)
        .map(|(field, actual)| {
            format!("{field}: expected {}, got {actual}", row.get(field.as_str()).unwrap_or(&Value::Null))
        })
        .collect()
}

fn quantity(row: &Value) -> Vec<String> {
    if row["op"] == "pair" {
        return quantity_pair(row);
    }
    let actual = match text(row, "in").parse::<Quantity>() {
        Err(error) => json!({ "ok": false, "error": error.to_string() }),
        Ok(quantity) => json!({
            "ok": true,
            "canonical": quantity.to_string(),
            "value": quantity.value(),
            "milliValue": quantity.milli_value(),
            "sign": quantity.signum(),
            "isZero": quantity.is_zero(),
            "format": match quantity.format() {
                Format::DecimalSi => "DecimalSI",
                Format::BinarySi => "BinarySI",
                Format::DecimalExponent => "DecimalExponent",
            },
        }),
    };
    differing_fields(row, &actual)
}

fn quantity_pair(row: &Value) -> Vec<String> {
    let (Ok(a), Ok(b)) = (text(row, "a").parse::<Quantity>(), text(row, "b").parse::<Quantity>()) else {
        return vec!["one side can't be read".to_owned()];
    };
    let mut differences = differing_fields(
        row,
        &json!({
            "cmp": a.cmp(&b) as i32,
            "equal": a == b,
            "add": (&a + &b).to_string(),
            "sub": (&a - &b).to_string(),
        }),
    );
    let integers = |sum: Quantity| json!({ "addValue": sum.value(), "addMilli": sum.milli_value() });
    let of_sum = differing_fields(row, &integers(&a + &b));
    // The left sides were recorded from objects that other rows had compared before. An object that was compared with a
    // wide amount stays wide, which the row does not show.
    if !of_sum.is_empty() && !differing_fields(row, &integers(&a.widened() + &b)).is_empty() {
        differences.extend(of_sum);
    }
    differences
}

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap_or_default()
}

fn pod_requests(row: &Value) -> Result<Vec<String>, serde_json::Error> {
    let pod: api::Pod = field(row, "pod")?;
    let placed = requests::placed_requests(&pod, RESIZES);
    let non_zero = requests::placed_non_zero(&pod, RESIZES);
    let actual = json!({
        "milliCPU": placed.milli_cpu,
        "memory": placed.memory,
        "ephemeralStorage": placed.ephemeral_storage,
        "scalar": placed.scalars,
        "nonZeroMilliCPU": non_zero.milli_cpu,
        "nonZeroMemory": non_zero.memory,
    });
    let mut differences = differing_fields(row, &actual);
    let lists = [
        ("requestsSpecOnly", requests::pod_requests(&pod, &Options::default())),
        ("requests", requests::pod_requests(&pod, &Options { resizes: RESIZES, ..Options::default() })),
        ("limits", requests::pod_limits(&pod)),
    ];
    for (name, actual) in lists {
        // Amounts are compared instead of texts, because some were recorded from objects with a format that is not
        // visible in the pod's JSON.
        let expected: api::ResourceList = field(row, name)?;
        if actual != expected {
            differences.push(format!("{name}: expected {}, got {}", json!(expected), json!(actual)));
        }
    }
    Ok(differences)
}

fn selectors(row: &Value) -> Result<Vec<String>, serde_json::Error> {
    let actual = match text(row, "kind") {
        "labelSelector" => label_selector(row)?,
        "nodeSelector" => node_selector(row)?,
        "preferred" => preferred(row)?,
        kind => json!({ "kind": format!("unknown: {kind}") }),
    };
    Ok(differing_fields(row, &actual))
}

fn label_selector(row: &Value) -> Result<Value, serde_json::Error> {
    let selector: Option<api::LabelSelector> = field(row, "selector")?;
    let labels: StringMap = field(row, "labels")?;
    Ok(match LabelMatcher::compile(selector.as_ref()) {
        Err(error) => json!({ "error": error.to_string(), "match": null }),
        Ok(matcher) => json!({
            "error": null,
            "match": matcher.matches(&labels),
            "string": matcher.to_string(),
            "empty": matcher.is_empty(),
        }),
    })
}

fn node_selector(row: &Value) -> Result<Value, serde_json::Error> {
    let matcher = NodeMatcher::compile(&field(row, "nodeSelector")?);
    let labels: StringMap = field(row, "nodeLabels")?;
    let matched = matcher.matches(text(row, "nodeName"), &labels);
    Ok(json!({
        "match": *matched.as_ref().unwrap_or(&false),
        "matchError": matched.err().map(|error| error.to_string()),
        "parseError": matcher.validate().err().map(|error| error.to_string()),
    }))
}

fn preferred(row: &Value) -> Result<Value, serde_json::Error> {
    let terms: Vec<api::PreferredSchedulingTerm> = field(row, "terms")?;
    let labels: StringMap = field(row, "nodeLabels")?;
    Ok(match PreferredMatcher::compile(&terms) {
        Err(error) => json!({ "parseError": error.to_string(), "score": null }),
        Ok(matcher) => json!({ "parseError": null, "score": matcher.score(text(row, "nodeName"), &labels) }),
    })
}

fn tolerations(row: &Value) -> Result<Vec<String>, serde_json::Error> {
    let enabled = row["comparisonOperatorsEnabled"] == true;
    if row["kind"] == "tolerates" {
        let matches = tolerates(&field(row, "toleration")?, &field(row, "taint")?, enabled);
        return Ok(differing_fields(row, &json!({ "match": matches })));
    }
    let taints: Vec<api::Taint> = field(row, "taints")?;
    let tolerations: Vec<api::Toleration> = field(row, "tolerations")?;
    let expected: Option<api::Taint> = field(row, "taint")?;
    let actual = first_untolerated(&taints, &tolerations, enabled);
    let mut differences = differing_fields(row, &json!({ "untolerated": actual.is_some() }));
    if actual.is_some() && actual != expected.as_ref() {
        differences.push(format!("taint: expected {expected:?}, got {actual:?}"));
    }
    Ok(differences)
}

fn numeric(row: &Value) -> Result<Vec<String>, serde_json::Error> {
    if row["kind"] == "backoff" {
        let initial = Duration::from_secs(field(row, "podInitialBackoffSeconds")?);
        let max = Duration::from_secs(field(row, "podMaxBackoffSeconds")?);
        let nanos = backoff_duration(field(row, "count")?, initial, max).as_nanos();
        return Ok(differing_fields(row, &json!({ "nanos": nanos })));
    }
    let profile_percentage = field(row, "profilePercentageOfNodesToScore")?;
    let global = field(row, "percentageOfNodesToScore")?;
    let result = num_feasible_nodes_to_find(field(row, "numAllNodes")?, profile_percentage, global);
    Ok(differing_fields(row, &json!({ "result": result })))
}

/// An absent field and `null` are read as empty, because the recorder writes empty lists in this way.
fn field<T: DeserializeOwned + Default>(row: &Value, field: &str) -> Result<T, serde_json::Error> {
    let value = row.get(field).cloned().unwrap_or(Value::Null);
    Ok(serde_json::from_value::<Option<T>>(value)?.unwrap_or_default())
}
