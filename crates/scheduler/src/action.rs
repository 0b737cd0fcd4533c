//! The actions that the scheduler asks the host to take.

use std::{borrow::Cow, fmt, panic::Location, sync::Arc, time::Duration};

use berth_framework::{CycleId, Effect, EffectKind, ExtenderIdx, PluginVersion, Point, TimeReport};
use berth_model::{BinaryId, Digest, OwnerId, PodUid, api, serde_with::shared_text};
use serde::{Deserialize, Serialize};

use crate::{
    effect_bytes::HeldBytes,
    host_objects::Handle,
    preparation::{Preparation, SwapError},
};

/// An action for the host. The host takes actions in order. Requests about one pod stay in order, except
/// [`Request::AwaitedEffects`] of different plugins, which run in parallel. Requests about different pods may overtake
/// each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// A write about one pod.
    Pod(PodRequest),
    /// Run this preparation on a separate thread, and answer with [`crate::Event::PluginPrepared`].
    PreparePlugin {
        /// The plugin's name.
        plugin: String,
        /// The preparation to run.
        preparation: Handle<Preparation>,
    },
    /// A report to the plugin supervisor, which decides which binaries serve. Its decisions come back as events.
    Supervise(Supervision),
    /// A notice for people. It needs no answer.
    Notice(Notice),
    /// A traced attempt is over.
    Traced(Box<TracedAttempt>),
}

/// The names by which API calls refer to a pod. Cloning is cheap.
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
    /// `metadata.resourceVersion`; empty when it is not known.
    #[serde(with = "shared_text")]
    pub resource_version: Arc<str>,
}

/// A write to the API server about one pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PodRequest {
    /// The pod.
    pub pod: PodRef,
    /// The `schedulerName` of the pod's profile.
    #[serde(with = "shared_text")]
    pub profile: Arc<str>,
    /// The write.
    pub request: Request,
}

/// A write about a pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Bind the pod; answer with [`crate::Event::BindFinished`].
    Bind {
        /// The attempt of the request, which the answer names.
        cycle: CycleId,
        /// `metadata.name` of the node.
        #[serde(with = "shared_text")]
        node: Arc<str>,
    },
    /// Ask an extender to bind the pod; answer with [`crate::Event::BindFinished`].
    BindByExtender {
        /// The attempt of the request, which the answer names.
        cycle: CycleId,
        /// `metadata.name` of the node.
        #[serde(with = "shared_text")]
        node: Arc<str>,
        /// The extender.
        extender: ExtenderIdx,
    },
    /// Patch the pod's `status`. The patch is computed from this change alone. Answer a failure with
    /// [`crate::Event::StatusPatchFailed`].
    PatchStatus(StatusChange),
    /// Carry out a plugin's effects. No pod waits for these effects.
    Effects(PluginEffects),
    /// Carry out a plugin's effects in order, and answer with [`crate::Event::EffectsFinished`].
    AwaitedEffects(PluginEffects),
}

/// A change of a pod's `status`, with the old values from which the patch is computed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusChange {
    /// The attempt that the change is part of; `None` for a change outside of attempts.
    pub cycle: Option<CycleId>,
    /// The conditions as the scheduler knows them.
    pub old_conditions: Vec<api::Condition>,
    /// The condition to set. If it has no `last_transition_time`, the host uses the current time.
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
    /// The extension point at which the plugin answered. Reserve stands for Unreserve, since Reserve has no effects.
    pub point: Point,
    /// The profile's `schedulerName`.
    pub scheduler_name: String,
    /// The plugin's name.
    #[serde(with = "shared_text")]
    pub plugin: Arc<str>,
    /// The binary that asked.
    pub binary: Option<BinaryId>,
    /// The effects, in the order in which they are carried out.
    pub effects: Vec<GrantedEffect>,
    /// The bytes of these effects, which count as held until the effects are carried out.
    #[serde(skip)]
    pub held: HeldBytes,
}

/// An effect that was granted to the plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantedEffect {
    /// The effect.
    pub effect: Effect,
    /// The `metadata.uid` that the object must still have, because the grant is for a change to the pod of the cycle or
    /// to one of its claims. `None` if the grant is for any object with the name, or if the same answer created the
    /// object.
    pub uid: Option<Box<str>>,
}

/// A report about a plugin's binaries for the plugin supervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Supervision {
    /// The result of [`crate::Event::PluginReady`] in one profile. All profiles change to the binary, or no profile
    /// does.
    Swapped {
        /// The profile's `schedulerName`.
        scheduler_name: String,
        /// The plugin's name.
        plugin: String,
        /// The binary that was to take over.
        version: PluginVersion,
        /// Whether the binary serves the profile.
        result: Result<(), SwapError>,
        /// The number of pods that the plugin held at Permit and that continue without its answer, because the new
        /// binary does not implement Permit.
        n_released: usize,
    },
    /// A component faulted ([`crate::Event::PluginFaulted`]). The supervisor decides about the consequences.
    Faulted {
        /// The plugin's name.
        plugin: String,
        /// The digest of the component.
        digest: Digest,
        /// The reason, as a text that follows the plugin's name.
        reason: String,
        /// The processor time of the call and of the start of the lost instance.
        took: Duration,
        /// The pod that the call was about, and its owner.
        pod: Option<(PodRef, OwnerId)>,
        /// The pods that are held back because of the fault; `None` if no pods are held.
        held: Option<HeldPods>,
        /// The profiles whose instance is gone.
        scheduler_names: Vec<String>,
    },
    /// Plugins, or the pods of a namespace, have used up their time, so other pods go first.
    OutOfTime(TimeReport),
}

