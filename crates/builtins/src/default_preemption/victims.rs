//! The victims on each node: the pods of lower priority that must be evicted for the pod to fit. The search keeps as
//! many pods as possible.
//!
//! As in kube-scheduler (`SelectVictimsOnNode` in
//! `pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go`), all pods of lower priority are removed
//! first. If the pod fits without these pods, they are added back one by one, the most important first. An added pod is
//! reprieved if the pod of the cycle still fits.
//!
//! One dry run asks about all nodes, and about several pods of each node. Each decision to reprieve a pod depends on
//! the previous decisions, so a search guesses that the next decisions equal the last decision. The results count up to
//! the first wrong guess, so a node with many victims takes few dry runs. Consecutive cases differ in one or two pods,
//! which plugins can use (see [`CaseWalk`](crate::case_walk::CaseWalk)).

use std::{cmp::Reverse, sync::Arc};

use berth_framework::{Call, DryRun, Preemption, Removal, Status};
use berth_model::{ClusterTable, DisruptionBudgets, NodeIdx, Pod, PodIdx};

use super::budgets;

/// A node on which the pod fits once the victims are gone.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) node: NodeIdx,
    /// The victims, the most important first.
    pub(super) victims: Vec<Victim>,
    /// The number of evictions that violate a disruption budget.
    pub(super) n_violations: i64,
}

/// A pod to be evicted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Victim {
    pub(super) idx: PodIdx,
    pub(super) pod: Arc<Pod>,
}

/// A pod that may have to be evicted.
#[derive(Clone, Copy, Debug)]
struct PotentialVictim<'a> {
    idx: PodIdx,
    pod: &'a Arc<Pod>,
    violates_budget: bool,
}

/// The search for the victims on one node.
#[derive(Debug)]
struct VictimSearch<'a> {
    /// The position of the node's result.
    position: usize,
    node: NodeIdx,
    /// The pods that may have to be evicted, in the order in which they are added back. Pods whose eviction violates a
    /// budget come first.
    potential: Vec<PotentialVictim<'a>>,
    /// The number of pods in [`Self::potential`] that are decided.
    n_decided: usize,
    /// The pods in `potential` that are decided and must be evicted.
    evicted: Vec<PodIdx>,
    /// The number of pods that the next dry run asks about.
    n_guesses: usize,
    /// Whether the search guesses that these pods are reprieved.
    guess: bool,
    candidate: Candidate,
}

impl Candidate {
    /// The candidate in the form in which extenders get it.
    pub(super) fn preemption(&self) -> Preemption {
        let victims = self.victims.iter().map(|victim| victim.idx).collect();
        Preemption { node: self.node, victims, n_violations: self.n_violations }
    }

    /// The candidate that extenders return; `None` if a victim is not in the table.
    pub(super) fn of(preemption: &Preemption, table: &ClusterTable) -> Option<Self> {
        let victim = |&idx: &PodIdx| Some(Victim { idx, pod: Arc::clone(table.pods().get(idx)?.0) });
        let victims = preemption.victims.iter().map(victim).collect::<Option<Vec<_>>>()?;
        Some(Self { node: preemption.node, victims, n_violations: preemption.n_violations })
    }
}

/// The maximum number of cases of one node in a dry run. Each case lists all pods that are removed, so many cases make long lists.
const MAX_GUESSES: usize = 16;

/// A sort key that is smaller for more important pods: a higher priority comes first, then an earlier start. A pod that
/// has not started counts as a pod that starts now.
fn importance(pod: &Pod) -> (Reverse<i32>, i64, &str) {
    (Reverse(pod.priority), started_at(pod), &pod.uid)
}

/// Milliseconds since 1970. The start of a pod that has not started is in the future.
pub(super) fn started_at(pod: &Pod) -> i64 {
    pod.started_at.unwrap_or(i64::MAX)
}

/// The victims on each of `nodes`, or the reason why preemption does not help on the node.
///
/// # Errors
/// The dry run failed because of a plugin's fault.
pub(super) fn dry_run(
    call: &Call<'_>,
    nodes: &[NodeIdx],
    budgets: &DisruptionBudgets,
    filters: &mut dyn DryRun,
) -> Result<Vec<Result<Candidate, Status>>, Status> {
    let mut results: Vec<Result<Candidate, Status>> = Vec::with_capacity(nodes.len());
    let mut searches = Vec::new();
    for (position, &node) in nodes.iter().enumerate() {
        results.push(Err(Status::unresolvable("No preemption victims found for incoming pod")));
        let potential = potential_victims(call, node);
        if !potential.is_empty() {
            searches.push(VictimSearch::new(position, node, potential));
        }
    }
    let cases: Vec<Removal> = searches.iter().map(VictimSearch::without_all).collect();
    let mut helped = Vec::with_capacity(searches.len());
    for (mut search, status) in searches.into_iter().zip(statuses_of(filters, &cases)?) {
        if status.is_success() {
            search.sort_by_violation(call, budgets);
            helped.push(search);
        } else {
            results[search.position] = Err(status);
        }
    }
    reprieve(&mut helped, filters)?;
    for search in helped {
        let name = call.table.symbols.text(call.table.name(search.node));
        let position = search.position;
        results[position] = search.into_candidate(name);
    }
    Ok(results)
}

