//! The answers of a plugin about a cluster, by the names of nodes.

use std::collections::BTreeMap;

use berth_framework::{Code, Status, run::MAX_SCORE};
use berth_scheduler::RefusedEffect;
use berth_testing::Answers;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::case_effect::CaseEffect;

/// The results of one scheduling cycle with one plugin.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The answer of PostFilter, which is asked if no node passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post_filter: Option<PodAnswer>,
    /// Why Reserve gives the pod back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserve: Option<PodAnswer>,
    /// The answer of Permit, unless it lets the pod go on without effects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permit: Option<PodAnswer>,
    /// The answer of PreBind, or of PreBindPreFlight instead, unless there is nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_bind: Option<PodAnswer>,
    /// The answer of Bind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind: Option<PodAnswer>,
    /// The names of the pods in the step's queue, as QueueSort puts them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
    /// The answer of the queueing hint about the step's event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<Hint>,
    /// Effects that the plugin was not granted. A file of cases cannot expect them.
    #[serde(skip)]
    pub refused: Vec<NotGranted>,
}

/// An effect that the plugin asked for and that is not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotGranted {
    /// The extension point.
    pub(crate) point: &'static str,
    /// The message in the pod's condition.
    pub(crate) message: String,
    /// The refused effect, and the grant that would allow it.
    pub(crate) effect: RefusedEffect,
}

/// The answer of a point that decides about the pod as a whole.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct PodAnswer {
    /// As Kubernetes spells it. Only PostFilter names its success.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "code_schema"))]
    pub code: Option<Code>,
    /// In the plugin's words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// The time for which Permit holds the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_milliseconds: Option<u64>,
    /// The node that PostFilter nominates; empty if it takes a nomination away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominate: Option<String>,
    /// The effects that the plugin asks for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<CaseEffect>,
}

/// Whether a pod is tried again after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Hint {
    /// It is.
    Queue,
    /// The event changes nothing for it.
    Skip,
}

/// A status other than success.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Rejection {
    /// As Kubernetes spells it, such as `UnschedulableAndUnresolvable`.
    #[cfg_attr(feature = "schema", schemars(schema_with = "code_schema"))]
    pub code: Code,
    /// In the plugin's words.
    #[serde(default)]
    pub reasons: Vec<String>,
}

/// The schema of the codes, since [`Code`] has no schema.
#[cfg(feature = "schema")]
fn code_schema(_generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    const CODES: [Code; 7] = [
        Code::Success,
        Code::Error,
        Code::Unschedulable,
        Code::UnschedulableAndUnresolvable,
        Code::Wait,
        Code::Skip,
        Code::Pending,
    ];
    schemars::json_schema!({ "enum": CODES.map(Code::as_str), "type": "string" })
}

impl From<Status> for Rejection {
    fn from(status: Status) -> Self {
        Self { code: status.code, reasons: status.reasons }
    }
}

impl From<Answers> for PluginAnswers {
    fn from(answers: Answers) -> Self {
        Self {
            pre_enqueue: None,
            pre_filter: answers.pre_filter.map(Rejection::from),
            rejected: answers.rejected.into_iter().map(|(node, status)| (node, status.into())).collect(),
            scores: answers.scores,
            ..Self::default()
        }
    }
}

impl PluginAnswers {
    /// Whether every point lets the pod be bound. Waiting on Permit is not an objection.
    #[must_use]
    pub fn lets_the_pod_be_bound(&self) -> bool {
        let decisions = [&self.reserve, &self.permit, &self.pre_bind, &self.bind];
        decisions.into_iter().flatten().filter_map(|decision| decision.code).all(|code| code == Code::Skip)
    }

    /// The differences, a line each: `b: scores 40, expected 50`. They always include answers that the scheduler treats
    /// as faults or does not carry out, even if the case expects them.
    #[must_use]
    pub fn differences(&self, expected: &Self) -> Vec<String> {
        let mut lines = self.changes(expected);
        let out_of_range = self.scores.iter().filter(|(_, score)| !(0..=MAX_SCORE).contains(*score));
        lines.extend(out_of_range.map(|(node, score)| {
            format!("{node}: invalid score {score}: must be from 0 to {MAX_SCORE}; the scheduler treats it as a fault")
        }));
        lines.extend(self.refused.iter().map(|NotGranted { point, message, .. }| format!("{point}: {message}")));
        lines
    }

    /// The differences between the two answers, a line each.
    pub(crate) fn changes(&self, expected: &Self) -> Vec<String> {
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
        for (point, given, expected) in [
            ("PostFilter", &self.post_filter, &expected.post_filter),
            ("Reserve", &self.reserve, &expected.reserve),
            ("Permit", &self.permit, &expected.permit),
            ("PreBind", &self.pre_bind, &expected.pre_bind),
            ("Bind", &self.bind, &expected.bind),
        ] {
            if given != expected {
                let show = |answer: &Option<PodAnswer>| json!(answer).to_string();
                lines.push(format!("{point}: {}, expected {}", show(given), show(expected)));
            }
        }
        if self.order != expected.order {
            lines.push(format!("QueueSort: {}, expected {}", self.order.join(", "), expected.order.join(", ")));
        }
        if self.hint != expected.hint {
            let show = |hint: Option<Hint>| json!(hint).to_string();
            lines.push(format!("QueueingHint: {}, expected {}", show(self.hint), show(expected.hint)));
        }
        lines
    }
}

fn compare(lines: &mut Vec<String>, what: &str, given: Option<&Rejection>, expected: Option<&Rejection>) {
    if given != expected {
        let show = |rejection: Option<&Rejection>| {
            rejection.map_or_else(|| "passes".to_owned(), |it| format!("{} {:?}", it.code.as_str(), it.reasons))
        };
        lines.push(format!("{what}: {}, expected {}", show(given), show(expected)));
    }
}