/// The pods of one owner, which are held back because a plugin faulted over them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldPods {
    /// The controller, such as `ReplicaSet default/web`. `None` if the pod has no controller; then only this pod is
    /// held back.
    pub controller: Option<String>,
    /// The pod over which the plugin faulted, as `namespace/name`.
    pub pod: String,
    /// The length of the hold.
    pub milliseconds: u64,
}

impl fmt::Display for HeldPods {
    /// Writes `the pods of ReplicaSet default/web are held back for 60 s`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { controller, pod, milliseconds } = self;
        let seconds = milliseconds / 1000;
        match controller {
            Some(controller) => write!(formatter, "the pods of {controller} are held back for {seconds} s"),
            None => write!(formatter, "pod {pod} is held back for {seconds} s"),
        }
    }
}

/// A report to the process around the scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Notice {
    /// Write an event about a pod.
    Event(EventRecord),
    /// A plugin asked for an effect that the operator did not grant or that is invalid. The effect was not carried out.
    EffectRefused {
        /// The pod of the cycle.
        pod: PodRef,
        /// The plugin's name.
        #[serde(with = "shared_text")]
        plugin: Arc<str>,
        /// The kind of effect that the plugin asked for.
        effect: EffectKind,
        /// The number of refused effects in one answer.
        count: u32,
        /// A text about the first refused effect. If the effect was not granted, the text names the grant that would
        /// allow it.
        message: String,
    },
    /// An attempt ended.
    Attempted {
        /// The attempt.
        cycle: CycleId,
        /// The pod.
        pod: PodRef,
        /// The outcome of the attempt.
        outcome: AttemptOutcome,
    },
    /// The search for a node took longer than 100 ms (kube-scheduler's `schedulePod` in `pkg/scheduler/schedule_one.go`
    /// traces this as well).
    SlowSearch {
        /// The attempt.
        cycle: CycleId,
        /// The pod.
        pod: PodRef,
        /// The time from the beginning to the choice of the node.
        total: Duration,
        /// The steps of the search, in order, with the time of each step.
        steps: Vec<(Cow<'static, str>, Duration)>,
    },
    /// A line for the log.
    Log {
        /// The severity of the line.
        level: Level,
        /// The plugin that caused the event; empty if no plugin did.
        #[serde(with = "shared_text")]
        plugin: Arc<str>,
        /// The place in the code that wrote the line. Lines from one place differ only in their details.
        place: CodePlace,
        /// One line of text.
        message: String,
    },
}

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttemptOutcome {
    /// The pod is bound.
    Bound {
        /// `metadata.name` of the node.
        #[serde(with = "shared_text")]
        node: Arc<str>,
        /// The number of nodes that were looked at.
        n_evaluated: usize,
        /// The number of nodes that passed.
        n_feasible: usize,
    },
    /// The pod waits for a node, because the cluster has none.
    EmptyCluster,
    /// The pod waits for something to change.
    Unschedulable {
        /// The message of the pod's condition.
        message: String,
    },
    /// The attempt broke, and the pod is tried again.
    Failed {
        /// The message of the pod's condition.
        message: String,
        /// Whether a plugin faulted. [`Supervision::Faulted`] reports the fault as well.
        is_fault: bool,
    },
}

/// A traced attempt that is over. The meters of the profiles have recorded its steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedAttempt {
    /// The attempt.
    pub cycle: CycleId,
    /// The pod.
    pub pod: PodRef,
    /// The `schedulerName` of the pod's profile.
    #[serde(with = "shared_text")]
    pub scheduler_name: Arc<str>,
    /// The number of the pod's attempt, from 1.
    pub number: u32,
    /// `metadata.name` of the node that was chosen; `None` if no node was chosen.
    pub node: Option<String>,
    /// The outcome; `None` if the pod was deleted, or bound by another scheduler.
    pub outcome: Option<AttemptOutcome>,
    /// The evictions that the attempt asked for.
    pub preemption: Option<TracedPreemption>,
    /// The beginning, by the scheduler's clock.
    pub start: Duration,
    /// The end, by the scheduler's clock.
    pub end: Duration,
}

/// The evictions that an attempt asked for, so that its pod may fit later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedPreemption {
    /// `metadata.name` of the node to which the pod is nominated; `None` without a nomination.
    pub node: Option<String>,
    /// The victims, as `namespace/name`.
    pub victims: Vec<String>,
}

/// An event of `events.k8s.io/v1`. The note may be longer than the API allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRecord {
    /// The pod that the event is about.
    pub regarding: PodRef,
    /// The pod that caused the event, such as a victim's preemptor.
    pub related: Option<PodRef>,
    /// Whether the type is `Warning`; otherwise it is `Normal`.
    pub warning: bool,
    /// The reason in one word, such as `FailedScheduling`.
    pub reason: Cow<'static, str>,
    /// The action that was done or tried, such as `Binding`.
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
    /// The file.
    pub file: Cow<'static, str>,
    /// The number of the line.
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
    /// A line for a developer who looks for a fault in Berth.
    Debug,
    /// A line about normal operation.
    Info,
    /// A line about something that an operator may want to change.
    Warn,
    /// A line about something that should not happen.
    Error,
}

/// The reason why a [`Request`] was not carried out: the answer of the API server, or the reason why the host sent no
/// request to the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{0}")]
pub struct RequestError(String);

impl RequestError {
    /// An error with this text, which appears in the pod's condition.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
