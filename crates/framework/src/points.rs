//! The extension points as traits. Calls are batches: a pod and all candidates in, a set or a column out.
//!
//! One scheduling cycle runs at a time, so a plugin may keep the state of the current cycle in itself: PreFilter (or,
//! for a plugin without it, the first call with a new [`CycleId`]) starts it afresh. State that must live until the pod
//! is bound is kept under the cycle's id until [`EndCycle`](crate::EndCycle).

use std::sync::Arc;

use berth_model::{ClusterTable, Node, NodeIdx, NodeSet, ObjectKey, Pod, PodIdx, Time};
use serde::{Deserialize, Serialize};

use crate::{deadline::Deadline, effect::Effect, manifest::ClusterEvent, status::Status};

/// One scheduling attempt of one pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CycleId(pub u64);

/// What every call of a cycle can see.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Which attempt this is.
    pub cycle: CycleId,
    /// When the plugin is asked.
    pub now: Time,
    /// The pod to be placed.
    pub pod: &'a Pod,
    /// The cluster. It stands still from PreFilter to Permit; the points after that may see a later state.
    pub table: &'a ClusterTable,
    /// When the search for a node must end. After Filter and PostFilter it is not looked at.
    pub deadline: Deadline<'a>,
}

impl<'a> Call<'a> {
    /// A call whose search for a node may take as long as it wants.
    #[must_use]
    pub fn new(cycle: CycleId, now: Time, pod: &'a Pod, table: &'a ClusterTable) -> Self {
        Self { cycle, now, pod, table, deadline: Deadline::NEVER }
    }
}

/// May this pod enter activeQ? Any status but success keeps it out, gated.
pub trait PreEnqueue {
    /// Asked before the pod enters activeQ, each time; not in a cycle. `table` is the cluster as it is now.
    fn pre_enqueue(&mut self, pod: &Pod, table: &ClusterTable) -> Status;
}

/// The pod's place in activeQ.
pub trait QueueSort {
    /// Smaller keys come first. `queued_at` is the pod's queue timestamp in milliseconds. Computed once each time the
    /// pod is queued.
    fn sort_key(&mut self, pod: &Pod, queued_at: i64) -> (i64, i64);
}

/// Looks at the pod once, before any node.
pub trait PreFilter {
    /// `Ok(None)`: all nodes stay candidates. `Ok(Some(names))`: only nodes with these names.
    ///
    /// # Errors
    /// `Skip`: this plugin's Filter has nothing to say in this cycle. Another status rejects the pod or fails the
    /// attempt.
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status>;
}

/// Takes nodes away that cannot run the pod.
pub trait Filter {
    /// Removes from `candidates` what does not pass.
    ///
    /// # Errors
    /// The attempt fails with this status.
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status>;

    /// Why each node of `rejected` did not pass: nodes with equal statuses come together.
    ///
    /// # Errors
    /// The attempt fails with this status.
    fn node_to_status(&mut self, call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status>;

    /// Would the node pass with some of its pods taken away and others added? One status a case; the tables stay as
    /// they are. `pods` is what the cases index into.
    ///
    /// Preemption asks several times about the same pods. A pod is known by its uid: in one cycle, and as long as
    /// [`PodTable::position`](berth_model::PodTable::position) stays, a uid stands for one pod with one content. What was
    /// worked out for it, or sent, may be kept.
    ///
    /// # Errors
    /// The attempt fails with this status.
    fn dry_run(&mut self, call: &Call<'_>, pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status>;
}

/// Nodes that were rejected alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedNodes {
    /// Why.
    pub status: Status,
    /// The nodes that are rejected.
    pub nodes: NodeSet,
}

/// A change of one node to try. `minus` and `plus` index into the pods passed along.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DryRunCase {
    /// The node that changes.
    pub node: NodeIdx,
    /// Pods of the node that are taken away.
    pub minus: Vec<u32>,
    /// Pods that are added to the node.
    pub plus: Vec<u32>,
}

