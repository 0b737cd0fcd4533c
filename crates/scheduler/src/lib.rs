//! How one pod is placed, and what follows: the scheduler as a state machine.
//!
//! [`Event`]s come in, [`Action`]s leave, time is a parameter. The host passes events to [`Scheduler::handle`], calls
//! [`Scheduler::run`] as long as it did something, carries out what [`Scheduler::drain_actions`] hands over, and sleeps
//! until an event comes or [`Scheduler::next_wakeup`].
//!
//! [`Scheduler`] routes between four machines, each the owner of its state: `EventHandlers` enters objects into cache and queue,
//! `Cycle` makes one attempt, `Bindings` takes a pod from Reserve to PostBind, and `Swaps` replaces plugins. What they share
//! is a `Context`, whose fields are its own; what they want done goes to its `Outbox`. Which pods are held back for a plugin's
//! faults is decided by [`berth_lifecycle::Isolation`].
//! **Invariant:** a pending pod is waiting in the queue, or being placed, or known not to be ours; no failure loses it,
//! and a pod is sent to the API server for binding by one attempt at a time.
//!
//! # What a decision depends on
//!
//! [`Event`] and [`Action`] are data, so they can be written down; objects stand in them as [`Handle`]s. The same events give the
//! same decisions where the following is the same as well, all of which comes in as a value or through a trait:
//!
//! - the time that goes with each event and each [`Scheduler::run`], and where one turn ends and the next begins: at
//!   [`Scheduler::EVENTS_PER_TURN`] events, or after [`Scheduler::TURN`] by the clock of [`Scheduler::with_clock`];
//! - the budgets of processor time (`SchedulingTime` of [`Scheduler::with_time`]), which say whose pods wait for others, and
//!   which plugin is not asked;
//! - the answers of plugins behind a [`Handle`], among them faults and time-outs of components ([`Event::PluginFaulted`]);
//! - the answers of extenders ([`Reconfiguration::extenders`], [`Scheduler::with_extenders`]);
//! - the node at which a search begins (the rotation of kube-scheduler's `nextStartNodeIndex`): it follows from the searches
//!   before, and is 0 at the start.
//!
//! The seed of [`Scheduler::with_clock`] chooses which attempts are timed; no decision depends on it.

#![warn(clippy::wildcard_enum_match_arm)]

mod action;
mod bindings;
mod change_feed;
mod changes;
mod cluster_view;
mod context;
mod cycle;
mod effect_bytes;
mod event;
mod event_handlers;
mod failure;
mod host_objects;
mod metrics;
mod outbox;
mod pending_pods;
mod pod_limits;
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
mod unasked_gates;

pub use action::{
    Action, AttemptOutcome, CodePlace, EventRecord, GrantedEffect, Level, Notice, PluginEffects, PodRef, PodRequest,
    Request, RequestError, StatusChange, Supervision,
};
pub use bindings::{
    BindingStage, PodBinding,
    granted::{CyclePod, RefusedEffect},
};
pub use change_feed::{ChangeBatch, FollowedPod, PodPlace};
pub use cluster_view::{ClusterView, PodView};
pub use cycle::LastAttempt;
pub use effect_bytes::HeldBytes;
pub use event::Event;
pub use host_objects::{Handle, HostObjects};
pub use metrics::{AttemptResult, BatchMetrics, Metrics, Observation, WaitResult};
pub use preparation::{Preparation, Prepared, SwapError};
pub use reconfiguration::Reconfiguration;
pub use scheduler::{Scheduler, SearchState};
pub use settings::Settings;
