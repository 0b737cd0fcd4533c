//! Extenders: services outside the process that, like plugins, filter and score nodes, choose victims and bind pods.
//!
//! Extenders belong to the scheduler, and not to a profile. The host sends requests to extenders, and
//! [`run`](crate::run) interprets the answers. The counterpart in kube-scheduler is `pkg/scheduler/extender.go`.

use std::fmt::{Debug, Display};

use berth_model::{NodeIdx, Pod};
use serde::{Deserialize, Serialize};

use crate::points::{Call, Preemption};

/// The position of an extender in the configured list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtenderIdx(pub usize);

/// The properties of an extender that are known from the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtenderProfile {
    /// The address of the extender. Log lines name the extender by this address.
    pub name: String,
    /// Whether the attempt continues without the extender when the extender fails.
    pub is_ignorable: bool,
    /// Whether the extender has a filter verb.
    pub filters: bool,
    /// Whether the extender has a preempt verb.
    pub preempts: bool,
    /// The factor of the extender's scores; `None` for an extender without scores.
    pub weight: Option<i64>,
    /// Whether the extender has a bind verb.
    pub binds: bool,
}

/// The answer of an extender about the nodes that it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtenderVerdict {
    /// Names of the nodes that pass.
    pub passed: Vec<String>,
    /// Nodes that do not pass but may pass after preemption, with the reason.
    pub failed: Vec<(String, String)>,
    /// Nodes that do not pass even if pods are evicted, with the reason. They take precedence over `failed`.
    pub unresolvable: Vec<(String, String)>,
}

/// The pods that an extender would evict from a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtenderVictims {
    /// The node's name.
    pub node: String,
    /// The pods' uids, the most important first.
    pub uids: Vec<String>,
    /// The number of evictions that violate a disruption budget.
    pub n_violations: i64,
}

/// An extender gave no answer, or an unusable answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ExtenderError(String);

impl ExtenderError {
    /// An error that says what went wrong. The text appears in the pod's condition.
    #[must_use]
    pub fn new(reason: impl Display) -> Self {
        Self(reason.to_string())
    }
}

/// The extenders of a scheduler. A call may block until the extender's timeout.
pub trait Extenders: Debug + Send + Sync {
    /// The extenders in the order in which they are asked: first the extenders that are not ignorable.
    fn list(&self) -> &[ExtenderProfile];

    /// Whether the extender is interested in the pod: the pod asks for a resource that the extender manages, or the
    /// extender manages no particular resource.
    fn is_interested(&self, extender: ExtenderIdx, pod: &Pod) -> bool;

    /// Asks which of `nodes` pass the extender.
    ///
    /// # Errors
    /// The extender gave no valid answer.
    fn filter(
        &self,
        extender: ExtenderIdx,
        call: &Call<'_>,
        nodes: &[NodeIdx],
    ) -> Result<ExtenderVerdict, ExtenderError>;

    /// Asks which of these preemptions the extender agrees to.
    ///
    /// # Errors
    /// The extender gave no valid answer.
    fn preempt(
        &self,
        extender: ExtenderIdx,
        call: &Call<'_>,
        preemptions: &[Preemption],
    ) -> Result<Vec<ExtenderVictims>, ExtenderError>;

    /// Asks these extenders for scores at the same time. The result has an entry for each extender that answered. The
    /// entry contains the names of nodes with scores from 0 to 10. An extender that fails has no entry.
    fn prioritize(
        &self,
        extenders: &[ExtenderIdx],
        call: &Call<'_>,
        nodes: &[NodeIdx],
    ) -> Vec<(ExtenderIdx, Vec<(String, i64)>)>;
}

/// The first extender after `before` that binds this pod. The extender replaces the Bind plugins.
#[must_use]
pub fn binder(extenders: &dyn Extenders, pod: &Pod, before: Option<ExtenderIdx>) -> Option<ExtenderIdx> {
    let first = before.map_or(0, |before| before.0 + 1);
    let binders = extenders.list().iter().enumerate().skip(first).filter(|(_, profile)| profile.binds);
    binders.map(|(index, _)| ExtenderIdx(index)).find(|extender| extenders.is_interested(*extender, pod))
}
