//! The way from a pod to a node: PreFilter, Filter, Score and the choice, in Kubernetes' order.

use berth_model::{NodeIdx, sampling::num_feasible_nodes_to_find};

use super::{
    Attempt, ClassAnswers, Decision, Diagnosis, HintOutcome, NoNode, NominatedPods, PreFilterOutcome, SearchRange,
    diagnose, extend, filter, filter_one, list_candidates, pre_filter, score,
};
use crate::{
    equivalence::EquivalenceCache, extender::Extenders, plugin::Point, points::Call, profile::Profile, status::Status,
};

/// The input of a placement besides the pod and the node table.
#[derive(Clone, Copy, Debug)]
pub struct NodeSearch<'a> {
    /// All nodes in the order in which they are visited.
    pub order: &'a [NodeIdx],
    /// The position in `order` at which the search begins.
    pub start: usize,
    /// The global setting; a profile may override it.
    pub percentage_of_nodes_to_score: i32,
    /// Pods that are nominated to nodes.
    pub nominated: &'a NominatedPods<'a>,
    /// The hint of the previously placed pod, if both pods have the same signature.
    pub hint: Option<Hint>,
    /// The extenders that are asked besides the plugins; `None` if none is configured.
    pub extenders: Option<&'a dyn Extenders>,
}

/// A hint for the next pod with the same signature, taken from the scores of a pod just placed (KEP-5598).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The node of the previous pod. This node may still be the best node as long as it has room.
    pub last: NodeIdx,
    /// The best of the nodes that were not chosen.
    pub next: NodeIdx,
}

/// Finds the node for a pod. The next search starts after the nodes that this search visited
/// ([`Sample::n_visited`](super::Sample::n_visited)). Plugins are not asked again if `cache` holds their answers for
/// pods of the same equivalence class.
pub fn place(
    profile: &mut Profile,
    call: &Call<'_>,
    search: &NodeSearch<'_>,
    cache: Option<&mut EquivalenceCache<ClassAnswers>>,
    attempt: &mut Attempt,
) -> Decision {
    attempt.clear();
    let outcome = find_node(profile, call, search, cache, attempt);
    Decision { outcome, findings: std::mem::take(&mut attempt.findings) }
}

fn find_node(
    profile: &mut Profile,
    call: &Call<'_>,
    search: &NodeSearch<'_>,
    cache: Option<&mut EquivalenceCache<ClassAnswers>>,
    attempt: &mut Attempt,
) -> Result<NodeIdx, NoNode> {
    if search.order.is_empty() {
        return Err(NoNode::EmptyCluster);
    }
    let n_all_nodes = search.order.len();
    if let PreFilterOutcome::Rejected { status, plugins } = pre_filter(profile, call, attempt)? {
        let mut diagnosis = Diagnosis { n_all_nodes, absent: Some(status.clone()), ..Diagnosis::default() };
        plugins.into_iter().for_each(|plugin| diagnosis.blame(plugin, status.code));
        diagnosis.pre_filter = Some(status);
        return Err(NoNode::Rejected(Box::new(diagnosis)));
    }
    if let Some(node) = hinted_node(profile, call, search, attempt) {
        return Ok(node);
    }
    if let Some(earlier) = earlier_answers(cache, call, search, attempt)
        && let Some(node) = place_by_earlier(profile, call, search, earlier, attempt)?
    {
        return Ok(node);
    }
    place_anew(profile, call, search, attempt)
}

/// The earlier answers for pods of the same equivalence class. The answers are not used for a pod that PreFilter
/// restricts or that is nominated, because asking about few nodes is cheap. They are not used either while competing
/// pods are nominated or extenders are configured.
fn earlier_answers<'a>(
    cache: Option<&'a mut EquivalenceCache<ClassAnswers>>,
    call: &Call<'_>,
    search: &NodeSearch<'_>,
    attempt: &Attempt,
) -> Option<&'a mut ClassAnswers> {
    let is_restricted = attempt.findings.restriction.is_some() || !call.pod.nominated_node_name.is_none();
    let has_others = search.extenders.is_some() || !search.nominated.cases().is_empty();
    cache.filter(|_| !is_restricted && !has_others)?.of_second(call.pod, ClassAnswers::default)
}

/// Places the pod with the answers for an earlier pod. Returns `None` if no node passes, because only the plugins can
/// give the reasons.
fn place_by_earlier(
    profile: &mut Profile,
    call: &Call<'_>,
    search: &NodeSearch<'_>,
    earlier: &mut ClassAnswers,
    attempt: &mut Attempt,
) -> Result<Option<NodeIdx>, Status> {
    let range = range_of(profile, search, search.order.len());
    earlier.filter(profile, call, search.order, range, attempt)?;
    attempt.findings.filtered_at = profile.meter().now();
    if attempt.findings.feasible_order.len() > 1 {
        earlier.score(profile, call, attempt)?;
        return best_node(attempt).map(Some);
    }
    Ok(attempt.findings.feasible_order.first().copied())
}

