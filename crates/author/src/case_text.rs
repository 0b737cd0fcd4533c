//! Puts new answers into the text of a file of cases, and leaves all other text as its author wrote it.
//!
//! Answers are in blocks: a line that begins with `expect:` or `refused:`, and the lines below it that are indented
//! further. Reading the new text again detects any other layout.

use std::{collections::BTreeMap, iter, ops::Range};

use serde::Serialize;
use serde_json::Value;

use crate::{answers::PluginAnswers, case_file::CaseFile, case_reading};

/// A key with answers, and both as YAML.
type Entry = (&'static str, String);

/// The lines of a key with answers.
struct Block {
    key: &'static str,
    lines: Range<usize>,
    /// The text before the key: spaces, and the dash of an item.
    lead: String,
}

impl CaseFile {
    /// The file's text with the answers of `updated`. All other text does not change, comments included. Returns `None`
    /// if the answers cannot be written: the text lacks a key for an answer, or a key is not in a separate block.
    #[must_use]
    pub fn text_with(&self, updated: &Self, text: &str) -> Option<String> {
        with_answers(text, self, updated)
    }
}

fn with_answers(text: &str, old: &CaseFile, new: &CaseFile) -> Option<String> {
    let expected = serde_saphyr::to_string(new).ok()?;
    if serde_saphyr::to_string(old).ok()? == expected {
        return Some(text.to_owned());
    }
    let lines: Vec<&str> = text.lines().collect();
    let blocks = blocks(&lines);
    let written: Value = serde_saphyr::from_str(text).ok()?;
    let (before, after) = (entries(old, &written)?, entries(new, &written)?);
    let keys = |entries: &[Entry]| entries.iter().map(|(key, _)| *key).collect::<Vec<_>>();
    if keys(&before) != keys(&after) || keys(&before) != blocks.iter().map(|block| block.key).collect::<Vec<_>>() {
        return None;
    }
    let mut output: Vec<String> = Vec::new();
    let mut at = 0;
    for (block, ((_, before), (_, after))) in blocks.iter().zip(before.iter().zip(&after)) {
        if before == after {
            continue;
        }
        output.extend(lines.get(at..block.lines.start)?.iter().map(|&line| line.to_owned()));
        let indent = " ".repeat(block.lead.len());
        let leads = iter::once(&block.lead).chain(iter::repeat(&indent));
        output.extend(leads.zip(after.lines()).map(|(lead, line)| format!("{lead}{line}")));
        at = block.lines.end;
    }
    output.extend(lines.get(at..)?.iter().map(|&line| line.to_owned()));
    let text = output.join("\n") + "\n";
    let read = case_reading::parse(&text).ok()?;
    (serde_saphyr::to_string(&read).ok()? == expected).then_some(text)
}

/// The expectations of the file, in order. A step without `expect` in `written` has an entry only if there is an
/// answer, since `expect: {}` means the same as no `expect`.
fn entries(file: &CaseFile, written: &Value) -> Option<Vec<Entry>> {
    let nothing = PluginAnswers::default();
    let mut entries = Vec::new();
    for (case, in_text) in file.cases.iter().zip(written["cases"].as_array()?) {
        if let Some(refused) = &case.refused {
            entries.push(("refused", yaml("refused", refused)?));
        }
        let no_steps = Vec::new();
        let steps_in_text = in_text["steps"].as_array().unwrap_or(&no_steps);
        for (step, in_text) in case.steps.iter().zip(steps_in_text) {
            if in_text.get("expect").is_some() || step.expect != nothing {
                entries.push(("expect", yaml("expect", &step.expect)?));
            }
        }
    }
    Some(entries)
}

fn yaml(key: &str, value: &impl Serialize) -> Option<String> {
    serde_saphyr::to_string(&BTreeMap::from([(key, value)])).ok()
}

fn blocks(lines: &[&str]) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let rest = line.trim_start_matches([' ', '-']);
        let Some(key) = ["expect", "refused"].into_iter().find(|key| rest.starts_with(&format!("{key}:"))) else {
            continue;
        };
        let (lead, _) = line.split_at(line.len() - rest.len());
        let belongs = |line: &&str| line.trim().is_empty() || line.len() - line.trim_start().len() > lead.len();
        let below = lines.iter().skip(number + 1).take_while(|line| belongs(line));
        // Empty lines at the end belong to the following block.
        let n_below = below.enumerate().filter(|(_, line)| !line.trim().is_empty()).map(|(n, _)| n + 1).last();
        blocks.push(Block { key, lines: number..number + 1 + n_below.unwrap_or(0), lead: lead.to_owned() });
    }
    blocks
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = "# The answers of Even.
plugin: Even
cases:
# Half of them.
- name: some
  steps:
  - nodes: [{metadata: {name: a}}, {metadata: {name: b}}]   # two
    expect: {scores: {a: 1,
                      b: 2}}

  - expect:
      # The same again.
      scores: {a: 1}
    gone: [b]
