//! The content of kube-scheduler's log lines at verbosities from 2 on, as data. The host writes the lines.

use std::{sync::Arc, vec::Drain};

use berth_model::{Pod, Symbols};
use berth_queue::{MoveCause, Movement, SubQueue};

/// An occurrence that kube-scheduler writes to its log. Occurrences are recorded only while the host asks for them
/// ([`crate::Scheduler::record_occurrences`]). No decision depends on an occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Occurrence {
    /// The API server showed that a pod appeared, changed or went.
    PodEvent {
        /// The pod.
        pod: PodName,
        /// The change to the pod.
        change: ChangeType,
        /// Whether the pod has a node.
        is_scheduled: bool,
    },
    /// The API server showed that a node appeared, changed or went.
    NodeEvent {
        /// `metadata.name` of the node.
        node: Arc<str>,
        /// The change of the object.
        change: ChangeType,
    },
    /// A pod entered a part of the queue.
    PodMoved(Box<PodMoved>),
    /// The queue returned a pod.
    PodPopped(PodName),
    /// The returned pod is being deleted, so it is not tried.
    DeletingPodSkipped(PodName),
    /// An attempt to schedule the pod began.
    AttemptBegan(PodName),
    /// PostFilter plugins ran for a pod that fits on no node.
    PostFilterRan {
        /// The pod.
        pod: PodName,
        /// The message of the plugins' status; empty if the status has no message.
        status: String,
    },
    /// The node on which pods are evicted for a pod was chosen.
    PreemptionTarget {
        /// The preemptor.
        pod: PodName,
        /// `metadata.name` of the node.
        node: Arc<str>,
    },
}

/// A pod as log lines name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodName {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

/// The change to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeType {
    /// The object appeared.
    Add,
    /// The object changed.
    Update,
    /// The object was deleted.
    Delete,
}

/// A pod that entered a part of the queue ([`berth_queue::Movement`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodMoved {
    /// The pod.
    pub pod: PodName,
    /// The label of the event that moved the pod, as in metrics.
    pub event: Arc<str>,
    /// The part of the queue.
    pub queue: SubQueue,
    /// The cause of the move.
    pub cause: MoveCause,
    /// Whether a PreEnqueue plugin kept the pod out of activeQ.
    pub is_gated: bool,
    /// The number of attempts so far, of all pods.
    pub n_cycles: u64,
    /// The plugins that rejected the pod in its last attempt, sorted by name.
    pub rejected_by: Vec<Arc<str>>,
}

impl PodName {
    pub(crate) fn of(pod: &Pod, symbols: &Symbols) -> Self {
        Self { namespace: symbols.shared_text(pod.namespace), name: Arc::clone(&pod.name) }
    }
}

/// The occurrences that the host has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Occurrences {
    /// The highest verbosity that is recorded; 0 records nothing.
    verbosity: u8,
    /// The number of attempts so far, of all pods.
    n_cycles: u64,
    kept: Vec<Occurrence>,
}

impl Occurrences {
    pub(crate) fn record_up_to(&mut self, verbosity: u8) {
        self.verbosity = verbosity;
    }

    /// Whether occurrences of this verbosity are recorded.
    pub(crate) fn wants(&self, verbosity: u8) -> bool {
        verbosity <= self.verbosity
    }

    pub(crate) fn add(&mut self, occurrence: Occurrence) {
        self.kept.push(occurrence);
    }

    pub(crate) fn set_cycles(&mut self, n_cycles: u64) {
        self.n_cycles = n_cycles;
    }

    pub(crate) fn add_movement(&mut self, movement: Movement<'_>, symbols: &Symbols) {
        let Movement { record, queue, reason, is_gated } = movement;
        let mut rejected_by: Vec<Arc<str>> = record.rejectors.iter().chain(&record.pending).cloned().collect();
        rejected_by.sort_unstable();
        rejected_by.dedup();
        self.add(Occurrence::PodMoved(Box::new(PodMoved {
            pod: PodName::of(&record.pod, symbols),
            event: Arc::clone(reason.label),
            queue,
            cause: reason.cause,
            is_gated,
            n_cycles: self.n_cycles,
            rejected_by,
        })));
    }

    pub(crate) fn drain(&mut self) -> Drain<'_, Occurrence> {
        self.kept.drain(..)
    }
}

impl Occurrence {
    /// The verbosity at which kube-scheduler writes the event of an object.
    pub(crate) fn event_verbosity(change: ChangeType) -> u8 {
        match change {
            ChangeType::Add | ChangeType::Delete => 3,
            ChangeType::Update => 4,
        }
    }

    /// The lowest verbosity at which kube-scheduler writes the movement of a pod.
    pub(crate) fn movement_verbosity(cause: MoveCause) -> u8 {
        match cause {
            MoveCause::AttemptFailed(_) => 3,
            MoveCause::Event | MoveCause::Updated => 5,
        }
    }
}
