//! The guide's tables of the events and conditions of pods list exactly what the scheduler writes.

use std::collections::BTreeSet;

use berth_model::ConditionReason;

use crate::context::PodEvent;

const GUIDE: &str = include_str!("../../../../docs/src/running.md");

/// The cells of the rows below a heading, without the backticks around a name.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let section = GUIDE.split(&format!("\n### {heading}\n")).nth(1).expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let section = section.split("\n### ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| row.split(" | ").collect()).collect()
}

#[test]
fn the_guide_lists_the_events_of_pods_with_their_types() {
    let listed: BTreeSet<(&str, &str)> = rows("Events about pods")
        .into_iter()
        .flat_map(|cells| {
            let (reasons, severity) = (cells[0], cells[1]);
            reasons.split(", ").map(move |reason| (reason.trim_matches('`'), severity))
        })
        .collect();
    let known = PodEvent::ALL.iter().map(|(warning, reason)| (*reason, if *warning { "Warning" } else { "Normal" }));
    assert_eq!(listed, known.collect());
}

#[test]
fn the_guide_lists_the_conditions_of_pods() {
    let listed: BTreeSet<(&str, &str)> =
        rows("Conditions of pods").into_iter().map(|cells| (cells[0], cells[1].trim_matches('`'))).collect();
    let written = ConditionReason::ALL.map(|it| {
        let condition = format!("{}` is `{}`", it.condition_type(), it.condition_status());
        (condition, it.as_str())
    });
    let known = written.iter().map(|(condition, reason)| (condition.as_str(), *reason));
    assert_eq!(listed, known.collect());
}
