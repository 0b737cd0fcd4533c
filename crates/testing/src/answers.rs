//! A plugin's answers about every node in one cycle, and checks that its calls agree with one another.

use std::collections::{BTreeMap, BTreeSet};

use berth_framework::{Call, DryRunCase, Plugin, RejectedNodes, Status};
use berth_model::{NodeIdx, NodeSet};

/// The answers of one cycle, by the names of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// The reason why PreFilter rejects the pod. No node is examined after a rejection.
    pub pre_filter: Option<Status>,
    /// The names of the only nodes that PreFilter allows, even if the cluster does not have these nodes.
    pub restriction: Option<BTreeSet<String>>,
    /// Whether a node passes PreFilter and Filter.
    pub passes: bool,
    /// The reasons why nodes do not pass Filter.
    pub rejected: BTreeMap<String, Status>,
    /// The scores of the nodes that pass, normalised if the plugin normalises.
    pub scores: BTreeMap<String, i64>,
}

/// The scores of some nodes, in ascending order of their rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scores {
    /// The results of Score.
    pub raw: Vec<i64>,
    /// The results of Normalize; equal to `raw` if the plugin does not normalise.
    pub normalized: Vec<i64>,
}

/// Calls PreFilter, Filter, PreScore, Score and Normalize. This function does not end the cycle.
///
/// # Errors
/// The plugin fails, or the answers of `filter`, `node_to_status` and `dry_run` about a node differ.
pub fn ask(plugin: &mut dyn Plugin, call: &Call<'_>) -> Result<Answers, Status> {
    ask_about(plugin, call, call.table.nodes().clone())
}

/// Calls the same points as [`ask`]. Filter and the later points see only these nodes, as if other plugins had rejected
/// all other nodes.
///
/// # Errors
/// Fails as [`ask`] does.
pub fn ask_about(plugin: &mut dyn Plugin, call: &Call<'_>, mut passed: NodeSet) -> Result<Answers, Status> {
    let mut answers = Answers::default();
    let (filters, restriction) = match plugin.pre_filter().map(|point| point.pre_filter(call)) {
        None => (true, None),
        Some(Ok(restriction)) => (true, restriction),
        Some(Err(status)) if status == Status::skip() => (false, None),
        Some(Err(status)) if status.code.is_rejected() => {
            answers.pre_filter = Some(status);
            return Ok(answers);
        }
        Some(Err(status)) => return Err(status),
    };
    if let Some(names) = restriction {
        let symbols = &call.table.symbols;
        passed.retain(|node| names.iter().any(|name| name == symbols.text(call.table.name(node))));
        answers.restriction = Some(names.into_iter().collect());
    }
    if filters {
        answers.rejected = filter(plugin, call, &mut passed)?;
    }
    answers.passes = !passed.is_empty();
    if answers.passes {
        let scores = score(plugin, call, &passed)?.unwrap_or_default().normalized;
        answers.scores = passed.iter().map(|node| name(call, node)).zip(scores).collect();
    }
    Ok(answers)
}

/// Calls Filter for `nodes`, which keeps the nodes that pass. Returns the rejected nodes by name, with the reasons.
///
/// # Errors
/// The plugin fails, `node_to_status` does not cover all rejected nodes, or `dry_run` with unchanged pods disagrees
/// with Filter.
pub fn filter(
    plugin: &mut dyn Plugin,
    call: &Call<'_>,
    nodes: &mut NodeSet,
) -> Result<BTreeMap<String, Status>, Status> {
    let Some(point) = plugin.filter() else { return Ok(BTreeMap::new()) };
    let all = nodes.clone();
    point.filter(call, nodes)?;
    if let Some(node) = nodes.iter().find(|node| !all.contains(*node)) {
        return Err(Status::error(format!("filter adds {}, which was not a candidate", name(call, node))));
    }
    let mut rejected = all;
    rejected.subtract(nodes);
    let groups = if rejected.is_empty() { Vec::new() } else { point.node_to_status(call, &rejected)? };
    covers(call, &groups, &rejected)?;
    agrees_with_dry_run(plugin, call, nodes, &groups)?;
    let by_node = groups.into_iter().flat_map(|RejectedNodes { status, nodes }| {
        nodes.iter().map(|node| (name(call, node), status.clone())).collect::<Vec<_>>()
    });
    Ok(by_node.collect())
}

