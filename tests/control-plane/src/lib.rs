//! A real etcd and kube-apiserver on loopback, for tests that a sandbox cannot decide.
//!
//! The binaries are those of envtest: [`Assets`] finds them in the folder that `KUBEBUILDER_ASSETS` names. There are no
//! controllers and no kubelet: nothing binds volumes, makes claims from templates or runs pods. Authorization is RBAC with
//! the roles that Kubernetes ships; a scheduler is `system:kube-scheduler`, with a client certificate as kubeadm makes it.

mod assets;
mod audit;
mod certificates;
mod control_plane;
mod objects;

pub use assets::Assets;
pub use audit::AuditEntry;
pub use control_plane::{ControlPlane, Options, User};
pub use objects::{Objects, is_refused};
