//! Pods on nodes that are sent to an instance as the difference from another pod that the instance has.
//!
//! Each list and each text of a pod costs a call of the component's allocator, even if it is empty. A pod that is like
//! another pod on a node is sent with only two texts.

use std::sync::Arc;

use berth_model::{Delta, PlacedPod, Pod, PodIdx};
use rustc_hash::FxHashMap;

use crate::bindings::points::sync_pods::AlikePod;

/// The maximum number of equivalence classes whose pods are sent as differences.
const CAPACITY: usize = 1024;

/// One placed pod of each equivalence class that the instance holds.
#[derive(Debug, Default)]
pub(super) struct PlacedClasses {
    /// The slot of a pod of each class, by [`Pod::equivalence_hash`]. A pod of another class may have the slot by now.
    slots: FxHashMap<u64, PodIdx>,
    /// The pods that the instance has in these slots.
    pods: FxHashMap<PodIdx, Arc<Pod>>,
}

impl PlacedClasses {
    /// Removes from the next delta of the instance the pods that are like a pod that the instance has or gets with this
    /// delta. Returns the differences of the removed pods.
    pub(super) fn take_alike(&mut self, delta: &mut Delta) -> Vec<AlikePod> {
        if delta.full {
            self.forget();
        }
        for slot in &delta.pods_removed {
            self.pods.remove(slot);
        }
        for placed in &delta.pods_placed {
            self.pods.remove(&placed.idx);
        }
        let mut alike = Vec::new();
        delta.pods_placed.retain(|placed| match self.like(placed) {
            Some(like) => {
                alike.push(difference(placed, like));
                false
            }
            None => true,
        });
        alike
    }

    /// The slot of a pod of this pod's class. If no pod of the class has a slot, this pod is kept for later pods.
    fn like(&mut self, placed: &PlacedPod) -> Option<PodIdx> {
        let hash = placed.pod.equivalence_hash();
        if let Some(&slot) = self.slots.get(&hash)
            && self.pods.get(&slot).is_some_and(|pod| pod.is_equivalent_elsewhere(&placed.pod))
        {
            return Some(slot);
        }
        if self.slots.len() == CAPACITY || self.pods.len() == CAPACITY {
            self.forget();
        }
        self.slots.insert(hash, placed.idx);
        self.pods.insert(placed.idx, Arc::clone(&placed.pod));
        None
    }

    pub(super) fn forget(&mut self) {
        self.slots.clear();
        self.pods.clear();
    }
}

fn difference(placed: &PlacedPod, like: PodIdx) -> AlikePod {
    let PlacedPod { idx, node, pod } = placed;
    AlikePod {
        slot: idx.0,
        node: node.0,
        like: like.0,
        uid: pod.uid.to_string(),
        name: pod.name.to_string(),
        node_name: pod.node_name.0,
        nominated_node_name: pod.nominated_node_name.0,
        started_at: pod.started_at,
    }
}

#[cfg(test)]
mod tests {
    use berth_model::NodeIdx;

    use super::*;

    fn placed(slot: u32, uid: &str, priority: i32) -> PlacedPod {
        let pod = Arc::new(Pod { uid: uid.into(), priority, ..Pod::default() });
        PlacedPod { idx: PodIdx(slot), node: NodeIdx(0), pod }
    }

    /// The slots of whole pods, and the slots of other pods, each with the slot of a similar whole pod.
    fn taken(classes: &mut PlacedClasses, mut delta: Delta) -> (Vec<u32>, Vec<(u32, u32)>) {
        let alike = classes.take_alike(&mut delta).into_iter().map(|pod| (pod.slot, pod.like)).collect();
        (delta.pods_placed.iter().map(|placed| placed.idx.0).collect(), alike)
    }

    fn delta(removed: &[u32], pods_placed: &[PlacedPod]) -> Delta {
        let pods_removed = removed.iter().copied().map(PodIdx).collect();
        Delta { pods_removed, pods_placed: pods_placed.to_vec(), ..Delta::default() }
    }

    #[test]
    fn pods_are_told_by_their_like_that_are_there() {
        let mut classes = PlacedClasses::default();
        let first = delta(&[], &[placed(0, "a", 1), placed(1, "b", 2), placed(2, "c", 1)]);
        assert_eq!(taken(&mut classes, first), (vec![0, 1], vec![(2, 0)]));
        assert_eq!(taken(&mut classes, delta(&[5], &[placed(5, "d", 2)])), (vec![], vec![(5, 1)]));
        // The first pod of its class leaves, and a pod of the other class gets its slot.
        let moved = delta(&[0, 6], &[placed(6, "e", 1), placed(0, "f", 2)]);
        assert_eq!(taken(&mut classes, moved), (vec![6], vec![(0, 1)]));
        assert_eq!(taken(&mut classes, delta(&[], &[placed(7, "g", 1)])), (vec![], vec![(7, 6)]));
        let full = Delta { full: true, ..delta(&[], &[placed(0, "a", 1)]) };
        assert_eq!(taken(&mut classes, full), (vec![0], vec![]));
    }

    #[test]
    fn a_pod_that_changes_is_not_like_itself() {
        let mut classes = PlacedClasses::default();
        taken(&mut classes, delta(&[], &[placed(0, "a", 1)]));
        assert_eq!(taken(&mut classes, delta(&[0], &[placed(0, "a", 1)])), (vec![0], vec![]));
        // A pod is not compared with the pod whose slot it takes, even if the delta does not name this slot as emptied.
        assert_eq!(taken(&mut classes, delta(&[], &[placed(1, "b", 1), placed(0, "c", 2)])), (vec![1, 0], vec![]));
    }

    #[test]
    fn classes_are_bounded() {
        let mut classes = PlacedClasses::default();
        for slot in 0..3000 {
            taken(&mut classes, delta(&[], &[placed(slot, "a", i32::try_from(slot).unwrap())]));
            assert!(classes.slots.len() <= CAPACITY && classes.pods.len() <= CAPACITY);
        }
    }
}
