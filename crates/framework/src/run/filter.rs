//! Filter: runs the plugins, one after the other, over chunks of candidates until enough nodes are found.
//!
//! A node to which pods of at least the same priority are nominated must pass twice: with these pods, by dry run, and
//! without these pods. The plugins give the reasons for rejected nodes only afterwards, when [`diagnose`] asks for
//! them.

use berth_model::{ClusterTable, NodeIdx, NodeSet};

use super::{Attempt, Diagnosis, Findings, NominatedPods, Rejection, SearchRange};
use crate::{
    meter::code_of,
    plugin::Point,
    points::{Call, DryRunCase, Filter, RejectedNodes},
    profile::{PluginIdx, PluginsAt, Profile},
    status::Status,
};

/// The size of the smallest chunk. Smaller chunks cost more in calls than they save in nodes.
const MIN_CHUNK: usize = 64;

/// Fills [`Attempt::candidates`]: all nodes of `order`, or the nodes that PreFilter left.
pub fn list_candidates(call: &Call<'_>, order: &[NodeIdx], attempt: &mut Attempt) {
    attempt.candidates.clear();
    match &attempt.findings.restriction {
        None => attempt.candidates.extend_from_slice(order),
        Some(restriction) => {
            let find = |name: &String| call.table.symbols.lookup(name).and_then(|name| call.table.find(name));
            let allowed: NodeSet = restriction.names.iter().filter_map(find).collect();
            attempt.candidates.extend(order.iter().copied().filter(|&node| allowed.contains(node)));
        }
    }
}

/// Visits the candidates of a range.
///
/// # Errors
/// A plugin broke; the attempt fails with this status.
pub fn filter(
    profile: &mut Profile,
    call: &Call<'_>,
    range: SearchRange,
    nominated: &NominatedPods<'_>,
    attempt: &mut Attempt,
) -> Result<(), Status> {
    attempt.findings.begin_search(range);
    let candidates = std::mem::take(&mut attempt.candidates);
    let result = visit(profile, call, &candidates, range, nominated, attempt);
    attempt.candidates = candidates;
    result
}

/// Filters one node alone.
///
/// # Errors
/// Fails as [`filter`] does.
pub fn filter_one(
    profile: &mut Profile,
    call: &Call<'_>,
    node: NodeIdx,
    nominated: &NominatedPods<'_>,
    attempt: &mut Attempt,
) -> Result<(), Status> {
    attempt.findings.clear_verdicts();
    visit(profile, call, &[node], SearchRange { start: 0, n_wanted: 1 }, nominated, attempt)
}

fn visit(
    profile: &mut Profile,
    call: &Call<'_>,
    candidates: &[NodeIdx],
    range: SearchRange,
    nominated: &NominatedPods<'_>,
    attempt: &mut Attempt,
) -> Result<(), Status> {
    let start_of_point = profile.meter().start(call.cycle);
    let result = visit_chunks(profile, call, candidates, range, nominated, attempt);
    profile.meter().end(start_of_point, Point::Filter.as_str(), code_of(&result));
    result
}

fn visit_chunks(
    profile: &mut Profile,
    call: &Call<'_>,
    candidates: &[NodeIdx],
    range: SearchRange,
    nominated: &NominatedPods<'_>,
    attempt: &mut Attempt,
) -> Result<(), Status> {
    for stretch in stretches(candidates, range) {
        if attempt.findings.feasible_order.len() >= range.n_wanted {
            break;
        }
        let mut batch = std::mem::take(&mut attempt.batch);
        stretch.collect_into(call.table, &mut batch);
        let result = filter_batch(profile, call, nominated, &mut batch, attempt);
        attempt.findings.take(stretch, &batch, range.n_wanted);
        attempt.batch = batch;
        result?;
    }
    Ok(())
}

