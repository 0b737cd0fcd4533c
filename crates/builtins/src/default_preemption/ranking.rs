//! Which of several nodes to make room on.

use std::cmp::Reverse;

use super::victims::{Candidate, started_at};

/// Makes negative priorities count as something, so that fewer victims are always cheaper.
const PRIORITY_OFFSET: i64 = 1 << 31;

/// The candidate that costs least; of equal ones the first.
pub(super) fn best(candidates: &[Candidate]) -> Option<&Candidate> {
    candidates.iter().min_by_key(|candidate| cost(candidate))
}

/// Budgets broken, priority of the most important victim, sum of priorities, number of victims, and how early the
/// earliest of the most important victims started: later is cheaper.
fn cost(candidate: &Candidate) -> impl Ord + use<> {
    let victims = &candidate.victims;
    let highest = victims.first().map_or(i32::MIN, |victim| victim.priority);
    let sum: i64 = victims.iter().map(|victim| i64::from(victim.priority) + PRIORITY_OFFSET).sum();
    let foremost = victims.iter().filter(|victim| victim.priority == highest);
    let earliest = foremost.map(|victim| started_at(victim)).min();
    (candidate.n_violations, highest, sum, victims.len(), Reverse(earliest))
}
