//! Changes of pods on nodes that an instance has not received yet.
//!
//! A plugin that is not asked about each pod need not get each change immediately. The plugin gets the changes in one
//! delta: right before it is asked, or when many changes wait. If a pod leaves while the plugin has no time, the
//! changes are kept, so that the plugin still learns that the pod came.

use std::collections::VecDeque;

use berth_model::Delta;

/// The maximum number of items that may wait: a dozen pods, with the rows that they change. One call sends all of them
/// within the time limit of a call, and delays the pod of the question.
const CAPACITY: usize = 64;

/// Several deltas about pods alone, joined to one.
#[derive(Debug, Default)]
pub(super) struct PendingChanges {
    delta: Delta,
    n_items: usize,
}

impl PendingChanges {
    /// Whether there is room for `delta`.
    pub(super) fn has_room_for(&self, delta: &Delta) -> bool {
        self.n_items + n_items(delta) <= CAPACITY
    }

    /// Whether pods of the waiting changes leave with `delta`. The instance would not learn of these pods from the
    /// joined delta.
    pub(super) fn holds_pods_that_leave(&self, delta: &Delta) -> bool {
        self.delta.pods_placed.iter().any(|placed| delta.pods_removed.contains(&placed.idx))
    }

    /// Adds a delta that contains only pods and columns that pods change, and that is not full.
    pub(super) fn add(&mut self, later: Delta) {
        debug_assert!(!later.full && later.removed.is_empty() && later.added.is_empty());
        self.n_items += n_items(&later);
        let delta = &mut self.delta;
        (delta.generation, delta.symbols_position) = (later.generation, later.symbols_position);
        delta.symbols.extend(later.symbols);
        delta.columns.extend(later.columns);
        // A delta empties slots before it places pods.
        if !later.pods_removed.is_empty() {
            delta.pods_placed.retain(|placed| !later.pods_removed.contains(&placed.idx));
            delta.pods_removed.extend(later.pods_removed);
        }
        delta.pods_placed.extend(later.pods_placed);
    }

    /// Takes the whole delta, if it is not empty.
    pub(super) fn take(&mut self) -> Option<Delta> {
        let delta = (self.n_items > 0).then(|| std::mem::take(&mut self.delta));
        self.n_items = 0;
        delta
    }

    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// The maximum number of deltas that are kept for an instance without time: one delta for each pod that left. Their
/// [`Delta::n_bytes`] are limited as well. The instance gets later changes in one delta, without the pods that came and
/// went within it.
const MAX_KEPT: usize = 1024;
const MAX_KEPT_BYTES: usize = 4 << 20;

/// Deltas that must not be joined, because each of them removes pods that the previous delta added.
#[derive(Debug, Default)]
pub(super) struct KeptChanges {
    /// The deltas, the oldest first.
    deltas: VecDeque<Delta>,
    n_bytes: usize,
}

impl KeptChanges {
    /// Keeps the delta. Returns whether it was not empty and there was room for it.
    pub(super) fn add(&mut self, delta: Delta) -> bool {
        let n_bytes = self.n_bytes + delta.n_bytes();
        // A full delta makes the instance forget its state.
        let is_kept = !delta.is_empty() && !delta.full && self.deltas.len() < MAX_KEPT && n_bytes <= MAX_KEPT_BYTES;
        if is_kept {
            self.n_bytes = n_bytes;
            self.deltas.push_back(delta);
        }
        is_kept
    }

    pub(super) fn take_oldest(&mut self) -> Option<Delta> {
        let delta = self.deltas.pop_front()?;
        self.n_bytes -= delta.n_bytes();
        Some(delta)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.deltas.is_empty()
    }
}

fn n_items(delta: &Delta) -> usize {
    let n_rows: usize = delta.columns.iter().map(|change| change.rows.len()).sum();
    delta.symbols.len() + n_rows + delta.pods_removed.len() + delta.pods_placed.len()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_model::{ColumnChange, ColumnData, NodeIdx, PlacedPod, Pod, PodIdx, Sym};

    use super::*;

    fn placed(slot: u32, uid: &str) -> PlacedPod {
        let pod = Arc::new(Pod { uid: uid.into(), ..Pod::default() });
        PlacedPod { idx: PodIdx(slot), node: NodeIdx(0), pod }
    }

    #[test]
    fn the_last_pod_of_a_slot_is_delivered() {
        let mut pending = PendingChanges::default();
        assert_eq!(pending.take(), None);
        let one = |slot, uid| Delta {
            pods_removed: vec![PodIdx(slot)],
            pods_placed: vec![placed(slot, uid)],
            ..Delta::default()
        };
        for delta in [one(1, "a"), one(2, "b"), one(1, "c")] {
            pending.add(delta);
        }
        pending.add(Delta { pods_removed: vec![PodIdx(2)], generation: 4, symbols_position: 5, ..Delta::default() });
        let delta = pending.take().unwrap();
        assert_eq!(delta.pods_placed, [placed(1, "c")]);
        assert!([1, 2].into_iter().all(|slot| delta.pods_removed.contains(&PodIdx(slot))));
        assert_eq!((delta.generation, delta.symbols_position), (4, 5));
        assert_eq!(pending.take(), None);
    }

    #[test]
    fn symbols_and_columns_stay_in_order() {
        let mut pending = PendingChanges::default();
        let column = |count| ColumnChange { rows: vec![NodeIdx(3)], data: ColumnData::PodCount(vec![count]) };
        let symbol = |text: &str| (Sym(40), text.to_owned());
        pending.add(Delta { symbols: vec![symbol("")], columns: vec![column(1)], ..Delta::default() });
        pending.add(Delta { symbols: vec![symbol("zone-a")], columns: vec![column(2)], ..Delta::default() });
        let delta = pending.take().unwrap();
        assert_eq!(delta.symbols, [symbol(""), symbol("zone-a")]);
        assert_eq!(delta.columns, [column(1), column(2)]);
    }

    #[test]
    fn what_is_kept_is_bounded_and_stays_apart() {
        let delta = |n_bytes: usize| Delta { symbols: vec![(Sym(40), "x".repeat(n_bytes))], ..Delta::default() };
        let mut kept = KeptChanges::default();
        assert!(!kept.add(Delta::default()) && !kept.add(Delta { full: true, ..delta(1) }) && kept.is_empty());
        assert!(kept.add(delta(MAX_KEPT_BYTES - 1)) && kept.add(delta(1)) && !kept.add(delta(1)));
        assert_eq!(kept.take_oldest(), Some(delta(MAX_KEPT_BYTES - 1)));
        let n_added = (0..2 * MAX_KEPT).filter(|_| kept.add(delta(1))).count();
        assert_eq!(n_added, MAX_KEPT - 1);
    }

    #[test]
    fn few_may_wait() {
        let mut pending = PendingChanges::default();
        let delta = Delta { pods_removed: vec![PodIdx(0); CAPACITY], ..Delta::default() };
        assert!(pending.has_room_for(&delta));
        pending.add(delta.clone());
        assert!(!pending.has_room_for(&delta));
        pending.forget();
        assert!(pending.has_room_for(&delta) && pending.take().is_none());
    }
}
