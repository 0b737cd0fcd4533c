//! The pods that an instance got for dry runs.

use berth_framework::{Call, CycleId};
use berth_model::{Pod, PodUid};

/// The pods of the last dry run, which need not be sent again within its cycle. The uid identifies a pod, and a pod's
/// content does not change as long as the pods on nodes do not change: see [`berth_framework::Filter::dry_run`].
#[derive(Debug, Default)]
pub(super) struct ShownPods {
    cycle: CycleId,
    /// The end of the journal of pods on nodes at that time.
    position: u64,
    uids: Vec<PodUid>,
}

impl ShownPods {
    /// The number of these pods, from the first one on, that the instance has from the last dry run.
    pub(super) fn n_kept(&self, call: &Call<'_>, pods: &[&Pod]) -> usize {
        if (self.cycle, self.position) != (call.cycle, call.table.pods().position()) {
            return 0;
        }
        self.uids.iter().zip(pods).take_while(|(uid, pod)| **uid == pod.uid).count()
    }

    pub(super) fn remember(&mut self, call: &Call<'_>, pods: &[&Pod]) {
        (self.cycle, self.position) = (call.cycle, call.table.pods().position());
        self.uids.clear();
        self.uids.extend(pods.iter().map(|pod| pod.uid.clone()));
    }

    pub(super) fn forget(&mut self) {
        self.uids.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_model::{ClusterTable, NodeIdx, PodIdx, Time};

    use super::*;

    #[test]
    fn pods_are_kept_within_a_cycle_as_far_as_they_are_the_same() {
        let pods = ["1", "2", "3", "4"].map(|uid| Pod { uid: uid.into(), ..Pod::default() });
        let [first, second, third, fourth] = pods.each_ref();
        let (mut table, pod) = (ClusterTable::default(), Pod::default());
        let call = Call::new(CycleId(1), Time::default(), &pod, &table);
        let mut shown = ShownPods::default();
        assert_eq!(shown.n_kept(&call, &[first]), 0);
        shown.remember(&call, &[first, second, third]);
        assert_eq!(shown.n_kept(&call, &[first, second, third, fourth]), 3);
        assert_eq!(shown.n_kept(&call, &[&first.clone()]), 1, "a copy is the same pod");
        assert_eq!(shown.n_kept(&call, &[first, third, second]), 1, "another pod in the second place");
        assert_eq!(shown.n_kept(&Call { cycle: CycleId(2), ..call }, &[first]), 0, "another cycle");
        table.pods_mut().place(PodIdx(0), Arc::new(first.clone()), NodeIdx(0));
        let call = Call::new(CycleId(1), Time::default(), &pod, &table);
        assert_eq!(shown.n_kept(&call, &[first]), 0, "a pod on a node has changed");
        shown.remember(&call, &[first]);
        shown.forget();
        assert_eq!(shown.n_kept(&call, &[first]), 0);
    }
}
