//! Simulated controllers: what the kubelets and the controller manager of a cluster do.
//!
//! `kubelet` and `namespaces` are tasks of their own. All others share the task in `manager`: each change of an object
//! is shown to each controller, which names the objects that it must look at; those are then reconciled one after the
//! other. A controller derives everything from the stored objects and keeps nothing, so one reconciliation too many does
//! no harm. Workloads are as simple as examples of scheduling need them; jobs, daemon sets and the general garbage
//! collector are deliberately absent.

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
