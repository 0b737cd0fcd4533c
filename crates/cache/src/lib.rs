//! The scheduler's view of the cluster: nodes, the pods on them, and pods that are assumed to be on a node until the API
//! server shows them there.
//!
//! [`Cache`] owns the [`berth_model::ClusterTable`] and writes the table in place. Only the scheduling thread uses the
//! cache, so there are no locks and no second copy. Replicas get their changes through
//! [`berth_framework::DeltaSource`], which reads a bounded log of changes. The crate does not know the queue,
//! Kubernetes' API machinery or time.

#![warn(clippy::wildcard_enum_match_arm)]

mod cache;
mod change_log;
mod slots;
#[cfg(test)]
mod tests;
mod zones;

pub use cache::{Added, Assumed, Cache, CachedNode, CachedPod, Inconsistency, Removed, Sizes};
pub use zones::NodeOrder;
