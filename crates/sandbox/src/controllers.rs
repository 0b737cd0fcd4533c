//! Simulated controllers: they do the work of a cluster's kubelets and controller manager.
//!
//! `kubelet` and `namespaces` are separate tasks. All other controllers share the task in `manager`: each controller
//! gets each change to an object, and names the objects that it must check. The named objects are then reconciled one
//! after the other. A controller derives everything from the stored objects and keeps no state, so an additional
//! reconciliation does no harm. Workloads are only as complex as examples of scheduling need. Jobs, daemon sets and the
//! general garbage collector are deliberately absent.

mod collections;
mod controller;
mod devices;
mod disruption_budgets;
pub(crate) mod kubelet;
pub(crate) mod manager;
pub(crate) mod namespaces;
mod owners;
mod templates;
mod volumes;
mod workloads;
