//! Filter and Score with kept answers. The verdicts and sums are the same as without kept answers, but plugins are
//! asked fewer questions.

use std::sync::Arc;

use berth_model::{NodeIdx, NodeSet};

use super::{ClassAnswers, Reused};
use crate::{
    meter::code_of,
    plugin::Point,
    points::{Call, Filter, Score},
    profile::{PluginIdx, Profile},
    run::{
        Attempt, Findings, PluginBits, SearchRange,
        filter::{Stretch, broken, stretches},
        score::{add_up, check_range, check_scores, next_scores, pre_score},
        score_column::{ScoreColumn, append_rows, at, put},
    },
    status::{Code, Status},
};

/// The maximum number of verdicts that are renewed before the cycle knows whether it needs them.
const MAX_CHECKED_AHEAD: usize = 16;

impl ClassAnswers {
    /// Visits the nodes of a range of `order`.
    ///
    /// # Errors
    /// A plugin broke; the attempt fails with this status.
    pub(in crate::run) fn filter(
        &mut self,
        profile: &mut Profile,
        call: &Call<'_>,
        order: &[NodeIdx],
        range: SearchRange,
        attempt: &mut Attempt,
    ) -> Result<(), Status> {
        let step = profile.meter().start_step(call.cycle);
        attempt.findings.begin_search(range);
        let changed = self.catch_up(call.table);
        self.plan_filters(profile, call, &attempt.findings.skipped_filters);
        self.scratch.n_asked_anew = 0;
        profile.meter().end_step(&step, "ReuseAnswers", Code::Success);
        let start_of_point = profile.meter().start(call.cycle);
        let result =
            self.check_few(profile, call, changed).and_then(|()| self.visit(profile, call, order, range, attempt));
        profile.meter().end(start_of_point, Point::Filter.as_str(), code_of(&result));
        let earlier = &mut attempt.findings.earlier;
        self.filters.iter().for_each(|reused| earlier.filters.insert(reused.plugin));
        earlier.n_filtered = self.scratch.n_asked_anew;
        earlier.kept = Some(Arc::clone(&self.kept));
        if result.is_err() {
            self.clear();
        }
        result
    }

    fn visit(
        &mut self,
        profile: &mut Profile,
        call: &Call<'_>,
        order: &[NodeIdx],
        range: SearchRange,
        attempt: &mut Attempt,
    ) -> Result<(), Status> {
        let is_known = call.table.nodes().is_subset(&self.checked);
        for stretch in stretches(order, range) {
            if attempt.findings.feasible_order.len() >= range.n_wanted {
                break;
            }
            if !is_known {
                self.check(profile, call, stretch)?;
            }
            if self.scratch.asked.is_empty() && !stretch.is_whole(call.table) {
                attempt.findings.take_passing(stretch, &self.passing, range.n_wanted);
                continue;
            }
            let mut batch = std::mem::take(&mut self.scratch.batch);
            stretch.collect_into(call.table, &mut batch);
            batch.intersect(&self.passing);
            let asked = self.ask(profile, call, &mut batch, &mut attempt.findings);
            if asked.is_ok() {
                attempt.findings.take(stretch, &batch, range.n_wanted);
            }
            self.scratch.batch = batch;
            asked?;
        }
        Ok(())
    }

    /// Renews the verdicts on changed rows that had a verdict, if there are only a few such rows. One comparison then
    /// shows that no verdict is missing.
    fn check_few(&mut self, profile: &mut Profile, call: &Call<'_>, n_changed: usize) -> Result<(), Status> {
        if n_changed == 0 || n_changed > MAX_CHECKED_AHEAD {
            return Ok(());
        }
        let mut batch = std::mem::take(&mut self.scratch.batch);
        batch.clear();
        batch.union(&self.scratch.changed);
        batch.intersect(call.table.nodes());
        let checked = self.check_batch(profile, call, &mut batch);
        self.scratch.batch = batch;
        checked
    }

    /// Makes sure that the verdict on every node of the stretch is known.
    fn check(&mut self, profile: &mut Profile, call: &Call<'_>, stretch: Stretch<'_>) -> Result<(), Status> {
        let mut batch = std::mem::take(&mut self.scratch.batch);
        stretch.collect_into(call.table, &mut batch);
        batch.subtract(&self.checked);
        let checked = self.check_batch(profile, call, &mut batch);
        self.scratch.batch = batch;
        checked
    }

