//! The extenders in a cycle. Extenders filter the nodes that Filter plugins left, and add to the plugins' scores
//! (`findNodesThatPassExtenders` and `prioritizeNodes` in kube-scheduler's `pkg/scheduler/schedule_one.go`). Extenders
//! also decide which preemptions they agree to (`callExtenders` in `pkg/scheduler/framework/preemption/preemption.go`).

use std::collections::BTreeMap;

use berth_model::{NodeIdx, NodeSet};

use super::{Attempt, Rejection, score::MAX_SCORE};
use crate::{
    extender::{ExtenderError, ExtenderIdx, ExtenderVerdict, ExtenderVictims, Extenders},
    meter::code_of,
    points::{Call, Preemption},
    profile::{PluginIdx, Profile},
    status::{Code, Status},
};

/// The highest score of an extender (`MaxExtenderPriority` in `k8s.io/kube-scheduler/extender/v1`).
const MAX_EXTENDER_SCORE: i64 = 10;

/// Whether an extender has a filter verb.
pub(super) fn filters(extenders: Option<&dyn Extenders>) -> bool {
    extenders.is_some_and(|extenders| extenders.list().iter().any(|extender| extender.filters))
}

/// Whether an extender scores nodes.
pub(super) fn scores(extenders: Option<&dyn Extenders>) -> bool {
    extenders.is_some_and(|extenders| extenders.list().iter().any(|extender| extender.weight.is_some()))
}

/// Sends the nodes that the Filter plugins left through the extenders, one extender after the other.
///
/// # Errors
/// An extender that is not ignorable failed; the attempt fails with this status.
pub(super) fn filter_by_extenders(
    profile: &mut Profile,
    extenders: Option<&dyn Extenders>,
    call: &Call<'_>,
    attempt: &mut Attempt,
) -> Result<(), Status> {
    let Some(extenders) = extenders else { return Ok(()) };
    let start = profile.meter().start_step(call.cycle);
    let result = filter_by_each(extenders, call, attempt);
    profile.meter().end_step(&start, "ExtenderFilter", code_of(&result));
    result
}

fn filter_by_each(extenders: &dyn Extenders, call: &Call<'_>, attempt: &mut Attempt) -> Result<(), Status> {
    for (index, profile) in extenders.list().iter().enumerate() {
        if attempt.findings.feasible_order.is_empty() {
            break;
        }
        let extender = ExtenderIdx(index);
        if !profile.filters || !extenders.is_interested(extender, call.pod) {
            continue;
        }
        match extenders.filter(extender, call, &attempt.findings.feasible_order) {
            Ok(verdict) => apply(call, &verdict, attempt),
            Err(_) if profile.is_ignorable => {}
            Err(error) => return Err(Status::error(error.to_string())),
        }
    }
    Ok(())
}

fn apply(call: &Call<'_>, verdict: &ExtenderVerdict, attempt: &mut Attempt) {
    let find = |name: &String| call.table.symbols.lookup(name).and_then(|name| call.table.find(name));
    let mut passed: NodeSet = verdict.passed.iter().filter_map(find).collect();
    passed.intersect(&attempt.findings.feasible);
    attempt.findings.has_extender_removed |= passed.len() < attempt.findings.feasible.len();
    let mut statuses: BTreeMap<NodeIdx, Status> = BTreeMap::new();
    let named = |nodes: &[(String, String)], reject: fn(String) -> Status| {
        let known = nodes.iter().filter_map(|(name, reason)| Some((find(name)?, reject(reason.clone()))));
        known.collect::<Vec<_>>()
    };
    statuses.extend(named(&verdict.failed, Status::unschedulable));
    statuses.extend(named(&verdict.unresolvable, Status::unresolvable));
    for (node, status) in statuses {
        if attempt.findings.feasible.contains(node) && !passed.contains(node) {
            let (plugin, nodes) = (PluginIdx::NOBODY, NodeSet::from_iter([node]));
            attempt.findings.rejected_by_extenders.push(Rejection { plugin, status, nodes });
        }
    }
    attempt.findings.feasible_order.retain(|node| passed.contains(*node));
    attempt.findings.feasible = passed;
}

