//! The output of the runner: a table of families, the differences of a case, or everything as JSON.

use std::collections::BTreeMap;

use comfy_table::{Table, presets};
use serde::Serialize;

use crate::{
    causes::Causes,
    findings::{Difference, Findings},
};

/// The number of differing cases of a family that are named in the table's notes.
const MAX_NAMED: usize = 5;

/// The result of one execution for one family.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tally {
    pub agree: usize,
    pub differ: usize,
    /// The cases that differ, with their differences.
    pub differing: BTreeMap<String, Vec<Difference>>,
    #[serde(skip)]
    left_out: BTreeMap<String, usize>,
}

/// The results of one family for all executions.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FamilyReport {
    pub family: String,
    pub cases: usize,
    pub native: Option<Tally>,
    pub wasm: Option<Tally>,
    /// Recorded answers that were not compared, by the plugin that is missing.
    pub left_out: BTreeMap<String, usize>,
}

/// All families.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    pub families: Vec<FamilyReport>,
}

impl Tally {
    pub fn add(&mut self, case: &str, findings: &Findings) {
        if findings.differences.is_empty() {
            self.agree += 1;
        } else {
            self.differ += 1;
            self.differing.insert(case.to_owned(), findings.differences.clone());
        }
        for (plugin, count) in &findings.left_out {
            *self.left_out.entry(plugin.clone()).or_default() += count;
        }
    }
}

impl FamilyReport {
    /// Adds the result of one execution, `native` or `wasm`.
    pub fn set(&mut self, execution: &str, tally: Tally) {
        self.cases = tally.agree + tally.differ;
        self.left_out.clone_from(&tally.left_out);
        match execution {
            "wasm" => self.wasm = Some(tally),
            _ => self.native = Some(tally),
        }
    }

    fn tallies(&self) -> impl Iterator<Item = (&'static str, &Tally)> {
        [("native", &self.native), ("wasm", &self.wasm)].into_iter().filter_map(|(name, it)| Some((name, it.as_ref()?)))
    }
}

impl Report {
    #[must_use]
    pub fn differs(&self) -> bool {
        self.families.iter().flat_map(FamilyReport::tallies).any(|(_, tally)| tally.differ > 0)
    }

    /// The table, followed by the first cases that differ.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["family", "cases", "native", "wasm", "left-out", "needs"]);
        for family in &self.families {
            table.add_row([
                family.family.clone(),
                family.cases.to_string(),
                tally_text(family.native.as_ref()),
                tally_text(family.wasm.as_ref()),
                family.left_out.values().sum::<usize>().to_string(),
                needs_text(&family.left_out),
            ]);
        }
        let mut text = table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        text.push_str("\n\nnative and wasm count cases that agree/differ; left-out counts recorded answers of the plugins in the last column, which do not exist yet.\n");
        for family in &self.families {
            for (execution, tally) in family.tallies() {
                for (case, differences) in tally.differing.iter().take(MAX_NAMED) {
                    text.push_str(&format!("\n{execution}, {case}\n"));
                    text.push_str(&differences_text(differences.iter().take(3)));
                }
            }
        }
        text
    }
}

fn tally_text(tally: Option<&Tally>) -> String {
    tally.map_or_else(|| "-".to_owned(), |tally| format!("{}/{}", tally.agree, tally.differ))
}

fn needs_text(left_out: &BTreeMap<String, usize>) -> String {
    left_out.iter().map(|(plugin, count)| format!("{plugin} {count}")).collect::<Vec<_>>().join(", ")
}

/// The expected and the actual answers below each other.
pub fn differences_text<'a>(differences: impl Iterator<Item = &'a Difference>) -> String {
    differences
        .map(|Difference { what, expected, got }| format!("  {what}\n    expected {expected}\n    got      {got}\n"))
        .collect()
}

/// One case completely.
#[must_use]
pub fn case_text(case: &str, execution: &str, findings: &Findings) -> String {
    let left_out = needs_text(&findings.left_out);
    let left_out = if left_out.is_empty() { "nothing".to_owned() } else { left_out };
    format!(
        "{case}, {execution}: {} answers compared, {} differ; left out: {left_out}\n{}",
        findings.n_compared,
        findings.differences.len(),
        differences_text(findings.differences.iter())
    )
}

/// The number of cases of a family that differ from the record in another release, with a line for each cause.
#[must_use]
pub fn causes_text(family: &str, execution: &str, causes: &Causes) -> String {
    let Causes { n_cases, n_agreeing, by_feature, unexplained } = causes;
    let mut text = format!("{family}, {execution}: {n_agreeing} of {n_cases} cases agree with the record\n");
    for (feature, n) in by_feature {
        text += &format!("  {n} differ by {}\n", feature.name());
    }
    for (id, findings) in unexplained {
        text += &format!("  {id} differs without a cause\n{}", differences_text(findings.differences.iter()));
    }
    text
}
