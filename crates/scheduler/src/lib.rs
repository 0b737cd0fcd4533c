//! How one pod is placed, and what follows: the scheduler as a state machine.
//!
//! [`Event`]s come in, [`Action`]s leave, time is a parameter. The host passes events to [`Scheduler::handle`], calls
//! [`Scheduler::run`] as long as it did something, carries out what [`Scheduler::drain_actions`] hands over, and sleeps
//! until an event comes or [`Scheduler::next_wakeup`].
//!
//! [`Scheduler`] routes between four machines, each the owner of its state: `Intake` enters objects into cache and queue,
//! `Cycle` makes one attempt, `Bindings` takes a pod from Reserve to PostBind, and `Swaps` replaces plugins. What they share
//! is a `Context`; what they want done goes to its `Outbox`.
//! **Invariant:** a pending pod is waiting in the queue, or being placed, or known not to be ours; no failure loses it,
//! and a pod is sent to the API server for binding by one attempt at a time.

#![warn(clippy::wildcard_enum_match_arm)]

mod action;
mod bindings;
mod changes;
mod context;
mod cycle;
mod effect_bytes;
mod event;
mod failure;
mod faults;
mod gate_failures;
mod intake;
mod isolation;
mod metrics;
mod outbox;
mod pending_pods;
mod pod_limits;
mod pods_snapshot;
mod policy;
mod preemptions;
mod preparation;
mod profiles;
mod reconfiguration;
mod scheduler;
mod settings;
mod swaps;
#[cfg(test)]
mod tests;
mod turn;

pub use action::{
    Action, AttemptOutcome, EventRecord, GrantedEffect, Level, Notice, PluginEffects, PodRef, PodRequest, Request,
    RequestError, StatusChange,
};
pub use bindings::granted::{CyclePod, RefusedEffect};
pub use effect_bytes::HeldBytes;
pub use event::Event;
pub use metrics::{AttemptResult, BatchMetrics, Metrics, Observation, WaitResult};
pub use pods_snapshot::{PodView, PodsSnapshot};
pub use preparation::{Preparation, Prepared, SwapError};
pub use reconfiguration::Reconfiguration;
pub use scheduler::Scheduler;
pub use settings::Settings;