    /// Stores the verdicts on the nodes of `batch`. Afterwards, `batch` contains only the nodes that pass.
    fn check_batch(&mut self, profile: &mut Profile, call: &Call<'_>, batch: &mut NodeSet) -> Result<(), Status> {
        if batch.is_empty() {
            return Ok(());
        }
        self.checked.union(batch);
        self.scored.subtract(batch);
        self.passing.subtract(batch);
        let mut n_left = batch.len();
        self.scratch.n_asked_anew += n_left;
        for position in 0..self.filters.len() {
            let Some(reused) = self.filters.get(position).copied() else { break };
            let n_before = n_left;
            n_left = self.narrow(profile, call, reused.plugin, batch, n_before)?;
            if n_left < n_before {
                Arc::make_mut(&mut self.kept).remove(position, &self.scratch.removed);
            }
        }
        self.passing.union(batch);
        Ok(())
    }

    /// Asks the plugins whose answers are not kept.
    fn ask(
        &mut self,
        profile: &mut Profile,
        call: &Call<'_>,
        batch: &mut NodeSet,
        findings: &mut Findings,
    ) -> Result<(), Status> {
        if self.scratch.asked.is_empty() {
            return Ok(());
        }
        let mut n_left = batch.len();
        for position in 0..profile.plugins.at(Point::Filter).len() {
            let Some(&plugin) = profile.plugins.at(Point::Filter).get(position) else { break };
            if self.scratch.asked.contains(plugin) {
                let n_before = n_left;
                n_left = self.narrow(profile, call, plugin, batch, n_before)?;
                if n_left < n_before {
                    findings.enter_removed(plugin, &self.scratch.removed);
                }
            }
        }
        Ok(())
    }

    /// Asks one plugin which nodes of the batch pass, removes all other nodes from the batch, and returns the number of
    /// nodes that are left. `n_nodes` is the number before the call. If nodes were removed, `scratch.removed` contains
    /// them.
    fn narrow(
        &mut self,
        profile: &mut Profile,
        call: &Call<'_>,
        plugin: PluginIdx,
        batch: &mut NodeSet,
        n_nodes: usize,
    ) -> Result<usize, Status> {
        if n_nodes == 0 {
            return Ok(0);
        }
        let before = &mut self.scratch.removed;
        before.copy_from(batch);
        let Some(point) = profile.get(plugin).and_then(|it| it.filter()) else { return Ok(n_nodes) };
        let answer = Filter::filter(point, call, batch);
        profile.meter().answered(plugin, Point::Filter, code_of(&answer));
        profile.meter().asked(plugin, Point::Filter, n_nodes);
        answer.map_err(|status| broken(profile, plugin, &status))?;
        if batch == before {
            return Ok(n_nodes);
        }
        batch.intersect(before);
        before.subtract(batch);
        Ok(batch.len())
    }

    /// Scores the nodes that [`Self::filter`] found, into the totals of the findings.
    ///
    /// # Errors
    /// A plugin broke or gave impossible scores; the attempt fails with this status.
    pub(in crate::run) fn score(
        &mut self,
        profile: &mut Profile,
        call: &Call<'_>,
        attempt: &mut Attempt,
    ) -> Result<(), Status> {
        let nodes = std::mem::take(&mut attempt.findings.feasible);
        let result = self.score_nodes(profile, call, &nodes, attempt);
        attempt.findings.feasible = nodes;
        if result.is_err() {
            self.clear();
        }
        result
    }

    fn score_nodes(
        &mut self,
        profile: &mut Profile,
        call: &Call<'_>,
        nodes: &NodeSet,
        attempt: &mut Attempt,
    ) -> Result<(), Status> {
        attempt.findings.clear_scores();
        // If this cycle held the answers too, a change of one answer would copy all of them.
        attempt.findings.earlier.kept = None;
        let start = profile.meter().start(call.cycle);
        let prepared = pre_score(profile, call, nodes, attempt);
        profile.meter().end(start, Point::PreScore.as_str(), code_of(&prepared));
        prepared?;
        let start = profile.meter().start(call.cycle);
        self.plan_scores(profile, call, &attempt.findings.skipped_scores);
        self.scratch.n_asked_anew = 0;
        let scored = self.add_up(profile, call, nodes, attempt);
        let earlier = &mut attempt.findings.earlier;
        self.scores.iter().for_each(|reused| earlier.scores.insert(reused.plugin));
        earlier.n_scored = self.scratch.n_asked_anew;
        earlier.kept = Some(Arc::clone(&self.kept));
        profile.meter().end(start, Point::Score.as_str(), code_of(&scored));
        scored
    }