- name: none
  args: {of: 2}
  # As it is said today.
  refused: \"unknown field\"
";

    fn read(text: &str) -> CaseFile {
        serde_saphyr::from_str(text).unwrap()
    }

    #[test]
    fn what_need_not_change_stays() {
        let old = read(TEXT);
        assert_eq!(with_answers(TEXT, &old, &old).as_deref(), Some(TEXT));

        let mut new = old.clone();
        new.cases[1].refused = Some("of: must be 1".to_owned());
        let expected = TEXT.replace("\"unknown field\"", "\"of: must be 1\"");
        assert_eq!(with_answers(TEXT, &old, &new), Some(expected));

        let mut new = old.clone();
        new.cases[0].steps[0].expect = serde_json::from_value(json!({"scores": {"a": 7, "b": 2}})).unwrap();
        let expected = TEXT.replace(
            "    expect: {scores: {a: 1,\n                      b: 2}}\n",
            "    expect:\n      scores:\n        a: 7\n        b: 2\n",
        );
        assert_eq!(with_answers(TEXT, &old, &new), Some(expected));

        let mut new = old.clone();
        new.cases[0].steps[1].expect = serde_json::from_value(json!({"scores": {"a": 9}})).unwrap();
        let expected = TEXT.replace("      # The same again.\n      scores: {a: 1}\n", "      scores:\n        a: 9\n");
        assert_eq!(with_answers(TEXT, &old, &new), Some(expected));
    }

    /// `{}` means no answer, so the layout of the file stays as it is.
    #[test]
    fn an_empty_answer_of_another_step_keeps_the_layout() {
        let text = "# Top.
plugin: Even
cases:
- name: some
  steps:
  - {nodes: [{metadata: {name: a}}]}   # no answer
  - nodes: [{metadata: {name: b}}]
    expect: {}   # none either
  - gone: [a]
    expect: {scores: {b: 1}}
";
        let old = read(text);
        let mut new = old.clone();
        new.cases[0].steps[2].expect = serde_json::from_value(json!({"scores": {"b": 7}})).unwrap();
        let expected = text.replace("    expect: {scores: {b: 1}}\n", "    expect:\n      scores:\n        b: 7\n");
        assert_eq!(with_answers(text, &old, &new), Some(expected));

        let mut new = old.clone();
        new.cases[0].steps[1].expect = serde_json::from_value(json!({"scores": {"b": 7}})).unwrap();
        new.cases[0].steps[2].expect = PluginAnswers::default();
        let expected = text
            .replace("    expect: {}   # none either\n", "    expect:\n      scores:\n        b: 7\n")
            .replace("    expect: {scores: {b: 1}}\n", "    expect: {}\n");
        assert_eq!(with_answers(text, &old, &new), Some(expected));
        let mut new = old.clone();
        new.cases[0].steps[0].expect = serde_json::from_value(json!({"scores": {"b": 7}})).unwrap();
        assert_eq!(with_answers(text, &old, &new), None, "there is no place for it");
    }

    #[test]
    fn a_layout_that_is_not_followed_is_told() {
        let text = "{plugin: Even, cases: [{name: all, steps: [{expect: {scores: {a: 1}}}]}]}\n";
        let old = read(text);
        assert_eq!(with_answers(text, &old, &old).as_deref(), Some(text));
        let mut new = old.clone();
        new.cases[0].steps[0].expect = PluginAnswers::default();
        assert_eq!(with_answers(text, &old, &new), None);
    }
}
