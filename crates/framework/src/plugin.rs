//! Extension points as traits. Calls are batches: a pod and all candidates in, a set or a column out.
//!
//! One scheduling cycle runs at a time, so a plugin may keep the state of the current cycle in itself: PreFilter (or,
//! for a plugin without it, the first call with a new [`CycleId`]) starts it afresh. State that must live until the pod
//! is bound is kept under the cycle's id until [`Plugin::end_cycle`].

use std::{fmt, sync::Arc};

use berth_model::{ClusterTable, Delta, NodeIdx, NodeSet, Pod, PodIdx};

use crate::{
    effect::Effect,
    error::{BuildError, ConfigureError, RestoreError},
    manifest::{Manifest, Needs, Points},
    status::Status,
};

/// One scheduling attempt of one pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CycleId(pub u64);

/// What every call of a cycle can see.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub cycle: CycleId,
    pub pod: &'a Pod,
    pub table: &'a ClusterTable,
}

/// Where a replica gets what it has missed.
pub trait DeltaSource {
    /// Everything in `needs` that changed after `generation`; a full delta when that is too long ago or 0.
    /// `n_symbols` is how many symbols the replica knows, the well-known ones included.
    fn delta_since(&self, needs: &Needs, generation: u64, n_symbols: usize) -> Delta;
    /// The newest generation.
    fn generation(&self) -> u64;
}

/// Which binary answers under a plugin's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginVersion {
    pub name: String,
    pub version: String,
    /// SHA-256 of the component in hex, or `native`.
    pub digest: String,
}

/// A plugin of one profile, configured: a struct of optional extension points.
///
/// A plugin that is called but whose accessor answers `None` has nothing to say at that point.
pub trait Plugin: Send {
    fn manifest(&self) -> &Manifest;

    fn points(&self) -> Points;

    fn version(&self) -> PluginVersion;

    /// Catches a replica up. Called at the start of a cycle; native plugins read the host's own table.
    ///
    /// # Errors
    /// The replica could not be fed; the attempt fails with this status. A status that turns pods down says that the
    /// plugin is out of service: pods of its profile wait until another binary takes its place.
    fn sync(&mut self, source: &dyn DeltaSource) -> Result<(), Status> {
        let _ = source;
        Ok(())
    }

    /// Why no pod may pass as long as this stands in the plugin's place. What [`Plugin::sync`] says at the start of a cycle,
    /// for pods that are past it.
    fn out_of_service(&self) -> Option<Status> {
        None
    }

    /// Inside a component: its replica has changed. What a plugin keeps about the cluster can follow here, in portions and
    /// with the time that a sync has, instead of all at once in the next cycle.
    fn follow(&mut self, table: &ClusterTable) {
        let _ = table;
    }

    /// The framework could not use an answer that the plugin gave: a score out of range, say.
    fn answered_badly(&mut self, reason: &str) {
        let _ = reason;
    }

    /// The cycle is over: its pod was bound, given back or deleted.
    fn end_cycle(&mut self, cycle: CycleId) {
        let _ = cycle;
    }

    fn pre_enqueue(&mut self) -> Option<&mut dyn PreEnqueue> {
        None
    }
    fn queue_sort(&mut self) -> Option<&mut dyn QueueSort> {
        None
    }
    fn pre_filter(&mut self) -> Option<&mut dyn PreFilter> {
        None
    }
    fn filter(&mut self) -> Option<&mut dyn Filter> {
        None
    }
    fn post_filter(&mut self) -> Option<&mut dyn PostFilter> {
        None
    }
    fn pre_score(&mut self) -> Option<&mut dyn PreScore> {
        None
    }
    fn score(&mut self) -> Option<&mut dyn Score> {
        None
    }
    fn normalize(&mut self) -> Option<&mut dyn Normalize> {
        None
    }
    fn reserve(&mut self) -> Option<&mut dyn Reserve> {
        None
    }
    fn permit(&mut self) -> Option<&mut dyn Permit> {
        None
    }
    fn pre_bind(&mut self) -> Option<&mut dyn PreBind> {
        None
    }
    fn bind(&mut self) -> Option<&mut dyn Bind> {
        None
    }
    fn post_bind(&mut self) -> Option<&mut dyn PostBind> {
        None
    }
    fn queueing_hint(&mut self) -> Option<&mut dyn QueueingHint> {
        None
    }
    fn sign(&mut self) -> Option<&mut dyn Sign> {
        None
    }
    /// State that outlives the binary.
    fn state(&mut self) -> Option<&mut dyn State> {
        None
    }
}

impl fmt::Debug for dyn Plugin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Plugin({})", self.manifest().name)
    }
}

/// How a plugin written in Rust comes to be: natively, and inside a component.
pub trait Configure: Plugin + Sized + 'static {
    /// What the plugin says about itself; the same for every configuration.
    fn describe() -> Manifest;

    /// # Errors
    /// Why these arguments (`pluginConfig` as JSON, `null` when there are none) are refused.
    fn configure(args: &str) -> Result<Self, ConfigureError>;
}

/// Makes configured instances of one binary, one for each profile that uses it.
pub trait PluginFactory: Send + Sync + fmt::Debug {
    fn manifest(&self) -> &Manifest;

    fn points(&self) -> Points;

    fn version(&self) -> PluginVersion;

