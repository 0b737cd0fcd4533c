//! The answers of every plugin about every node. When a user asks for them, they are determined on a copy of the
//! cluster.

use std::{collections::BTreeMap, time::Duration};

use berth_framework::{
    Call, Effect, Permission, PluginIdx, Point, Profile, Status,
    run::{self, Attempt, Diagnosis, PreFilterAnswer, PreFilterOutcome, Rejection, SearchRange},
};
use berth_model::{NodeIdx, NodeSet, Pod};
use serde::{Deserialize, Serialize};

use crate::{
    budgets::{self, ViolatedBudget},
    nearest::{NearNode, NodeReason, nearest, reasons},
    question::Question,
    record::{RankedNode, ranked},
    resources::{Lack, ResourceSum, lacks, sums},
    suggestion::{Obstacles, Suggestion, suggestions},
};

/// The number of nodes that are named next to each count.
const N_EXAMPLES: usize = 3;

/// The number of nodes that are shown with all their scores.
const N_BEST: usize = 10;

/// The number of cycles that an analysis uses: the cycle of its call, and the cycles after this cycle. A plugin knows
/// one pod in each cycle.
pub const CYCLES: u64 = 16;

/// The plugin that refuses nodes because of amounts.
pub(crate) const NODE_RESOURCES_FIT: &str = "NodeResourcesFit";

/// The answer to a question about a pod. Fields that the analysis did not reach are empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Analysis {
    /// The number of all nodes.
    pub nodes: usize,
    /// The number of nodes that fit at the moment.
    pub feasible: usize,
    /// The number of nodes that no plugin refuses, but whose room is reserved for nominated pods.
    pub reserved_for_nominated: usize,
    /// The reason why the pod fits on no node, regardless of the nodes.
    pub pod_rejected: Option<PodRejected>,
    /// The message of a plugin that failed. The other fields of the answer are then unknown.
    pub error: Option<String>,
    /// The plugins whose PreFilter names nodes that do not exist.
    pub missing_nodes: Vec<MissingNodes>,
    /// The report of each plugin on its own, in the order of the profile.
    pub plugins: Vec<PluginAnalysis>,
    /// Each set of plugins that refuse the same nodes. The smallest sets come first. Among sets of the same size, the
    /// most frequent set comes first.
    pub combinations: Vec<Combination>,
    /// The nodes that come closest to fitting.
    pub nearest: Vec<NearNode>,
    /// The best of the nodes that fit.
    pub best: Vec<RankedNode>,
    /// The nodes' amounts of the resources that the pod requests.
    pub resources: Vec<ResourceSum>,
    /// The result of an attempt to evict pods; `None` if no eviction was tried.
    pub preemption: Option<PreemptionReport>,
    /// Changes with which the pod would fit, if no node fits at the moment.
    pub suggestions: Vec<Suggestion>,
    /// The time that each plugin took for an attempt on the copy that covers every node, the longest first. Empty if
    /// the profile's meter has no clock.
    pub took: Vec<PluginTook>,
    /// The report on the node that the caller asked about.
    pub node: Option<NodeReport>,
    /// The plugins' own words, in the order of the profile.
    pub words: Vec<PluginWords>,
    /// The plugins' texts that could not be obtained, with the reasons.
    /// [`Explanation::notes`](crate::Explanation::notes) takes these notes over.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// The time that a plugin took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginTook {
    /// The name of the plugin.
    pub plugin: String,
    /// The extension point, such as `Filter`.
    pub point: String,
    /// The time of all calls at this point. One call is about many nodes.
    pub microseconds: u64,
}

/// PreFilter rejected the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRejected {
    /// The plugins that rejected the pod.
    pub plugins: Vec<String>,
    /// The status code, such as `UnschedulableAndUnresolvable`.
    pub code: String,
    /// The message in the plugins' own words.
    pub message: String,
}

/// The names of nodes that do not exist and to which a plugin's PreFilter restricts the pod. Kubernetes ignores these
/// names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingNodes {
    /// The name of the plugin.
    pub plugin: String,
    /// The number of names without a node.
    pub nodes: usize,
    /// Some of the names.
    pub examples: Vec<String>,
}

/// The answers of one plugin about all nodes, as if it were the only plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginAnalysis {
    /// The name of the plugin.
    pub plugin: String,
    /// The number of nodes that the plugin refuses.
    pub rejected: usize,
    /// The number of nodes that only this plugin refuses.
    pub alone: usize,
    /// The reasons, the most frequent first. A node counts for each of its reasons.
    pub reasons: Vec<ReasonCount>,
}

