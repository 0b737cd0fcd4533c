//! The pod that is explained, as the scheduler knows it.

use std::fmt;

use berth_framework::Status;
use serde::{Deserialize, Serialize};

/// A pod in the scheduler. Durations are in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// The names of the pod.
    pub pod: PodIdentity,
    /// `spec.schedulerName`.
    pub scheduler_name: String,
    /// `spec.priority`.
    pub priority: i32,
    /// The state of the pod.
    pub state: PodState,
    /// The number of attempts.
    pub attempts: u32,
    /// The plugins that rejected the pod in the last attempt, or that keep it out of activeQ.
    pub rejected_by: Vec<String>,
    /// The node to which the pod is nominated.
    pub nominated_node: Option<String>,
    /// The plugins that hold the pod back.
    pub holders: Vec<Holder>,
    /// The events that will make the scheduler try the pod again.
    pub retries: Vec<Retry>,
}

/// The names of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodIdentity {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
}

/// The state of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "phase")]
pub enum PodState {
    /// The pod is on its node.
    Bound {
        /// `metadata.name`.
        node: String,
    },
    /// A node was chosen, but the pod is not bound to it yet.
    Binding {
        /// `metadata.name`.
        node: String,
        /// The step for which the binding waits.
        waits_for: WaitsFor,
    },
    /// The pod is in the scheduling queue.
    Queued {
        /// `active`, `backoff`, `unschedulable` or `gated`, as in the metric `scheduler_pending_pods`.
        queue: String,
        /// The time since the pod was added, or since its last attempt failed.
        since_milliseconds: u64,
        /// The time until the pod's backoff ends.
        backoff_ends_in_milliseconds: Option<u64>,
        /// The number of pods in activeQ that are tried before this pod.
        behind: Option<usize>,
    },
    /// The pod has no node and is not to be scheduled, because it is being deleted.
    Unscheduled,
    /// The pod does not exist. The explanation says what would happen to such a pod.
    NotCreated,
}

/// The step that a pod with a node waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WaitsFor {
    /// Permit plugins.
    Permit,
    /// PreBind plugins.
    PreBind,
    /// The binding.
    Bind,
    /// The watch, which has not shown the pod on its node yet.
    Watch,
    /// The end of the process.
    Shutdown,
}

/// A plugin that holds a pod back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// `PreEnqueue`, `Permit` or `PreBind`; `None` if no attempt begins before the plugin is loaded and works.
    pub point: Option<String>,
    /// The name of the plugin.
    pub plugin: String,
    /// The time for which the plugin has held the pod.
    pub since_milliseconds: u64,
    /// The time until the plugin has held the pod for too long; `None` if no limit is set.
    pub ends_in_milliseconds: Option<u64>,
    /// The reason in the plugin's current words, or in the scheduler's words if the plugin is not in service. At Permit
    /// and PreBind, the objects for which the plugin waits according to its newest answer, with the message of this
    /// answer. `None` if the plugin was not asked, if it answers that it no longer holds the pod, or if it holds the
    /// pod at Permit without the effect `wait`.
    #[serde(default)]
    pub message: Option<String>,
    /// Whether the plugin would no longer hold the pod if the scheduler asked it at the moment. The pod stays held
    /// until an event of the plugin's [`Retry`] makes the scheduler ask the plugin again.
    #[serde(default)]
    pub would_let_go: bool,
}

impl Holder {
    /// Notes the plugin's current answer.
    pub fn answers(&mut self, status: &Status) {
        self.would_let_go = status.is_success();
        self.message = (!self.would_let_go).then(|| status.message());
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.point {
            Some(point) => write!(formatter, "{} at {point}", self.plugin),
            None => write!(formatter, "{}, which is not in service for it", self.plugin),
        }
    }
}

/// The events that make the scheduler try a pod again after this plugin rejected it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// The name of the plugin.
    pub plugin: String,
    /// The events for which the plugin registered, such as `Node/Add`. The plugin's queueing hint may ignore some of
    /// these events.
    pub events: Vec<String>,
}
