//! The annotations by which the scheduler, the controllers and the storage drivers tell each other what they have done, see
//! <https://kubernetes.io/docs/reference/labels-annotations-taints/>.

/// On a volume: a controller or the scheduler has chosen the claim. On a claim: the controller has chosen the volume.
pub(super) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// On a claim: both sides of the binding are written.
pub(super) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// On a claim: the node that the scheduler has chosen for the pod.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// On a volume: the provisioner that made it for a claim.
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// On a claim: the provisioner that is to make the volume, under the former name and the current one.
pub(super) const PROVISIONER: [&str; 2] =
    ["volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner"];
/// On a claim or a volume: its class, from before there was a field for it.
pub(super) const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
