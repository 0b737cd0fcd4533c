//! The pods of a case that wait at Permit, with the cycles that are still open for them.

use std::collections::BTreeMap;

use berth_model::{NodeIdx, ObjectKey, Pod, PodUid, Time};

use crate::case_effect::CaseEffect;

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
    /// The node on which the pod counts.
    pub(crate) node: NodeIdx,
    /// Whether the pod differs from the pod at the beginning of its cycle.
    pub(crate) is_changed: bool,
    /// The time at which the wait of the pod ends.
    until: Time,
    /// The objects after whose changes the plugin is asked again.
    awaited: Vec<ObjectKey>,
}

impl WaitingPod {
    pub(crate) fn new(cycle: u64, pod: Pod, node: NodeIdx) -> Self {
        Self { cycle, pod, node, is_changed: false, until: Time(u64::MAX), awaited: Vec::new() }
    }

    /// Takes in an answer of Permit: so many milliseconds from now, and the effects that the scheduler carries out. An
    /// earlier end of the wait still holds. The plugin is asked again about the objects that `ends_wait` accepts.
    pub(crate) fn hold(
        &mut self,
        milliseconds: u64,
        effects: &[CaseEffect],
        now: Time,
        ends_wait: impl Fn(&ObjectKey) -> bool,
    ) {
        self.until = self.until.min(now + milliseconds);
        self.awaited.clear();
        let wait = effects.iter().find_map(|effect| match effect {
            CaseEffect::Wait { objects, timeout_milliseconds, .. } => Some((objects, *timeout_milliseconds)),
            CaseEffect::Bind
            | CaseEffect::Patch { .. }
            | CaseEffect::Create { .. }
            | CaseEffect::Delete { .. }
            | CaseEffect::Evict { .. }
            | CaseEffect::Allow(_)
            | CaseEffect::Reject { .. }
            | CaseEffect::Activate(_)
            | CaseEffect::Nominate { .. }
            | CaseEffect::Event { .. } => None,
        });
        if let Some((objects, timeout)) = wait {
            self.until = self.until.min(now + timeout);
            let keys = objects.iter().map(|it| ObjectKey::named(&it.kind, &*it.namespace, &*it.name));
            self.awaited.extend(keys.filter(ends_wait));
        }
    }
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

    pub(crate) fn get_mut(&mut self, uid: &str) -> Option<&mut WaitingPod> {
        self.pods.get_mut(uid)
    }

    /// The pods that wait for one of these objects.
    pub(crate) fn for_objects(&self, changed: &[ObjectKey]) -> Vec<String> {
        self.uids(|pod| pod.awaited.iter().any(|object| changed.contains(object)))
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
