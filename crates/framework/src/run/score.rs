//! PreScore, Score, Normalize and weights: columns of scores, and their sums.

use berth_model::NodeSet;

use super::{Attempt, Refusal, decision::CycleScores};
use crate::{
    meter::code_of,
    plugin::Point,
    points::{Call, PreScore, Score},
    profile::{PluginIdx, Profile},
    status::{Code, Status},
};

/// The highest score of a plugin after normalising.
pub const MAX_SCORE: i64 = 100;

/// Scores [`Findings::feasible`] and writes the sums into [`Findings::totals`]. A profile without Score plugins gives
/// every node 1.
///
/// # Errors
/// A plugin broke or gave impossible scores; the attempt fails with this status.
pub fn score(profile: &mut Profile, call: &Call<'_>, attempt: &mut Attempt) -> Result<(), Status> {
    let nodes = std::mem::take(&mut attempt.findings.feasible);
    let result = score_nodes(profile, call, &nodes, attempt);
    attempt.findings.feasible = nodes;
    result
}

fn score_nodes(profile: &mut Profile, call: &Call<'_>, nodes: &NodeSet, attempt: &mut Attempt) -> Result<(), Status> {
    let n_nodes = nodes.len();
    attempt.findings.clear_scores();
    if profile.plugins.at(Point::Score).is_empty() {
        attempt.findings.totals.resize(n_nodes, 1);
        return Ok(());
    }
    attempt.findings.totals.resize(n_nodes, 0);
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
    while let Some((plugin, point)) =
        plugins.next_but(profile, |plugin| attempt.findings.skipped_scores.contains(plugin))
    {
        let scores = next_scores(attempt, plugin, n_nodes);
        let answer = scores.ask(point, call, nodes);
        scores.weight = profile.plugins.weight(plugin);
        scores.check(profile, answer)?;
    }
    add_up(profile, call, nodes, attempt)
}

/// Adds the scores that plugins gave to the totals, normalised and weighted.
pub(super) fn add_up(
    profile: &mut Profile,
    call: &Call<'_>,
    nodes: &NodeSet,
    attempt: &mut Attempt,
) -> Result<(), Status> {
    let one = &mut attempt.batch;
    one.clear();
    nodes.iter().take(1).for_each(|node| one.insert(node));
    let mut common = 0;
    for scores in attempt.findings.scores.iter_mut().take(attempt.findings.n_scored) {
        let CycleScores { plugin, weight, is_common, .. } = *scores;
        let normalized = scores.normalize(profile, call, if is_common { one } else { nodes })?;
        if is_common {
            check_range(profile, plugin, call, one, normalized)?;
            common += normalized.first().copied().unwrap_or(0) * weight;
        } else {
            if is_any_out_of_range(normalized) {
                return check_range(profile, plugin, call, nodes, normalized);
            }
            add_weighted(normalized, weight, &mut attempt.findings.totals);
        }
    }
    add_to_all(common, &mut attempt.findings.totals);
    Ok(())
}

impl CycleScores {
    /// Asks the plugin about `nodes`.
    pub(super) fn ask<P: Score + ?Sized>(
        &mut self,
        point: &mut P,
        call: &Call<'_>,
        nodes: &NodeSet,
    ) -> Result<(), Status> {
        let Some(score) = point.common_score(call, nodes) else { return point.score(call, nodes, &mut self.raw) };
        self.is_common = true;
        self.raw.push(score);
        Ok(())
    }

    /// Notes that the plugin was asked, and checks that it gave each node a score.
    pub(super) fn check(&mut self, profile: &mut Profile, answer: Result<(), Status>) -> Result<(), Status> {
        profile.meter().answered(self.plugin, Point::Score, code_of(&answer));
        profile.meter().asked(self.plugin, Point::Score, self.n_nodes);
        if self.is_common { Ok(()) } else { check_scores(profile, self.plugin, &self.raw, answer, self.n_nodes) }
    }

