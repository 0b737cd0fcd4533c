//! The places of waiting pods: activeQ, backoffQ and the pool of unschedulable pods, each with its own order.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::Bound,
};

use berth_model::{PodUid, Time};
use rustc_hash::FxHashMap;

use crate::{
    metrics::{PendingPods, SubQueue},
    pool::{Arrival, GroupId, Pool},
    record::QueuedPod,
};

/// The key that a QueueSort plugin gives a pod; smaller keys come first.
pub(crate) type SortKey = (i64, i64);

/// The place of a waiting pod, with the pod's key in this place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// activeQ.
    Active(SortKey, Arrival),
    /// backoffQ after a rejection. The pod may be taken early when nothing else is ready.
    Backoff(Time, SortKey, Arrival),
    /// backoffQ after an error. The pod is never taken early.
    ErrorBackoff(Time, Arrival),
    /// The pool of unschedulable pods, including gated pods.
    Unschedulable(Arrival),
}

/// A waiting pod with its place.
#[derive(Debug)]
pub(crate) struct WaitingPod {
    pub(crate) record: QueuedPod,
    pub(crate) place: Place,
}

/// All waiting pods. Each pod is in one place.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pods: FxHashMap<PodUid, WaitingPod>,
    active: BTreeMap<(SortKey, Arrival), PodUid>,
    backoff: BTreeMap<(Time, SortKey, Arrival), PodUid>,
    error_backoff: BTreeMap<(Time, Arrival), PodUid>,
    unschedulable: Pool,
    n_gated: usize,
    /// The number of pods by [`QueuedPod::queued_at`].
    queued_at: BTreeMap<Time, usize>,
    arrivals: Arrival,
}

impl Places {
    /// The pod with its place; `None` when the pod does not wait.
    pub(crate) fn get(&self, uid: &str) -> Option<&WaitingPod> {
        self.pods.get(uid)
    }