/// Neighbouring nodes of a list. At the end of the list, the neighbours continue at the beginning of the list.
#[derive(Clone, Copy)]
pub(super) struct Stretch<'a> {
    first: &'a [NodeIdx],
    /// The part of the stretch at the beginning of the list, if the stretch goes beyond the end of the list.
    second: &'a [NodeIdx],
}

impl Stretch<'_> {
    pub(super) fn iter(&self) -> impl Iterator<Item = NodeIdx> {
        self.first.iter().chain(self.second).copied()
    }

    fn len(&self) -> usize {
        self.first.len() + self.second.len()
    }

    /// Whether the stretch contains all nodes. A list contains each node of the table at most once.
    pub(super) fn is_whole(&self, table: &ClusterTable) -> bool {
        self.len() == table.n_nodes()
    }

    /// Makes `set` the set of these nodes.
    pub(super) fn collect_into(&self, table: &ClusterTable, set: &mut NodeSet) {
        if self.is_whole(table) {
            set.copy_from(table.nodes());
            debug_assert!(self.iter().all(|node| set.contains(node)), "candidates are nodes of the table");
        } else {
            set.clear();
            self.iter().for_each(|node| set.insert(node));
        }
    }
}

/// Splits the nodes of a range into stretches that grow. The first stretch has as many nodes as are wanted.
pub(super) fn stretches(nodes: &[NodeIdx], range: SearchRange) -> impl Iterator<Item = Stretch<'_>> {
    let (before, after) = nodes.split_at(range.start.checked_rem(nodes.len()).unwrap_or(0));
    let (mut before, mut after, mut n) = (before, after, range.n_wanted.max(MIN_CHUNK));
    std::iter::from_fn(move || {
        let (first, rest) = after.split_at(n.min(after.len()));
        let (second, rest_before) = before.split_at((n - first.len()).min(before.len()));
        (after, before) = (rest, rest_before);
        n = n.saturating_mul(2);
        (!first.is_empty() || !second.is_empty()).then_some(Stretch { first, second })
    })
}

impl Findings {
    /// Adds the nodes of a stretch that are in `passed` to the feasible nodes, until there are `limit`. All members of
    /// `passed` must be in the stretch.
    pub(super) fn take(&mut self, stretch: Stretch<'_>, passed: &NodeSet, limit: usize) {
        let have_all_room = self.feasible_order.len() + stretch.len() <= limit;
        if !have_all_room || passed.len() < stretch.len() {
            return self.take_passing(stretch, passed, limit);
        }
        self.feasible.union(passed);
        self.feasible_order.extend_from_slice(stretch.first);
        self.feasible_order.extend_from_slice(stretch.second);
        self.sample.n_visited += stretch.len();
    }

    /// Adds the nodes of a stretch that are in `passing` to the feasible nodes, until there are `limit`.
    pub(super) fn take_passing(&mut self, stretch: Stretch<'_>, passing: &NodeSet, limit: usize) {
        for mut nodes in [stretch.first, stretch.second] {
            while !nodes.is_empty() && self.feasible_order.len() < limit {
                // The step visits as many nodes as are still wanted. If all of them pass, the search ends with the last
                // of them.
                let n_wanted = limit - self.feasible_order.len();
                let (visited, rest) = nodes.split_at(n_wanted.min(nodes.len()));
                visited.chunks(64).for_each(|block| self.take_block(block, passing));
                self.sample.n_visited += visited.len();
                nodes = rest;
            }
        }
    }

    /// Notes the nodes that a plugin removed.
    pub(super) fn enter_removed(&mut self, plugin: PluginIdx, nodes: &NodeSet) {
        if self.removed.len() <= plugin.index() {
            self.removed.resize_with(plugin.index() + 1, NodeSet::default);
        }
        if let Some(removed) = self.removed.get_mut(plugin.index()) {
            removed.union(nodes);
            self.has_removed = true;
        }
    }

