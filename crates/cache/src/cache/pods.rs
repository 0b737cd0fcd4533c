//! The pods on nodes. Either the scheduler assumed that a pod is on its node, or the API server shows the pod there.
//!
//! A call that does not fit the pod's state is an [`Inconsistency`], which is logged and never fatal. The cache then
//! keeps the pod as the API server showed the pod last.

use std::sync::Arc;

use berth_model::{Column, Columns, NodeIdx, Pod, PodIdx, PodUid, Sym};

use super::Cache;

/// A pod in the cache.
#[derive(Clone, Debug)]
pub struct CachedPod {
    pod: Arc<Pod>,
    node: Sym,
    state: State,
    /// The pod's place in the table's list of pods; `None` while the pod's node has no row.
    slot: Option<PodIdx>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Assumed,
    Added,
}

impl CachedPod {
    /// The newest object of the pod.
    #[must_use]
    pub fn pod(&self) -> &Arc<Pod> {
        &self.pod
    }

    /// The node that the pod is on, or is assumed to be on.
    #[must_use]
    pub fn node(&self) -> Sym {
        self.node
    }

    /// Whether the scheduler placed the pod and the API server has not shown it on a node yet.
    #[must_use]
    pub fn is_assumed(&self) -> bool {
        self.state == State::Assumed
    }
}

/// A duty of the caller of [`Cache::assume`]. The caller passes this value to [`Cache::forget`] when the binding fails,
/// and to [`Assumed::settled`] when the API server shows the pod or the pod is gone.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub struct Assumed {
    uid: PodUid,
    node: Sym,
}

impl Assumed {
    /// Ends the duty. The binding succeeded or the pod is gone from the cache, so nothing in the cache must be undone.
    pub fn settled(self) {
        drop(self);
    }

    /// The node that the pod is assumed to be on.
    #[must_use]
    pub fn node(&self) -> Sym {
        self.node
    }
}

/// The result of [`Cache::add_pod`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Added {
    /// The pod was not known.
    New,
    /// The pod was assumed, on this node or on another node.
    Confirmed {
        /// The node on which the pod was assumed to be.
        assumed_on: Sym,
    },
    /// The pod had been added before.
    Updated {
        /// The previous state of the pod.
        old: Arc<Pod>,
    },
}

/// A pod that left the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The previous state of the pod.
    pub pod: Arc<Pod>,
    /// The node of the pod.
    pub node: Sym,
    /// Whether the API server had not shown the pod on the node yet.
    pub was_assumed: bool,
}

/// A call that contradicts the state of the cache.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Inconsistency {
    /// A pod that the cache already holds cannot be assumed.
    #[error("pod {uid}({name}) is in the cache, so can't be assumed")]
    AlreadyPresent {
        /// The uid of the pod.
        uid: PodUid,
        /// The name of the pod.
        name: Arc<str>,
    },
    /// The API server has shown the pod since the pod was assumed.
    #[error("pod {uid} wasn't assumed so cannot be forgotten")]
    NotAssumed {
        /// The uid of the pod.
        uid: PodUid,
    },
    /// The pod has no uid. Every pod of the API server has a uid.
    #[error("a pod without a uid can't be cached")]
    NoUid,
}

impl Cache {
    /// Counts `pod` on `node` before the API server knows of the placement.
    ///
    /// # Errors
    /// The cache already holds the pod, or it has no uid.
    pub fn assume(&mut self, pod: &Arc<Pod>, node: Sym) -> Result<Assumed, Inconsistency> {
        if pod.uid.is_empty() {
            return Err(Inconsistency::NoUid);
        }
        if self.pods.contains_key(&pod.uid) {
            return Err(Inconsistency::AlreadyPresent { uid: pod.uid.clone(), name: Arc::clone(&pod.name) });
        }
        self.n_assumed += 1;
        self.place(Arc::clone(pod), node, State::Assumed);
        Ok(Assumed { uid: pod.uid.clone(), node })
    }

    /// Counts an assumed pod with the amounts of this object of it. A pod that is not assumed any more stays as it is.
    pub fn recount_assumed(&mut self, pod: Arc<Pod>) {
        let Some(known) = self.pods.get(&pod.uid).filter(|known| known.is_assumed()) else { return };
        let node = known.node;
        self.remove_pod(&pod.uid);
        self.n_assumed += 1;
        self.place(pod, node, State::Assumed);
    }

    /// Undoes an assumption. Returns the pod as it was assumed, or `None` if the pod had left the cache already.
    ///
    /// # Errors
    /// The API server has shown the pod on a node since the assumption. The pod then stays there.
    pub fn forget(&mut self, assumed: Assumed) -> Result<Option<Arc<Pod>>, Inconsistency> {
        let Some(cached) = self.pods.get(&assumed.uid) else { return Ok(None) };
        if !cached.is_assumed() {
            return Err(Inconsistency::NotAssumed { uid: assumed.uid });
        }
        Ok(self.remove_pod(&assumed.uid).map(|removed| removed.pod))
    }

