//! The answers of a plugin about a cluster, by the names of nodes.

use std::collections::{BTreeMap, BTreeSet};

use berth_framework::{Code, Point, Status, run::MAX_SCORE};
use berth_scheduler::RefusedEffect;
use berth_testing::Answers;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    case_effect::CaseEffect,
    case_words::{CaseWords, difference},
};

/// The results of one scheduling cycle with one plugin.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct PluginAnswers {
    /// Why PreEnqueue keeps the pod out of the active queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_enqueue: Option<Rejection>,
    /// The reason why PreFilter rejects the pod before any node is examined, or the only nodes that PreFilter lets
    /// through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_filter: Option<PreFilterAnswer>,
    /// The nodes that do not pass Filter.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rejected: BTreeMap<String, Rejection>,
    /// Scores of the nodes that pass; normalised if the plugin normalises.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<String, i64>,
    /// The answer of PostFilter, which is called if no node passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post_filter: Option<PodAnswer>,
    /// Why Reserve gives the pod back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserve: Option<PodAnswer>,
    /// The answer of Permit, unless it lets the pod go on without effects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permit: Option<PodAnswer>,
    /// The answer of PreBind, or of PreBindPreFlight if PreBind is not called. Left out if PreBind has nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_bind: Option<PodAnswer>,
    /// The answer of Bind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind: Option<PodAnswer>,
    /// The effects of Unreserve. Left out if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreserve: Option<PodAnswer>,
    /// Pods whose wait at Permit or PreBind ends in this step, by uid: what the point answers if it is called again,
    /// and what the points after it answer then. A pod that an effect allows may be left out if PreBind and Bind have
    /// nothing to do.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub released: BTreeMap<String, ReleasedPod>,
    /// The names of the pods in the step's queue, as QueueSort puts them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
    /// The answer of the queueing hint about the step's event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<Hint>,
    /// The plugin's words for people about the pod, before the step sends the pod anywhere. The plugin is asked only if
    /// this field is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explain: Option<CaseWords>,
    /// The plugin's words for people about the pod on nodes, by the names of the nodes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub explain_nodes: BTreeMap<String, CaseWords>,
    /// The pods that an effect allowed, and for which PreBind and Bind have nothing to do.
    #[serde(skip)]
    pub(crate) gone_on: BTreeSet<String>,
    /// The nodes that PreFilter names and the cluster does not have. A file of cases cannot expect these names.
    #[serde(skip)]
    pub(crate) unknown_nodes: Vec<String>,
    /// Effects that the plugin was not granted. A file of cases cannot expect them.
    #[serde(skip)]
    pub refused: Vec<RefusedAtPoint>,
    /// The parts of the answers that the scheduler refuses or ignores with any grants, one line for each. A file of
    /// cases cannot expect them.
    #[serde(skip)]
    pub(crate) ignored: Vec<String>,
    /// The reason why a point has no answer. A file of cases cannot expect a missing answer.
    #[serde(skip)]
    pub(crate) unanswered: BTreeMap<Point, Unanswered>,
}

/// The reason why a point has no answer, or no answer that a case writes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// The plugin does not implement the point.
    NotImplemented,
    /// Something in the step or an earlier answer keeps the point from being called. The text says what, and what to
    /// write instead.
    NotAsked(&'static str),
    /// The point was called, and let the pod go on.
    NothingToSay,
}

impl Unanswered {
    /// The reason why the point has no answer. Messages show this text after the point's name: `Permit: not called,
    /// because …`.
    fn text(self) -> String {
        match self {
            Self::NotImplemented => "the plugin does not implement this point".to_owned(),
            Self::NotAsked(why) => format!("not called, because {why}"),
            Self::NothingToSay => "lets the pod continue and asks for no effects".to_owned(),
        }
    }
}

/// An effect that the plugin asked for and that is not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedAtPoint {
    /// The extension point.
    pub(crate) point: &'static str,
    /// The refused effect, and the grant that would allow it.
    pub(crate) effect: RefusedEffect,
}

/// The answers about a pod that waited. There are none if it goes on and no point has something to do.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct ReleasedPod {
    /// The answer of Permit, which is called again after a change to an object that the effect `wait` named, unless it
    /// lets the pod go on without effects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permit: Option<PodAnswer>,
    /// The answer of PreBind, or of PreBindPreFlight if PreBind is not called. Left out if PreBind has nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_bind: Option<PodAnswer>,
    /// The answer of Bind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind: Option<PodAnswer>,
    /// The effects of Unreserve, if the pod is not bound after its wait. Left out if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreserve: Option<PodAnswer>,
}

