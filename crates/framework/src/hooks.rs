//! The hooks that a plugin may have besides its extension points. Each hook is a trait. Most plugins do not implement
//! these traits.

use std::sync::Arc;

use berth_model::{ClusterTable, Delta, ObjectKey};

use crate::{
    error::RestoreError,
    manifest::Needs,
    object_kind::FACTS_API_VERSION,
    points::{Call, CycleId},
    status::Status,
};

/// A hook of plugins that keep data about a cycle until the cycle is over.
pub trait EndCycle {
    /// Called when the cycle is over: its pod was bound, returned to the queue or deleted.
    fn end_cycle(&mut self, cycle: CycleId);
}

/// A hook of plugins that keep data which they compute from the table.
pub trait Follow {
    /// Called inside a component after its replica changed. The plugin can process the changes here, in portions and
    /// within the time of a sync. Otherwise the plugin would have to process all changes in the next cycle. A native
    /// plugin that schedules pods is not called, because it processes the changes in the cycle. A native plugin that is
    /// kept for questions about pods is called between two questions.
    fn follow(&mut self, table: &ClusterTable);
}

/// A hook by which a plugin says which of its answers also hold for later pods. A plugin with this hook is asked again
/// only about nodes that changed.
pub trait Reuse {
    /// The reach of the plugin's answers about the pod. A native plugin is asked in each cycle after PreFilter, and
    /// about scores after PreScore. A component is asked before PreFilter, once for all equivalent pods, as
    /// `wit/reuse.wit` says. Equivalent pods must have the same signature. The call must cost little.
    ///
    /// Whatever the answer is, QueueingHint is asked about only one of several equivalent waiting pods when a node or
    /// another pod changes.
    fn reach(&mut self, call: &Call<'_>) -> Reach;
}

/// The data on which a plugin's answers at Filter and Score about one node depend, besides the plugin's configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Answers depend on anything in the cluster, or on the identity of the pod, so the plugin is asked about each pod.
    /// A plugin without [`Reuse`] is treated the same way.
    #[default]
    Cluster,
    /// Answers depend on the node's own row, and on the pod apart from its identity
    /// ([`Pod::is_equivalent`](berth_model::Pod::is_equivalent) lists the fields of the identity). The plugin may then
    /// be asked about any nodes in any order, and at Score also about nodes that did not pass. If the plugin
    /// normalises, the score of a node depends on its raw score and on the lowest and the highest raw score.
    Row {
        /// A number that stands for all other data on which answers depend. Answers that were given with another number
        /// are forgotten.
        version: u64,
    },
    /// Answers depend on nothing. The plugin lets such pods into the queue with any data in the cluster, lets them pass
    /// on every node, scores all nodes 0, and reserves and prepares nothing. The plugin need not be asked.
    Nothing,
    /// [`Self::Nothing`]. In addition, such pods on nodes never change an answer of the plugin as long as the plugin
    /// lives. So the scheduler need not send such pods to a component.
    NothingAnywhere,
    /// [`Self::Nothing`] until a pod that may matter to the plugin comes to a node or is nominated to a node. A pod may
    /// matter if the plugin has given none of these three answers about the pod's class. The plugin is then asked
    /// again.
    NothingYet,
}

impl Reach {
    /// Whether the plugin does not affect the pod in the current state of the cluster.
    #[must_use]
    pub fn is_nothing(self) -> bool {
        match self {
            Self::Nothing | Self::NothingAnywhere | Self::NothingYet => true,
            Self::Cluster | Self::Row { .. } => false,
        }
    }
}

/// A hook of plugins with state that outlives the binary. A plugin passes its state to the next binary with its name.
pub trait State {
    /// The state for the next binary; empty if the plugin has no state.
    fn snapshot(&mut self) -> Vec<u8>;

    /// Called after `configure` and before the first sync.
    ///
    /// # Errors
    /// The plugin cannot use the state. The error has the reason. The plugin then starts without the state.
    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError>;
}

/// A hook of plugins that reserve something for pods before the API server shows it, such as devices. Other plugins and
/// the instances of other profiles can then count it.
pub trait ShareFacts {
    /// The facts that were added, changed or removed since the last call. The scheduler asks after Reserve, Unreserve
    /// and PreBind, and keeps the facts as objects ([`Fact::key`]), which reach the plugins that read their kind with
    /// the other objects. A fact belongs to the profile that published it last, and only this profile can remove it. A
    /// share of a node ([`Fact::node_share`]) is for the scheduler alone, which does not keep it.
    fn take_facts(&mut self) -> Vec<Fact>;
}

/// Something that a plugin shares with all plugins of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// The name, which is unique among the facts of plugins with one name.
    pub name: String,
    /// The content as JSON; `None` if the fact is gone.
    pub json: Option<Arc<[u8]>>,
}

