//! The pod that is explained, as the scheduler has it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A pod in the scheduler. Durations are in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// Which pod.
    pub pod: PodName,
    /// `spec.schedulerName`.
    pub scheduler_name: String,
    /// `spec.priority`.
    pub priority: i32,
    /// Where the pod is.
    pub state: State,
    /// How often it was tried.
    pub attempts: u32,
    /// The plugins that rejected it in the last attempt, or keep it out of activeQ.
    pub rejected_by: Vec<String>,
    /// The node that it is nominated to.
    pub nominated_node: Option<String>,
    /// What holds it back.
    pub holders: Vec<Holder>,
    /// What will make the scheduler try the pod again.
    pub retries: Vec<Retry>,
}

/// The names of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodName {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
}

/// Where a pod is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "phase")]
pub enum State {
    /// The pod is on its node.
    Bound {
        /// `metadata.name`.
        node: String,
    },
    /// A node is chosen, and the pod is not bound there yet.
    Binding {
        /// `metadata.name`.
        node: String,
        /// What has to happen.
        waits_for: WaitsFor,
    },
    /// The pod is in the scheduling queue.
    Queued {
        /// `active`, `backoff`, `unschedulable` or `gated`, as in the metric `scheduler_pending_pods`.
        queue: String,
        /// Since it was added, or its last attempt failed.
        since_milliseconds: u64,
        /// Until its backoff ends.
        backoff_ends_in_milliseconds: Option<u64>,
        /// How many pods of activeQ are tried before it.
        behind: Option<usize>,
    },
    /// The pod has no node, and is not to be scheduled: it is being deleted.
    Unscheduled,
    /// The pod is not there: this says what would be.
    NotCreated,
}

/// What a pod with a node waits for.
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

/// What holds a pod back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// `PreEnqueue` or `Permit`; `None` if no attempt begins before the plugin is there and works.
    pub point: Option<String>,
    /// Which plugin.
    pub plugin: String,
    /// For how long.
    pub since_milliseconds: u64,
    /// When the plugin will have held it for too long; `None` if that never ends by itself.
    pub ends_in_milliseconds: Option<u64>,
    /// Why, in the plugin's words of now, or the scheduler's for a plugin that is not in service; `None` if the plugin was not asked, or
    /// says that it no longer holds the pod.
    #[serde(default)]
    pub message: Option<String>,
}

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.point {
            Some(point) => write!(formatter, "{} at {point}", self.plugin),
            None => write!(formatter, "{}, which is not in service for it", self.plugin),
        }
    }
}

/// What makes the scheduler try a pod again that this plugin rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Which plugin.
    pub plugin: String,
    /// The events that it registered for, such as `Node/Add`. Its queueing hint may say of one that it changes nothing.
    pub events: Vec<String>,
}
