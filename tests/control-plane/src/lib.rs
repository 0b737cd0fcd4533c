//! A real etcd and kube-apiserver on loopback, for tests that a sandbox cannot decide.
//!
//! The binaries come from envtest: [`Assets`] finds them in the folder in `KUBEBUILDER_ASSETS`. There are no
//! controllers and no kubelet, so volumes are not bound, claims are not made from templates, and pods do not run.
//! Authorization is RBAC with the roles that Kubernetes ships. A scheduler is `system:kube-scheduler`, with a client
//! certificate like those of kubeadm.

mod assets;
mod audit;
mod certificates;
mod control_plane;
mod objects;

pub use assets::Assets;
pub use audit::AuditEntry;
pub use control_plane::{ControlPlane, Options, User};
pub use objects::{Objects, is_refused};