    /// Lets the plugin normalise its scores for `nodes`. If all nodes have the same score, `nodes` contains one of
    /// them.
    fn normalize(&mut self, profile: &mut Profile, call: &Call<'_>, nodes: &NodeSet) -> Result<&[i64], Status> {
        if profile.get(self.plugin).is_none_or(|plugin| plugin.normalize().is_none()) {
            return Ok(&self.raw);
        }
        self.normalized.extend_from_slice(&self.raw);
        normalize_scores(profile, call, nodes, self.plugin, &mut self.normalized)?;
        Ok(&self.normalized)
    }
}

/// Adds one number to all totals.
fn add_to_all(number: i64, totals: &mut [i64]) {
    if number != 0 {
        totals.iter_mut().for_each(|total| *total += number);
    }
}

fn is_any_out_of_range(scores: &[i64]) -> bool {
    // The sign bit is set if a score is below 0 or above MAX_SCORE.
    scores.iter().fold(0, |bits, score| bits | score | MAX_SCORE.wrapping_sub(*score)) < 0
}

/// Adds normalised scores, which are in the range, to the totals.
fn add_weighted(scores: &[i64], weight: i64, totals: &mut [i64]) {
    if let Ok(weight) = u32::try_from(weight).map(i64::from) {
        // Processors can multiply several 32-bit numbers at a time.
        totals.iter_mut().zip(scores).for_each(|(total, score)| *total += (score & i64::from(u32::MAX)) * weight);
    } else {
        totals.iter_mut().zip(scores).for_each(|(total, score)| *total += score * weight);
    }
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
            Err(status) if status.code == Code::Skip => attempt.findings.skipped_scores.insert(plugin),
            Err(status) => {
                let refusal = Refusal::new(profile, plugin, Status::error(status.message()), "PreScore");
                return Err(refusal.status);
            }
        }
    }
    Ok(())
}

/// An empty slot for the next plugin's scores.
pub(super) fn next_scores(attempt: &mut Attempt, plugin: PluginIdx, n_nodes: usize) -> &mut CycleScores {
    let findings = &mut attempt.findings;
    let position = findings.n_scored;
    findings.n_scored += 1;
    if position >= findings.scores.len() {
        findings.scores.push(CycleScores {
            plugin,
            weight: 1,
            n_nodes,
            is_common: false,
            raw: Vec::new(),
            normalized: Vec::new(),
        });
    }
    let scores = &mut findings.scores[position];
    (scores.plugin, scores.n_nodes, scores.is_common) = (plugin, n_nodes, false);
    scores.raw.clear();
    scores.normalized.clear();
    scores
}

/// Checks that a plugin gave each node a score.
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

/// Lets the plugin normalise the scores that it gave for `nodes`, if it has NormalizeScore.
fn normalize_scores(
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
    Ok(())
}

/// Checks the scores of these nodes.
///
/// # Errors
/// A score is out of range, which is a fault of the plugin.
pub(super) fn check_range(
    profile: &mut Profile,
    plugin: PluginIdx,
    call: &Call<'_>,
    nodes: &NodeSet,
    scores: &[i64],
) -> Result<(), Status> {
    let mut scored = nodes.iter().zip(scores);
    let Some((node, score)) = scored.find(|(_, score)| !(0..=MAX_SCORE).contains(*score)) else { return Ok(()) };
    let name = std::sync::Arc::clone(profile.name(plugin));
    if let Some(plugin) = profile.get(plugin) {
        let point = if plugin.normalize().is_some() { Point::Normalize } else { Point::Score };
        let (node, point) = (call.table.symbols.text(call.table.name(node)), point.shown());
        plugin.answered_badly(&format!(
            "a score of {score} for node {node} at {point}, and scores are from 0 to {MAX_SCORE}"
        ));
    }
    Err(Status::error(format!(
        "applying score defaultWeights on Score plugins: plugin \"{name}\" returns an invalid score {score}, it should in \
         the range of [0, {MAX_SCORE}] after normalizing"
    )))
}
