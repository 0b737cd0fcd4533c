//! From one case of a dry run to the next: what changes between them.

use std::mem;

use berth_framework::DryRunCase;

/// Goes through cases in their order. Those of one node mostly differ in a pod or two: a rule that keeps its sums and
/// hears of the differences does not add up all pods again for each case.
#[derive(Debug)]
pub(crate) struct CaseWalk<'a, T> {
    pods: &'a [T],
    minus: &'a [u32],
    plus: &'a [u32],
}

impl<'a, T> CaseWalk<'a, T> {
    /// Before the first case, at one without pods. The cases index into `pods`: pods, or what a rule knows of them.
    pub(crate) fn new(pods: &'a [T]) -> Self {
        Self { pods, minus: &[], plus: &[] }
    }

    /// Goes on to `case`. The sum of all changes told so far is what its pods change: -1 for each pod that is away, 1 for
    /// each that came.
    pub(crate) fn step(&mut self, case: &'a DryRunCase, mut change: impl FnMut(&'a T, i64)) {
        let pods = self.pods;
        let mut tell = |index: u32, sign| {
            if let Some(pod) = pods.get(index as usize) {
                change(pod, sign);
            }
        };
        differences(mem::replace(&mut self.minus, &case.minus), &case.minus, |index, sign| tell(index, -sign));
        differences(mem::replace(&mut self.plus, &case.plus), &case.plus, tell);
    }
}

/// What leaves (-1) and what comes (1) between where the lists begin and end alike.
fn differences(from: &[u32], to: &[u32], mut tell: impl FnMut(u32, i64)) {
    let n_alike = from.iter().zip(to).take_while(|(left, right)| left == right).count();
    let (from, to) = (from.get(n_alike..).unwrap_or_default(), to.get(n_alike..).unwrap_or_default());
    let ends = from.iter().rev().zip(to.iter().rev());
    let n_alike = ends.take_while(|(left, right)| left == right).count();
    from.iter().take(from.len() - n_alike).for_each(|&index| tell(index, -1));
    to.iter().take(to.len() - n_alike).for_each(|&index| tell(index, 1));
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
    fn neighbours_differ_in_little() {
        let pods = pods();
        let pods: Vec<&Pod> = pods.iter().collect();
        let cases = [case(&[0, 1, 2, 3], &[]), case(&[0, 2, 3], &[]), case(&[0, 1, 3], &[]), case(&[0, 1, 3], &[5])];
        let mut walk = CaseWalk::new(&pods);
        let mut told = Vec::new();
        for case in &cases {
            let mut changes = Vec::new();
            walk.step(case, |pod, sign| changes.push((pod.priority, sign)));
            told.push(changes);
        }
        let expected = [&[(0, -1), (1, -1), (2, -1), (3, -1)][..], &[(1, 1)], &[(2, 1), (1, -1)], &[(5, 1)]];
        assert_eq!(told, expected);
    }

    proptest! {
        #[test]
        fn sums_are_those_of_the_case_alone(
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