    /// Adds the nodes of a block that are in `passing` to the feasible nodes. The block has at most 64 nodes.
    fn take_block(&mut self, block: &[NodeIdx], passing: &NodeSet) {
        let bits = passing.bits_of(block);
        self.feasible.insert_bits(block, bits);
        if bits.count_ones() as usize == block.len() {
            self.feasible_order.extend_from_slice(block);
        } else {
            let passed = block.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
            self.feasible_order.extend(passed.map(|(_, node)| *node));
        }
    }
}

fn filter_batch(
    profile: &mut Profile,
    call: &Call<'_>,
    nominated: &NominatedPods<'_>,
    batch: &mut NodeSet,
    attempt: &mut Attempt,
) -> Result<(), Status> {
    if !nominated.cases().is_empty() {
        filter_with_nominated(profile, call, nominated, batch, attempt)?;
    }
    attempt.before.copy_from(batch);
    let mut n_before = batch.len();
    let mut filters = profile.each::<dyn Filter>();
    while n_before > 0
        && let Some((plugin, point)) = next(&mut filters, profile, &attempt.findings)
    {
        let answer = point.filter(call, batch);
        profile.meter().answered(plugin, Point::Filter, code_of(&answer));
        profile.meter().asked(plugin, Point::Filter, n_before);
        if let Err(status) = answer {
            return Err(broken(profile, plugin, &status));
        }
        if *batch == attempt.before {
            continue;
        }
        batch.intersect(&attempt.before);
        attempt.before.subtract(batch);
        if !attempt.before.is_empty() {
            attempt.findings.enter_removed(plugin, &attempt.before);
        }
        attempt.before.copy_from(batch);
        n_before = batch.len();
    }
    Ok(())
}

/// The next Filter plugin that is not skipped in this cycle.
fn next<'p>(
    filters: &mut PluginsAt<dyn Filter>,
    profile: &'p mut Profile,
    findings: &Findings,
) -> Option<(PluginIdx, &'p mut dyn Filter)> {
    filters
        .next_but(profile, |plugin| findings.skipped_filters.contains(plugin))
        .map(|(plugin, point)| (plugin, point as _))
}

fn filter_with_nominated(
    profile: &mut Profile,
    call: &Call<'_>,
    nominated: &NominatedPods<'_>,
    batch: &mut NodeSet,
    attempt: &mut Attempt,
) -> Result<(), Status> {
    let mut cases: Vec<DryRunCase> =
        nominated.cases().iter().filter(|case| batch.contains(case.node)).cloned().collect();
    let mut filters = profile.each::<dyn Filter>();
    while !cases.is_empty()
        && let Some((plugin, point)) = next(&mut filters, profile, &attempt.findings)
    {
        let answer = point.dry_run(call, nominated.competing(), &cases);
        profile.meter().answered(plugin, Point::Filter, code_of(&answer));
        profile.meter().asked(plugin, Point::Filter, cases.len());
        let statuses = answer.map_err(|status| broken(profile, plugin, &status))?;
        if statuses.len() != cases.len() {
            let text = format!("{} statuses for {} cases", statuses.len(), cases.len());
            return Err(broken(profile, plugin, &Status::error(text)));
        }
        let mut kept = Vec::with_capacity(cases.len());
        for (case, status) in cases.into_iter().zip(statuses) {
            if status.is_success() {
                kept.push(case);
            } else if status.code.is_rejected() {
                batch.remove(case.node);
                let nodes = NodeSet::from_iter([case.node]);
                attempt.findings.rejected_with_nominated.push(Rejection { plugin, status, nodes });
            } else {
                return Err(broken(profile, plugin, &status));
            }
        }
        cases = kept;
    }
    Ok(())
}

pub(super) fn broken(profile: &Profile, plugin: PluginIdx, status: &Status) -> Status {
    Status::error(format!("running \"{}\" filter plugin: {}", profile.name(plugin), status.message()))
}

