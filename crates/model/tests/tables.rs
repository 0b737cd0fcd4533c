//! The recorded tables of Kubernetes' answers, checked row by row.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;
use serde_json::Value;

#[path = "../../../tests/oracle/src/tables.rs"]
mod tables;

fn check(name: &str, n_rows: usize) -> Result<(), Box<dyn Error>> {
    let path = format!("{}/../../tests/oracle/cases/{name}.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
    let mut rows = Vec::new();
    for line in BufReader::new(GzDecoder::new(File::open(path)?)).lines() {
        rows.push(serde_json::from_str::<Value>(&line?)?);
    }
    let report = tables::run(name, rows.into_iter());
    let n_mismatches = report.mismatches.len();
    assert!(n_mismatches == 0, "{n_mismatches} of {} rows differ\n{}", report.rows, report.mismatches.join("\n"));
    assert_eq!(report.rows, n_rows, "the table has lost or gained rows");
    Ok(())
}

#[test]
fn quantities_are_as_recorded() -> Result<(), Box<dyn Error>> {
    check("quantity", 578)
}

#[test]
fn pod_requests_are_as_recorded() -> Result<(), Box<dyn Error>> {
    check("pod_requests", 359)
}

#[test]
fn selectors_are_as_recorded() -> Result<(), Box<dyn Error>> {
    check("selectors", 2004)
}

#[test]
fn tolerations_are_as_recorded() -> Result<(), Box<dyn Error>> {
    check("tolerations", 1663)
}

#[test]
fn numeric_functions_are_as_recorded() -> Result<(), Box<dyn Error>> {
    check("numeric", 757)
}
