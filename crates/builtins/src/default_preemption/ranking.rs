//! The choice among candidate nodes.
//!
//! kube-scheduler: `pickOneNodeForPreemption` in `pkg/scheduler/framework/preemption/preemption.go`.

use std::cmp::Reverse;

use super::victims::{Candidate, started_at};

/// The number that is added to each priority. The result is at least 0, so that the sum grows with every victim.
const PRIORITY_OFFSET: i64 = 1 << 31;

/// The candidate with the lowest cost. If several candidates have the lowest cost, the first of these.
pub(super) fn best(candidates: &[Candidate]) -> Option<&Candidate> {
    candidates.iter().min_by_key(|candidate| cost(candidate))
}

/// The cost of a candidate. Candidates are compared by the violated budgets, then the highest priority of a victim, the
/// sum of priorities, the number of victims, and the earliest start among the victims with the highest priority. A
/// later start is better.
fn cost(candidate: &Candidate) -> impl Ord + use<> {
    let victims = || candidate.victims.iter().map(|victim| &*victim.pod);
    let highest = victims().next().map_or(i32::MIN, |victim| victim.priority);
    let sum: i64 = victims().map(|victim| i64::from(victim.priority) + PRIORITY_OFFSET).sum();
    let with_highest = victims().filter(|victim| victim.priority == highest);
    let earliest = with_highest.map(started_at).min();
    (candidate.n_violations, highest, sum, candidate.victims.len(), Reverse(earliest))
}