impl Fact {
    /// The start of the name of a share of a node. The uid of the pod follows.
    const NODE_SHARE: &str = "node-share-";

    /// The amounts that a pod takes from its node's own resources through the devices that are reserved for the pod
    /// (KEP-5517). `json` is the list for the pod's `status.nodeAllocatableResourceClaimStatuses`. From Reserve on, the
    /// scheduler adds these amounts to the pod's requests, as long as it assumes that the pod is on the node.
    #[must_use]
    pub fn node_share(pod_uid: &str, json: Arc<[u8]>) -> Self {
        Self { name: [Self::NODE_SHARE, pod_uid].concat(), json: Some(json) }
    }

    /// The uid of the pod and the content of a [share of a node](Self::node_share); `None` for other facts.
    #[must_use]
    pub fn as_node_share(&self) -> Option<(&str, &[u8])> {
        self.name.strip_prefix(Self::NODE_SHARE).zip(self.json.as_deref())
    }

    /// The key of the object that stands for the fact. Its kind is the name of the plugin.
    #[must_use]
    pub fn key(&self, plugin: &str) -> ObjectKey {
        ObjectKey {
            api_version: FACTS_API_VERSION.to_owned(),
            kind: plugin.to_owned(),
            namespace: String::new(),
            name: self.name.clone(),
        }
    }
}

/// A hook of plugins that run apart from the scheduler. Such a plugin is a component, which has a replica of the
/// cluster and may break, or a placeholder for a component.
pub trait Hosted {
    /// Brings the replica up to date. Called at the start of a cycle.
    ///
    /// # Errors
    /// The replica could not be updated; the attempt fails with this status. A status that rejects pods means that the
    /// plugin is out of service: pods of its profile wait until another binary replaces it.
    fn sync(&mut self, source: &dyn DeltaSource) -> Result<(), Status>;

    /// The status with which [`Self::sync`] would fail while the plugin is out of service, for pods that are past the
    /// start of their cycle. While the result is `Some`, no pod may pass. `None` means that the plugin serves.
    fn out_of_service(&self) -> Option<Status>;

    /// Checks whether the plugin may take more of the scheduling thread's time. The scheduler asks at the start of a
    /// cycle and before a question outside of cycles. If the plugin has no time and is optional, the scheduler skips
    /// the plugin at all of its points until a later call of this method finds that the plugin has time again.
    ///
    /// # Errors
    /// The plugin has used up its share, and is not optional: the attempt fails with this status.
    fn has_time(&mut self) -> Result<(), Status> {
        Ok(())
    }

    /// Whether the plugin's calls are charged. Pods of its profiles then wait for other pods while all plugins together
    /// have no time.
    fn waits_for_time(&self) -> bool {
        false
    }

    /// Whether the plugin has used up its share, even if the plugin is optional. The call changes nothing. The
    /// scheduler calls this method before it sends the plugin a message that needs no answer.
    fn is_out_of_time(&self) -> bool {
        false
    }

    /// Whether the plugin keeps data about the cycle. Such a plugin must be informed of the cycle's end.
    fn knows(&self, _cycle: CycleId) -> bool {
        true
    }

    /// Informs the plugin that the pod of an open cycle has changed; `call` contains the new pod. The scheduler calls
    /// this method before it asks the plugin again about a pod that waits for the plugin.
    ///
    /// # Errors
    /// The plugin could not be informed; the attempt fails with this status.
    fn pod_changed(&mut self, _call: &Call<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Keeps the changes in the cluster since the plugin was last updated, for [`Self::tell_kept_changes`]. The plugin
    /// itself is not called. Returns whether any change was kept.
    fn keep_changes(&mut self, _source: &dyn DeltaSource) -> bool {
        false
    }

    /// Passes the oldest changes that [`Self::keep_changes`] kept to the plugin. If the plugin faults, the fault is
    /// reported at the plugin's next question.
    fn tell_kept_changes(&mut self) {}

    /// If the plugin is optional, makes the scheduler skip the plugin at all of its points until the next call of
    /// [`Self::has_time`]. Returns whether the plugin is optional.
    fn pass_over(&mut self) -> bool {
        false
    }

    /// Reports an answer of the plugin that the framework could not use, for example a score out of range.
    fn answered_badly(&mut self, reason: &str);
}

/// The source from which a replica gets the changes that it has missed.
pub trait DeltaSource {
    /// Everything in `needs` that changed after `generation`. The delta is full if `generation` is 0 or too long ago.
    /// The replica has followed the symbols up to `symbols_position`: the [`Delta::symbols_position`] of its last
    /// delta, at first 0.
    fn delta_since(&self, needs: &Needs, generation: u64, symbols_position: u64) -> Delta;
    /// The newest generation.
    fn generation(&self) -> u64;
}
