//! The manifest: a plugin's description of itself, which is read before the plugin is used.

use berth_model::{Column, Columns, ObjectKey};

use crate::{effect::Permission, grants::ObjectRule, object_kind::ObjectKind};

/// The parts of cluster state that a plugin's replica must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Columns of the node table.
    pub columns: Columns,
    /// The keys of [`berth_model::Column::Labels`] that the replica holds; an empty list means all keys.
    pub label_keys: Vec<String>,
    /// The keys of [`berth_model::Column::Annotations`] that the replica holds. A replica cannot hold all annotations.
    pub annotation_keys: Vec<String>,
    /// Pods on nodes.
    pub pods: bool,
    /// Pending pods with their whole JSON.
    pub pod_json: bool,
    /// Whole objects of other kinds.
    pub objects: Vec<ObjectKind>,
}

impl Needs {
    /// Whether the plugin follows pods on nodes, or a column that pods change. Other plugins see no change when only
    /// the pods of a node change.
    #[must_use]
    pub fn pods_matter(&self) -> bool {
        let changed = [Column::Requested, Column::NonZeroRequested, Column::PodCount, Column::HostPorts];
        self.pods || changed.into_iter().any(|column| self.columns.contains(column))
    }

    /// Whether the plugin sees objects of this kind.
    #[must_use]
    pub fn has_objects_like(&self, key: &ObjectKey) -> bool {
        self.objects.iter().any(|it| it.api_version == key.api_version && it.kind == key.kind)
    }

    /// Whether the plugin is asked again after a change of this object, if the plugin waits for the object. `own` is
    /// the pod of the plugin's cycle. The manifest need not name it.
    #[must_use]
    pub fn end_wait_for(&self, object: &ObjectKey, own: &ObjectKey) -> bool {
        object == own || self.has_objects_like(object)
    }
}

/// A cluster event that may make a pod that the plugin rejected schedulable (`ClusterEvent` in kube-scheduler's
/// `staging/src/k8s.io/kube-scheduler/framework/types.go`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClusterEvent {
    /// `Pod`, `Node`, `PersistentVolumeClaim`, or `<plural>.<version>.<group>`; `*` is every kind.
    pub resource: String,
    /// Bits of the action mask, lowest first: Add, Delete, UpdateNodeAllocatable, UpdateNodeLabel, UpdateNodeTaint,
    /// UpdateNodeCondition, UpdateNodeAnnotation, UpdateNodeDeclaredFeature, UpdatePodLabel, UpdatePodScaleDown,
    /// UpdatePodToleration, UpdatePodSchedulingGatesEliminated, UpdatePodGeneratedResourceClaim.
    pub actions: u32,
}

impl ClusterEvent {
    /// The object was created.
    pub const ADD: u32 = 1;
    /// The object was deleted.
    pub const DELETE: u32 = 1 << 1;
    /// `status.allocatable` changed.
    pub const UPDATE_NODE_ALLOCATABLE: u32 = 1 << 2;
    /// `metadata.labels` changed.
    pub const UPDATE_NODE_LABEL: u32 = 1 << 3;
    /// `spec.taints` or `spec.unschedulable` changed.
    pub const UPDATE_NODE_TAINT: u32 = 1 << 4;
    /// `status.conditions` changed.
    pub const UPDATE_NODE_CONDITION: u32 = 1 << 5;
    /// `metadata.annotations` changed.
    pub const UPDATE_NODE_ANNOTATION: u32 = 1 << 6;
    /// `status.declaredFeatures` changed.
    pub const UPDATE_NODE_DECLARED_FEATURE: u32 = 1 << 7;
    /// `metadata.labels` changed.
    pub const UPDATE_POD_LABEL: u32 = 1 << 8;
    /// A resource request was decreased.
    pub const UPDATE_POD_SCALE_DOWN: u32 = 1 << 9;
    /// A toleration was added.
    pub const UPDATE_POD_TOLERATION: u32 = 1 << 10;
    /// The last scheduling gate was removed.
    pub const UPDATE_POD_SCHEDULING_GATES_ELIMINATED: u32 = 1 << 11;
    /// A claim was generated for the pod.
    pub const UPDATE_POD_GENERATED_RESOURCE_CLAIM: u32 = 1 << 12;
    /// Every update bit.
    pub const UPDATE: u32 = (1 << 13) - 1 - Self::ADD - Self::DELETE;
    /// Every bit.
    pub const ALL: u32 = (1 << 13) - 1;