/// A reason, and the number of nodes that have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReasonCount {
    /// The reason in the plugin's words.
    pub reason: String,
    /// The number of nodes.
    pub nodes: usize,
    /// Some of the nodes.
    pub examples: Vec<String>,
}

/// Plugins that refuse the same nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Combination {
    /// The names of the plugins. Each of them refuses all of these nodes, and no other plugin refuses any of them.
    pub plugins: Vec<String>,
    /// The number of nodes.
    pub nodes: usize,
    /// Some of the nodes.
    pub examples: Vec<String>,
}

/// The answer of PostFilter. Its effects are not carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreemptionReport {
    /// The node on which evictions would make room; `None` if evictions help on no node.
    pub node: Option<String>,
    /// The number of pods that would have to leave.
    pub victims: usize,
    /// Namespace and name of some victims.
    pub examples: Vec<String>,
    /// The number of further victims. The caller is not allowed to see their names.
    #[serde(default)]
    pub unnamed: usize,
    /// The PodDisruptionBudgets that these evictions would violate. Preemption violates a budget only if nothing else
    /// makes room.
    #[serde(default)]
    pub violated_budgets: Vec<ViolatedBudget>,
    /// The message in the plugins' words; empty if there is a node.
    pub message: String,
}

/// A plugin's own words about the pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginWords {
    /// The name of the plugin.
    pub plugin: String,
    /// The node that the caller asked about, if the words are about the pod on this node. `None` for words about the pod
    /// as a whole.
    #[serde(default)]
    pub node: Option<String>,
    /// One line. The host has cut a longer text of a component.
    pub text: String,
}

/// One node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// `metadata.name`.
    pub node: String,
    /// Whether the node exists.
    pub exists: bool,
    /// The reasons of all plugins that refuse the node. Each plugin was asked on its own.
    pub reasons: Vec<NodeReason>,
    /// The resources of which the node has too little.
    pub lacks: Vec<Lack>,
    /// The scores of the node; `None` if the node does not fit or no nodes were scored.
    pub scores: Option<RankedNode>,
    /// The scores of the node that the pod has, or of the best node if the pod has no node. `None` if this node is the
    /// node of the report, or if no nodes were scored.
    #[serde(default)]
    pub winner: Option<RankedNode>,
    /// The position among the nodes that fit, from 1.
    pub rank: Option<usize>,
}

/// Asks the plugins about the pod of `call` on all nodes. The plugins must have been synced with the table of the call.
/// They must not be instances that schedule, because the analysis begins and ends the cycle of the call and the cycles
/// after it, together at most [`CYCLES`].
pub fn analyze(profile: &mut Profile, call: &Call<'_>, question: &Question<'_>) -> Analysis {
    let mut analysis = Analysis { nodes: question.order.len(), ..Analysis::default() };
    let asked = ask(profile, call, question, &mut analysis);
    profile.end_cycle(call.cycle);
    analysis.took = took(profile);
    match asked {
        Ok(None) => {}
        // A plugin may fail, or run out of time, while it is asked about pods with a suggested change. The analysis
        // then has no suggestions.
        Ok(Some(obstacles)) => {
            analysis.suggestions = suggestions(profile, call, question, &obstacles).unwrap_or_default();
        }
        Err(status) => analysis.error = Some(status.message()),
    }
    analysis
}

/// The times of this attempt that the meter has measured.
fn took(profile: &mut Profile) -> Vec<PluginTook> {
    let mut sums: BTreeMap<(PluginIdx, &'static str), Duration> = BTreeMap::new();
    for time in profile.meter().measured_mut().plugins.drain(..) {
        *sums.entry((time.plugin, time.point)).or_default() += time.duration;
    }
    let took = sums.into_iter().map(|((plugin, point), duration)| PluginTook {
        plugin: profile.name(plugin).to_string(),
        point: Point::shown_of(point).to_owned(),
        microseconds: u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
    });
    let mut took: Vec<PluginTook> = took.collect();
    took.sort_by_key(|it| std::cmp::Reverse(it.microseconds));
    took
}

/// The plugins that refuse each node, each plugin on its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Plugins that refuse a node, in the order of the profile.
    pub plugins: Vec<String>,
    /// The name of each node that is refused, and the positions of its plugins in [`Self::plugins`].
    pub nodes: Vec<(String, Vec<usize>)>,
    /// The reason why the pod fits on no node, regardless of the nodes.
    pub pod_rejected: Option<String>,
}

