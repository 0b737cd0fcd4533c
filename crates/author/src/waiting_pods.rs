//! The pods of a case that wait at Permit or PreBind, with their open cycles.

use std::collections::BTreeMap;

use berth_model::{NodeIdx, ObjectKey, Pod, PodUid, Time};

use crate::case_effect::CaseEffect;

/// The pods, by uid.
#[derive(Debug, Default)]
pub(crate) struct WaitingPods {
    pods: BTreeMap<PodUid, WaitingPod>,
    n_cycles: u64,
}

/// The point at which a plugin holds a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldAt {
    /// The verdict of Permit holds the pod.
    Permit,
    /// The effect `wait` of PreBind holds the pod.
    PreBind,
}

/// A pod that a plugin holds.
#[derive(Debug)]
pub(crate) struct WaitingPod {
    pub(crate) held_at: HeldAt,
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
    pub(crate) fn new(held_at: HeldAt, cycle: u64, pod: Pod, node: NodeIdx) -> Self {
        Self { held_at, cycle, pod, node, is_changed: false, until: Time(u64::MAX), awaited: Vec::new() }
    }

    /// Takes in the answer of the point that holds the pod: so many milliseconds from now, which only Permit says, and the
    /// effects that the scheduler carries out. An earlier end of the wait at the same point still holds. The plugin is
    /// asked again about the objects that `ends_wait` accepts.
    pub(crate) fn hold(
        &mut self,
        held_at: HeldAt,
        milliseconds: Option<u64>,
        effects: &[CaseEffect],
        now: Time,
        ends_wait: impl Fn(&ObjectKey) -> bool,
    ) {
        if self.held_at != held_at {
            (self.held_at, self.until) = (held_at, Time(u64::MAX));
        }
        if let Some(milliseconds) = milliseconds {
            self.until = self.until.min(now + milliseconds);
        }
        self.awaited.clear();
        if let Some((objects, timeout)) = effects.iter().find_map(CaseEffect::wait) {
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

    /// The point at which the plugin holds the pod; `None` if the pod does not wait.
    pub(crate) fn held_at(&self, uid: &str) -> Option<HeldAt> {
        self.pods.get(uid).map(|pod| pod.held_at)
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
