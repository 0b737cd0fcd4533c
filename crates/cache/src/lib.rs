//! What the cluster looks like: nodes, the pods on them, and pods that were placed but not yet seen there.
//!
//! [`Cache`] owns the node table and writes it in place; the scheduling thread is its only user, so there are no locks
//! and no second copy. Replicas catch up through [`berth_framework::DeltaSource`], fed from a bounded log of changes.
//! Nothing here knows the queue, Kubernetes' API machinery or time.

#![warn(clippy::wildcard_enum_match_arm)]

mod cache;
mod change_log;
mod delta;
mod nodes;
mod objects;
mod pods;
#[cfg(test)]
mod tests;
mod zones;

pub use cache::{Cache, CachedNode, Sizes};
pub use pods::{Added, Assumed, CachedPod, Inconsistency, Removed};