    /// The waiting pods in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &WaitingPod> {
        self.pods.values()
    }

    /// A number that is higher than the number of every pod that entered a place before.
    pub(crate) fn arrive(&mut self) -> Arrival {
        self.arrivals += 1;
        self.arrivals
    }

    /// Takes a pod out of its place.
    pub(crate) fn take(&mut self, uid: &str) -> Option<WaitingPod> {
        let WaitingPod { record, place } = self.pods.remove(uid)?;
        let listed = match place {
            Place::Active(key, arrival) => self.active.remove(&(key, arrival)),
            Place::Backoff(expiry, key, arrival) => self.backoff.remove(&(expiry, key, arrival)),
            Place::ErrorBackoff(expiry, arrival) => self.error_backoff.remove(&(expiry, arrival)),
            Place::Unschedulable(arrival) => self.unschedulable.remove(arrival, &record),
        };
        debug_assert_eq!(listed.as_deref(), Some(uid), "a waiting pod is listed in its place");
        self.n_gated -= usize::from(record.gated_by.is_some());
        if let Entry::Occupied(mut n_pods) = self.queued_at.entry(record.queued_at) {
            *n_pods.get_mut() -= 1;
            if *n_pods.get() == 0 {
                n_pods.remove();
            }
        }
        Some(WaitingPod { record, place })
    }

    pub(crate) fn put(&mut self, record: QueuedPod, place: Place) {
        let uid = record.pod.uid.clone();
        match place {
            Place::Active(key, arrival) => drop(self.active.insert((key, arrival), uid.clone())),
            Place::Backoff(expiry, key, arrival) => {
                drop(self.backoff.insert((expiry, key, arrival), uid.clone()));
            }
            Place::ErrorBackoff(expiry, arrival) => {
                drop(self.error_backoff.insert((expiry, arrival), uid.clone()));
            }
            Place::Unschedulable(arrival) => {
                let pods = &self.pods;
                self.unschedulable.insert(arrival, &record, |uid| pods.get(uid).map(|pod| &pod.record));
            }
        }
        self.n_gated += usize::from(record.gated_by.is_some());
        *self.queued_at.entry(record.queued_at).or_default() += 1;
        let other = self.pods.insert(uid, WaitingPod { record, place });
        debug_assert!(other.is_none(), "a pod waits in one place");
    }

    /// The first pod of activeQ.
    pub(crate) fn first_active(&self) -> Option<&PodUid> {
        self.active.values().next()
    }

    /// The pods of activeQ, in the order in which they are tried.
    pub(crate) fn active(&self) -> impl Iterator<Item = &QueuedPod> {
        self.active.values().filter_map(|uid| self.pods.get(uid)).map(|pod| &pod.record)
    }

    /// The first pod of backoffQ that waits after a rejection.
    pub(crate) fn first_rejected(&self) -> Option<&QueuedPod> {
        self.pods.get(self.backoff.values().next()?).map(|pod| &pod.record)
    }

    /// The pool of unschedulable pods, including gated pods.
    pub(crate) fn pool(&self) -> &Pool {
        &self.unschedulable
    }

    /// The unschedulable pods with their records, in the order of their arrival.
    pub(crate) fn in_pool(&self) -> impl Iterator<Item = (Arrival, &QueuedPod)> {
        self.recorded(self.unschedulable.iter())
    }

    /// The pods of a group of the pool, in the order of their arrival.
    pub(crate) fn group(&self, group: GroupId) -> impl Iterator<Item = (Arrival, &QueuedPod)> {
        self.recorded(self.unschedulable.members(group))
    }

    fn recorded<'a>(
        &'a self,
        pods: impl Iterator<Item = (Arrival, &'a PodUid)>,
    ) -> impl Iterator<Item = (Arrival, &'a QueuedPod)> {
        pods.filter_map(|(arrival, uid)| {
            let pod = self.pods.get(uid);
            debug_assert!(pod.is_some(), "pod {uid} is in the pool and has no place");
            pod.map(|pod| (arrival, &pod.record))
        })
    }

    /// Whether the pod is in this group of the pool.
    pub(crate) fn is_in_group(&self, uid: &str, group: GroupId) -> bool {
        match self.pods.get(uid).map(|pod| pod.place) {
            Some(Place::Unschedulable(arrival)) => self.unschedulable.group_of(arrival) == Some(group),
            Some(Place::Active(..) | Place::Backoff(..) | Place::ErrorBackoff(..)) | None => false,
        }
    }

    /// The pods of the pool that the plugin rejected, in the order of their arrival.
    pub(crate) fn rejected_by(&self, plugin: &str) -> Vec<PodUid> {
        let groups = self.unschedulable.groups_rejected_by(std::iter::once(plugin));
        let pods: BTreeMap<_, _> = groups.into_iter().flat_map(|group| self.unschedulable.members(group)).collect();
        pods.into_values().cloned().collect()
    }

    /// Pods whose backoff ends before `time`, soonest first.
    pub(crate) fn backoff_over(&self, time: Time) -> Vec<PodUid> {
        let rejected = self.backoff.iter().take_while(|((end, ..), _)| *end < time);
        let broken = self.error_backoff.iter().take_while(|((end, _), _)| *end < time);
        rejected.map(|(_, uid)| uid.clone()).chain(broken.map(|(_, uid)| uid.clone())).collect()
    }

    /// The soonest end of a backoff.
    pub(crate) fn next_backoff_end(&self) -> Option<Time> {
        let rejected = self.backoff.first_key_value().map(|((end, ..), _)| *end);
        let broken = self.error_backoff.first_key_value().map(|((end, _), _)| *end);
        rejected.into_iter().chain(broken).min()
    }

    /// The earliest [`QueuedPod::queued_at`].
    pub(crate) fn earliest_queued_at(&self) -> Option<Time> {
        self.queued_at.first_key_value().map(|(time, _)| *time)
    }

    pub(crate) fn sizes(&self) -> PendingPods {
        PendingPods {
            active: self.active.len(),
            backoff: self.backoff.len() + self.error_backoff.len(),
            unschedulable: self.unschedulable.len() - self.n_gated,
            gated: self.n_gated,
        }
    }
}

/// The position of a reader that reads all waiting pods in portions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Visited {
    active: Option<(SortKey, Arrival)>,
    backoff: Option<(Time, SortKey, Arrival)>,
    error_backoff: Option<(Time, Arrival)>,
    unschedulable: Option<Arrival>,
}

impl Places {
    /// The pods that follow the visited pods, at most `limit`, place by place.
    pub(crate) fn next_portion(&self, visited: &mut Visited, limit: usize) -> Vec<PodUid> {
        let mut portion = Vec::new();
        visit(&self.active, &mut visited.active, limit, &mut portion);
        visit(&self.backoff, &mut visited.backoff, limit, &mut portion);
        visit(&self.error_backoff, &mut visited.error_backoff, limit, &mut portion);
        let left = limit.saturating_sub(portion.len());
        for (arrival, uid) in self.unschedulable.after(visited.unschedulable).take(left) {
            visited.unschedulable = Some(arrival);
            portion.push(uid.clone());
        }
        portion
    }
}

/// Adds pods that come after `visited`, until `portion` has `limit` pods.
fn visit<K: Copy + Ord>(pods: &BTreeMap<K, PodUid>, visited: &mut Option<K>, limit: usize, portion: &mut Vec<PodUid>) {
    let left = limit.saturating_sub(portion.len());
    let begin = visited.map_or(Bound::Unbounded, Bound::Excluded);
    for (key, uid) in pods.range((begin, Bound::Unbounded)).take(left) {
        *visited = Some(*key);
        portion.push(uid.clone());
    }
}

impl Place {
    pub(crate) fn sub_queue(self) -> SubQueue {
        match self {
            Place::Active(..) => SubQueue::Active,
            Place::Backoff(..) | Place::ErrorBackoff(..) => SubQueue::Backoff,
            Place::Unschedulable(_) => SubQueue::Unschedulable,
        }
    }
}
