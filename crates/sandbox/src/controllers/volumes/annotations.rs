//! The annotations through which the scheduler, the controllers and the storage drivers communicate, see
//! <https://kubernetes.io/docs/reference/labels-annotations-taints/>.

/// The annotation of a volume if a controller or the scheduler chose its claim, and of a claim if the controller chose
/// its volume.
pub(super) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The annotation of a claim for which both sides of the binding are written.
pub(super) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The annotation of a claim with the node that the scheduler has chosen for the pod.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The annotation of a volume with the provisioner that created it for a claim.
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The annotations of a claim with the provisioner that must create the volume: the former name and the current name.
pub(super) const PROVISIONER: [&str; 2] =
    ["volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner"];
/// The annotation of a claim or a volume with its class. The annotation was used before the field existed.
pub(super) const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
