//! The lines of kube-scheduler's log about events, attempts and moves in the queue, from what the scheduler records
//! ([`Occurrence`]). The scheduler records only the occurrences that the verbosity includes, so a line that is off
//! costs only the comparison of two numbers.

use berth_model::Release;
use berth_queue::{MoveCause, SubQueue};
use berth_scheduler::{ChangeType, Occurrence, PodMoved, PodName, Scheduler};
use berth_telemetry::klog::{V2, V3, V4, V5, lines};
use tracing::{Level, debug, enabled};

/// Writes the lines of the scheduling thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogLines {
    /// Whether lines about moves in the queue name entities.
    names_entities: bool,
}

impl LogLines {
    /// The lines of this release.
    pub(crate) fn of(release: Release) -> Self {
        Self {
            names_entities: match release {
                Release::V1_36 => false,
                Release::V1_37 => true,
            },
        }
    }

    /// Makes the scheduler record the occurrences that the verbosity includes from now on.
    pub(crate) fn ask(scheduler: &mut Scheduler) {
        scheduler.record_occurrences(verbosity());
    }

    /// Writes the lines of everything that happened since the last call.
    pub(crate) fn write(self, scheduler: &mut Scheduler) {
        for occurrence in scheduler.drain_occurrences() {
            self.line(&occurrence);
        }
    }

    fn line(self, occurrence: &Occurrence) {
        match occurrence {
            Occurrence::PodEvent { pod, change, is_scheduled: false } => unscheduled_pod_event(pod, *change),
            Occurrence::PodEvent { pod, change, is_scheduled: true } => scheduled_pod_event(pod, *change),
            Occurrence::NodeEvent { node, change } => node_event(node, *change),
            Occurrence::PodMoved(moved) => self.moved(moved),
            Occurrence::PodPopped(PodName { namespace, name }) => {
                debug!(target: V4, pod = &**name, namespace = &**namespace, "{}", lines::POD_POPPED.message);
            }
            Occurrence::DeletingPodSkipped(PodName { namespace, name }) => {
                debug!(target: V3, pod = &**name, namespace = &**namespace, "{}", lines::DELETING_POD_SKIPPED.message);
            }
            Occurrence::AttemptBegan(PodName { namespace, name }) => {
                debug!(target: V3, pod = &**name, namespace = &**namespace, "{}", lines::ATTEMPT_BEGAN.message);
            }
            Occurrence::PostFilterRan { pod: PodName { namespace, name }, status } => {
                let status = &**status;
                debug!(target: V5, pod = &**name, namespace = &**namespace, status, "{}", lines::POST_FILTER_RAN.message);
            }
            Occurrence::PreemptionTarget { pod: PodName { namespace, name }, node } => {
                let node = &**node;
                debug!(target: V2, node, pod = &**name, namespace = &**namespace, "{}", lines::PREEMPTION_TARGET.message);
            }
        }
    }

    fn moved(self, moved: &PodMoved) {
        let PodMoved { pod, event, queue, cause, is_gated, n_cycles, rejected_by } = moved;
        let queue_name = queue_name(*queue);
        match cause {
            // A pod that goes to the pool after its attempt has only the line about the attempt.
            MoveCause::AttemptFailed(_) if *queue == SubQueue::Unschedulable && !is_gated => {}
            MoveCause::AttemptFailed(_) | MoveCause::Event | MoveCause::Updated => {
                self.entered(pod, event, queue_name, *is_gated);
            }
        }
        match cause {
            MoveCause::Event => {}
            MoveCause::Updated if *queue == SubQueue::Unschedulable => {}
            MoveCause::Updated => self.updated(pod, event, queue_name),
            MoveCause::AttemptFailed(strategy) => {
                let PodName { namespace, name } = pod;
                debug!(
                    target: V3,
                    pod = &**name,
                    namespace = &**namespace,
                    event = &**event,
                    queue = queue_name,
                    schedulingCycle = *n_cycles,
                    hint = strategy.number(),
                    rejectedBy = rejected_by.join(","),
                    "{}",
                    lines::FAILED_POD_MOVED.message
                );
            }
        }
    }

