//! What the scheduler asks the host to do.

use std::{borrow::Cow, panic::Location, sync::Arc, time::Duration};

use berth_framework::{CycleId, Effect, EffectKind, ExtenderIdx, PluginVersion, TimeReport};
use berth_model::{BinaryId, Digest, OwnerId, PodUid, api, serde_with::shared_text};
use serde::{Deserialize, Serialize};

use crate::{
    effect_bytes::HeldBytes,
    host_objects::Handle,
    preparation::{Preparation, SwapError},
};

/// Something to be done. The host takes actions in order; requests about one pod stay in order, but for
/// [`Request::AwaitedEffects`] of different plugins, which go side by side; requests about different pods may overtake each
/// other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// A write about one pod.
    Pod(PodRequest),
    /// Run this on a thread of its own, and answer with [`crate::Event::PluginPrepared`].
    PreparePlugin {
        /// The plugin's name.
        plugin: String,
        /// What to run.
        preparation: Handle<Preparation>,
    },
    /// A report to the plugin supervisor, which decides which binaries serve; what follows comes as events.
    Supervise(Supervision),
    /// Something to be told; nothing is answered.
    Notice(Notice),
}

/// A pod as API calls name it. Cloning it is cheap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodRef {
    /// `metadata.namespace`.
    #[serde(with = "shared_text")]
    pub namespace: Arc<str>,
    /// `metadata.name`.
    #[serde(with = "shared_text")]
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: PodUid,
    /// Empty when it is not known.
    #[serde(with = "shared_text")]
    pub resource_version: Arc<str>,
}

/// A write to the API server about one pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PodRequest {
    /// Which pod.
    pub pod: PodRef,
    /// The `schedulerName` of its profile.
    #[serde(with = "shared_text")]
    pub profile: Arc<str>,
    /// What to write.
    pub request: Request,
}

/// What to write about a pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Bind the pod; answer with [`crate::Event::BindFinished`].
    Bind {
        /// The attempt that the answer names.
        cycle: CycleId,
        /// `metadata.name` of the node.
        #[serde(with = "shared_text")]
        node: Arc<str>,
    },
    /// Ask an extender to bind the pod; answer with [`crate::Event::BindFinished`].
    BindByExtender {
        /// The attempt that the answer names.
        cycle: CycleId,
        /// `metadata.name` of the node.
        #[serde(with = "shared_text")]
        node: Arc<str>,
        /// Which extender.
        extender: ExtenderIdx,
    },
    /// Patch the pod's `status`, computed from what stands here alone; answer a failure with
    /// [`crate::Event::StatusPatchFailed`].
    PatchStatus(StatusChange),
    /// Carry out a plugin's effects; no pod waits for them.
    Effects(PluginEffects),
    /// Carry out a plugin's effects in order, and answer with [`crate::Event::EffectsFinished`].
    AwaitedEffects(PluginEffects),
}

/// A change of a pod's `status`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusChange {
    /// The conditions as the scheduler knows them.
    pub old_conditions: Vec<api::Condition>,
    /// The condition to set; without `last_transition_time` that time is now.
    pub condition: Option<api::Condition>,
    /// `status.nominatedNodeName` as the scheduler knows it.
    pub old_nominated_node_name: String,
    /// The value to set; the empty string clears the field.
    pub nominated_node_name: Option<String>,
}

/// Effects that one plugin asked for in one cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PluginEffects {
    /// The attempt in which the plugin answered.
    pub cycle: CycleId,
    /// The profile's `schedulerName`.
    pub scheduler_name: String,
    /// The plugin's name.
    #[serde(with = "shared_text")]
    pub plugin: Arc<str>,
    /// The binary that asked.
    pub binary: Option<BinaryId>,
    /// Effects in the order in which they are carried out.
    pub effects: Vec<GrantedEffect>,
    /// Counts them until they are carried out.
    #[serde(skip)]
    pub held: HeldBytes,
}

/// An effect that the plugin was granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantedEffect {
    /// What to do.
    pub effect: Effect,
    /// `metadata.uid` that the object must still have: what was granted is a change of the pod of the cycle, or of a claim of
    /// it. `None`: of whichever object has the name, or of one that the same answer created.
    pub uid: Option<Box<str>>,
}