/// All pods of lower priority, the most important first.
fn potential_victims<'a>(call: &Call<'a>, node: NodeIdx) -> Vec<PotentialVictim<'a>> {
    let pods = call.table.pods().on(node).filter(|(_, pod)| pod.priority < call.pod.priority);
    let mut potential: Vec<PotentialVictim<'_>> =
        pods.map(|(idx, pod)| PotentialVictim { idx, pod, violates_budget: false }).collect();
    potential.sort_by(|left, right| importance(left.pod).cmp(&importance(right.pod)));
    potential
}

/// Decides about all potential victims, in rounds. Each round takes one dry run over all nodes.
fn reprieve(searches: &mut [VictimSearch<'_>], filters: &mut dyn DryRun) -> Result<(), Status> {
    let mut open: Vec<&mut VictimSearch<'_>> = searches.iter_mut().collect();
    loop {
        open.retain(|search| search.n_decided < search.potential.len());
        if open.is_empty() {
            return Ok(());
        }
        let mut cases = Vec::new();
        for search in &mut open {
            search.n_guesses = search.n_guesses.min(search.potential.len() - search.n_decided);
            cases.extend((0..search.n_guesses).map(|ahead| search.case(ahead)));
        }
        let mut fits = statuses_of(filters, &cases)?.into_iter().map(|status| status.is_success());
        for search in &mut open {
            search.take_results(fits.by_ref().take(search.n_guesses));
        }
    }
}

/// One status per case.
fn statuses_of(filters: &mut dyn DryRun, cases: &[Removal]) -> Result<Vec<Status>, Status> {
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

impl<'a> VictimSearch<'a> {
    fn new(position: usize, node: NodeIdx, potential: Vec<PotentialVictim<'a>>) -> Self {
        let candidate = Candidate { node, victims: Vec::new(), n_violations: 0 };
        Self { position, node, potential, n_decided: 0, evicted: Vec::new(), n_guesses: 1, guess: true, candidate }
    }

    fn sort_by_violation(&mut self, call: &Call<'_>, budgets: &DisruptionBudgets) {
        let violated = budgets::violated(budgets, call.table, self.potential.iter().map(|it| &**it.pod));
        for (potential, violates_budget) in self.potential.iter_mut().zip(violated) {
            potential.violates_budget = violates_budget;
        }
        self.potential.sort_by_key(|it| !it.violates_budget);
    }

    fn without_all(&self) -> Removal {
        Removal { node: self.node, pods: self.potential.iter().map(|it| it.idx).collect() }
    }

    /// The case in which the undecided pod at position `ahead` is added back. The pods before it are decided as
    /// guessed.
    fn case(&self, ahead: usize) -> Removal {
        let undecided = self.potential.iter().skip(self.n_decided).enumerate();
        let removed = undecided.filter(|(position, _)| *position > ahead || (*position < ahead && !self.guess));
        let mut pods = Vec::with_capacity(self.evicted.len() + self.potential.len() - self.n_decided);
        pods.extend_from_slice(&self.evicted);
        pods.extend(removed.map(|(_, it)| it.idx));
        Removal { node: self.node, pods }
    }

    /// Takes the results of the cases, up to and including the first wrong guess, because the later cases depend on
    /// that guess. A right guess doubles the number of pods in the next dry run.
    fn take_results(&mut self, results: impl Iterator<Item = bool>) {
        let mut is_right = true;
        for fits in results {
            if is_right {
                is_right = fits == self.guess;
                self.decide(fits);
            }
        }
        self.n_guesses = if is_right { (self.n_guesses * 2).min(MAX_GUESSES) } else { 1 };
        self.guess ^= !is_right;
    }

    /// Decides about the first undecided pod.
    fn decide(&mut self, is_reprieved: bool) {
        let undecided = self.potential.get(self.n_decided);
        if let Some(PotentialVictim { idx, pod, violates_budget }) = undecided.filter(|_| !is_reprieved) {
            self.evicted.push(*idx);
            self.candidate.victims.push(Victim { idx: *idx, pod: Arc::clone(pod) });
            self.candidate.n_violations += i64::from(*violates_budget);
        }
        self.n_decided += 1;
    }

    fn into_candidate(mut self, node: &str) -> Result<Candidate, Status> {
        if self.candidate.victims.is_empty() {
            return Err(Status::error(format!("expected at least one victim pod on node {node:?}")));
        }
        if self.candidate.n_violations > 0 {
            self.candidate.victims.sort_by(|left, right| importance(&left.pod).cmp(&importance(&right.pod)));
        }
        Ok(self.candidate)
    }
}