/// Asks the Filter plugins about the pod of `call` on all nodes, as [`analyze`] does, and returns their answers for
/// each node.
///
/// # Errors
/// The message of a plugin that broke.
pub fn refusals(profile: &mut Profile, call: &Call<'_>, order: &[NodeIdx]) -> Result<Refusals, Status> {
    let asked = refusals_of(profile, call, order);
    profile.end_cycle(call.cycle);
    asked
}

fn refusals_of(profile: &mut Profile, call: &Call<'_>, order: &[NodeIdx]) -> Result<Refusals, Status> {
    let mut attempt = Attempt::default();
    if let PreFilterOutcome::Rejected { status, .. } = run::pre_filter(profile, call, &mut attempt)? {
        return Ok(Refusals { pod_rejected: Some(status.message()), ..Refusals::default() });
    }
    let rejections = all_rejections(profile, call, order, &mut attempt);
    let mut plugins: Vec<PluginIdx> = rejections.iter().map(|rejection| rejection.plugin).collect();
    plugins.sort_unstable();
    plugins.dedup();
    let mut nodes = Vec::new();
    for node in union(&rejections).iter() {
        let of_node = rejections.iter().filter(|rejection| rejection.nodes.contains(node));
        let mut positions: Vec<usize> =
            of_node.filter_map(|rejection| plugins.binary_search(&rejection.plugin).ok()).collect();
        positions.sort_unstable();
        positions.dedup();
        nodes.push((name(call, node), positions));
    }
    let plugins = plugins.into_iter().map(|plugin| profile.name(plugin).to_string()).collect();
    Ok(Refusals { plugins, nodes, pod_rejected: None })
}

/// The answers of each Filter plugin about every node, after PreFilter. Each plugin is asked on its own.
fn all_rejections(profile: &mut Profile, call: &Call<'_>, order: &[NodeIdx], attempt: &mut Attempt) -> Vec<Rejection> {
    run::list_candidates(call, order, attempt);
    let candidates: NodeSet = attempt.candidates().iter().copied().collect();
    let mut rejections = run::diagnose_every_plugin(profile, call, &candidates, attempt.findings());
    rejections.extend(left_out(profile, call, &candidates, attempt));
    rejections
}

/// Fills in the analysis. Returns the obstacles if no node fits.
fn ask(
    profile: &mut Profile,
    call: &Call<'_>,
    question: &Question<'_>,
    analysis: &mut Analysis,
) -> Result<Option<Obstacles>, Status> {
    let mut attempt = Attempt::default();
    let outcome = run::pre_filter(profile, call, &mut attempt)?;
    analysis.missing_nodes = missing_nodes(profile, call, &attempt);
    if let PreFilterOutcome::Rejected { status, plugins } = outcome {
        analysis.resources = sums(call.table, call.pod, call.table.nodes());
        analysis.pod_rejected = Some(PodRejected {
            plugins: plugins.into_iter().map(|plugin| profile.name(plugin).to_string()).collect(),
            code: status.code.as_str().to_owned(),
            message: status.message(),
        });
        return Ok(None);
    }
    let rejections = all_rejections(profile, call, question.order, &mut attempt);
    let refused = union(&rejections);
    count(profile, call, &rejections, &refused, analysis);
    analysis.nearest = nearest(profile, call, &rejections, &refused);
    analysis.resources = sums(call.table, call.pod, &only_resources(profile, call, &rejections));
    let all = SearchRange { start: 0, n_wanted: question.order.len().max(1) };
    run::filter(profile, call, all, question.nominated, &mut attempt)?;
    analysis.feasible = attempt.findings().feasible().len();
    analysis.reserved_for_nominated = analysis.nodes.saturating_sub(analysis.feasible + refused.len());
    if analysis.feasible > 1 {
        run::score(profile, call, &mut attempt)?;
    }
    analysis.best = ranked(profile, call.table, attempt.findings(), N_BEST);
    if analysis.feasible == 0 {
        analysis.preemption = Some(preempt(profile, call, question, &attempt)?);
    }
    analysis.node = question.node.map(|node| report(profile, call, question, &rejections, &attempt, node));
    Ok((analysis.feasible == 0).then(|| obstacles(profile, call, &rejections, &analysis.nearest)))
}