    fn entered(self, pod: &PodName, event: &str, queue: &str, is_gated: bool) {
        let PodName { namespace, name } = pod;
        let entity = format_args!("{namespace}/{name}");
        match (self.names_entities, is_gated) {
            (false, false) => {
                debug!(target: V5, pod = &**name, namespace = &**namespace, event, queue, "{}", lines::POD_MOVED.message);
            }
            (false, true) => debug!(
                target: V5,
                pod = &**name,
                namespace = &**namespace,
                event,
                queue,
                "{}",
                lines::GATED_POD_MOVED.message
            ),
            (true, false) => {
                debug!(target: V5, entityType = POD, %entity, event, queue, "{}", lines::ENTITY_MOVED.message);
            }
            (true, true) => {
                debug!(target: V5, entityType = POD, %entity, event, queue, "{}", lines::GATED_ENTITY_MOVED.message);
            }
        }
    }

    fn updated(self, pod: &PodName, event: &str, queue: &str) {
        let PodName { namespace, name } = pod;
        let (namespace, pod) = (&**namespace, &**name);
        if self.names_entities {
            let entity = format_args!("{namespace}/{pod}");
            let message = lines::UPDATED_ENTITY_MOVED.message;
            debug!(target: V5, entityType = POD, %entity, pod, namespace, event, queue, "{message}");
        } else {
            debug!(target: V5, pod, namespace, event, queue, "{}", lines::UPDATED_POD_MOVED.message);
        }
    }
}

/// The type of entities that are pods without a group. Berth has no other entities.
const POD: &str = "pod";

/// The highest verbosity of these lines that is on; 0 if all are off.
fn verbosity() -> u8 {
    if enabled!(target: V5, Level::DEBUG) {
        5
    } else if enabled!(target: V4, Level::DEBUG) {
        4
    } else if enabled!(target: V3, Level::DEBUG) {
        3
    } else if enabled!(target: V2, Level::DEBUG) {
        2
    } else {
        0
    }
}

fn unscheduled_pod_event(PodName { namespace, name }: &PodName, change: ChangeType) {
    let (namespace, pod) = (&**namespace, &**name);
    match change {
        ChangeType::Add => debug!(target: V3, pod, namespace, "{}", lines::ADD_UNSCHEDULED_POD.message),
        ChangeType::Update => debug!(target: V4, pod, namespace, "{}", lines::UPDATE_UNSCHEDULED_POD.message),
        ChangeType::Delete => debug!(target: V3, pod, namespace, "{}", lines::DELETE_UNSCHEDULED_POD.message),
    }
}

fn scheduled_pod_event(PodName { namespace, name }: &PodName, change: ChangeType) {
    let (namespace, pod) = (&**namespace, &**name);
    match change {
        ChangeType::Add => debug!(target: V3, pod, namespace, "{}", lines::ADD_SCHEDULED_POD.message),
        ChangeType::Update => debug!(target: V4, pod, namespace, "{}", lines::UPDATE_SCHEDULED_POD.message),
        ChangeType::Delete => debug!(target: V3, pod, namespace, "{}", lines::DELETE_SCHEDULED_POD.message),
    }
}

fn node_event(node: &str, change: ChangeType) {
    match change {
        ChangeType::Add => debug!(target: V3, nodeObject = node, "{}", lines::ADD_NODE.message),
        ChangeType::Update => debug!(target: V4, nodeObject = node, "{}", lines::UPDATE_NODE.message),
        ChangeType::Delete => debug!(target: V3, nodeObject = node, "{}", lines::DELETE_NODE.message),
    }
}

/// The name of a part of the queue in log lines.
fn queue_name(queue: SubQueue) -> &'static str {
    match queue {
        SubQueue::Active => "Active",
        SubQueue::Backoff => "Backoff",
        SubQueue::Unschedulable => "Unschedulable",
    }
}

#[cfg(test)]
mod tests;
