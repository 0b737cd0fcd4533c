//! Rows of the recorded tables, each checked against one small function of `berth-model`.
//!
//! A row says what Kubernetes answers to one question. [`run`] checks every row of a table and describes each one that
//! Berth answers differently. The file formats are described in the README beside the recorded cases.

use serde_json::{Value, json};

use berth_model::quantity::{Format, Quantity};

/// What became of a table's rows.
#[derive(Debug, Default)]
#[allow(unreachable_pub, reason = "the crate's tests include this file as a private module")]
pub struct TableReport {
    /// How many rows were checked.
    pub rows: usize,
    /// One text for each row that Berth answers differently: its number (from 1), the row, and both answers.
    pub mismatches: Vec<String>,
}

/// Checks every row of the table `name`. An unknown name or a row that can't be read is a mismatch too.
#[allow(unreachable_pub, reason = "the crate's tests include this file as a private module")]
pub fn run(name: &str, rows: impl Iterator<Item = Value>) -> TableReport {
    let mut report = TableReport::default();
    for row in rows {
        report.rows += 1;
        let differences = match name {
            "quantity" => quantity(&row),
            _ => vec![format!("there is no table `{name}`")],
        };
        if !differences.is_empty() {
            report.mismatches.push(describe(report.rows, &row, &differences));
        }
    }
    report
}

fn describe(number: usize, row: &Value, differences: &[String]) -> String {
    format!("row {number}: {row}\n    {}", differences.join("\n    "))
}

/// One line for each field of `actual` that the row has otherwise.
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
    // The left sides were recorded from objects that other rows had compared before. One compared with a wide amount
    // stays wide, and the row does not say so.
    if !of_sum.is_empty() && !differing_fields(row, &integers(&a.widened() + &b)).is_empty() {
        differences.extend(of_sum);
    }
    differences
}

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap_or_default()
}
