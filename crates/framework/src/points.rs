//! The extension points as traits. Calls are batches: they take a pod and all candidates, and return a set or a column.
//!
//! Only one scheduling cycle runs at a time, so a plugin may keep the state of the current cycle in itself. PreFilter
//! resets this state. A plugin without PreFilter resets it at the first call with a new [`CycleId`]. State that must
//! live until the pod is bound is kept under the cycle's id until [`EndCycle`](crate::EndCycle).

use std::sync::Arc;

use berth_model::{ClusterTable, Node, NodeIdx, NodeSet, ObjectKey, Pod, PodIdx, Time};
use serde::{Deserialize, Serialize};

use crate::{deadline::Deadline, effect::Effect, manifest::ClusterEvent, status::Status};

/// One scheduling attempt of one pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CycleId(pub u64);

/// The data that every call of a cycle can see.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The id of the attempt.
    pub cycle: CycleId,
    /// The time of the call.
    pub now: Time,
    /// The pod to be placed.
    pub pod: &'a Pod,
    /// The cluster. It does not change from PreFilter to Permit; later points may see a later state.
    pub table: &'a ClusterTable,
    /// The deadline of the search for a node. It is not checked after Filter and PostFilter.
    pub deadline: Deadline<'a>,
}

impl<'a> Call<'a> {
    /// A call whose search for a node has no deadline.
    #[must_use]
    pub fn new(cycle: CycleId, now: Time, pod: &'a Pod, table: &'a ClusterTable) -> Self {
        Self { cycle, now, pod, table, deadline: Deadline::NEVER }
    }
}

/// Decides whether a pod may enter activeQ. With any status except success, the pod stays out of activeQ and is gated.
pub trait PreEnqueue {
    /// Called each time before the pod enters activeQ, outside of cycles. `table` is the current state of the cluster.
    fn pre_enqueue(&mut self, pod: &Pod, table: &ClusterTable) -> Status;
}

/// Decides the pod's place in activeQ.
pub trait QueueSort {
    /// The sort key of the pod; smaller keys come first. `queued_at` is the pod's queue timestamp in milliseconds. The
    /// key is computed once each time the pod is queued.
    fn sort_key(&mut self, pod: &Pod, queued_at: i64) -> (i64, i64);
}

/// Looks at the pod once, before any node is considered.
pub trait PreFilter {
    /// The nodes that remain candidates. `Ok(None)` keeps all nodes, `Ok(Some(names))` only the nodes with these names.
    ///
    /// # Errors
    /// `Skip` means that this plugin's Filter is not called in this cycle. Any other status rejects the pod or fails
    /// the attempt.
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status>;
}

/// Removes nodes that cannot run the pod.
pub trait Filter {
    /// Removes the nodes that do not pass from `candidates`.
    ///
    /// # Errors
    /// The attempt fails with this status.
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status>;

    /// Says why each node of `rejected` did not pass. Nodes with equal statuses form one group.
    ///
    /// # Errors
    /// The attempt fails with this status.
    fn node_to_status(&mut self, call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status>;

    /// Says whether the node would pass with some of its pods removed and others added. The result has one status for
    /// each case. The tables stay unchanged. The cases contain indexes into `pods`.
    ///
    /// Preemption asks several times about the same pods. The uid identifies a pod. Within a cycle, and as long as
    /// [`PodTable::position`](berth_model::PodTable::position) stays the same, a uid stands for one pod with the same
    /// content. The plugin may keep its results for the pod, and the data about the pod that it was sent.
    ///
    /// # Errors
    /// The attempt fails with this status.
    fn dry_run(&mut self, call: &Call<'_>, pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status>;
}

/// Nodes that were rejected with the same status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedNodes {
    /// The status with the reason.
    pub status: Status,
    /// The nodes that are rejected.
    pub nodes: NodeSet,
}

/// A change of one node to try. `minus` and `plus` contain indexes into the pods that come with the case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DryRunCase {
    /// The node that changes.
    pub node: NodeIdx,
    /// Pods of the node that are removed.
    pub minus: Vec<u32>,
    /// Pods that are added to the node.
    pub plus: Vec<u32>,
}

/// Looks for a way to help a pod that fits on no node.
pub trait PostFilter {
    /// Called once in a cycle that found no node.
    ///
    /// # Errors
    /// The status counts as an outcome without a nomination and without effects. After `Unschedulable`, the next plugin
    /// is asked. After any other status, no plugin is asked. The condition of the pod has the reasons.
    fn post_filter(
        &mut self,
        call: &Call<'_>,
        failure: &Failure<'_>,
        dry_run: &mut dyn DryRun,
    ) -> Result<PostFilterOutcome, Status>;
}

