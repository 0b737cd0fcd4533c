//! Scores nodes by the storage that a pod would leave there (KEP-4049).
//!
//! The requests for each class are compared with the capacity: of existing volumes, or of the storage from which
//! volumes are provisioned if the node has no volumes for the pod. kube-scheduler: `scorer.go` in
//! `pkg/scheduler/framework/plugins/volumebinding`.

use std::collections::BTreeMap;

use berth_model::{ClusterTable, NodeIdx, quantity::Quantity};

use super::{matching::PodVolumes, provisioning::Provisioning};
use crate::utilization_shape::{PointArgs, Shape, ShapeError};

/// The default shape, which prefers nodes with much room.
const DEFAULT_SHAPE: [PointArgs; 2] =
    [PointArgs { utilization: 0, score: 10 }, PointArgs { utilization: 100, score: 0 }];

#[derive(Debug)]
pub(super) struct CapacityScoring {
    shape: Shape,
}

/// Bytes of one class.
#[derive(Clone, Copy, Debug, Default)]
struct ClassUse {
    requested: i64,
    capacity: i64,
}

impl CapacityScoring {
    /// Uses the default shape if there are no points.
    pub(super) fn new(points: &[PointArgs]) -> Result<Self, ShapeError> {
        let points = if points.is_empty() { &DEFAULT_SHAPE[..] } else { points };
        Ok(Self { shape: Shape::new(points)? })
    }

    /// The score of a node for which these volumes are chosen.
    pub(super) fn score(
        &self,
        chosen: &PodVolumes,
        provisioning: &mut Provisioning,
        table: &ClusterTable,
        node: NodeIdx,
    ) -> i64 {
        let mut classes: BTreeMap<&str, ClassUse> = BTreeMap::new();
        let bytes = |request: Option<&Quantity>| request.map_or(0, Quantity::value);
        for (claim, entry) in &chosen.static_bindings {
            let of_class = classes.entry(entry.volume.class()).or_default();
            of_class.requested = of_class.requested.saturating_add(bytes(claim.request()));
            of_class.capacity = of_class.capacity.saturating_add(entry.capacity.value());
        }
        if chosen.static_bindings.is_empty() {
            for claim in &chosen.dynamic_provisions {
                let Some(capacity) = provisioning.capacity_for(claim, node, table) else { continue };
                let of_class = classes.entry(claim.class()).or_default();
                of_class.requested = of_class.requested.saturating_add(bytes(claim.request()));
                of_class.capacity = capacity;
            }
        }
        self.of_classes(classes.into_values())
    }

    /// The mean of the classes' scores, rounded to the nearest integer, with halves rounded up; no value is negative.
    /// It is 0 if there is no class.
    fn of_classes(&self, classes: impl ExactSizeIterator<Item = ClassUse>) -> i64 {
        let n_classes = i64::try_from(classes.len()).unwrap_or(i64::MAX);
        let sum: i64 = classes.map(|of_class| self.of_class(of_class)).sum();
        (2 * sum + n_classes).checked_div(2 * n_classes).unwrap_or(0)
    }

    fn of_class(&self, ClassUse { requested, capacity }: ClassUse) -> i64 {
        if capacity == 0 || requested > capacity {
            return self.shape.at(100);
        }
        let utilization = i128::from(requested) * 100 / i128::from(capacity);
        self.shape.at(i64::try_from(utilization).unwrap_or(100))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The score of classes with these GiB of requests and of capacity.
    fn scored(points: &[PointArgs], classes: &[(i64, i64)]) -> i64 {
        let class =
            |&(requested, capacity): &(i64, i64)| ClassUse { requested: requested << 30, capacity: capacity << 30 };
        CapacityScoring::new(points).unwrap().of_classes(classes.iter().map(class))
    }

    /// The default shape of Kubernetes 1.37 prefers the node with the most room.
    #[test]
    fn much_room_scores_high() {
        assert_eq!([scored(&[], &[(50, 100)]), scored(&[], &[(50, 400)])], [50, 88]);
        assert_eq!(scored(&[], &[(60, 100)]), 40);
        assert_eq!(scored(&[], &[(50, 100), (13, 100)]), 69, "(50 + 87) / 2");
        assert_eq!(scored(&[], &[(10, 40)]), 75);
        assert_eq!(scored(&[], &[(120, 100)]), 0);
        assert_eq!(scored(&[], &[(1, 0)]), 0);
        assert_eq!(scored(&[], &[]), 0);
    }

    #[test]
    fn a_shape_is_followed_between_its_points() {
        let point = |utilization, score| PointArgs { utilization, score };
        assert_eq!(scored(&[point(0, 0), point(50, 10), point(100, 10)], &[(33, 100)]), 66);
    }
}
