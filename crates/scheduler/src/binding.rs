//! The binding cycle: from the chosen node to a bound pod, or back.
//!
//! Between Reserve and PostBind a pod is a [`Binding`], whose [`Stage`] says what it waits for. Every way out ends in
//! `bound`, `fall_back`, `abandon` or `placed_by_others`; each settles the cache's [`Assumed`], gives the reservation
//! back unless the pod was bound, and ends the plugins' cycle.

use std::sync::Arc;

use berth_cache::Assumed;
use berth_framework::{
    Call, CycleId, Effect, PluginIdx, Profile, Status,
    run::{self, Diagnosis, PermitRun, Refusal, Rejection},
};
use berth_model::{NodeIdx, NodeSet, Pod, Sym, Time};
use berth_queue::QueuedPod;

use crate::{
    action::{Action, Level},
    changes,
    failure::{Defeat, Nomination},
    metrics::{AttemptResult, Observation},
    pending::NO_NODE,
    permit::Waits,
    pre_bind::Awaited,
    scheduler::{Phase, Scheduler},
};

/// A pod on its way to a node.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) record: QueuedPod,
    pub(crate) cycle: CycleId,
    pub(crate) node: Sym,
    /// The node's row when it was chosen; where plugins are told to look if the node is gone meanwhile.
    row: NodeIdx,
    assumed: Assumed,
    pub(crate) stage: Stage,
    /// Until when the PreBind plugin before this position may wait in all.
    pub(crate) pre_bind_deadline: Option<(usize, Time)>,
}

/// What the pod waits for.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Permit plugins hold it.
    Waiting(Waits),
    /// A PreBind plugin's effects are being carried out; then wait, or go on at this position.
    PreBinding { next: usize, awaited: Option<Awaited> },
    /// The PreBind plugin before this position waits for objects to change.
    Watching { next: usize, awaited: Awaited },
    /// The API server, or the effects of this Bind plugin, have the last word. What else the plugin asked for comes before
    /// the binding itself.
    Sent { plugin: PluginIdx, then_bind: bool },
}

impl Binding {
    pub(crate) fn pod(&self) -> &Arc<Pod> {
        &self.record.pod
    }

    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Waiting(_))
    }

    pub(crate) fn is_sent(&self) -> bool {
        matches!(self.stage, Stage::Sent { .. })
    }
}

/// How an attempt fails once a node was chosen.
pub(crate) enum Setback {
    /// A plugin turned the pod down before PreBind: its events may bring the pod back.
    Refused(Refusal),
    /// Turned down or broken later, or by the API server: tried again after backoff.
    Failed(Status),
}

impl Setback {
    fn from_refusal(refusal: Refusal) -> Self {
        if refusal.status.code.is_rejected() { Setback::Refused(refusal) } else { Setback::Failed(refusal.status) }
    }

    fn defeat(self) -> Defeat {
        let nomination = Nomination::Set(NO_NODE);
        match self {
            Setback::Failed(status) => Defeat { status, diagnosis: None, nomination },
            Setback::Refused(Refusal { plugin, status }) => {
                let mut diagnosis = Diagnosis { n_all_nodes: 1, ..Diagnosis::default() };
                diagnosis.blame(plugin, status.code);
                let nodes = NodeSet::from_iter([NodeIdx(0)]);
                let code = status.code;
                diagnosis.rejections.push(Rejection { plugin, status, nodes });
                let status = Status::new(code, [diagnosis.message()]);
                Defeat { status, diagnosis: Some(Box::new(diagnosis)), nomination }
            }
        }
    }
}

impl Scheduler {
    /// Assume, Reserve, Permit.
    pub(crate) fn begin_binding(&mut self, record: QueuedPod, cycle: CycleId, row: NodeIdx, now: Time) {
        let pod = Arc::clone(&record.pod);
        let node = self.cache.table().name(row);
        let assumed = match self.cache.assume(&pod, node) {
            Ok(assumed) => assumed,
            Err(inconsistency) => {
                self.end_cycle(pod.scheduler_name, cycle);
                return self.defeated(record, Defeat::broken(Status::error(inconsistency.to_string())), now);
            }
        };
        self.queue.nominator_mut().remove(&pod.uid);
        let stage = Stage::Waiting(Waits::default());
        let binding = Binding { record, cycle, node, row, assumed, stage, pre_bind_deadline: None };
        let reserved = self.call(&binding, run::reserve);
        let permitted = reserved
            .unwrap_or(Ok(()))
            .and_then(|()| self.call(&binding, run::permit).unwrap_or_else(|| Ok(PermitRun::default())));
        match permitted {
            Err(refusal) => self.fall_back(binding, Setback::from_refusal(refusal), now),
            Ok(permit) => {
                self.hold(binding, &permit.waits, now);
                self.perform(&pod, cycle, permit.effects, now);
                self.go_on_if_permitted(&pod.uid, now);
            }
        }
    }