    /// The names of actions by bit, lowest first, as in kube-scheduler's `ActionType`.
    const NAMES: [&'static str; 13] = [
        "Add",
        "Delete",
        "UpdateNodeAllocatable",
        "UpdateNodeLabel",
        "UpdateNodeTaint",
        "UpdateNodeCondition",
        "UpdateNodeAnnotation",
        "UpdateNodeDeclaredFeature",
        "UpdatePodLabel",
        "UpdatePodScaleDown",
        "UpdatePodToleration",
        "UpdatePodSchedulingGatesEliminated",
        "UpdatePodGeneratedResourceClaim",
    ];

    /// An event of `resource` with the action bits `actions`.
    #[must_use]
    pub fn new(resource: &str, actions: u32) -> Self {
        Self { resource: resource.to_owned(), actions }
    }

    /// The actions in one word, as kube-scheduler's metrics write them. `None` for several actions that are neither all
    /// updates nor all actions.
    #[must_use]
    pub fn action_name(&self) -> Option<&'static str> {
        match self.actions {
            Self::ALL => Some("All"),
            Self::UPDATE => Some("Update"),
            single if single.is_power_of_two() => Self::NAMES.get(single.trailing_zeros() as usize).copied(),
            _ => None,
        }
    }

    /// The actions in words. `Update` stands for every update and `All` for every action.
    #[must_use]
    pub fn action_names(&self) -> Vec<&'static str> {
        let has = |actions: u32| self.actions & actions == actions;
        if has(Self::ALL) {
            return vec!["All"];
        }
        let is_any_update = has(Self::UPDATE);
        let bits = Self::NAMES.into_iter().enumerate().map(|(at, name)| (1_u32 << at, name));
        let named = bits.filter(|(bit, _)| has(*bit) && !(is_any_update && bit & Self::UPDATE != 0));
        named.map(|(_, name)| name).chain(is_any_update.then_some("Update")).collect()
    }
}

/// A plugin's own description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The name by which profiles refer to the plugin, for example `NodeAffinity`.
    pub name: String,
    /// A version for people. The digest of the binary, not the version, identifies the plugin.
    pub version: String,
    /// The data that the plugin's replica must hold.
    pub needs: Needs,
    /// Events that may make a pod schedulable again; `None` means that every event may.
    pub events_to_register: Option<Vec<ClusterEvent>>,
    /// The effects, by name, that a built-in plugin needs for its work. A component cannot declare the effects that it
    /// needs: its manifest leaves this list and the list of rules empty, and the operator's configuration grants it
    /// effects.
    pub effects: Vec<Permission>,
    /// The changes of objects that a built-in plugin needs for its work.
    pub rules: Vec<ObjectRule>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_have_names() {
        let names = |actions| ClusterEvent::new("Node", actions).action_names();
        let label_or_taint = ClusterEvent::UPDATE_NODE_LABEL | ClusterEvent::UPDATE_NODE_TAINT;
        assert_eq!(names(ClusterEvent::ADD | label_or_taint), ["Add", "UpdateNodeLabel", "UpdateNodeTaint"]);
        assert_eq!(names(ClusterEvent::DELETE | ClusterEvent::UPDATE), ["Delete", "Update"]);
        assert_eq!(names(ClusterEvent::UPDATE_POD_GENERATED_RESOURCE_CLAIM), ["UpdatePodGeneratedResourceClaim"]);
        assert_eq!(names(ClusterEvent::ALL), ["All"]);
        assert!(names(0).is_empty());

        let name = |actions| ClusterEvent::new("Node", actions).action_name();
        assert_eq!(name(ClusterEvent::UPDATE_NODE_TAINT), Some("UpdateNodeTaint"));
        assert_eq!(name(ClusterEvent::UPDATE), Some("Update"));
        assert_eq!(name(ClusterEvent::ALL), Some("All"));
        assert_eq!([name(label_or_taint), name(0), name(1 << 20)], [None; 3]);
    }
}