    fn add_up(
        &mut self,
        profile: &mut Profile,
        call: &Call<'_>,
        nodes: &NodeSet,
        attempt: &mut Attempt,
    ) -> Result<(), Status> {
        self.score_new(profile, call, nodes)?;
        append_rows(&self.sums, nodes, &mut attempt.findings.totals);
        let mut normalized = self.scores.iter().filter(|it| it.normalizes).zip(&self.raw).peekable();
        for position in 0..profile.plugins.at(Point::Score).len() {
            let Some(&plugin) = profile.plugins.at(Point::Score).get(position) else { break };
            if self.scratch.asked.contains(plugin) {
                ask_score(profile, call, nodes, plugin, attempt)?;
            } else if let Some((reused, column)) = normalized.next_if(|(reused, _)| reused.plugin == plugin) {
                take_raw(reused, column, nodes, attempt);
            }
        }
        add_up(profile, call, nodes, attempt)?;
        enter_zeros(profile, &self.scratch.unconcerned, attempt);
        Ok(())
    }

    /// Makes sure that the scores of every node are known.
    fn score_new(&mut self, profile: &mut Profile, call: &Call<'_>, nodes: &NodeSet) -> Result<(), Status> {
        let Self { scratch, scored, scores, sums, raw, kept, .. } = self;
        let batch = &mut scratch.batch;
        batch.clear();
        batch.union(nodes);
        batch.subtract(scored);
        let n_new = batch.len();
        scratch.n_asked_anew += n_new;
        if n_new == 0 {
            return Ok(());
        }
        batch.iter().for_each(|row| put(sums, row, 0));
        let n_rows = nodes.words().len() * 64;
        let (mut raw, mut kept) = (raw.iter_mut(), Arc::make_mut(kept).scores_mut());
        for reused in scores.iter() {
            let buffer = &mut scratch.scores;
            buffer.clear();
            let Some(point) = profile.get(reused.plugin).and_then(|it| it.score()) else { continue };
            let answer = Score::score(point, call, batch, buffer);
            profile.meter().answered(reused.plugin, Point::Score, code_of(&answer));
            profile.meter().asked(reused.plugin, Point::Score, n_new);
            check_scores(profile, reused.plugin, buffer, answer, n_new)?;
            if reused.normalizes {
                let Some(column) = raw.next() else { continue };
                batch.iter().zip(buffer.iter()).for_each(|(row, score)| column.put(row, *score, n_rows));
            } else {
                check_range(profile, reused.plugin, call, batch, buffer)?;
                let Some(column) = kept.next() else { continue };
                for (row, score) in batch.iter().zip(buffer.iter()) {
                    let sum = at(sums, row) + score * reused.weight;
                    put(sums, row, sum);
                    column.put(row, u8::try_from(*score).unwrap_or(u8::MAX), n_rows);
                }
            }
        }
        scored.union(batch);
        Ok(())
    }
}

/// Copies kept raw scores into this cycle, which normalises them. If a plugin gave all nodes the same score, this score
/// is added to all totals.
fn take_raw(reused: &Reused, column: &ScoreColumn<i64>, nodes: &NodeSet, attempt: &mut Attempt) {
    let n_nodes = attempt.findings.totals.len();
    let scores = next_scores(attempt, reused.plugin, n_nodes);
    scores.weight = reused.weight;
    match column {
        // The index is always valid, because every node that passed was scored.
        ScoreColumn::Empty => {}
        ScoreColumn::Same(score) => {
            scores.is_common = true;
            scores.raw.push(*score);
        }
        ScoreColumn::ByRow(column) => append_rows(column, nodes, &mut scores.raw),
    }
}

/// Enters the scores of plugins that have nothing to do for the pod. These scores are 0 for every node. They are
/// entered after the totals, because these plugins are not asked to normalise.
fn enter_zeros(profile: &Profile, unconcerned: &PluginBits, attempt: &mut Attempt) {
    let n_nodes = attempt.findings.totals.len();
    for plugin in unconcerned.iter() {
        let scores = next_scores(attempt, plugin, n_nodes);
        scores.weight = profile.plugins.weight(plugin);
        scores.is_common = true;
        scores.raw.push(0);
    }
}

/// Asks one plugin for its scores of this cycle.
fn ask_score(
    profile: &mut Profile,
    call: &Call<'_>,
    nodes: &NodeSet,
    plugin: PluginIdx,
    attempt: &mut Attempt,
) -> Result<(), Status> {
    let n_nodes = attempt.findings.totals.len();
    let weight = profile.plugins.weight(plugin);
    let Some(point) = profile.get(plugin).and_then(|it| it.score()) else { return Ok(()) };
    let scores = next_scores(attempt, plugin, n_nodes);
    let answer = scores.ask(point, call, nodes);
    scores.weight = weight;
    scores.check(profile, answer)
}
