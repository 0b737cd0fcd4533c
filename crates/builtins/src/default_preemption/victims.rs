//! Who must go so that the pod fits on a node: dry runs of all nodes together, one victim of each in a round.

use std::{cmp::Reverse, sync::Arc};

use berth_framework::{Call, DryRun, Removal, Status};
use berth_model::{NodeIdx, Pod, PodIdx};

use super::budgets::Budgets;

/// A node on which the pod fits without these pods.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) node: NodeIdx,
    /// The most important one first.
    pub(super) victims: Vec<Arc<Pod>>,
    /// How many of them a disruption budget would have spared.
    pub(super) n_violations: usize,
}

/// A pod that may have to go.
#[derive(Clone, Debug)]
struct Potential {
    idx: PodIdx,
    pod: Arc<Pod>,
    violates: bool,
}

/// A node being tried.
#[derive(Debug)]
struct Trial {
    /// The node's place among those asked about.
    at: usize,
    node: NodeIdx,
    /// Those still away, and those not yet asked about.
    away: Vec<PodIdx>,
    /// In the order in which they may come back; those whose eviction breaks a budget are the first.
    potential: Vec<Potential>,
    candidate: Candidate,
}

/// Of two pods the one with the smaller key is more important: higher priority, then running longer. A pod that has
/// not started counts as starting now.
fn importance(pod: &Pod) -> impl Ord + use<> {
    (Reverse(pod.priority), started_at(pod), Arc::clone(&pod.uid))
}

/// Milliseconds since 1970; in the future for a pod that has not started.
pub(super) fn started_at(pod: &Pod) -> i64 {
    pod.started_at.unwrap_or(i64::MAX)
}

/// What preemption would do on each of `nodes`: victims, or why it does not help.
///
/// # Errors
/// A plugin broke.
pub(super) fn dry_run(
    call: &Call<'_>,
    nodes: &[NodeIdx],
    budgets: &Budgets,
    filters: &mut dyn DryRun,
) -> Result<Vec<Result<Candidate, Status>>, Status> {
    let mut answers: Vec<Result<Candidate, Status>> = Vec::with_capacity(nodes.len());
    let mut trials = Vec::new();
    for (at, &node) in nodes.iter().enumerate() {
        let potential = potential_victims(call, node);
        let none = potential.is_empty();
        answers.push(Err(Status::unresolvable("No preemption victims found for incoming pod")));
        if !none {
            let away = potential.iter().map(|it| it.idx).collect();
            let candidate = Candidate { node, victims: Vec::new(), n_violations: 0 };
            trials.push(Trial { at, node, away, potential, candidate });
        }
    }
    let cases: Vec<Removal> = trials.iter().map(|it| Removal { node: it.node, pods: it.away.clone() }).collect();
    let mut helped = Vec::with_capacity(trials.len());
    for (mut trial, status) in trials.into_iter().zip(ask(filters, &cases)?) {
        if status.is_success() {
            trial.put_in_order(call, budgets);
            helped.push(trial);
        } else if let Some(answer) = answers.get_mut(trial.at) {
            *answer = Err(status);
        }
    }
    reprieve(&mut helped, filters)?;
    for trial in helped {
        let name = call.snapshot.symbols.text(call.snapshot.name(trial.node));
        if let Some(answer) = answers.get_mut(trial.at) {
            *answer = trial.conclude(name);
        }
    }
    Ok(answers)
}

/// All pods of lower priority, the most important one first.
fn potential_victims(call: &Call<'_>, node: NodeIdx) -> Vec<Potential> {
    let pods = call.snapshot.pods().on(node).filter(|(_, pod)| pod.priority < call.pod.priority);
    let mut potential: Vec<Potential> =
        pods.map(|(idx, pod)| Potential { idx, pod: Arc::clone(pod), violates: false }).collect();
    potential.sort_by_cached_key(|it| importance(&it.pod));
    potential
}

/// Lets victims stay where they can: round `k` puts the `k`-th of every node back and keeps it if the pod still fits.
fn reprieve(trials: &mut [Trial], filters: &mut dyn DryRun) -> Result<(), Status> {
    for round in 0.. {
        let asked: Vec<&mut Trial> = trials.iter_mut().filter(|trial| round < trial.potential.len()).collect();
        if asked.is_empty() {
            break;
        }
        let cases: Vec<Removal> = asked.iter().map(|trial| trial.without(round)).collect();
        let statuses = ask(filters, &cases)?;
        for ((trial, case), status) in asked.into_iter().zip(cases).zip(statuses) {
            if status.is_success() {
                trial.away = case.pods;
            } else if let Some(Potential { pod, violates, .. }) = trial.potential.get(round) {
                trial.candidate.victims.push(Arc::clone(pod));
                trial.candidate.n_violations += usize::from(*violates);
            }
        }
    }
    Ok(())
}

fn ask(filters: &mut dyn DryRun, cases: &[Removal]) -> Result<Vec<Status>, Status> {
    if cases.is_empty() {
        return Ok(Vec::new());
    }
    let statuses = filters.dry_run(cases)?;
    if statuses.len() == cases.len() {
        Ok(statuses)
    } else {
        Err(Status::error(format!("{} statuses for {} cases", statuses.len(), cases.len())))
    }
}

impl Trial {
    fn put_in_order(&mut self, call: &Call<'_>, budgets: &Budgets) {
        let violated = budgets.violated(call.snapshot, self.potential.iter().map(|it| &*it.pod));
        for (potential, violates) in self.potential.iter_mut().zip(violated) {
            potential.violates = violates;
        }
        self.potential.sort_by_key(|it| !it.violates);
    }

    /// What is away, with the victim of `round` back.
    fn without(&self, round: usize) -> Removal {
        let back = self.potential.get(round).map(|it| it.idx);
        let pods = self.away.iter().copied().filter(|idx| Some(*idx) != back).collect();
        Removal { node: self.node, pods }
    }

    fn conclude(mut self, node: &str) -> Result<Candidate, Status> {
        if self.candidate.victims.is_empty() {
            return Err(Status::error(format!("expected at least one victim pod on node {node:?}")));
        }
        self.candidate.victims.sort_by_cached_key(|pod| importance(pod));
        Ok(self.candidate)
    }
}
