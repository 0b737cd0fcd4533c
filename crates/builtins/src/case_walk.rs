//! The differences between one case of a dry run and the next.

use std::mem;

use berth_framework::DryRunCase;

/// Goes through the cases of a dry run in order. Consecutive cases of one node mostly differ in one or two pods. A rule
/// therefore keeps its sums and applies the differences, instead of adding up all pods again for each case.
#[derive(Debug)]
pub(crate) struct CaseWalk<'a, T> {
    pods: &'a [T],
    minus: &'a [u32],
    plus: &'a [u32],
}

impl<'a, T> CaseWalk<'a, T> {
    /// Starts at a case without pods. The cases refer to `pods` by index. `T` is a pod, or a value that a rule has
    /// derived from it.
    pub(crate) fn new(pods: &'a [T]) -> Self {
        Self { pods, minus: &[], plus: &[] }
    }

    /// Goes on to `case`, and calls `change` for each difference from the previous case. The signs of a pod over all
    /// calls so far add up to -1 if `case` removes the pod, and to 1 if `case` adds the pod.
    pub(crate) fn step(&mut self, case: &'a DryRunCase, mut change: impl FnMut(&'a T, i64)) {
        let pods = self.pods;
        let mut change_at = |index: u32, sign| {
            if let Some(pod) = pods.get(index as usize) {
                change(pod, sign);
            }
        };
        differences(mem::replace(&mut self.minus, &case.minus), &case.minus, |index, sign| change_at(index, -sign));
        differences(mem::replace(&mut self.plus, &case.plus), &case.plus, change_at);
    }
}

/// Calls `change` with -1 for entries that are only in `from`, and with 1 for entries that are only in `to`. Entries of
/// a common beginning or a common end are not reported. Other common entries are reported twice.
fn differences(from: &[u32], to: &[u32], mut change: impl FnMut(u32, i64)) {
    let n_equal = from.iter().zip(to).take_while(|(left, right)| left == right).count();
    let (from, to) = (from.get(n_equal..).unwrap_or_default(), to.get(n_equal..).unwrap_or_default());
    let ends = from.iter().rev().zip(to.iter().rev());
    let n_equal = ends.take_while(|(left, right)| left == right).count();
    from.iter().take(from.len() - n_equal).for_each(|&index| change(index, -1));
    to.iter().take(to.len() - n_equal).for_each(|&index| change(index, 1));
}

#[cfg(test)]
mod tests {
    use berth_model::Pod;
    use proptest::prelude::*;

    use super::*;

    fn case(minus: &[u32], plus: &[u32]) -> DryRunCase {
        DryRunCase { minus: minus.to_vec(), plus: plus.to_vec(), ..DryRunCase::default() }
    }

    fn pods() -> Vec<Pod> {
        (0..6).map(|priority| Pod { priority, ..Pod::default() }).collect()
    }

    #[test]
    fn only_differences_from_the_last_case_are_reported() {
        let pods = pods();
        let pods: Vec<&Pod> = pods.iter().collect();
        let cases = [case(&[0, 1, 2, 3], &[]), case(&[0, 2, 3], &[]), case(&[0, 1, 3], &[]), case(&[0, 1, 3], &[5])];
        let mut walk = CaseWalk::new(&pods);
        let mut reported = Vec::new();
        for case in &cases {
            let mut changes = Vec::new();
            walk.step(case, |pod, sign| changes.push((pod.priority, sign)));
            reported.push(changes);
        }
        let expected = [&[(0, -1), (1, -1), (2, -1), (3, -1)][..], &[(1, 1)], &[(2, 1), (1, -1)], &[(5, 1)]];
        assert_eq!(reported, expected);
    }

    proptest! {
        #[test]
        fn sums_equal_those_of_the_case_alone(
            cases in prop::collection::vec((prop::collection::vec(0u32..8, 0..6), prop::collection::vec(0u32..8, 0..4)), 0..6),
        ) {
            let pods = pods();
            let pods: Vec<&Pod> = pods.iter().collect();
            let cases: Vec<DryRunCase> = cases.iter().map(|(minus, plus)| case(minus, plus)).collect();
            let mut walk = CaseWalk::new(&pods);
            let mut sums = [0; 6];
            for case in &cases {
                walk.step(case, |pod, sign| sums[usize::try_from(pod.priority).unwrap()] += sign);
                let count = |list: &[u32], index: u32| i64::try_from(list.iter().filter(|it| **it == index).count()).unwrap();
                let alone: Vec<i64> = (0..6).map(|index| count(&case.plus, index) - count(&case.minus, index)).collect();
                prop_assert_eq!(&sums[..], alone);
            }
        }
    }
}
