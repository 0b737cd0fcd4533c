//! What a plugin may do besides its extension points: each a trait that most plugins do without.

use berth_model::{ClusterTable, Delta};

use crate::{
    error::RestoreError,
    manifest::Needs,
    points::{Call, CycleId},
    status::Status,
};

/// Keeps something about a cycle until it is over.
pub trait EndCycle {
    /// The cycle is over: its pod was bound, given back or deleted.
    fn end_cycle(&mut self, cycle: CycleId);
}

/// Keeps something about the cluster, worked out from the table.
pub trait Follow {
    /// Inside a component: its replica has changed. The plugin can catch up here, in portions and with the time that a
    /// sync has, instead of all at once in the next cycle. Native plugins are not called; they catch up in the cycle.
    fn follow(&mut self, table: &ClusterTable);
}

/// Says which of its answers hold for later pods too, so that the plugin is asked again only about nodes that changed.
pub trait Reuse {
    /// How far the plugin's answers about the pod reach. A native plugin is asked in each cycle after PreFilter, and about
    /// scores after PreScore; a component before PreFilter, once for pods that are alike, as `wit/reuse.wit` says, and these
    /// must have the same signature. Must cost little.
    ///
    /// Whatever the answer: when a node or another pod changes, QueueingHint is asked about one of several waiting pods that
    /// are alike.
    fn reach(&mut self, call: &Call<'_>) -> Reach;
}

/// What the answers of a plugin's Filter and Score about one node follow from, besides the plugin's configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Answers follow from anything in the cluster, or from which pod it is: the plugin is asked about each pod. So is
    /// a plugin without [`Reuse`].
    #[default]
    Cluster,
    /// Answers follow from the node's own row, and from the pod without what only names it
    /// ([`Pod::is_equivalent`](berth_model::Pod::is_equivalent) says what that is). The plugin may then be asked about
    /// any nodes, in any order, and by Score also about nodes that did not pass. If it normalises, the score of a node
    /// follows from its raw score and from the lowest and the highest raw score.
    Row {
        /// Stands for all else that answers follow from. Answers of another version are forgotten.
        version: u64,
    },
    /// Answers follow from nothing: the plugin lets such pods into the queue and pass everywhere, scores all nodes 0,
    /// and reserves and prepares nothing, whatever the cluster holds. It need not be asked.
    Nothing,
    /// [`Self::Nothing`], and in addition pods like it that are on nodes make no difference to any of the plugin's
    /// answers, now and as long as the plugin lives. So a component need not hear of them.
    NothingAnywhere,
    /// [`Self::Nothing`], until a pod comes to a node, or is nominated to one, with which the plugin may have something
    /// to do: one of a class about which it has not given one of these three answers. Then it is asked again.
    NothingYet,
}

impl Reach {
    /// Whether the plugin has nothing to do with the pod as things are.
    #[must_use]
    pub fn is_nothing(self) -> bool {
        match self {
            Self::Nothing | Self::NothingAnywhere | Self::NothingYet => true,
            Self::Cluster | Self::Row { .. } => false,
        }
    }
}

/// State that outlives the binary: what a plugin hands to the next binary of its name.
pub trait State {
    /// Empty: there is nothing to hand on.
    fn snapshot(&mut self) -> Vec<u8>;

    /// Called after `configure` and before the first sync.
    ///
    /// # Errors
    /// Says why the state is of no use. The plugin then starts without it.
    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError>;
}

/// Runs apart from the scheduler: a component with a replica of the cluster, which may break, or what stands in for one.
pub trait Hosted {
    /// Catches the replica up. Called at the start of a cycle.
    ///
    /// # Errors
    /// The replica could not be fed; the attempt fails with this status. A status that turns pods down says that the
    /// plugin is out of service: pods of its profile wait until another binary takes its place.
    fn sync(&mut self, source: &dyn DeltaSource) -> Result<(), Status>;

    /// Why no pod may pass as long as this stands in the plugin's place: what [`Self::sync`] says at the start of a
    /// cycle, for pods that are past it. `None`: the plugin serves.
    fn out_of_service(&self) -> Option<Status>;

    /// Asked at the start of a cycle and before a question outside of cycles: may the plugin take more of the scheduling
    /// thread's time? One that may be passed over is, at all of its points, until this is asked again and it may.
    ///
    /// # Errors
    /// The plugin has used up its share, and no pod may do without it: the attempt fails with this status.
    fn has_time(&mut self) -> Result<(), Status> {
        Ok(())
    }

    /// Whether pods of the plugin's profiles wait for others while all plugins together have no time: its calls are charged.
    fn waits_for_time(&self) -> bool {
        false
    }

    /// Whether the plugin has used up its share, even one that pods may do without. Nothing changes. Asked before the plugin is
    /// told something that needs no answer.
    fn is_out_of_time(&self) -> bool {
        false
    }

    /// Whether the plugin keeps something about the cycle, so that it must hear of its end.
    fn knows(&self, _cycle: CycleId) -> bool {
        true
    }

    /// The pod of an open cycle is another one than the plugin was told: `call` has it. Comes before the plugin is asked again
    /// about a pod that it had wait.
    ///
    /// # Errors
    /// The plugin could not be told; the attempt fails with this status.
    fn pod_changed(&mut self, _call: &Call<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Keeps what changed since the plugin last heard of the cluster, for [`Self::tell_kept_changes`]. The plugin itself is not
    /// called. Whether something was kept.
    fn keep_changes(&mut self, _source: &dyn DeltaSource) -> bool {
        false
    }

    /// Tells the plugin the oldest of what [`Self::keep_changes`] kept. A fault is reported when the plugin is asked the next time.
    fn tell_kept_changes(&mut self) {}

    /// Passes the plugin over at all of its points until [`Self::has_time`] is asked again, if pods may do without it.
    /// Tells whether they may.
    fn pass_over(&mut self) -> bool {
        false
    }

    /// The framework could not use an answer that the plugin gave: a score out of range, say.
    fn answered_badly(&mut self, reason: &str);
}

/// Where a replica gets what it has missed.
pub trait DeltaSource {
    /// Everything in `needs` that changed after `generation`; a full delta when that is too long ago or 0.
    /// The replica has followed the symbols up to `symbols_position`: [`Delta::symbols_position`] of its last delta, 0 at
    /// first.
    fn delta_since(&self, needs: &Needs, generation: u64, symbols_position: u64) -> Delta;
    /// The newest generation.
    fn generation(&self) -> u64;
}
