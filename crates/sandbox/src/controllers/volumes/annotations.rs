//! The annotations by which the scheduler, the controllers and the storage drivers tell each other what they have done, see
//! <https://kubernetes.io/docs/reference/labels-annotations-taints/>.

/// Says on a volume that a controller or the scheduler has chosen the claim, and on a claim that the controller has
/// chosen the volume.
pub(super) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// Says on a claim that both sides of the binding are written.
pub(super) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Names on a claim the node that the scheduler has chosen for the pod.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Names on a volume the provisioner that made it for a claim.
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Names on a claim the provisioner that is to make the volume, under the former name and the current one.
pub(super) const PROVISIONER: [&str; 2] =
    ["volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner"];
/// Names on a claim or a volume its class, from before there was a field for it.
pub(super) const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