/// Sends preemptions through the extenders that take part in preemption, one extender after the other.
///
/// # Errors
/// An extender that is not ignorable failed, or named a node without victims.
pub(super) fn preempt_by_extenders(
    extenders: Option<&dyn Extenders>,
    call: &Call<'_>,
    mut preemptions: Vec<Preemption>,
) -> Result<Vec<Preemption>, Status> {
    let Some(extenders) = extenders else { return Ok(preemptions) };
    for (index, profile) in extenders.list().iter().enumerate() {
        if preemptions.is_empty() {
            break;
        }
        let extender = ExtenderIdx(index);
        if !profile.preempts || !extenders.is_interested(extender, call.pod) {
            continue;
        }
        let answer = extenders.preempt(extender, call, &preemptions);
        let answer = answer.and_then(|answer| {
            answer.into_iter().map(|victims| find_victims(call, &profile.name, victims)).collect::<Result<Vec<_>, _>>()
        });
        let mut agreed = match answer {
            Ok(agreed) => agreed,
            Err(_) if profile.is_ignorable => continue,
            Err(error) => return Err(Status::error(error.to_string())),
        };
        if let Some(empty) = agreed.iter().find(|preemption| preemption.victims.is_empty())
            && !profile.is_ignorable
        {
            let name = call.table.symbols.text(call.table.name(empty.node));
            return Err(Status::error(format!("expected at least one victim pod on node {name:?}")));
        }
        agreed.retain(|preemption| !preemption.victims.is_empty());
        preemptions = agreed;
    }
    Ok(preemptions)
}

/// Finds the node and the slots of the victims that an extender named.
fn find_victims(call: &Call<'_>, extender: &str, named: ExtenderVictims) -> Result<Preemption, ExtenderError> {
    let ExtenderVictims { node: name, uids, n_violations } = named;
    let node = call.table.symbols.lookup(&name).and_then(|name| call.table.find(name));
    let node = node.ok_or_else(|| ExtenderError::new(format!("nodeinfo not found for node name {name:?}")))?;
    let find = |uid: String| {
        let found = call.table.pods().on(node).find(|(_, pod)| *pod.uid == *uid);
        found.map(|(idx, _)| idx).ok_or_else(|| {
            let claim = format!("claims to preempt pod (UID: &{{{uid}}}) on node: {name}");
            ExtenderError::new(format!("extender: {extender} {claim}, but the pod is not found on that node"))
        })
    };
    let victims = uids.into_iter().map(find).collect::<Result<Vec<_>, _>>()?;
    Ok(Preemption { node, victims, n_violations })
}

/// Adds the scores of the extenders that are interested in the pod to [`Findings::totals`](super::Findings::totals).
pub(super) fn add_extender_scores(
    profile: &mut Profile,
    extenders: Option<&dyn Extenders>,
    call: &Call<'_>,
    attempt: &mut Attempt,
) {
    let Some(extenders) = extenders else { return };
    let start = profile.meter().start_step(call.cycle);
    add_scores(extenders, call, attempt);
    profile.meter().end_step(&start, "ExtenderPrioritize", Code::Success);
}

fn add_scores(extenders: &dyn Extenders, call: &Call<'_>, attempt: &mut Attempt) {
    let list = extenders.list();
    let scoring = (0..list.len()).map(ExtenderIdx).filter(|extender| weight(extenders, *extender) > 0);
    let asked: Vec<ExtenderIdx> = scoring.filter(|extender| extenders.is_interested(*extender, call.pod)).collect();
    if asked.is_empty() {
        return;
    }
    let mut sums: BTreeMap<NodeIdx, i64> = BTreeMap::new();
    for (extender, scores) in extenders.prioritize(&asked, call, &attempt.findings.feasible_order) {
        for (name, score) in scores {
            let node = call.table.symbols.lookup(&name).and_then(|name| call.table.find(name));
            let Some(node) = node else { continue };
            let sum = sums.entry(node).or_default();
            *sum = sum.saturating_add(score.saturating_mul(weight(extenders, extender)));
        }
    }
    for (node, total) in attempt.findings.feasible.iter().zip(&mut attempt.findings.totals) {
        let sum = sums.get(&node).copied().unwrap_or(0);
        *total = total.saturating_add(sum.saturating_mul(MAX_SCORE / MAX_EXTENDER_SCORE));
    }
}

fn weight(extenders: &dyn Extenders, extender: ExtenderIdx) -> i64 {
    extenders.list().get(extender.0).and_then(|profile| profile.weight).unwrap_or(0)
}
