//! What-if questions that a user asks in a form. Another thread answers them, on a copy of the scheduler's data.

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use serde::Deserialize;

/// Answers what-if questions about the cluster of the scheduler.
pub trait WhatIf: fmt::Debug + Send + Sync {
    /// The answer as a `WhatIfAnswer` in JSON, which is described in the guide.
    fn answer(&self, question: WhatIfQuestion) -> BoxFuture<'_, Result<Vec<u8>, WhatIfError>>;
}

/// The component that answers what-if questions; `None` if the scheduler answers no such questions.
pub type WhatIfService = Option<Arc<dyn WhatIf>>;

/// The placement of these pods, on the unchanged cluster and on the cluster with these changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WhatIfQuestion {
    /// Manifests of pods and workloads, in YAML or JSON.
    pub pods: String,
    /// The manifest of a Node, which is the template of all added nodes. Empty if none are added.
    pub added_node: String,
    /// The number of nodes that are added.
    pub added_nodes: usize,
    /// The names of nodes that are removed.
    pub removed_nodes: Vec<String>,
}

/// The reason why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhatIfError {
    /// The question has a mistake.
    #[error("{0}")]
    Invalid(String),
    /// Another question is being answered.
    #[error("{0}")]
    Busy(String),
    /// The answer exceeds a limit, or could not be made.
    #[error("{0}")]
    Failed(String),
}

/// The part of an answer that the page shows.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Answer {
    pub cluster_state: String,
    pub variants: Vec<Variant>,
    pub warnings: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Variant {
    pub name: String,
    pub placed: usize,
    pub pending: usize,
    pub pods: Vec<PodOutcome>,
    pub evictions: Vec<Eviction>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodOutcome {
    pub namespace: String,
    pub name: String,
    pub node: Option<String>,
    pub refusal: Option<Refused>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Refused {
    pub reason: String,
    pub message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Eviction {
    pub namespace: String,
    pub name: String,
    pub node: String,
}