/// Asks the plugins why the nodes that [`filter`] removed did not pass, and writes the answers into `diagnosis`.
///
/// # Errors
/// A plugin broke; the attempt fails with this status.
pub fn diagnose(
    profile: &mut Profile,
    call: &Call<'_>,
    findings: &Findings,
    diagnosis: &mut Diagnosis,
) -> Result<(), Status> {
    let start = profile.meter().start_step(call.cycle);
    let result = ask_why(profile, call, findings, diagnosis);
    profile.meter().end_step(&start, "Diagnose", code_of(&result));
    result
}

fn ask_why(
    profile: &mut Profile,
    call: &Call<'_>,
    findings: &Findings,
    diagnosis: &mut Diagnosis,
) -> Result<(), Status> {
    diagnosis.rejections.extend_from_slice(&findings.rejected_with_nominated);
    diagnosis.rejections.extend_from_slice(&findings.rejected_by_extenders);
    diagnosis.rejected_by_extender |= findings.has_extender_removed;
    let mut filters = profile.each::<dyn Filter>();
    while let Some((plugin, point)) = next(&mut filters, profile, findings) {
        let Some(removed) = findings.removed.get(plugin.index()).filter(|removed| !removed.is_empty()) else {
            continue;
        };
        let answer = point.node_to_status(call, removed);
        profile.meter().answered_in_step(plugin, "NodeToStatus", code_of(&answer));
        let groups = answer.map_err(|status| broken(profile, plugin, &status))?;
        let mut without_status = removed.clone();
        for RejectedNodes { status, mut nodes } in groups {
            if !status.code.is_rejected() {
                return Err(broken(profile, plugin, &status));
            }
            nodes.intersect(&without_status);
            without_status.subtract(&nodes);
            diagnosis.rejections.push(Rejection { plugin, status, nodes });
        }
        if !without_status.is_empty() {
            let status = Status::unschedulable(format!("node(s) didn't pass plugin {}", profile.name(plugin)));
            diagnosis.rejections.push(Rejection { plugin, status, nodes: without_status });
        }
    }
    if let Some(restriction) = &findings.restriction {
        let names = super::pre_filter::sorted_names(profile, &restriction.plugins);
        diagnosis.absent = Some(Status::unresolvable(format!("node(s) didn't satisfy plugin(s) {names}")));
        restriction.plugins.iter().for_each(|&plugin| diagnosis.rejectors.insert(plugin));
    }
    for position in 0..diagnosis.rejections.len() {
        let Some(Rejection { plugin, status, .. }) = diagnosis.rejections.get(position) else { break };
        let (plugin, code) = (*plugin, status.code);
        diagnosis.blame(plugin, code);
    }
    Ok(())
}

/// Runs every Filter plugin that is not skipped on all of `nodes`, and returns the nodes that each plugin would reject,
/// with the reasons. This is a diagnosis beyond the first plugin that rejects a node. A plugin that fails is asked
/// about each node alone, and its errors are among the rejections.
pub fn diagnose_every_plugin(
    profile: &mut Profile,
    call: &Call<'_>,
    nodes: &NodeSet,
    findings: &Findings,
) -> Vec<Rejection> {
    let mut rejections = Vec::new();
    let mut filters = profile.each::<dyn Filter>();
    while let Some((plugin, point)) = next(&mut filters, profile, findings) {
        let groups = rejected_by(point, call, nodes).unwrap_or_else(|_| {
            let alone = nodes.iter().map(|node| NodeSet::from_iter([node]));
            let alone = alone.map(|node| {
                rejected_by(point, call, &node).unwrap_or_else(|status| vec![RejectedNodes { status, nodes: node }])
            });
            alone.flatten().collect()
        });
        rejections.extend(groups.into_iter().map(|RejectedNodes { status, nodes }| Rejection {
            plugin,
            status,
            nodes,
        }));
    }
    rejections
}

fn rejected_by(point: &mut dyn Filter, call: &Call<'_>, nodes: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
    let mut passed = nodes.clone();
    point.filter(call, &mut passed)?;
    let mut removed = nodes.clone();
    removed.subtract(&passed);
    if removed.is_empty() { Ok(Vec::new()) } else { point.node_to_status(call, &removed) }
}
