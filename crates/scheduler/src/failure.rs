//! An attempt failed: the pod goes back to the queue, and its owner is told why.

use std::sync::Arc;

use berth_framework::{
    CycleId, Status,
    run::{Diagnosis, PluginBits},
};
use berth_model::{Pod, Sym, Time, api};
use berth_queue::{Failure, QueuedPod};

use crate::{
    action::{Action, EventRecord, Level},
    metrics::AttemptResult,
    pending::NO_NODE,
    scheduler::Scheduler,
};

/// An attempt that failed.
#[derive(Debug)]
pub(crate) struct Defeat {
    /// A rejection, or an error; its message is what users read.
    pub(crate) status: Status,
    /// Who is to blame; without it the pod is tried again whatever happens.
    pub(crate) diagnosis: Option<Box<Diagnosis>>,
    pub(crate) nomination: Nomination,
}

/// What becomes of the pod's `status.nominatedNodeName`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nomination {
    Keep,
    /// This node, or none.
    Set(Sym),
}

impl Defeat {
    /// The attempt broke.
    pub(crate) fn broken(status: Status) -> Self {
        Self { status: Status::error(status.message()), diagnosis: None, nomination: Nomination::Set(NO_NODE) }
    }
}

impl Scheduler {
    /// Puts the pod back, unless it is gone, and reports.
    pub(crate) fn defeated(&mut self, record: QueuedPod, defeat: Defeat, now: Time) {
        let pod = Arc::clone(&record.pod);
        let result = if defeat.status.code.is_rejected() { AttemptResult::Unschedulable } else { AttemptResult::Error };
        self.count_attempt(pod.scheduler_name, result);
        let Some(newest) = self.pods.get(&pod.uid).map(|known| Arc::clone(&known.pod)) else {
            return self.queue.done(&pod.uid);
        };
        let failure = self.failure(pod.scheduler_name, defeat.diagnosis.as_deref());
        let requeued =
            self.with_queue(|queue, policy| queue.requeue(record, Arc::clone(&newest), failure, now, policy));
        if requeued.is_err() {
            let message = format!("pod {} is already present in the queue", self.full_name(&pod));
            self.log(Level::Error, message);
            self.queue.done(&pod.uid);
        }
        match defeat.nomination {
            Nomination::Set(node) => self.queue.nominator_mut().set(&newest, node),
            Nomination::Keep if newest.nominated_node_name.is_none() => {}
            Nomination::Keep => self.queue.nominator_mut().set(&newest, newest.nominated_node_name),
        }
        self.failed_scheduling_event(&newest, defeat.status.message());
        self.patch_failure(&newest, &defeat);
    }

    fn failure(&self, scheduler_name: Sym, diagnosis: Option<&Diagnosis>) -> Failure {
        let (Some(profile), Some(diagnosis)) = (self.profiles.get(scheduler_name), diagnosis) else {
            return Failure::default();
        };
        let names = |plugins: &PluginBits| plugins.iter().map(|plugin| Arc::clone(profile.name(plugin))).collect();
        Failure { rejectors: names(&diagnosis.rejectors), pending: names(&diagnosis.pending) }
    }

    pub(crate) fn failed_scheduling_event(&mut self, pod: &Pod, note: String) {
        self.pod_event(pod, (true, "FailedScheduling", "Scheduling"), note);
    }

    pub(crate) fn pod_event(&mut self, pod: &Pod, (warning, reason, action): (bool, &str, &str), note: String) {
        self.actions.push(Action::Event(EventRecord {
            regarding: self.pod_ref(pod),
            warning,
            reason: reason.to_owned(),
            action: action.to_owned(),
            note,
            reporting_controller: self.text(pod.scheduler_name).to_owned(),
        }));
    }

    fn patch_failure(&mut self, pod: &Pod, defeat: &Defeat) {
        let Some(known) = self.pods.get(&pod.uid) else { return };
        let reason = if defeat.status.code.is_rejected() { "Unschedulable" } else { "SchedulerError" };
        let old = known.conditions.iter().find(|condition| condition.type_ == "PodScheduled");
        let condition = api::Condition {
            type_: "PodScheduled".to_owned(),
            status: "False".to_owned(),
            reason: reason.to_owned(),
            message: defeat.status.message(),
            observed_generation: known.generation,
            last_transition_time: old
                .filter(|old| old.status == "False")
                .and_then(|old| old.last_transition_time.clone()),
        };
        let is_news = old != Some(&condition);
        let nominated = match defeat.nomination {
            Nomination::Keep => None,
            Nomination::Set(node) => Some(self.text(node).to_owned()),
        };
        self.patch_status(pod, is_news.then_some(condition), nominated);
    }

    /// Asks for a patch of what differs from the pod's status; of nothing when nothing does.
    pub(crate) fn patch_status(&mut self, pod: &Pod, condition: Option<api::Condition>, nominated: Option<String>) {
        let pod_ref = self.pod_ref(pod);
        let Some(known) = self.pods.get_mut(&pod.uid) else { return };
        let nominated = nominated.filter(|node| *node != known.nominated_node_name);
        if condition.is_none() && nominated.is_none() {
            return;
        }
        let old_nominated_node_name = known.nominated_node_name.clone();
        if let Some(node) = &nominated {
            known.nominated_node_name.clone_from(node);
        }
        self.actions.push(Action::PatchStatus {
            pod: pod_ref,
            old_conditions: known.conditions.clone(),
            condition,
            old_nominated_node_name,
            nominated_node_name: nominated,
        });
    }

    pub(crate) fn count_attempt(&mut self, scheduler_name: Sym, result: AttemptResult) {
        let profile = self.text(scheduler_name).to_owned();
        *self.metrics.attempts.entry((profile, result)).or_default() += 1;
    }

    pub(crate) fn end_cycle(&mut self, scheduler_name: Sym, cycle: CycleId) {
        if let Some(profile) = self.profiles.get_mut(scheduler_name) {
            profile.end_cycle(cycle);
        }
    }
}
