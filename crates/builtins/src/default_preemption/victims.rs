//! Who must go so that the pod fits on a node: dry runs of all nodes together, some victims of each at a time.
//!
//! Victims may come back one after the other, and whether one may stay depends on those before it. To ask about several
//! at once, a trial guesses that the next ones fare like the last one, and asks what follows from that; answers count as
//! far as the guess was right. So a node with many victims takes few dry runs, and cases next to each other differ
//! little, which rules make use of.

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
#[derive(Clone, Copy, Debug)]
struct Potential<'a> {
    idx: PodIdx,
    pod: &'a Arc<Pod>,
    violates: bool,
}

/// A node being tried.
#[derive(Debug)]
struct Trial<'a> {
    /// The node's place among those asked about.
    at: usize,
    node: NodeIdx,
    /// In the order in which they may come back; those whose eviction breaks a budget are the first.
    potential: Vec<Potential<'a>>,
    /// How many of them it is decided about, and which of these must go.
    n_decided: usize,
    gone: Vec<PodIdx>,
    /// How many to ask about at once, and what they are guessed to do: stay, or go.
    n_guesses: usize,
    stays: bool,
    candidate: Candidate,
}

/// Each question names all pods that are away, so no more than this many are asked at once about a node.
const MAX_GUESSES: usize = 16;

/// Of two pods the one with the smaller key is more important: higher priority, then running longer. A pod that has
/// not started counts as starting now.
fn importance(pod: &Pod) -> (Reverse<i32>, i64, &str) {
    (Reverse(pod.priority), started_at(pod), &pod.uid)
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
        answers.push(Err(Status::unresolvable("No preemption victims found for incoming pod")));
        let potential = potential_victims(call, node);
        if !potential.is_empty() {
            trials.push(Trial::new(at, node, potential));
        }
    }
    let cases: Vec<Removal> = trials.iter().map(Trial::without_all).collect();
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
        let name = call.table.symbols.text(call.table.name(trial.node));
        if let Some(answer) = answers.get_mut(trial.at) {
            *answer = trial.conclude(name);
        }
    }
    Ok(answers)
}

/// All pods of lower priority, the most important one first.
fn potential_victims<'a>(call: &Call<'a>, node: NodeIdx) -> Vec<Potential<'a>> {
    let pods = call.table.pods().on(node).filter(|(_, pod)| pod.priority < call.pod.priority);
    let mut potential: Vec<Potential<'_>> = pods.map(|(idx, pod)| Potential { idx, pod, violates: false }).collect();
    potential.sort_by(|left, right| importance(left.pod).cmp(&importance(right.pod)));
    potential
}

/// Lets victims stay where they can: each in its turn comes back, and stays if the pod still fits.
fn reprieve(trials: &mut [Trial<'_>], filters: &mut dyn DryRun) -> Result<(), Status> {
    let mut open: Vec<&mut Trial<'_>> = trials.iter_mut().collect();
    loop {
        open.retain(|trial| trial.n_decided < trial.potential.len());
        if open.is_empty() {
            return Ok(());
        }
        let mut cases = Vec::new();
        for trial in &mut open {
            trial.n_guesses = trial.n_guesses.min(trial.potential.len() - trial.n_decided);
            cases.extend((0..trial.n_guesses).map(|ahead| trial.question(ahead)));
        }
        let mut answers = ask(filters, &cases)?.into_iter().map(|status| status.is_success());
        for trial in &mut open {
            trial.learn(answers.by_ref().take(trial.n_guesses));
        }
    }
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

impl<'a> Trial<'a> {
    fn new(at: usize, node: NodeIdx, potential: Vec<Potential<'a>>) -> Self {
        let candidate = Candidate { node, victims: Vec::new(), n_violations: 0 };
        Self { at, node, potential, n_decided: 0, gone: Vec::new(), n_guesses: 1, stays: true, candidate }
    }

    fn put_in_order(&mut self, call: &Call<'_>, budgets: &Budgets) {
        let violated = budgets.violated(call.table, self.potential.iter().map(|it| &**it.pod));
        for (potential, violates) in self.potential.iter_mut().zip(violated) {
            potential.violates = violates;
        }
        self.potential.sort_by_key(|it| !it.violates);
    }

    fn without_all(&self) -> Removal {
        Removal { node: self.node, pods: self.potential.iter().map(|it| it.idx).collect() }
    }

    /// Who is away when the one comes back who is `ahead` of the first undecided one, if those between fare as guessed.
    fn question(&self, ahead: usize) -> Removal {
        let undecided = self.potential.iter().skip(self.n_decided).enumerate();
        let away = undecided.filter(|(place, _)| *place > ahead || (*place < ahead && !self.stays));
        let mut pods = Vec::with_capacity(self.gone.len() + self.potential.len() - self.n_decided);
        pods.extend_from_slice(&self.gone);
        pods.extend(away.map(|(_, it)| it.idx));
        Removal { node: self.node, pods }
    }

    /// Takes answers up to the first that was not guessed: what comes after follows from a wrong guess.
    fn learn(&mut self, answers: impl Iterator<Item = bool>) {
        let mut is_right = true;
        for stays in answers {
            if is_right {
                is_right = stays == self.stays;
                self.decide(stays);
            }
        }
        self.n_guesses = if is_right { (self.n_guesses * 2).min(MAX_GUESSES) } else { 1 };
        self.stays ^= !is_right;
    }

    fn decide(&mut self, stays: bool) {
        if let Some(Potential { idx, pod, violates }) = self.potential.get(self.n_decided).filter(|_| !stays) {
            self.gone.push(*idx);
            self.candidate.victims.push(Arc::clone(pod));
            self.candidate.n_violations += usize::from(*violates);
        }
        self.n_decided += 1;
    }

    fn conclude(mut self, node: &str) -> Result<Candidate, Status> {
        if self.candidate.victims.is_empty() {
            return Err(Status::error(format!("expected at least one victim pod on node {node:?}")));
        }
        if self.candidate.n_violations > 0 {
            self.candidate.victims.sort_by(|left, right| importance(left).cmp(&importance(right)));
        }
        Ok(self.candidate)
    }
}
