//! The scheduling queue: activeQ, backoffQ, the pool of unschedulable pods, and pods in the middle of an attempt.
//!
//! [`Queue`] knows neither nodes nor clocks: its callers pass the time as [`berth_model::Time`], and plugins answer
//! through [`Policy`]. **Invariant:** a pod is in one place at most, and the caller of [`Queue::pop`] holds the pod as
//! a [`QueuedPod`] until it is bound, deleted or requeued.

#![warn(clippy::wildcard_enum_match_arm)]

mod backoff;
mod in_flight;
mod metrics;
mod movement;
mod nominator;
mod object_event;
mod places;
mod policy;
mod pool;
mod queue;
mod record;
mod registrations;
#[cfg(test)]
mod tests;

pub use backoff::Backoff;
pub use metrics::{PendingPods, QueueMetrics, SubQueue};
pub use movement::{MoveCause, MoveReason, Movement, QueueingStrategy};
pub use nominator::Nominator;
pub use object_event::{EventObjects, ObjectEvent, ObjectEventKind, PodEventLabels};
pub use places::Visited;
pub use policy::{Gate, Policy};
pub use queue::{Queue, RejectedBy, Settings, Waiting};
pub use record::QueuedPod;
pub use registrations::{PluginEvents, matches};