/// Nothing fitted: can something be done about it?
pub trait PostFilter {
    /// Asked once in a cycle that found no node.
    ///
    /// # Errors
    /// The attempt fails with this status.
    fn post_filter(
        &mut self,
        call: &Call<'_>,
        failure: &Failure<'_>,
        dry_run: &mut dyn DryRun,
    ) -> Result<PostFilterOutcome, Status>;
}

/// What is known about a pod that fits nowhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Failure<'a> {
    /// Why nodes did not pass.
    pub rejections: &'a [RejectedNodes],
    /// The status of nodes that stand in no rejection, when PreFilter turned the pod or those nodes down.
    pub absent: Option<&'a Status>,
    /// Pods that hold a nomination, of any priority.
    pub nominated: &'a [(NodeIdx, Arc<Pod>)],
}

/// What a PostFilter plugin may ask before it evicts pods.
pub trait DryRun {
    /// Would the pod of this cycle pass on each node without some of its pods? One status a case, in order: success, or
    /// what the first plugin that objects says. Pods nominated to the node count as they do in Filter; the caller's own
    /// Filter is not asked.
    ///
    /// # Errors
    /// A plugin broke.
    fn dry_run(&mut self, cases: &[Removal]) -> Result<Vec<Status>, Status>;

    /// What is left of these preemptions after the extenders that the operator has asked about preemption. They leave nodes
    /// out, and may name other pods of a node.
    ///
    /// # Errors
    /// An extender that is not ignorable failed.
    fn ask_extenders(&mut self, preemptions: Vec<Preemption>) -> Result<Vec<Preemption>, Status> {
        Ok(preemptions)
    }
}

/// A node on which the pod fits once these pods are gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preemption {
    /// The node.
    pub node: NodeIdx,
    /// The pods that are evicted, the most important first.
    pub victims: Vec<PodIdx>,
    /// How many of the evictions violate a disruption budget.
    pub n_violations: i64,
}

/// A node without some of its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// The node.
    pub node: NodeIdx,
    /// The pods that are taken away.
    pub pods: Vec<PodIdx>,
}

/// The answer of a PostFilter plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostFilterOutcome {
    /// Success ends PostFilter; `Unschedulable` lets the next plugin try; any other status ends it too.
    pub status: Status,
    /// `Some(None)` clears the pod's nomination, `Some(Some(node))` sets it, `None` leaves it.
    pub nominate: Option<Option<NodeIdx>>,
    /// What is to be done, evictions mostly.
    pub effects: Vec<Effect>,
}