    /// Permit said yes: the attempt counts as over for the queue, and PreBind begins.
    pub(crate) fn go_on(&mut self, uid: &str, now: Time) {
        self.queue.done(uid);
        self.pre_bind(uid, 0, now);
    }

    pub(crate) fn bind(&mut self, mut binding: Binding, now: Time) {
        if self.phase == Phase::ShuttingDown {
            // The next scheduler finds the pod pending.
            self.bindings.insert(binding.pod().uid.clone(), binding);
            return;
        }
        if self.cache.table().find(binding.node).is_none() {
            let text = format!("node \"{}\" not found", self.text(binding.node));
            return self.fall_back(binding, Setback::Failed(Status::error(text)), now);
        }
        let run = self.call(&binding, run::bind);
        let no_profile = || Refusal { plugin: PluginIdx::NOBODY, status: Status::error("no profile serves the pod") };
        let run = match run.unwrap_or_else(|| Err(no_profile())) {
            Err(refusal) => return self.fall_back(binding, Setback::Failed(refusal.status), now),
            Ok(run) => run,
        };
        let binds = run.effects.contains(&Effect::Bind);
        binding.stage = Stage::Sent { plugin: run.plugin, then_bind: binds };
        let (pod, cycle) = (Arc::clone(binding.pod()), binding.cycle);
        self.bindings.insert(pod.uid.clone(), binding);
        let granted = self.check_grants(&pod, run.plugin, &run.effects);
        let effects = run.effects.into_iter().filter(|effect| *effect != Effect::Bind).collect();
        let effects = match granted.and_then(|()| self.perform_own(&pod, run.plugin, effects, now)) {
            Ok(effects) => effects,
            Err(status) => return self.fail_binding(&pod.uid, status, now),
        };
        if binds && effects.is_empty() {
            return self.bind_effects_finished(cycle, &pod.uid, Ok(()), now);
        }
        let action = self.awaited_effects(&pod, cycle, run.plugin, effects);
        self.actions.push(action);
    }

    /// What a Bind plugin asked for is done; the binding itself comes last.
    pub(crate) fn bind_effects_finished(&mut self, cycle: CycleId, uid: &str, result: Result<(), String>, now: Time) {
        let Some(binding) = self.bindings.get_mut(uid) else { return };
        let Stage::Sent { then_bind, .. } = &mut binding.stage else { return };
        if !std::mem::take(then_bind) || result.is_err() {
            return self.bind_finished(cycle, uid, result, now);
        }
        let (pod, node) = (Arc::clone(binding.pod()), binding.node);
        let (pod, node) = (self.pod_ref(&pod), self.text(node).to_owned());
        self.actions.push(Action::Bind { cycle, pod, node });
    }

    pub(crate) fn bind_finished(&mut self, cycle: CycleId, uid: &str, result: Result<(), String>, now: Time) {
        let Some(binding) = self.bindings.get(uid).filter(|binding| binding.cycle == cycle) else { return };
        let Stage::Sent { plugin, .. } = binding.stage else { return };
        let scheduler_name = binding.pod().scheduler_name;
        let Some(binding) = self.bindings.remove(uid) else { return };
        match result {
            Ok(()) => self.bound(binding, now),
            Err(text) => {
                let name = self.plugin_name(scheduler_name, plugin);
                let status = Status::error(format!("running Bind plugin \"{name}\": {text}"));
                self.fall_back(binding, Setback::Failed(status), now);
            }
        }
    }

    pub(crate) fn fail_binding(&mut self, uid: &str, status: Status, now: Time) {
        if let Some(binding) = self.bindings.remove(uid) {
            self.fall_back(binding, Setback::Failed(status), now);
        }
    }

