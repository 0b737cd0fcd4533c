//! The guide's threat model names a test for each threat that is stopped, according to the guide. Each of these tests
//! must exist.
//!
//! A test is named as `path/of/file.rs::function`, in backticks. Tables with a last column headed "shown by" name a
//! test in each row.

use std::{fs, path::Path};

use anyhow::{Context, Result};

const PAGE: &str = "docs/src/threat-model.md";

/// The mistakes of the page.
pub(super) fn check() -> Result<Vec<String>> {
    let text = fs::read_to_string(PAGE).context(PAGE)?;
    Ok(complaints(&text, |file| fs::read_to_string(Path::new(file)).ok()))
}

fn complaints(page: &str, source: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut must_show = false;
    for (number, line) in page.lines().enumerate() {
        let mut complain = |what: String| complaints.push(format!("{PAGE}:{}: {what}", number + 1));
        let is_header = line.trim_end().ends_with("shown by |");
        let is_rule = line.starts_with("|---");
        must_show = (must_show || is_header) && line.starts_with('|');
        let tests: Vec<(&str, &str)> = line.split('`').filter_map(|word| word.split_once(".rs::")).collect();
        if must_show && !is_header && !is_rule && tests.is_empty() {
            complain("a row that names no test".to_owned());
        }
        for (file, function) in tests {
            let file = format!("{file}.rs");
            match source(&file) {
                None => complain(format!("{file} not found")),
                Some(text) if !text.contains(&format!("fn {function}(")) => {
                    complain(format!("{file} has no {function}"))
                }
                Some(_) => {}
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_are_named_must_be_there() {
        let page = "Text `a.rs::gone`\n\n| it | shown by |\n|---|---|\n| x | `a.rs::here`, `b.rs::here` |\n| y | nothing |\n\n| z | |\n";
        let source = |file: &str| (file == "a.rs").then(|| "#[test]\nfn here() {}\n".to_owned());
        let expected = [
            format!("{PAGE}:1: a.rs has no gone"),
            format!("{PAGE}:5: b.rs not found"),
            format!("{PAGE}:6: a row that names no test"),
        ];
        assert_eq!(complaints(page, source), expected);
    }
}