fn obstacles(profile: &Profile, call: &Call<'_>, rejections: &[Rejection], nearest: &[NearNode]) -> Obstacles {
    let mut obstacles = Obstacles::default();
    for rejection in rejections {
        let plugin = profile.name(rejection.plugin).to_string();
        obstacles.refused.entry(plugin).or_default().union(&rejection.nodes);
    }
    let near = nearest.iter().find(|near| !near.lacks.is_empty());
    obstacles.nearest = near.and_then(|near| call.table.find(call.table.symbols.lookup(&near.node)?));
    obstacles
}

fn missing_nodes(profile: &Profile, call: &Call<'_>, attempt: &Attempt) -> Vec<MissingNodes> {
    let exists = |name: &String| call.table.symbols.lookup(name).is_some_and(|name| call.table.find(name).is_some());
    let of_plugin = |answer: &PreFilterAnswer| {
        let missing: Vec<&String> = answer.nodes.iter().flatten().filter(|name| !exists(name)).collect();
        (!missing.is_empty()).then(|| MissingNodes {
            plugin: profile.name(answer.plugin).to_string(),
            nodes: missing.len(),
            examples: missing.into_iter().take(N_EXAMPLES).cloned().collect(),
        })
    };
    attempt.findings().pre_filters().iter().filter_map(of_plugin).collect()
}

/// The nodes that PreFilter left out. They are returned as refusals by the plugins that left them out. The result is
/// empty if PreFilter named every node.
fn left_out(profile: &Profile, call: &Call<'_>, candidates: &NodeSet, attempt: &Attempt) -> Vec<Rejection> {
    let Some(restriction) = attempt.findings().restriction() else { return Vec::new() };
    let mut nodes = call.table.nodes().clone();
    nodes.subtract(candidates);
    if nodes.is_empty() {
        return Vec::new();
    }
    let rejection = |plugin: &PluginIdx| {
        let text = format!("node(s) didn't satisfy plugin(s) [{}]", profile.name(*plugin));
        Rejection { plugin: *plugin, status: Status::unresolvable(text), nodes: nodes.clone() }
    };
    restriction.plugins.iter().map(rejection).collect()
}

fn union(rejections: &[Rejection]) -> NodeSet {
    let mut nodes = NodeSet::default();
    rejections.iter().for_each(|rejection| nodes.union(&rejection.nodes));
    nodes
}

/// The nodes on which the pod fits, and the nodes that are refused only for missing amounts.
fn only_resources(profile: &Profile, call: &Call<'_>, rejections: &[Rejection]) -> NodeSet {
    let mut nodes = call.table.nodes().clone();
    let is_other = |rejection: &&Rejection| **profile.name(rejection.plugin) != *NODE_RESOURCES_FIT;
    rejections.iter().filter(is_other).for_each(|rejection| nodes.subtract(&rejection.nodes));
    nodes
}

/// Counts the refusals of each plugin, and of each combination of plugins.
fn count(profile: &Profile, call: &Call<'_>, rejections: &[Rejection], refused: &NodeSet, analysis: &mut Analysis) {
    let mut sets: BTreeMap<Vec<PluginIdx>, Vec<NodeIdx>> = BTreeMap::new();
    for node in refused.iter() {
        let of_node = rejections.iter().filter(|rejection| rejection.nodes.contains(node));
        let mut plugins: Vec<PluginIdx> = of_node.map(|rejection| rejection.plugin).collect();
        plugins.sort_unstable();
        plugins.dedup();
        sets.entry(plugins).or_default().push(node);
    }
    let mut plugins: Vec<PluginIdx> = rejections.iter().map(|rejection| rejection.plugin).collect();
    plugins.sort_unstable();
    plugins.dedup();
    for plugin in plugins {
        let of_plugin: Vec<&Rejection> = rejections.iter().filter(|rejection| rejection.plugin == plugin).collect();
        analysis.plugins.push(PluginAnalysis {
            plugin: profile.name(plugin).to_string(),
            rejected: of_plugin.iter().map(|rejection| rejection.nodes.len()).sum(),
            alone: sets.get([plugin].as_slice()).map_or(0, Vec::len),
            reasons: reason_counts(call, &of_plugin),
        });
    }
    analysis.combinations = sets
        .into_iter()
        .map(|(plugins, nodes)| Combination {
            plugins: plugins.into_iter().map(|plugin| profile.name(plugin).to_string()).collect(),
            nodes: nodes.len(),
            examples: examples(call, nodes.into_iter()),
        })
        .collect();
    analysis.combinations.sort_by_key(|combination| (combination.plugins.len(), std::cmp::Reverse(combination.nodes)));
}