    /// The API server shows the pod at a node: by our doing, or another's.
    pub(crate) fn placement_seen(&mut self, pod: &Arc<Pod>, now: Time) {
        let Some(binding) = self.bindings.remove(&pod.uid) else { return };
        if binding.is_sent() && binding.node == pod.node_name {
            self.bound(binding, now);
        } else {
            self.placed_by_others(binding);
        }
    }

    fn bound(&mut self, binding: Binding, now: Time) {
        self.call(&binding, run::post_bind);
        let Binding { record, cycle, node, assumed, .. } = binding;
        assumed.settled();
        let pod = &record.pod;
        let note = format!("Successfully assigned {} to {}", self.full_name(pod), self.text(node));
        self.pod_event(pod, (false, "Scheduled", "Binding"), note);
        self.end_cycle(pod.scheduler_name, cycle);
        self.count_attempt(pod.scheduler_name, AttemptResult::Scheduled);
        self.observations.push(Observation::Scheduled {
            attempts: record.attempts,
            milliseconds: now.since(record.first_queued_at.unwrap_or(now)),
            after_flush: record.was_flushed,
        });
    }

    /// The attempt failed: everything is given back, and the pod goes to the queue.
    pub(crate) fn fall_back(&mut self, binding: Binding, setback: Setback, now: Time) {
        self.stop_watching(&binding.record.pod.uid, &binding.stage);
        self.call(&binding, run::unreserve);
        let Binding { record, cycle, assumed, .. } = binding;
        let pod = Arc::clone(&record.pod);
        self.end_cycle(pod.scheduler_name, cycle);
        let freed = match self.cache.forget(assumed) {
            Ok(freed) => freed,
            Err(inconsistency) => {
                self.log(Level::Warn, inconsistency.to_string());
                None
            }
        };
        let defeat = setback.defeat();
        let was_rejected = defeat.status.code.is_rejected();
        let freed = freed.map(|pod| changes::pod_deleted(&pod));
        if let Some(freed) = freed.as_ref().filter(|_| !was_rejected) {
            self.move_all(freed, now);
        }
        self.defeated(record, defeat, now);
        if let Some(freed) = freed.as_ref().filter(|_| was_rejected) {
            let others = |other: &Pod| other.uid != pod.uid;
            self.with_queue(|queue, policy| queue.move_all(freed, others, now, policy));
        }
    }

    /// The pod was deleted: everything is given back, and nobody is told.
    pub(crate) fn abandon(&mut self, binding: Binding, now: Time) {
        self.stop_watching(&binding.record.pod.uid, &binding.stage);
        self.call(&binding, run::unreserve);
        let Binding { record, cycle, assumed, .. } = binding;
        let pod = record.pod;
        assumed.settled();
        self.end_cycle(pod.scheduler_name, cycle);
        self.forget_waits(&pod.uid);
        self.queue.done(&pod.uid);
        self.cache.remove_pod(&pod.uid);
        self.move_all(&changes::pod_deleted(&pod), now);
    }

    fn placed_by_others(&mut self, binding: Binding) {
        self.stop_watching(&binding.record.pod.uid, &binding.stage);
        self.call(&binding, run::unreserve);
        let Binding { record, cycle, assumed, .. } = binding;
        assumed.settled();
        self.end_cycle(record.pod.scheduler_name, cycle);
        self.forget_waits(&record.pod.uid);
        self.queue.done(&record.pod.uid);
    }

    /// Calls into the profile of a pod on its way, at the node's present row. `None` when no profile serves it.
    pub(crate) fn call<R>(
        &mut self,
        binding: &Binding,
        work: impl FnOnce(&mut Profile, &Call<'_>, NodeIdx) -> R,
    ) -> Option<R> {
        let profile = self.profiles.get_mut(binding.pod().scheduler_name)?;
        let table = self.cache.table();
        let row = table.find(binding.node).unwrap_or(binding.row);
        let call = Call { cycle: binding.cycle, pod: binding.pod(), table };
        Some(work(profile, &call, row))
    }

    pub(crate) fn plugin_name(&self, scheduler_name: Sym, plugin: PluginIdx) -> Arc<str> {
        self.profiles.get(scheduler_name).map_or_else(|| Arc::from(""), |profile| Arc::clone(profile.name(plugin)))
    }

    /// Shows where the pod will go, since getting there takes a while.
    pub(crate) fn publish_expectation(&mut self, pod: &Pod, node: Sym) {
        let node = self.text(node).to_owned();
        self.patch_status(pod, None, Some(node));
    }
}
