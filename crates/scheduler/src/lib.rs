//! The scheduler as a state machine. It places one pod at a time, and takes the pod through all steps until it is
//! bound.
//!
//! [`Event`]s come in and [`Action`]s go out. The time is a parameter. The host passes events to [`Scheduler::handle`],
//! and calls [`Scheduler::run`] as long as there is more to do. The host carries out the actions of
//! [`Scheduler::drain_actions`], and then sleeps until an event comes or [`Scheduler::next_wakeup`].
//!
//! [`Scheduler`] passes events and calls to four machines, each with its own state. `EventHandlers` enters objects into
//! cache and queue, `Cycle` makes one attempt, `Bindings` takes a pod from Reserve to PostBind, and `Swaps` replaces
//! plugins. The machines share a `Context`, and only the context reads its fields. The machines put actions into the
//! context's `Outbox`. [`berth_lifecycle::Isolation`] decides which pods are held back because of a plugin's faults.
//! **Invariant:** a pending pod waits in the queue, is being placed, or is known not to belong to this scheduler. No
//! failure loses a pod, and only one attempt at a time sends a pod to the API server for binding.
//!
//! # What a decision depends on
//!
//! [`Event`] and [`Action`] are data, so they can be serialized. [`Handle`]s stand for objects in events and actions.
//! The same events lead to the same decisions if the following inputs are the same as well. All of these inputs come in
//! as a value or through a trait:
//!
//! - the time of each event and each [`Scheduler::run`], and the end of each turn: after [`Scheduler::EVENTS_PER_TURN`]
//!   events, or after [`Scheduler::TURN`] by the clock of [`Scheduler::with_clock`];
//! - the budgets of processor time (`SchedulingTime` of [`Scheduler::with_time`]), which decide which pods wait for
//!   other pods and which plugin is not asked;
//! - the answers of plugins behind a [`Handle`], including faults and time-outs of components
//!   ([`Event::PluginFaulted`]);
//! - the answers of extenders ([`Reconfiguration::extenders`], [`Scheduler::with_extenders`]);
//! - the node at which a search begins (the rotation of kube-scheduler's `nextStartNodeIndex`). This node depends on
//!   the earlier searches, and is 0 at the start.
//!
//! The seed of [`Scheduler::with_clock`] decides which attempts are timed. No decision depends on the seed.

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
mod occurrence;
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
mod shared_facts;
mod swaps;
#[cfg(test)]
mod tests;
mod turn;
mod unasked_gates;

pub use action::{
    Action, AttemptOutcome, CodePlace, EventRecord, GrantedEffect, HeldPods, Level, Notice, PluginEffects, PodRef,
    PodRequest, Request, RequestError, StatusChange, Supervision, TracedAttempt, TracedPreemption,
};
pub use bindings::{
    BindingStage, PERMIT_WAIT, PodBinding, PodHolder,
    granted::{CyclePod, RefusedEffect},
};
pub use change_feed::{ChangeBatch, CopyKind, FollowedPod, PodPlace};
pub use cluster_view::{ClusterView, PodList, PodView};
pub use cycle::LastAttempt;
pub use effect_bytes::HeldBytes;
pub use event::Event;
pub use host_objects::{Handle, HostObjects};
pub use metrics::{AttemptResult, BatchMetrics, HintAnswer, Metrics, Observation, Totals, WaitResult};
pub use occurrence::{ChangeType, Occurrence, PodMoved, PodName};
pub use outbox::NotBoundAttempt;
pub use preparation::{Preparation, Prepared, SwapError};
pub use reconfiguration::Reconfiguration;
pub use scheduler::{Scheduler, SearchState};
pub use settings::Settings;