/// Checks that `node_to_status` gives a reason for exactly the rejected nodes.
fn covers(call: &Call<'_>, groups: &[RejectedNodes], rejected: &NodeSet) -> Result<(), Status> {
    let with_status: NodeSet = groups.iter().flat_map(|group| group.nodes.iter()).collect();
    let missing = rejected.iter().find(|node| !with_status.contains(*node));
    let extra = with_status.iter().find(|node| !rejected.contains(*node));
    match (missing, extra) {
        (Some(node), _) => Err(Status::error(format!("node-to-status has no reason for {}", name(call, node)))),
        (None, Some(node)) => {
            Err(Status::error(format!("node-to-status has a reason for {}, which passed", name(call, node))))
        }
        (None, None) => Ok(()),
    }
}

/// Checks that a dry run without any change of pods gives the same answers as Filter.
fn agrees_with_dry_run(
    plugin: &mut dyn Plugin,
    call: &Call<'_>,
    passed: &NodeSet,
    groups: &[RejectedNodes],
) -> Result<(), Status> {
    let Some(point) = plugin.filter() else { return Ok(()) };
    let with_status =
        groups.iter().flat_map(|group| group.nodes.iter().map(|node| (node, group.status.clone())).collect::<Vec<_>>());
    let expected: Vec<(NodeIdx, Status)> =
        passed.iter().map(|node| (node, Status::success())).chain(with_status).collect();
    let cases: Vec<DryRunCase> =
        expected.iter().map(|(node, _)| DryRunCase { node: *node, ..DryRunCase::default() }).collect();
    for ((node, expected), tried) in expected.into_iter().zip(point.dry_run(call, &[], &cases)?) {
        if tried != expected {
            let node = name(call, node);
            return Err(Status::error(format!("dry-run of {node} says {tried:?} where filter says {expected:?}")));
        }
    }
    Ok(())
}

/// Calls PreScore, Score and Normalize for `nodes`; `None` if PreScore skips.
///
/// # Errors
/// The plugin fails.
pub fn score(plugin: &mut dyn Plugin, call: &Call<'_>, nodes: &NodeSet) -> Result<Option<Scores>, Status> {
    match plugin.pre_score().map(|point| point.pre_score(call, nodes)) {
        Some(Err(status)) if status == Status::skip() => return Ok(None),
        Some(Err(status)) => return Err(status),
        Some(Ok(())) | None => {}
    }
    let mut raw = Vec::new();
    let mut common = None;
    if let Some(point) = plugin.score() {
        point.score(call, nodes, &mut raw)?;
        common = point.common_score(call, nodes);
    }
    let mut normalized = raw.clone();
    if let Some(point) = plugin.normalize() {
        point.normalize(call, nodes, &mut normalized)?;
    }
    let scores = Scores { raw, normalized };
    if let Some(common) = common {
        agrees_with_common_score(plugin, call, nodes, &scores, common)?;
    }
    Ok(Some(scores))
}

/// Checks that Score gives all nodes the common score, and that Normalize gives the same result for a single node.
fn agrees_with_common_score(
    plugin: &mut dyn Plugin,
    call: &Call<'_>,
    nodes: &NodeSet,
    scores: &Scores,
    common: i64,
) -> Result<(), Status> {
    let mut normalized = [common];
    if let Some(point) = plugin.normalize() {
        point.normalize(call, &nodes.iter().take(1).collect(), &mut normalized)?;
    }
    let agrees = |scores: &[i64], common: i64| scores.iter().all(|score| *score == common);
    if agrees(&scores.raw, common) && agrees(&scores.normalized, normalized[0]) {
        return Ok(());
    }
    Err(Status::error(format!("common-score says {common} where score and normalize say {scores:?}")))
}

fn name(call: &Call<'_>, node: NodeIdx) -> String {
    call.table.symbols.text(call.table.name(node)).to_owned()
}