fn reason_counts(call: &Call<'_>, rejections: &[&Rejection]) -> Vec<ReasonCount> {
    let mut by_reason: BTreeMap<&str, NodeSet> = BTreeMap::new();
    for rejection in rejections {
        for reason in &rejection.status.reasons {
            by_reason.entry(reason).or_default().union(&rejection.nodes);
        }
    }
    let count = |(reason, nodes): (&str, NodeSet)| ReasonCount {
        reason: reason.to_owned(),
        nodes: nodes.len(),
        examples: examples(call, nodes.iter()),
    };
    let mut counts: Vec<ReasonCount> = by_reason.into_iter().map(count).collect();
    counts.sort_by_key(|count| std::cmp::Reverse(count.nodes));
    counts
}

fn examples(call: &Call<'_>, nodes: impl Iterator<Item = NodeIdx>) -> Vec<String> {
    nodes.take(N_EXAMPLES).map(|node| name(call, node)).collect()
}

fn name(call: &Call<'_>, node: NodeIdx) -> String {
    call.table.symbols.text(call.table.name(node)).to_owned()
}

/// Asks PostFilter for its answer.
fn preempt(
    profile: &mut Profile,
    call: &Call<'_>,
    question: &Question<'_>,
    attempt: &Attempt,
) -> Result<PreemptionReport, Status> {
    let mut diagnosis = Diagnosis { n_all_nodes: question.order.len(), ..Diagnosis::default() };
    run::diagnose(profile, call, attempt.findings(), &mut diagnosis)?;
    run::post_filter(profile, call, attempt.findings(), question.nominated, None, &mut diagnosis);
    let found = diagnosis.post_filter;
    let victims: Vec<(String, &str)> = found
        .effects
        .iter()
        .filter(|(plugin, _)| profile.may(*plugin, Permission::Evict))
        .filter_map(|(_, effect)| match effect {
            Effect::Evict { namespace, name, uid, .. } => Some((format!("{namespace}/{name}"), uid.as_str())),
            Effect::Bind
            | Effect::Patch { .. }
            | Effect::Create { .. }
            | Effect::Delete { .. }
            | Effect::Allow { .. }
            | Effect::Reject { .. }
            | Effect::Activate { .. }
            | Effect::Nominate { .. }
            | Effect::Event { .. }
            | Effect::Wait { .. } => None,
        })
        .collect();
    let nominated = found.nominate.flatten();
    let there = nominated.into_iter().flat_map(|node| call.table.pods().on(node));
    let leaves = |pod: &Pod| victims.iter().any(|(_, uid)| *pod.uid == **uid);
    let leaving: Vec<&Pod> = there.map(|(_, pod)| &**pod).filter(|pod| leaves(pod)).collect();
    let violated_budgets = budgets::violated(call.table, &leaving);
    let node = nominated.map(|node| name(call, node));
    Ok(PreemptionReport {
        message: match (&node, &found.status) {
            (None, Some(status)) => status.message(),
            (Some(_), _) | (None, None) => String::new(),
        },
        node,
        victims: victims.len(),
        unnamed: 0,
        violated_budgets,
        examples: victims.into_iter().map(|(name, _)| name).take(N_EXAMPLES).collect(),
    })
}

fn report(
    profile: &Profile,
    call: &Call<'_>,
    question: &Question<'_>,
    rejections: &[Rejection],
    attempt: &Attempt,
    node: NodeIdx,
) -> NodeReport {
    let chosen = question.chosen.map(|chosen| self::name(call, chosen));
    let name = name(call, node);
    let all = ranked(profile, call.table, attempt.findings(), usize::MAX);
    let place = all.iter().position(|other| *other.node == *name);
    let winner = match chosen {
        Some(chosen) => all.iter().find(|other| *other.node == *chosen),
        None => all.first(),
    };
    let winner = winner.filter(|winner| *winner.node != *name && winner.total.is_some()).cloned();
    NodeReport {
        exists: true,
        reasons: reasons(profile, rejections, node),
        lacks: lacks(call.table, call.pod, node),
        rank: place.map(|place| place + 1),
        winner,
        scores: place.and_then(|place| all.into_iter().nth(place)),
        node: name,
    }
}
