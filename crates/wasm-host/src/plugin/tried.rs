//! Which pods an instance has been shown in dry runs.

use berth_framework::CycleId;
use berth_model::Pod;

/// The pods of the last dry run, which need not be sent again within its cycle.
#[derive(Debug, Default)]
pub(super) struct Tried {
    cycle: CycleId,
    /// Addresses, to compare: see [`berth_framework::Filter::dry_run`].
    pods: Vec<usize>,
}

impl Tried {
    /// How many of these pods, from the first one on, the instance has from the last dry run.
    pub(super) fn n_kept(&self, cycle: CycleId, pods: &[&Pod]) -> usize {
        if self.cycle != cycle {
            return 0;
        }
        self.pods.iter().zip(pods).take_while(|(tried, pod)| **tried == address(pod)).count()
    }

    pub(super) fn remember(&mut self, cycle: CycleId, pods: &[&Pod]) {
        self.cycle = cycle;
        self.pods.clear();
        self.pods.extend(pods.iter().map(|pod| address(pod)));
    }

    pub(super) fn forget(&mut self) {
        self.pods.clear();
    }
}

fn address(pod: &Pod) -> usize {
    std::ptr::from_ref(pod).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_kept_within_a_cycle_as_far_as_they_are_the_same() {
        let pods = [(); 4].map(|()| Pod::default());
        let [first, second, third, fourth] = pods.each_ref();
        let mut tried = Tried::default();
        assert_eq!(tried.n_kept(CycleId(1), &[first]), 0);
        tried.remember(CycleId(1), &[first, second, third]);
        assert_eq!(tried.n_kept(CycleId(1), &[first, second, third, fourth]), 3);
        assert_eq!(tried.n_kept(CycleId(1), &[first]), 1);
        assert_eq!(tried.n_kept(CycleId(1), &[first, third, second]), 1, "another pod in the second place");
        assert_eq!(tried.n_kept(CycleId(2), &[first]), 0, "another cycle");
        tried.forget();
        assert_eq!(tried.n_kept(CycleId(1), &[first]), 0);
    }
}
