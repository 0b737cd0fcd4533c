//! All that the scheduler wants done.

use std::sync::Arc;

use berth_framework::{CycleId, Effect, Permission, PluginVersion};
use berth_model::{PodUid, api};

use crate::preparation::Preparation;

/// A pod as API calls name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRef {
    pub namespace: String,
    pub name: String,
    pub uid: PodUid,
    pub resource_version: String,
}

/// A wish, to be carried out in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Bind the pod; answer with [`crate::Event::BindFinished`].
    Bind { cycle: CycleId, pod: PodRef, node: String },
    /// Patch the pod's `status`, computed from what stands here alone.
    PatchStatus {
        pod: PodRef,
        old_conditions: Vec<api::Condition>,
        /// To be set; without `last_transition_time` it is now.
        condition: Option<api::Condition>,
        old_nominated_node_name: String,
        /// To be set, or with the empty string cleared.
        nominated_node_name: Option<String>,
    },
    /// Write an event about the pod.
    Event(EventRecord),
    /// Do what a plugin asked for; nobody waits for it.
    Effects { cycle: CycleId, pod: PodRef, scheduler_name: String, plugin: Arc<str>, effects: Vec<Effect> },
    /// Do what a plugin asked for, in order, and answer with [`crate::Event::EffectsFinished`].
    AwaitedEffects { cycle: CycleId, pod: PodRef, scheduler_name: String, plugin: Arc<str>, effects: Vec<Effect> },
    /// Run this where it holds nobody up, and answer with [`crate::Event::PluginPrepared`].
    PreparePlugin(Box<Preparation>),
    /// How [`crate::Event::PluginReady`] went in one profile. All profiles change over to a binary, or none.
    PluginSwapped { scheduler_name: String, plugin: String, version: PluginVersion, result: Result<(), String> },
    /// A plugin asked for something that the operator did not grant, in vain.
    EffectRefused { pod: PodRef, plugin: Arc<str>, permission: Permission },
    /// A line for the log.
    Log { level: Level, message: String },
}

/// An event of `events.k8s.io/v1`. The note may be longer than the API allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    pub regarding: PodRef,
    /// `Warning`; else `Normal`.
    pub warning: bool,
    pub reason: String,
    pub action: String,
    pub note: String,
    pub reporting_controller: String,
}

/// How loud a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}