/// The known facts about a pod that fits on no node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Failure<'a> {
    /// The nodes that were rejected, with the reasons.
    pub rejections: &'a [RejectedNodes],
    /// The status of nodes that are in no rejection, because PreFilter rejected the pod or those nodes.
    pub absent: Option<&'a Status>,
    /// The pods that are nominated to nodes, of any priority.
    pub nominated: &'a [(NodeIdx, Arc<Pod>)],
}

/// The questions that a PostFilter plugin may ask before it evicts pods.
pub trait DryRun {
    /// Asks whether the pod of this cycle would pass on each node without some of its pods. The result has one status
    /// for each case, in order: success, or the status of the first plugin that rejects the node. Pods nominated to the
    /// node count as they do in Filter. The caller's own Filter is not asked.
    ///
    /// # Errors
    /// A plugin broke.
    fn dry_run(&mut self, cases: &[Removal]) -> Result<Vec<Status>, Status>;

    /// Asks the configured extenders about these preemptions, and returns the preemptions that the extenders keep.
    /// Extenders may remove nodes, and may choose other pods of a node.
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
    /// The number of evictions that violate a disruption budget.
    pub n_violations: i64,
}

/// A node without some of its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// The node.
    pub node: NodeIdx,
    /// The pods that are removed.
    pub pods: Vec<PodIdx>,
}

/// The answer of a PostFilter plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostFilterOutcome {
    /// Success ends PostFilter. `Unschedulable` and `Pending` let the next plugin try. Any other status ends PostFilter
    /// too. After an error, the nominations of earlier plugins do not count.
    pub status: Status,
    /// `Some(None)` clears the pod's nomination, `Some(Some(node))` sets it, `None` leaves it.
    pub nominate: Option<Option<NodeIdx>>,
    /// The effects, mostly evictions.
    pub effects: Vec<Effect>,
}