/// Prepares scoring of the nodes that passed.
pub trait PreScore {
    /// Asked once in a cycle, if more than one node passed.
    ///
    /// # Errors
    /// `Skip`: this plugin does not score in this cycle. Any other status fails the attempt.
    fn pre_score(&mut self, call: &Call<'_>, nodes: &NodeSet) -> Result<(), Status>;
}

/// Ranks the nodes that passed.
pub trait Score {
    /// Appends one score for each member of `nodes`, in ascending order. 0 to 100 unless the plugin normalises.
    ///
    /// # Errors
    /// The attempt fails with this status.
    fn score(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status>;

    /// The score that all members of `nodes` have in common, if the plugin knows of one without a look at each. Then
    /// [`Self::score`], which would give each of them this score, is not called, and Normalize is asked about one node:
    /// it must turn equal scores into what it turns one of them into.
    fn common_score(&mut self, call: &Call<'_>, nodes: &NodeSet) -> Option<i64> {
        let _ = (call, nodes);
        None
    }
}

/// Brings a plugin's scores into 0 to 100.
pub trait Normalize {
    /// `scores` are those that the plugin's Score gave for `nodes`.
    ///
    /// # Errors
    /// The attempt fails with this status.
    fn normalize(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut [i64]) -> Result<(), Status>;
}

/// Takes note that a pod is going to a node.
pub trait Reserve {
    /// Any status but success gives the pod back.
    fn reserve(&mut self, call: &Call<'_>, node: NodeIdx) -> Status;
    /// Undoes it; must bear being called without a reservation.
    fn unreserve(&mut self, call: &Call<'_>, node: NodeIdx);
}

/// The answer of a Permit plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermitVerdict {
    /// Go on.
    Allow,
    /// Hold the pod for at most this many milliseconds.
    Wait(u64),
    /// Turn the pod down.
    Deny(Status),
}

/// Last word before binding: yes, no, or wait.
pub trait Permit {
    /// Effects may allow, reject or activate other pods.
    fn permit(&mut self, call: &Call<'_>, node: NodeIdx) -> (PermitVerdict, Vec<Effect>);
}

/// What a plugin knows of its PreBind before that is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreFlight {
    /// PreBind may run side by side with the PreBind of neighbouring plugins that allow this too.
    pub allow_parallel: bool,
}

/// Says whether PreBind will have something to do: if so, getting to the node takes a while, and the pod's
/// `nominatedNodeName` tells the cluster which node it will be (KEP-5278). A plugin with PreBind and without this point
/// counts as one that will, and runs alone.
pub trait PreBindPreFlight {
    /// Asked once, after Permit and before the pod waits for it.
    ///
    /// # Errors
    /// `Skip`: PreBind has nothing to do for this pod and is not called. Any other status fails the binding.
    fn pre_bind_pre_flight(&mut self, call: &Call<'_>, node: NodeIdx) -> Result<PreFlight, Status>;
}

/// Work that must be done before the pod is bound.
pub trait PreBind {
    /// What must be done first. Asked again only if an [`Effect::Wait`] among it says so.
    ///
    /// # Errors
    /// The binding fails with this status; `Skip` when there is nothing to do.
    fn pre_bind(&mut self, call: &Call<'_>, node: NodeIdx) -> Result<Vec<Effect>, Status>;
}

/// Binds the pod, by asking for it.
pub trait Bind {
    /// The effects that bind the pod, [`Effect::Bind`] as a rule.
    ///
    /// # Errors
    /// `Skip` passes the pod to the next Bind plugin; any other status fails the binding.
    fn bind(&mut self, call: &Call<'_>, node: NodeIdx) -> Result<Vec<Effect>, Status>;
}

/// Told after the pod was bound.
pub trait PostBind {
    /// The pod is bound to `node`.
    fn post_bind(&mut self, call: &Call<'_>, node: NodeIdx);
}

/// Lets the scheduler reuse answers.
pub trait Sign {
    /// Two pods with one signature get the same answers. `None`: this pod's answers must not be reused.
    fn sign(&mut self, pod: &Pod) -> Option<String>;
}

/// What a queueing hint is asked about.
#[derive(Clone, Copy, Debug)]
pub struct HintCall<'a> {
    /// The cluster, with the event applied.
    pub table: &'a ClusterTable,
    /// The pod that the plugin rejected, as it is now.
    pub pod: &'a Pod,
    /// What happened; a pod's `resource` is `Pod`, whether it has a node or not.
    pub event: &'a ClusterEvent,
    /// The object that changed.
    pub subject: EventSubject<'a>,
}

/// An object before and after an event; `None` where it does not exist.
#[derive(Clone, Copy, Debug)]
pub enum EventSubject<'a> {
    /// A pod.
    Pod {
        /// Before.
        old: Option<&'a Pod>,
        /// After.
        new: Option<&'a Pod>,
    },
    /// A node.
    Node {
        /// Before.
        old: Option<&'a Node>,
        /// After.
        new: Option<&'a Node>,
    },
    /// An object of a kind that the manifest names among `objects`.
    Object {
        /// Its kind, namespace and name.
        key: &'a ObjectKey,
        /// Before, as JSON.
        old: Option<&'a [u8]>,
        /// After, as JSON.
        new: Option<&'a [u8]>,
    },
    /// An object that the plugin may not see, or no single object.
    Hidden,
}

/// Is this event worth another attempt of a pod that the plugin rejected?
///
/// Asked only about events of [`Manifest::events_to_register`](crate::Manifest::events_to_register). The pods of a
/// plugin without this point are tried again at each of them.
pub trait QueueingHint {
    /// Whether the event may make the pod schedulable as far as this plugin can tell. An answer of `false` that turns out
    /// wrong costs the pod up to five minutes, one of `true` costs one attempt.
    fn queueing_hint(&mut self, call: &HintCall<'_>) -> bool;
}
