//! What a plugin answers about a cluster, by the names of nodes.

use std::collections::BTreeMap;

use berth_framework::Status;
use berth_testing::Answers;
use serde::{Deserialize, Serialize};

/// The results of one scheduling cycle with one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct PluginAnswers {
    /// Why PreEnqueue keeps the pod out of the active queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_enqueue: Option<Rejection>,
    /// Why PreFilter rejects the pod, before any node is looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_filter: Option<Rejection>,
    /// The nodes that do not pass Filter.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rejected: BTreeMap<String, Rejection>,
    /// Scores of the nodes that pass; normalised if the plugin normalises.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<String, i64>,
}

/// A status other than success.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rejection {
    /// As Kubernetes spells it, such as `UnschedulableAndUnresolvable`.
    pub code: String,
    /// In the plugin's words.
    #[serde(default)]
    pub reasons: Vec<String>,
}

impl From<Status> for Rejection {
    fn from(status: Status) -> Self {
        Self { code: status.code.as_str().to_owned(), reasons: status.reasons }
    }
}

impl From<Answers> for PluginAnswers {
    fn from(answers: Answers) -> Self {
        Self {
            pre_enqueue: None,
            pre_filter: answers.pre_filter.map(Rejection::from),
            rejected: answers.rejected.into_iter().map(|(node, status)| (node, status.into())).collect(),
            scores: answers.scores,
        }
    }
}

impl PluginAnswers {
    /// What differs, a line each: `b: scores 40, expected 50`.
    #[must_use]
    pub fn differences(&self, expected: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        compare(&mut lines, "PreEnqueue", self.pre_enqueue.as_ref(), expected.pre_enqueue.as_ref());
        compare(&mut lines, "PreFilter", self.pre_filter.as_ref(), expected.pre_filter.as_ref());
        let nodes: std::collections::BTreeSet<&String> =
            [&self.rejected, &expected.rejected].into_iter().flat_map(BTreeMap::keys).collect();
        for node in nodes {
            compare(&mut lines, node, self.rejected.get(node), expected.rejected.get(node));
        }
        let nodes: std::collections::BTreeSet<&String> =
            [&self.scores, &expected.scores].into_iter().flat_map(BTreeMap::keys).collect();
        for node in nodes {
            let (given, wanted) = (self.scores.get(node), expected.scores.get(node));
            if given != wanted {
                let show = |score: Option<&i64>| score.map_or_else(|| "no score".to_owned(), i64::to_string);
                lines.push(format!("{node}: scores {}, expected {}", show(given), show(wanted)));
            }
        }
        lines
    }
}

fn compare(lines: &mut Vec<String>, what: &str, given: Option<&Rejection>, expected: Option<&Rejection>) {
    if given != expected {
        let show = |rejection: Option<&Rejection>| {
            rejection.map_or_else(|| "passes".to_owned(), |it| format!("{} {:?}", it.code, it.reasons))
        };
        lines.push(format!("{what}: {}, expected {}", show(given), show(expected)));
    }
}
