//! PreScore, Score, Normalize and weights: columns of scores, summed.

use berth_model::NodeSet;

use super::{Attempt, Refusal};
use crate::{
    meter::code_of,
    plugin::Point,
    points::{Call, PreScore, Score},
    profile::{PluginIdx, Profile},
    status::{Code, Status},
};

/// The highest score a plugin may give after normalising.
pub(super) const MAX_SCORE: i64 = 100;

/// One plugin's scores for the feasible nodes in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginScores {
    /// Which plugin.
    pub plugin: PluginIdx,
    /// By which the normalized scores are multiplied.
    pub weight: i64,
    /// As Score gave them.
    pub raw: Vec<i64>,
    /// What NormalizeScore made of them; equal to `raw` for a plugin without it.
    pub normalized: Vec<i64>,
}

/// Scores [`Attempt::feasible`] into [`Attempt::totals`]. A profile without Score plugins gives every node 1.
///
/// # Errors
/// A plugin broke or gave impossible scores; the attempt fails with this status.
pub fn score(profile: &mut Profile, call: &Call<'_>, attempt: &mut Attempt) -> Result<(), Status> {
    let nodes = std::mem::take(&mut attempt.feasible);
    let result = score_nodes(profile, call, &nodes, attempt);
    attempt.feasible = nodes;
    result
}

fn score_nodes(profile: &mut Profile, call: &Call<'_>, nodes: &NodeSet, attempt: &mut Attempt) -> Result<(), Status> {
    let n_nodes = nodes.len();
    attempt.clear_scores();
    if profile.plugins.at(Point::Score).is_empty() {
        attempt.totals.resize(n_nodes, 1);
        return Ok(());
    }
    attempt.totals.resize(n_nodes, 0);
    let start = profile.meter().start(call.cycle);
    let prepared = pre_score(profile, call, nodes, attempt);
    profile.meter().end(start, Point::PreScore.as_str(), code_of(&prepared));
    prepared?;
    let start = profile.meter().start(call.cycle);
    let scored = score_and_weigh(profile, call, nodes, attempt);
    profile.meter().end(start, Point::Score.as_str(), code_of(&scored));
    scored
}

fn score_and_weigh(
    profile: &mut Profile,
    call: &Call<'_>,
    nodes: &NodeSet,
    attempt: &mut Attempt,
) -> Result<(), Status> {
    let n_nodes = nodes.len();
    let mut plugins = profile.each::<dyn Score>();
    while let Some((plugin, point)) = plugins.next_but(profile, |plugin| attempt.skipped_scores.contains(plugin)) {
        let scores = next_scores(attempt, plugin);
        let answer = point.score(call, nodes, &mut scores.raw);
        profile.meter().answered(plugin, Point::Score, code_of(&answer));
        profile.meter().asked(plugin, Point::Score, n_nodes);
        scores.weight = profile.plugins.weight(plugin);
        check_scores(profile, plugin, &scores.raw, answer, n_nodes)?;
    }
    for position in 0..attempt.n_scored {
        let Some(scores) = attempt.scores.get_mut(position) else { break };
        normalize_plugin(profile, call, nodes, scores)?;
        for (total, score) in attempt.totals.iter_mut().zip(&scores.normalized) {
            *total += score * scores.weight;
        }
    }
    Ok(())
}

pub(super) fn pre_score(
    profile: &mut Profile,
    call: &Call<'_>,
    nodes: &NodeSet,
    attempt: &mut Attempt,
) -> Result<(), Status> {
    let mut plugins = profile.each::<dyn PreScore>();
    while let Some((plugin, point)) = plugins.next(profile) {
        let answer = point.pre_score(call, nodes);
        profile.meter().answered(plugin, Point::PreScore, code_of(&answer));
        if code_of(&answer) != Code::Skip {
            profile.meter().asked(plugin, Point::PreScore, 1);
        }
        match answer {
            Ok(()) => {}
            Err(status) if status.code == Code::Skip => attempt.skipped_scores.insert(plugin),
            Err(status) => {
                let refusal = Refusal::new(profile, plugin, Status::error(status.message()), "PreScore");
                return Err(refusal.status);
            }
        }
    }
    Ok(())
}

/// The slot for the next plugin's scores, emptied.
pub(super) fn next_scores(attempt: &mut Attempt, plugin: PluginIdx) -> &mut PluginScores {
    let position = attempt.n_scored;
    attempt.n_scored += 1;
    if position >= attempt.scores.len() {
        attempt.scores.push(PluginScores { plugin, weight: 1, raw: Vec::new(), normalized: Vec::new() });
    }
    let scores = &mut attempt.scores[position];
    scores.plugin = plugin;
    scores.raw.clear();
    scores.normalized.clear();
    scores
}

/// A plugin must give each node a score.
pub(super) fn check_scores(
    profile: &Profile,
    plugin: PluginIdx,
    scores: &[i64],
    answer: Result<(), Status>,
    n_nodes: usize,
) -> Result<(), Status> {
    let text = match answer {
        Ok(()) if scores.len() == n_nodes => return Ok(()),
        Ok(()) => format!("{} scores for {n_nodes} nodes", scores.len()),
        Err(status) => status.message(),
    };
    let name = profile.name(plugin);
    Err(Status::error(format!("running Score plugins: plugin \"{name}\" failed with: {text}")))
}

pub(super) fn normalize_plugin(
    profile: &mut Profile,
    call: &Call<'_>,
    nodes: &NodeSet,
    scores: &mut PluginScores,
) -> Result<(), Status> {
    scores.normalized.extend_from_slice(&scores.raw);
    normalize_scores(profile, call, nodes, scores.plugin, &mut scores.normalized)
}

/// Brings the scores that a plugin gave for `nodes` into their range.
pub(super) fn normalize_scores(
    profile: &mut Profile,
    call: &Call<'_>,
    nodes: &NodeSet,
    plugin: PluginIdx,
    scores: &mut [i64],
) -> Result<(), Status> {
    let normalize = profile.get(plugin).and_then(|plugin| plugin.normalize());
    let answer = normalize.map(|point| point.normalize(call, nodes, scores));
    if let Some(answer) = &answer {
        profile.meter().answered(plugin, Point::Normalize, code_of(answer));
    }
    if let Some(Err(status)) = answer {
        let (name, text) = (profile.name(plugin), status.message());
        return Err(Status::error(format!(
            "running Normalize on Score plugins: plugin \"{name}\" failed with: {text}"
        )));
    }
    check_range(profile, plugin, scores)
}

pub(super) fn check_range(profile: &mut Profile, plugin: PluginIdx, scores: &[i64]) -> Result<(), Status> {
    let Some(score) = scores.iter().find(|score| !(0..=MAX_SCORE).contains(*score)) else { return Ok(()) };
    let name = std::sync::Arc::clone(profile.name(plugin));
    if let Some(plugin) = profile.get(plugin) {
        plugin.answered_badly(&format!("a score of {score}"));
    }
    Err(Status::error(format!(
        "applying score defaultWeights on Score plugins: plugin \"{name}\" returns an invalid score {score}, it should in \
         the range of [0, {MAX_SCORE}] after normalizing"
    )))
}