/// What happened to a plugin's binaries, for the plugin supervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Supervision {
    /// How [`crate::Event::PluginReady`] ended in one profile. All profiles change over to a binary, or none.
    Swapped {
        /// The profile's `schedulerName`.
        scheduler_name: String,
        /// The plugin's name.
        plugin: String,
        /// The binary that was to take over.
        version: PluginVersion,
        /// Whether it serves now.
        result: Result<(), SwapError>,
    },
    /// A component faulted ([`crate::Event::PluginFaulted`]): the supervisor decides what follows.
    Faulted {
        /// The plugin's name.
        plugin: String,
        /// The component's.
        digest: Digest,
        /// Reads on from the plugin's name.
        reason: String,
        /// Processor time of the call, and of the start of the instance that it cost.
        took: Duration,
        /// The pod that the call was about, and its owner.
        pod: Option<(PodRef, OwnerId)>,
        /// How many milliseconds that owner's pods are held back for it, if they are.
        held: Option<u64>,
        /// The profiles whose instance is gone.
        scheduler_names: Vec<String>,
    },
    /// Plugins, or the pods of a namespace, have used up their time, and others go first.
    OutOfTime(TimeReport),
}

/// A report to the process around the scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Notice {
    /// Write an event about a pod.
    Event(EventRecord),
    /// A plugin asked for an effect that the operator did not grant, or that makes no sense; the effect was not carried out.
    EffectRefused {
        /// The pod of the cycle.
        pod: PodRef,
        /// The plugin's name.
        #[serde(with = "shared_text")]
        plugin: Arc<str>,
        /// What it asked for.
        effect: EffectKind,
        /// How many such effects one answer had.
        count: u32,
        /// What the first of them was about, and if it was not granted, what would grant it.
        message: String,
    },
    /// How an attempt ended.
    Attempted {
        /// The pod.
        pod: PodRef,
        /// What became of it.
        outcome: AttemptOutcome,
    },
    /// Finding a node took longer than 100 ms (kube-scheduler's `schedulePod` in `pkg/scheduler/schedule_one.go` traces
    /// it as well).
    SlowSearch {
        /// The pod.
        pod: PodRef,
        /// The time from the beginning to the choice.
        total: Duration,
        /// What was done, and how long each step took, in order.
        steps: Vec<(Cow<'static, str>, Duration)>,
    },
    /// A line for the log.
    Log {
        /// Its severity.
        level: Level,
        /// The plugin that caused it; empty if none did.
        #[serde(with = "shared_text")]
        plugin: Arc<str>,
        /// Where in the code it comes from: lines from one place are alike.
        place: CodePlace,
        /// One line of text.
        message: String,
    },
}

/// What became of a pod in an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttemptOutcome {
    /// The pod is bound.
    Bound {
        /// `metadata.name` of the node.
        #[serde(with = "shared_text")]
        node: Arc<str>,
        /// Nodes that were looked at.
        n_evaluated: usize,
        /// Nodes that passed.
        n_feasible: usize,
    },
    /// The pod waits for a node: the cluster has none.
    EmptyCluster,
    /// The pod waits for something to change.
    Unschedulable {
        /// The message of the pod's condition.
        message: String,
    },
    /// Something broke: the pod is tried again.
    Failed {
        /// The message of the pod's condition.
        message: String,
        /// Whether a plugin faulted: [`Supervision::Faulted`] says that too.
        is_fault: bool,
    },
}

/// An event of `events.k8s.io/v1`. The note may be longer than the API allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRecord {
    /// The pod that the event is about.
    pub regarding: PodRef,
    /// The pod for which it happened, such as a victim's preemptor.
    pub related: Option<PodRef>,
    /// `Warning`; else `Normal`.
    pub warning: bool,
    /// Why, in one word, such as `FailedScheduling`.
    pub reason: Cow<'static, str>,
    /// What was done or tried, such as `Binding`.
    pub action: Cow<'static, str>,
    /// The text for people.
    pub note: String,
    /// The profile's `schedulerName`.
    #[serde(with = "shared_text")]
    pub reporting_controller: Arc<str>,
}

/// A line of the source.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CodePlace {
    /// Its file.
    pub file: Cow<'static, str>,
    /// Its number.
    pub line: u32,
}

impl From<&'static Location<'static>> for CodePlace {
    fn from(location: &'static Location<'static>) -> Self {
        Self { file: location.file().into(), line: location.line() }
    }
}

/// The severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Level {
    /// For a developer who looks for a fault in Berth.
    Debug,
    /// Normal operation.
    Info,
    /// Something that an operator may want to change.
    Warn,
    /// Something that should not happen.
    Error,
}

/// Why a [`Request`] was not carried out: the answer of the API server, or what kept the host from asking it.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{0}")]
pub struct RequestError(String);

impl RequestError {
    /// An error with this text, which reaches the pod's condition.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
