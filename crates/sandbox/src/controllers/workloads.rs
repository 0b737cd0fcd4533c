//! Workloads: controllers that create pods for deployments, replica sets and stateful sets.

pub(super) mod dependents;
pub(super) mod deployments;
mod pods;
pub(super) mod replica_sets;
pub(super) mod stateful_sets;
