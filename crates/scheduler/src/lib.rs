//! How one pod is placed, and what follows: the scheduler as a state machine.
//!
//! Facts come in as [`Event`]s, wishes leave as [`Action`]s, time is a parameter. The host feeds events to
//! [`Scheduler::handle`], calls [`Scheduler::run`] as long as it did something, carries out what
//! [`Scheduler::drain_effects`] hands over, and sleeps until an event comes or [`Scheduler::next_wakeup`].
//! **Invariant:** a pending pod is waiting in the queue, or being placed, or known not to be ours; no failure loses it,
//! and a pod is sent to the API server for binding by one attempt at a time.

#![warn(clippy::wildcard_enum_match_arm)]

mod action;
mod batching;
mod binding;
mod changes;
mod cluster;
mod cycle;
mod effects;
mod event;
mod failure;
mod metrics;
mod pending;
mod permit;
mod plugins;
mod policy;
mod pre_bind;
mod preemption;
mod preparation;
mod scheduler;
#[cfg(test)]
mod tests;

pub use action::{Action, EventRecord, Level, PodRef};
pub use batching::BatchMetrics;
pub use event::Event;
pub use metrics::{AttemptResult, Metrics, Observation};
pub use preparation::{Preparation, Prepared};
pub use scheduler::{Scheduler, Settings};