/// Places the pod without earlier answers, so every plugin is asked.
fn place_anew(
    profile: &mut Profile,
    call: &Call<'_>,
    search: &NodeSearch<'_>,
    attempt: &mut Attempt,
) -> Result<NodeIdx, NoNode> {
    list_candidates(call, search.order, attempt);
    let mut diagnosis = Diagnosis { n_all_nodes: search.order.len(), ..Diagnosis::default() };
    if let Some(node) = nominated_node(profile, call, search, attempt, &mut diagnosis) {
        return Ok(node);
    }
    let range = range_of(profile, search, attempt.candidates.len());
    filter(profile, call, range, search.nominated, attempt)?;
    extend::filter_by_extenders(profile, search.extenders, call, attempt)?;
    attempt.findings.filtered_at = profile.meter().now();
    match attempt.findings.feasible_order.as_slice() {
        [] => {
            diagnose(profile, call, &attempt.findings, &mut diagnosis)?;
            Err(NoNode::Rejected(Box::new(diagnosis)))
        }
        [only] => Ok(*only),
        _ => {
            score(profile, call, attempt)?;
            extend::add_extender_scores(profile, search.extenders, call, attempt);
            best_node(attempt).map_err(NoNode::Broken)
        }
    }
}

fn range_of(profile: &Profile, search: &NodeSearch<'_>, n_candidates: usize) -> SearchRange {
    SearchRange { start: search.start, n_wanted: n_nodes_to_find(profile, search, n_candidates) }
}

/// The number of passing nodes that is enough.
fn n_nodes_to_find(profile: &Profile, search: &NodeSearch<'_>, n_candidates: usize) -> usize {
    let is_any_enough = profile.plugins.at(Point::Score).is_empty()
        && !extend::filters(search.extenders)
        && !extend::scores(search.extenders);
    if is_any_enough {
        return 1;
    }
    let percentage = profile.percentage_of_nodes_to_score;
    num_feasible_nodes_to_find(n_candidates, percentage, search.percentage_of_nodes_to_score)
}

fn best_node(attempt: &mut Attempt) -> Result<NodeIdx, Status> {
    attempt.choose().ok_or_else(|| Status::error("no node has a score"))
}

/// The node that the hint names, if the node of the previous pod is full. If a plugin breaks at the named node, the
/// hint is dropped and the search continues.
fn hinted_node(
    profile: &mut Profile,
    call: &Call<'_>,
    search: &NodeSearch<'_>,
    attempt: &mut Attempt,
) -> Option<NodeIdx> {
    let hint = search.hint.filter(|_| call.pod.nominated_node_name.is_none())?;
    let mut passes = |node, attempt: &mut Attempt| {
        let answer = filter_one(profile, call, node, search.nominated, attempt);
        answer.is_ok() && attempt.findings.feasible.contains(node)
    };
    attempt.findings.hint = if passes(hint.last, attempt) {
        HintOutcome::NotFull
    } else if passes(hint.next, attempt) {
        HintOutcome::Used
    } else {
        HintOutcome::Refused
    };
    attempt.findings.sample.n_visited = 0;
    (attempt.findings.hint == HintOutcome::Used).then_some(hint.next)
}

/// The node to which the pod is nominated, if the node passes. If the node does not pass, the reason is written into
/// `diagnosis` immediately: PreFilter may have excluded the node, and then no plugin would be asked about the node
/// again. If a plugin breaks at this node, the node loses its precedence and the search continues.
fn nominated_node(
    profile: &mut Profile,
    call: &Call<'_>,
    search: &NodeSearch<'_>,
    attempt: &mut Attempt,
    diagnosis: &mut Diagnosis,
) -> Option<NodeIdx> {
    let name = call.pod.nominated_node_name;
    if name.is_none() {
        return None;
    }
    let node = call.table.find(name)?;
    let passed = filter_one(profile, call, node, search.nominated, attempt)
        .and_then(|()| extend::filter_by_extenders(profile, search.extenders, call, attempt));
    let is_feasible = passed.is_ok() && attempt.findings.feasible.contains(node);
    if passed.is_ok() && !is_feasible && !attempt.candidates.contains(&node) {
        // If the reason is not available, the node counts as a node that PreFilter excluded.
        let _ = diagnose(profile, call, &attempt.findings, diagnosis);
    }
    attempt.findings.sample.n_visited = 0;
    is_feasible.then_some(node)
}