    /// A new instance configured with `args`, the `pluginConfig` of its profile as JSON (`null` when there is none).
    ///
    /// # Errors
    /// Why the plugin refuses these arguments, or cannot be started.
    fn build(&self, args: &str) -> Result<Box<dyn Plugin>, BuildError>;

    /// Whether building an instance and its first sync take so long that no cycle should wait for them.
    fn takes_long(&self) -> bool {
        false
    }
}

/// May this pod enter activeQ? Any status but success keeps it out, gated.
pub trait PreEnqueue {
    fn pre_enqueue(&mut self, pod: &Pod) -> Status;
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
    fn explain(&mut self, call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<Explanation>, Status>;

    /// Would the node pass with some of its pods taken away and others added? One status a case; the tables stay as
    /// they are. `pods` is what the cases index into. Preemption asks several times about the same pods: in one cycle, a
    /// pod at the same address is the same pod, so what was worked out for it, or sent, may be kept.
    ///
    /// # Errors
    /// The attempt fails with this status.
    fn dry_run(&mut self, call: &Call<'_>, pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status>;
}

/// Nodes that were rejected alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub status: Status,
    pub nodes: NodeSet,
}

/// A change of one node to try. `minus` and `plus` index into the pods passed along.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DryRunCase {
    pub node: NodeIdx,
    pub minus: Vec<u32>,
    pub plus: Vec<u32>,
}

/// Nothing fitted: can something be done about it?
pub trait PostFilter {
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
    pub rejections: &'a [Explanation],
    /// The status of nodes that stand in no rejection, when PreFilter turned the pod or those nodes down.
    pub absent: Option<&'a Status>,
    /// Pods that hold a nomination, of any priority.
    pub nominated: &'a [(NodeIdx, Arc<Pod>)],
}

/// Asks the Filter plugins of the profile about nodes as they would be.
pub trait DryRun {
    /// Would the pod of this cycle pass on each node without some of its pods? One status a case, in order: success, or
    /// what the first plugin that objects says. Pods nominated to the node count as they do in Filter; the caller's own
    /// Filter is not asked.
    ///
    /// # Errors
    /// A plugin broke.
    fn dry_run(&mut self, cases: &[Removal]) -> Result<Vec<Status>, Status>;
}

/// A node without some of its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    pub node: NodeIdx,
    pub pods: Vec<PodIdx>,
}

/// The answer of a PostFilter plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostFilterOutcome {
    pub status: Status,
    /// `Some(None)` clears the pod's nomination, `Some(Some(node))` sets it, `None` leaves it.
    pub nominate: Option<Option<NodeIdx>>,
    pub effects: Vec<Effect>,
}

/// Prepares scoring of the nodes that passed.
pub trait PreScore {
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
}

/// Brings a plugin's scores into 0 to 100.
pub trait Normalize {
    /// # Errors
    /// The attempt fails with this status.
    fn normalize(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut [i64]) -> Result<(), Status>;
}

/// Takes note that a pod is going to a node.
pub trait Reserve {
    fn reserve(&mut self, call: &Call<'_>, node: NodeIdx) -> Status;
    /// Undoes it; must bear being called without a reservation.
    fn unreserve(&mut self, call: &Call<'_>, node: NodeIdx);
}

/// The answer of a Permit plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermitVerdict {
    Allow,
    /// Hold the pod for at most this many milliseconds.
    Wait(u64),
    Deny(Status),
}

/// Last word before binding: yes, no, or wait.
pub trait Permit {
    /// Effects may allow, reject or activate other pods.
    fn permit(&mut self, call: &Call<'_>, node: NodeIdx) -> (PermitVerdict, Vec<Effect>);
}

/// Work that must be done before the pod is bound.
pub trait PreBind {
    /// # Errors
    /// The binding fails with this status; `Skip` when there is nothing to do.
    fn pre_bind(&mut self, call: &Call<'_>, node: NodeIdx) -> Result<Vec<Effect>, Status>;
}

/// Binds the pod, by asking for it.
pub trait Bind {
    /// # Errors
    /// `Skip` passes the pod to the next Bind plugin; any other status fails the binding.
    fn bind(&mut self, call: &Call<'_>, node: NodeIdx) -> Result<Vec<Effect>, Status>;
}

/// Told after the pod was bound.
pub trait PostBind {
    fn post_bind(&mut self, call: &Call<'_>, node: NodeIdx);
}

/// Lets the scheduler reuse answers.
pub trait Sign {
    /// Two pods with one signature get the same answers. `None`: this pod's answers must not be reused.
    fn sign(&mut self, pod: &Pod) -> Option<String>;
}

/// State that a plugin hands to the next binary of its name.
pub trait State {
    /// Empty: there is nothing to hand on.
    fn snapshot(&mut self) -> Vec<u8>;

    /// Called after `configure` and before the first sync.
    ///
    /// # Errors
    /// Why the state is of no use; the plugin starts without it.
    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError>;
}

/// Is this event worth another attempt of a pod that the plugin rejected?
pub trait QueueingHint {
    /// `old` and `new` are the object as JSON before and after; `None` where it does not exist.
    fn queueing_hint(&mut self, pod: &Pod, event: &crate::ClusterEvent, old: Option<&[u8]>, new: Option<&[u8]>)
    -> bool;
}