/// Prepares scoring of the nodes that passed.
pub trait PreScore {
    /// Called once in a cycle, if more than one node passed.
    ///
    /// # Errors
    /// `Skip` means that this plugin does not score in this cycle. Any other status fails the attempt.
    fn pre_score(&mut self, call: &Call<'_>, nodes: &NodeSet) -> Result<(), Status>;
}

/// Scores the nodes that passed.
pub trait Score {
    /// Appends one score for each member of `nodes`, in ascending order of the nodes. Scores are from 0 to 100 unless
    /// the plugin normalises.
    ///
    /// # Errors
    /// The attempt fails with this status.
    fn score(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status>;

    /// The score that all members of `nodes` share, if the plugin knows the score without looking at each node.
    /// [`Self::score`] would give each member this score, and is then not called. Normalize is then called with one
    /// node. For many equal scores, Normalize must therefore give the same result as for one of these scores.
    fn common_score(&mut self, call: &Call<'_>, nodes: &NodeSet) -> Option<i64> {
        let _ = (call, nodes);
        None
    }
}

/// Brings a plugin's scores into 0 to 100.
pub trait Normalize {
    /// Changes `scores`, which the plugin's Score gave for `nodes`.
    ///
    /// # Errors
    /// The attempt fails with this status.
    fn normalize(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut [i64]) -> Result<(), Status>;
}

/// Informs the plugin that a pod is going to a node.
pub trait Reserve {
    /// Reserves resources of the node for the pod. Any status except success returns the pod to the queue.
    fn reserve(&mut self, call: &Call<'_>, node: NodeIdx) -> Status;
    /// Undoes the reservation. The plugin must accept the call even if it reserved nothing. Returns effects, for example
    /// to remove what PreBind wrote. No pod waits for these effects. They are not carried out if the watch shows that
    /// another scheduler has bound the pod.
    fn unreserve(&mut self, call: &Call<'_>, node: NodeIdx) -> Vec<Effect>;
}

/// The answer of a Permit plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermitVerdict {
    /// The pod may proceed.
    Allow,
    /// The plugin holds the pod for at most this many milliseconds.
    Wait(u64),
    /// The plugin rejects the pod.
    Deny(Status),
}

/// Decides about the pod a last time before binding. The answer is yes, no, or wait.
pub trait Permit {
    /// The verdict for the pod, and effects that may allow, reject or activate other pods.
    fn permit(&mut self, call: &Call<'_>, node: NodeIdx) -> (PermitVerdict, Vec<Effect>);
}

/// A plugin's announcement about its PreBind, before the call of PreBind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreFlight {
    /// Whether PreBind may run in parallel with the PreBind of neighbouring plugins that also allow it.
    pub allow_parallel: bool,
}

/// Says whether PreBind will have something to do. If so, binding takes a while, and the pod's `nominatedNodeName`
/// names the node to which the pod will go (KEP-5278). A plugin with PreBind and without this point is assumed to have
/// something to do, and its PreBind runs alone.
pub trait PreBindPreFlight {
    /// Called once, after Permit and before the pod waits for Permit plugins that hold it.
    ///
    /// # Errors
    /// `Skip` means that PreBind has nothing to do for this pod and is not called. Any other status fails the binding.
    fn pre_bind_pre_flight(&mut self, call: &Call<'_>, node: NodeIdx) -> Result<PreFlight, Status>;
}

/// Does work that must be done before the pod is bound.
pub trait PreBind {
    /// The effects that must be carried out first. PreBind is called again only if an [`Effect::Wait`] among them says
    /// so.
    ///
    /// # Errors
    /// `Skip` means that nothing needs to be done. The binding fails with any other status.
    fn pre_bind(&mut self, call: &Call<'_>, node: NodeIdx) -> Result<Vec<Effect>, Status>;
}

/// Asks for the effects that bind the pod.
pub trait Bind {
    /// The effects that bind the pod, usually [`Effect::Bind`].
    ///
    /// # Errors
    /// `Skip` passes the pod to the next Bind plugin. Any other status fails the binding.
    fn bind(&mut self, call: &Call<'_>, node: NodeIdx) -> Result<Vec<Effect>, Status>;
}

/// Learns of each pod that was bound.
pub trait PostBind {
    /// The pod is bound to `node`.
    fn post_bind(&mut self, call: &Call<'_>, node: NodeIdx);
}

/// Lets the scheduler reuse answers for pods with the same signature.
pub trait Sign {
    /// The signature of the pod. Two pods with one signature get the same answers. `None` means that the answers about
    /// this pod must not be reused.
    fn sign(&mut self, pod: &Pod) -> Option<String>;
}

/// The question that a queueing hint answers.
#[derive(Clone, Copy, Debug)]
pub struct HintCall<'a> {
    /// The cluster, with the event applied.
    pub table: &'a ClusterTable,
    /// The pod that the plugin rejected, in its current state.
    pub pod: &'a Pod,
    /// The event. The `resource` of a pod is `Pod`, whether the pod has a node or not.
    pub event: &'a ClusterEvent,
    /// The object that changed.
    pub subject: EventSubject<'a>,
}

/// An object before and after an event; `None` for an object that does not exist.
#[derive(Clone, Copy, Debug)]
pub enum EventSubject<'a> {
    /// A pod.
    Pod {
        /// The pod before the event.
        old: Option<&'a Pod>,
        /// The pod after the event.
        new: Option<&'a Pod>,
    },
    /// A node.
    Node {
        /// The node before the event.
        old: Option<&'a Node>,
        /// The node after the event.
        new: Option<&'a Node>,
    },
    /// An object of a kind that the manifest lists in `objects`.
    Object {
        /// The kind, namespace and name of the object.
        key: &'a ObjectKey,
        /// The object before the event, as JSON.
        old: Option<&'a [u8]>,
        /// The object after the event, as JSON.
        new: Option<&'a [u8]>,
    },
    /// An object that the plugin may not see, or an event that is not about a single object.
    Hidden,
}

/// Decides whether, after an event, another attempt of a pod that the plugin rejected is worthwhile.
///
/// The scheduler asks only about events of [`Manifest::events_to_register`](crate::Manifest::events_to_register). The
/// pods of a plugin without this point are tried again at each of these events.
pub trait QueueingHint {
    /// Whether the event may make the pod schedulable, as far as this plugin can tell. A wrong `false` costs the pod up
    /// to five minutes; a wrong `true` costs one attempt.
    fn queueing_hint(&mut self, call: &HintCall<'_>) -> bool;
}

/// Explains in the plugin's own words why the plugin answers about a pod as it does. The words are for people only. No
/// decision depends on them.
pub trait Explain {
    /// One line about the pod as a whole, or about the pod on `node`; empty if the plugin has nothing to say. The
    /// method is called in a separate cycle, after the points that choose a node.
    ///
    /// # Errors
    /// The plugin could not explain its answer. All other answers stay valid.
    fn explain(&mut self, call: &Call<'_>, node: Option<NodeIdx>) -> Result<String, Status>;
}
