//! The pods of a case that wait at Permit, with the cycles that are still open for them.

use std::collections::BTreeMap;

use berth_model::{NodeIdx, Pod, PodUid, Time};

/// The pods, by uid.
#[derive(Debug, Default)]
pub(crate) struct WaitingPods {
    pods: BTreeMap<PodUid, WaitingPod>,
    n_cycles: u64,
}

/// A pod that a plugin holds at Permit.
#[derive(Debug)]
pub(crate) struct WaitingPod {
    pub(crate) cycle: u64,
    pub(crate) pod: Pod,
    /// The node on which it is counted.
    pub(crate) node: NodeIdx,
    /// The time at which the plugin has held it for too long.
    pub(crate) until: Time,
}

impl WaitingPods {
    /// The number of a new cycle. Cycles that end within one call have smaller numbers.
    pub(crate) fn next_cycle(&mut self) -> u64 {
        self.n_cycles += 1;
        u64::from(u32::MAX) + self.n_cycles
    }

    pub(crate) fn insert(&mut self, pod: WaitingPod) {
        self.pods.insert(pod.pod.uid.clone(), pod);
    }

    pub(crate) fn take(&mut self, uid: &str) -> Option<WaitingPod> {
        self.pods.remove(uid)
    }

    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.pods.contains_key(uid)
    }

    /// The pods that the plugin has held for too long.
    pub(crate) fn late(&self, now: Time) -> Vec<String> {
        self.uids(|pod| pod.until <= now)
    }

    /// The pods that wait for this node.
    pub(crate) fn on(&self, node: NodeIdx) -> Vec<String> {
        self.uids(|pod| pod.node == node)
    }

    fn uids(&self, is_one: impl Fn(&WaitingPod) -> bool) -> Vec<String> {
        self.pods.values().filter(|pod| is_one(pod)).map(|pod| pod.pod.uid.to_string()).collect()
    }
}
