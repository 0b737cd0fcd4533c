//! Workloads: deployments, replica sets and stateful sets get pods.

pub(super) mod dependents;
pub(super) mod deployments;
mod pods;
pub(super) mod replica_sets;
pub(super) mod stateful_sets;
