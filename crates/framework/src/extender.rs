//! Extenders: services outside the process that filter and score nodes, choose victims and bind pods beside the plugins.
//!
//! They belong to the scheduler, not to a profile. How they are reached is the host's business; what their answers mean is
//! in [`run`](crate::run). kube-scheduler: `pkg/scheduler/extender.go`.

use std::fmt::{Debug, Display};

use berth_model::{NodeIdx, Pod};
use serde::{Deserialize, Serialize};

use crate::points::{Call, Preemption};

/// The position of an extender among those that are configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtenderIdx(pub usize);

/// What is known of an extender without asking it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtenderProfile {
    /// Its address, by which logs know it.
    pub name: String,
    /// The attempt goes on without the extender when it fails.
    pub is_ignorable: bool,
    /// The extender has a filter verb.
    pub filters: bool,
    /// The extender has a preempt verb.
    pub preempts: bool,
    /// The factor of the extender's scores; `None` if it gives none.
    pub weight: Option<i64>,
    /// The extender has a bind verb.
    pub binds: bool,
}

/// What an extender made of the nodes that it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtenderVerdict {
    /// Names of the nodes that pass.
    pub passed: Vec<String>,
    /// Nodes that do not pass but may after preemption, with the reason.
    pub failed: Vec<(String, String)>,
    /// Nodes that do not pass whatever is evicted, with the reason; they win over `failed`.
    pub unresolvable: Vec<(String, String)>,
}

/// The pods that an extender would evict from a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtenderVictims {
    /// The node's name.
    pub node: String,
    /// The pods' uids, the most important first.
    pub uids: Vec<String>,
    /// How many of the evictions violate a disruption budget.
    pub n_violations: i64,
}

/// An extender gave no answer, or none that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ExtenderError(String);

impl ExtenderError {
    /// What went wrong; it reaches the pod's condition.
    #[must_use]
    pub fn new(reason: impl Display) -> Self {
        Self(reason.to_string())
    }
}

/// The extenders of a scheduler. A call may block for as long as the extender's timeout.
pub trait Extenders: Debug + Send + Sync {
    /// Extenders in the order in which they are asked: those that are not ignorable first.
    fn list(&self) -> &[ExtenderProfile];

    /// Whether the pod asks for a resource that the extender manages, or the extender manages none in particular.
    fn is_interested(&self, extender: ExtenderIdx, pod: &Pod) -> bool;

    /// Asks which of `nodes` pass.
    ///
    /// # Errors
    /// The extender did not answer as it should.
    fn filter(
        &self,
        extender: ExtenderIdx,
        call: &Call<'_>,
        nodes: &[NodeIdx],
    ) -> Result<ExtenderVerdict, ExtenderError>;

    /// Asks which of these preemptions it agrees to.
    ///
    /// # Errors
    /// The extender did not answer as it should.
    fn preempt(
        &self,
        extender: ExtenderIdx,
        call: &Call<'_>,
        preemptions: &[Preemption],
    ) -> Result<Vec<ExtenderVictims>, ExtenderError>;

    /// Asks these extenders at once for scores: one answer for each that gave one, with names of nodes and scores from 0 to
    /// 10. An extender that fails gives none.
    fn prioritize(
        &self,
        extenders: &[ExtenderIdx],
        call: &Call<'_>,
        nodes: &[NodeIdx],
    ) -> Vec<(ExtenderIdx, Vec<(String, i64)>)>;
}

/// The first extender after `before` that binds this pod. It does so in the place of the Bind plugins.
#[must_use]
pub fn binder(extenders: &dyn Extenders, pod: &Pod, before: Option<ExtenderIdx>) -> Option<ExtenderIdx> {
    let first = before.map_or(0, |before| before.0 + 1);
    let binders = extenders.list().iter().enumerate().skip(first).filter(|(_, profile)| profile.binds);
    binders.map(|(index, _)| ExtenderIdx(index)).find(|extender| extenders.is_interested(*extender, pod))
}