/// The answer of a point that decides about the pod as a whole.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct PodAnswer {
    /// As Kubernetes spells it. Only PostFilter names its success, which may be left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "code_schema"))]
    pub code: Option<Code>,
    /// In the plugin's words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// The time for which Permit holds the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_milliseconds: Option<u64>,
    /// The node that PostFilter nominates; empty if PostFilter clears the nomination.
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
    /// The pod is tried again.
    Queue,
    /// The event does not affect the pod.
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

/// The answer of PreFilter, unless it lets the pod go on to all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PreFilterAnswer {
    /// As Kubernetes spells it, such as `UnschedulableAndUnresolvable`; left out if the pod goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "code_schema"))]
    pub code: Option<Code>,
    /// In the plugin's words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// The names of the only nodes that may run the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<BTreeSet<String>>,
}

impl PreFilterAnswer {
    fn of(status: Option<Status>, nodes: Option<BTreeSet<String>>) -> Option<Self> {
        match (status, nodes) {
            (Some(Status { code, reasons }), _) => Some(Self { code: Some(code), reasons, nodes: None }),
            (None, Some(nodes)) => Some(Self { nodes: Some(nodes), ..Self::default() }),
            (None, None) => None,
        }
    }

    /// The answer in words.
    fn text(&self) -> String {
        let code =
            self.code.map_or_else(|| "passes".to_owned(), |code| format!("{} {:?}", code.as_str(), self.reasons));
        match &self.nodes {
            None => code,
            Some(nodes) if nodes.is_empty() => format!("{code} with no node"),
            Some(nodes) => format!("{code} with only {}", listed(nodes)),
        }
    }
}