    /// Adds a pod that the API server shows on `pod.node_name`, or updates it. An assumed pod becomes a real pod, on
    /// the node that the API server shows.
    ///
    /// # Errors
    /// The pod has no uid.
    pub fn add_pod(&mut self, pod: Arc<Pod>) -> Result<Added, Inconsistency> {
        if pod.uid.is_empty() {
            return Err(Inconsistency::NoUid);
        }
        let node = pod.node_name;
        let found = match self.pods.get_mut(&pod.uid) {
            Some(known) if known.node == node && same_usage(&known.pod, &pod) => {
                let was_assumed = known.is_assumed();
                known.state = State::Added;
                // A pod is assumed before its `spec.nodeName` is set. Rules that look at placed pods ignore this
                // difference.
                let looks_alike = known.pod.is_same_elsewhere(&pod);
                let (uid, old) = (pod.uid.clone(), std::mem::replace(&mut known.pod, pod));
                self.n_assumed -= usize::from(was_assumed);
                self.changed.pods.note(&uid);
                if !looks_alike {
                    self.relist(&uid);
                }
                return Ok(if was_assumed { Added::Confirmed { assumed_on: node } } else { Added::Updated { old } });
            }
            Some(_) => match self.remove_pod(&pod.uid) {
                Some(old) if old.was_assumed => Added::Confirmed { assumed_on: old.node },
                Some(old) => Added::Updated { old: old.pod },
                None => Added::New,
            },
            None => Added::New,
        };
        self.place(pod, node, State::Added);
        Ok(found)
    }

    /// Removes a pod, whether it is assumed or added.
    pub fn remove_pod(&mut self, uid: &str) -> Option<Removed> {
        self.unlist(uid);
        let CachedPod { pod, node, state, .. } = self.pods.remove(uid)?;
        self.changed.pods.note(&pod.uid);
        let was_assumed = state == State::Assumed;
        self.n_assumed -= usize::from(was_assumed);
        if let Some(entry) = self.nodes.get_mut(&node) {
            if let Some(position) = entry.pods.iter().position(|other| **other == *uid) {
                entry.pods.swap_remove(position);
            }
            if entry.row.is_none() && entry.pods.is_empty() {
                self.nodes.remove(&node);
            }
        }
        self.count(&pod, node, -1);
        Some(Removed { pod, node, was_assumed })
    }

    fn place(&mut self, pod: Arc<Pod>, node: Sym, state: State) {
        self.changed.pods.note(&pod.uid);
        let entry = self.nodes.entry(node).or_default();
        entry.pods.push(pod.uid.clone());
        let idx = entry.idx();
        self.pods.insert(pod.uid.clone(), CachedPod { pod: Arc::clone(&pod), node, state, slot: None });
        self.count(&pod, node, 1);
        if let Some(idx) = idx {
            self.list(&pod.uid, idx);
        }
    }

    /// Adds a pod of the cache to the table's list of pods. Its node must have a row.
    pub(super) fn list(&mut self, uid: &str, node: NodeIdx) {
        let Some(cached) = self.pods.get_mut(uid) else {
            debug_assert!(false, "pod {uid} is to be listed and is not in the cache");
            return;
        };
        let slot = PodIdx(self.pod_slots.take());
        cached.slot = Some(slot);
        self.table.pods_mut().place(slot, Arc::clone(&cached.pod), node);
        let generation = self.log.record_pod(slot);
        self.table.set_generation(generation);
    }

    /// Removes a pod from the table's list. A pod whose node has no row is not in the list.
    pub(super) fn unlist(&mut self, uid: &str) {
        let Some(slot) = self.pods.get_mut(uid).and_then(|cached| cached.slot.take()) else { return };
        self.table.pods_mut().remove(slot);
        let generation = self.log.record_pod(slot);
        self.table.set_generation(generation);
        self.pod_slots.free(slot.0);
    }

    /// Removes the pod from the table's list and adds it again, so that plugins which follow pods see its change. A pod
    /// whose node has no row is not added.
    fn relist(&mut self, uid: &str) {
        self.unlist(uid);
        let node = self.pods.get(uid).and_then(|cached| self.nodes.get(&cached.node)?.idx());
        if let Some(node) = node {
            self.list(uid, node);
        }
    }

    /// Adds the pod to the sums of its node, or subtracts it when `sign` is -1. A node without a row has no sums.
    fn count(&mut self, pod: &Pod, node: Sym, sign: i64) {
        let Some(entry) = self.nodes.get(&node) else { return };
        let Some(idx) = entry.idx() else { return };
        let mut columns: Columns =
            [Column::Requested, Column::NonZeroRequested, Column::PodCount].into_iter().collect();
        if sign < 0 && self.table.is_saturated(idx) {
            self.table.clear_requested(idx);
            for pod in entry.pods.iter().filter_map(|uid| self.pods.get(uid)).map(CachedPod::pod) {
                self.table.add_requested(idx, &pod.placed_requests, pod.placed_non_zero, 1);
            }
        } else {
            self.table.add_requested(idx, &pod.placed_requests, pod.placed_non_zero, sign);
        }
        if !pod.host_ports.is_empty() {
            let pods = entry.pods.clone();
            self.write_host_ports(idx, &pods);
            columns.insert(Column::HostPorts);
        }
        self.record_row(idx, columns);
    }
}

/// Whether the two objects of a pod add the same amounts to the sums of their node.
fn same_usage(old: &Pod, new: &Pod) -> bool {
    old.placed_requests == new.placed_requests
        && old.placed_non_zero == new.placed_non_zero
        && old.host_ports == new.host_ports
}
