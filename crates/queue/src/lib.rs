//! Which pod is next: pods that are ready, pods that back off, pods that wait for something to happen, and pods in the
//! middle of an attempt.
//!
//! [`Queue`] knows neither nodes nor clocks: time comes in as [`Time`], what plugins have to say through [`Policy`].
//! **Invariant:** a pod is in one place at most, and whoever takes one out by [`Queue::pop`] holds it as a
//! [`QueuedPod`] until it is bound, deleted or handed back.

#![warn(clippy::wildcard_enum_match_arm)]

mod backoff;
mod in_flight;
mod metrics;
mod moves;
mod nominator;
mod occurrence;
mod policy;
mod queue;
mod registrations;
mod requeue;
#[cfg(test)]
mod tests;

pub use backoff::Backoff;
pub use metrics::{PendingPods, QueueMetrics, SubQueue};
pub use nominator::Nominator;
pub use occurrence::{Occurrence, Subject};
pub use policy::{Gate, Policy};
pub use queue::{Queue, QueuedPod, Settings};
pub use registrations::{PluginEvents, matches};
pub use requeue::Failure;