fn listed<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    names.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ")
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
            pre_filter: PreFilterAnswer::of(answers.pre_filter, answers.restriction),
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

    /// Whether the verdict of Permit holds the pod.
    pub(crate) fn waits_at_permit(&self) -> bool {
        self.permit.as_ref().is_some_and(|permit| permit.wait_milliseconds.is_some())
    }

    /// Whether the effect `wait` of PreBind holds the pod.
    pub(crate) fn waits_at_pre_bind(&self) -> bool {
        self.pre_bind.iter().flat_map(|answer| &answer.effects).any(|effect| effect.wait().is_some())
    }

    /// Why the plugin does not hold the pod, and what to write in the case instead. A fault of the plugin gets no
    /// advice, because the case is not the cause.
    pub(crate) fn why_not_held(&self) -> String {
        const BIND: &str = "write bindTo instead of waitsOn";
        if self.pre_enqueue.is_some() {
            return "PreEnqueue holds it back; leave waitsOn out".to_owned();
        }
        let (point, answer) = match (&self.reserve, &self.permit, &self.pre_bind) {
            (Some(reserve), ..) => ("Reserve", reserve),
            (None, _, Some(pre_bind)) => ("PreBind", pre_bind),
            (None, Some(permit), None) => ("Permit", permit),
            (None, None, None) => return format!("Permit and PreBind let it go on; {BIND}"),
        };
        if answer.code == Some(Code::Error) {
            return format!("{point} fails: {}", answer.reasons.join(", "));
        }
        format!("{point} answers {}; {BIND}", json!(answer))
    }

    /// The effects that the scheduler carries out in this step, in the order in which the points are called. It carries
    /// out none together with a rejection at Permit.
    pub(crate) fn effects(&self) -> Vec<CaseEffect> {
        let permit = self.permit.as_ref().filter(|permit| permit.code.is_none());
        let later = [&self.pre_bind, &self.bind, &self.unreserve].map(Option::as_ref);
        let answers = [self.post_filter.as_ref(), permit].into_iter().chain(later);
        answers.flatten().flat_map(|answer| answer.effects.iter().cloned()).collect()
    }

    /// Adds the answers of the points after Permit about a pod that waited.
    pub(crate) fn add_released(&mut self, uid: String, answers: Self) {
        let Self { pre_bind, bind, unreserve, refused, ignored, .. } = answers;
        self.refused.extend(refused);
        self.ignored.extend(ignored);
        let released = ReleasedPod { permit: None, pre_bind, bind, unreserve };
        if released == ReleasedPod::default() {
            self.gone_on.insert(uid);
        } else {
            self.released.insert(uid, released);
        }
    }

    /// Adds what was answered about a pod whose wait ended after the plugin was asked again.
    pub(crate) fn add_asked_again(&mut self, uid: String, answers: &Self) {
        let [permit, pre_bind] = [&answers.permit, &answers.pre_bind].map(Option::clone);
        let [bind, unreserve] = [&answers.bind, &answers.unreserve].map(Option::clone);
        self.released.insert(uid, ReleasedPod { permit, pre_bind, bind, unreserve });
    }

    /// Adds the answer of Unreserve about a pod whose wait ended.
    pub(crate) fn add_undone(&mut self, uid: String, answers: Self) {
        self.released.entry(uid).or_default().unreserve.clone_from(&answers.unreserve);
        self.add_ended_waits(answers);
    }

    /// Adds the waits that ended, from other answers of the same step.
    pub(crate) fn add_ended_waits(&mut self, answers: Self) {
        self.released.extend(answers.released);
        self.gone_on.extend(answers.gone_on);
        self.refused.extend(answers.refused);
        self.ignored.extend(answers.ignored);
    }

    /// The answers as a file of cases can expect them.
    pub(crate) fn into_written(self) -> Self {
        Self {
            gone_on: BTreeSet::new(),
            unknown_nodes: Vec::new(),
            refused: Vec::new(),
            ignored: Vec::new(),
            unanswered: BTreeMap::new(),
            ..self
        }
    }

    /// Notes why points have no answers. `in_step` has the reason if the step or the plugin is the cause.
    pub(crate) fn note_unanswered(&mut self, mut in_step: impl FnMut(Point) -> Option<Unanswered>) {
        let rejects = |answer: &Option<PodAnswer>| {
            answer.as_ref().and_then(|answer| answer.code).is_some_and(|code| code != Code::Skip)
        };
        let mut earlier = self.pre_enqueue.is_some().then_some("PreEnqueue holds the pod back");
        let post_filter =
            earlier.or(Some("a node passes, or there are no nodes (`rejectedByOthers` makes nodes fail)"));
        let mut points = vec![(Point::PostFilter, post_filter), (Point::QueueSort, None), (Point::QueueingHint, None)];
        for (point, answer, why) in [
            (Point::Reserve, &self.reserve, "Reserve rejects the pod"),
            (Point::Permit, &self.permit, "Permit rejects the pod"),
            (Point::PreBind, &self.pre_bind, "PreBind fails"),
            (Point::Bind, &self.bind, "Bind fails"),
        ] {
            points.push((point, earlier));
            earlier = earlier.or(rejects(answer).then_some(why));
        }
        for (point, earlier) in points {
            let reason = in_step(point).or(earlier.map(Unanswered::NotAsked)).unwrap_or(Unanswered::NothingToSay);
            self.unanswered.insert(point, reason);
        }
    }

    /// The differences, one line for each: `b: scores 40, expected 50`. Answers that the scheduler treats as faults or
    /// does not carry out are always included, even if the case expects them.
    #[must_use]
    pub fn differences(&self, expected: &Self) -> Vec<String> {
        let mut lines = self.changes(expected);
        let out_of_range = self.scores.iter().filter(|(_, score)| !(0..=MAX_SCORE).contains(*score));
        lines.extend(out_of_range.map(|(node, score)| {
            format!("{node}: invalid score {score}: must be from 0 to {MAX_SCORE}; the scheduler treats it as a fault")
        }));
        lines.extend(self.refused.iter().map(|RefusedAtPoint { point, effect }| {
            let (what, field) = (effect.what(), effect.enough().field());
            format!(
                "{point}: the plugin asks for {what}, which `grants` in this file does not have: write `{field}` there, \
                 and in its entry of --plugin-config"
            )
        }));
        lines.extend(self.ignored.iter().cloned());
        lines
    }

    /// The differences between the two answers, one line for each.
    pub(crate) fn changes(&self, expected: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        compare(&mut lines, "PreEnqueue", self.pre_enqueue.as_ref(), expected.pre_enqueue.as_ref());
        lines.extend(self.pre_filter_change(expected));
        let nodes: BTreeSet<&String> =
            [&self.rejected, &expected.rejected].into_iter().flat_map(BTreeMap::keys).collect();
        for node in nodes {
            compare(&mut lines, node, self.rejected.get(node), expected.rejected.get(node));
        }
        let nodes: BTreeSet<&String> = [&self.scores, &expected.scores].into_iter().flat_map(BTreeMap::keys).collect();
        for node in nodes {
            let (given, wanted) = (self.scores.get(node), expected.scores.get(node));
            if given != wanted {
                let show = |score: Option<&i64>| score.map_or_else(|| "no score".to_owned(), i64::to_string);
                lines.push(format!("{node}: scores {}, expected {}", show(given), show(wanted)));
            }
        }
        for (point, given, expected) in [
            (Point::PostFilter, &self.post_filter, &expected.post_filter),
            (Point::Reserve, &self.reserve, &expected.reserve),
            (Point::Permit, &self.permit, &expected.permit),
            (Point::PreBind, &self.pre_bind, &expected.pre_bind),
            (Point::Bind, &self.bind, &expected.bind),
        ] {
            if !agrees(given.as_ref(), expected.as_ref()) {
                let show = |answer: &PodAnswer| json!(answer).to_string();
                let given = given.as_ref().map_or_else(|| self.unanswered(point), show);
                let expected = expected.as_ref().map_or_else(|| "no answer".to_owned(), show);
                lines.push(format!("{}: {given}, expected {expected}", point.shown()));
            }
        }
        lines.extend(self.unreserve_change(expected));
        let uids: BTreeSet<&String> =
            [&self.released, &expected.released].into_iter().flat_map(BTreeMap::keys).collect();
        for uid in uids {
            let (given, wanted) = (self.released.get(uid), expected.released.get(uid));
            let goes_on_silently = self.gone_on.contains(uid) && wanted == Some(&ReleasedPod::default());
            if given != wanted && !goes_on_silently {
                let show = |pod: Option<&ReleasedPod>| {
                    pod.map_or_else(|| "does not go on, or has nothing to do".to_owned(), |pod| json!(pod).to_string())
                };
                lines.push(format!("released pod {uid}: {}, expected {}", show(given), show(wanted)));
            }
        }
        if self.order != expected.order {
            let show = |order: &[String], none| if order.is_empty() { none } else { order.join(", ") };
            let given = show(&self.order, self.unanswered(Point::QueueSort));
            let expected = show(&expected.order, "no order".to_owned());
            lines.push(format!("QueueSort: {given}, expected {expected}"));
        }
        if self.hint != expected.hint {
            let show = |hint: Hint| json!(hint).to_string();
            let given = self.hint.map_or_else(|| self.unanswered(Point::QueueingHint), show);
            let expected = expected.hint.map_or_else(|| "no answer".to_owned(), show);
            lines.push(format!("QueueingHint: {given}, expected {expected}"));
        }
        lines.extend(self.words_changes(expected));
        lines
    }

    /// The difference between the effects of Unreserve.
    fn unreserve_change(&self, expected: &Self) -> Option<String> {
        let show = |answer: &Option<PodAnswer>, none: &str| {
            answer.as_ref().map_or_else(|| none.to_owned(), |answer| json!(answer).to_string())
        };
        let given = show(&self.unreserve, "not called, or asks for no effects");
        let wanted = show(&expected.unreserve, "no effects");
        (self.unreserve != expected.unreserve).then(|| format!("Unreserve: {given}, expected {wanted}"))
    }

    /// The differences in the plugin's own words.
    fn words_changes(&self, expected: &Self) -> Vec<String> {
        let about_pod = difference("Explain", self.explain.as_ref(), expected.explain.as_ref());
        let (said, wanted) = (&self.explain_nodes, &expected.explain_nodes);
        let nodes: BTreeSet<&String> = [said, wanted].into_iter().flat_map(BTreeMap::keys).collect();
        let about_nodes = nodes
            .into_iter()
            .filter_map(|node| difference(&format!("Explain about {node}"), said.get(node), wanted.get(node)));
        about_pod.into_iter().chain(about_nodes).collect()
    }

    /// The difference between the two answers of PreFilter. It names the nodes that the cluster does not have: the
    /// scheduler leaves such nodes out without a message.
    fn pre_filter_change(&self, expected: &Self) -> Option<String> {
        if self.pre_filter == expected.pre_filter {
            return None;
        }
        let show = |answer: &Option<PreFilterAnswer>| {
            answer.as_ref().map_or_else(|| "passes with all nodes".to_owned(), PreFilterAnswer::text)
        };
        let unknown = match self.unknown_nodes.as_slice() {
            [] => String::new(),
            names => format!(" (the cluster of this step has no node {})", listed(names)),
        };
        Some(format!("PreFilter: {}{unknown}, expected {}", show(&self.pre_filter), show(&expected.pre_filter)))
    }

    /// Notes the nodes that PreFilter names and that do not exist.
    pub(crate) fn note_unknown_nodes(&mut self, exists: impl Fn(&str) -> bool) {
        let named = self.pre_filter.iter().flat_map(|answer| &answer.nodes).flatten();
        self.unknown_nodes = named.filter(|name| !exists(name)).cloned().collect();
    }

    /// Why the point has no answer, in words.
    fn unanswered(&self, point: Point) -> String {
        self.unanswered.get(&point).copied().unwrap_or(Unanswered::NothingToSay).text()
    }
}

/// Whether the answer is as expected. A case may leave out the code of a success.
fn agrees(given: Option<&PodAnswer>, expected: Option<&PodAnswer>) -> bool {
    match (given, expected) {
        (Some(given), Some(expected)) if expected.code.is_none() && given.code == Some(Code::Success) => {
            PodAnswer { code: None, ..given.clone() } == *expected
        }
        _ => given == expected,
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
