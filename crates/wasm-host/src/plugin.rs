//! A component behind the framework's traits, for one profile. The scheduler calls it through the instance that serves
//! at the time.
//!
//! The plugin is made with a configured instance that knows nothing of the cluster. `sync` gives the instance the
//! changes since the last `sync`. The replica must know the symbols of pods, so `sync` comes before every call, also
//! outside of cycles.
//!
//! # End of an instance
//! A fault drops the instance, and with it all data about its cycles, its classes of pods and its pending changes. The
//! call returns an error. From then on the plugin is out of service: this module never makes a second instance. Another
//! part of the program replaces the whole plugin.
//!
//! # Surprises
//! - Changes of pods wait in `pending` until the instance is asked something, and in `kept` while it has no time. So
//!   `replica` may be ahead of the instance.
//! - Pods of one equivalence class may share one cycle (`classes`). The cycle of a call may then have begun with
//!   another pod.
//! - A plugin that is passed over, because it has no time and its pods need not wait for it, has no extension point but
//!   Reserve.
//! - A fault while pending changes are delivered belongs to no pod, although a pod caused the call.

mod classes;
mod pending;
mod placed_classes;
mod points;
mod shown_pods;
mod start;

use std::{sync::Arc, time::Duration};

use berth_framework::{
    BuildError, Call, CycleId, DeltaSource, EndCycle, Hook, HookRef, Hosted, Manifest, OutOfTime, Plugin,
    PluginVersion, Point, PointRef, Points, Reach, Reuse, Status,
};
use berth_model::{Delta, NodeSet, Pod, PodUid};

use self::{
    classes::{ClassState, Classes, Participation, is_about_pods_only},
    pending::{KeptChanges, PendingChanges},
    placed_classes::PlacedClasses,
    shown_pods::ShownPods,
    start::start,
};
use crate::{
    bindings::{
        points::{reuse, sync_pods::AlikePod},
        types,
    },
    component::LoadedComponent,
    convert::lower,
    cpu_time::thread_time,
    fault::{CallError, InstanceFault},
    instance::{CallContext, Instance, TimeLimit, guest},
    limits::WhenNotAsked,
};

/// The cycle for a pod that has no cycle yet. The scheduler counts its own cycles from 1 on.
const BEFORE_CYCLES: CycleId = CycleId(0);

/// A component behind the framework's traits.
pub(crate) struct ComponentPlugin {
    component: Arc<LoadedComponent>,
    /// The instance. `None` after a fault.
    instance: Option<Instance>,
    /// The position up to which the instance has followed, including the changes in `kept` and `pending`.
    replica: Replica,
    /// The changes for which the instance had no time.
    kept: KeptChanges,
    /// The changes that the instance gets before the next call of the plugin.
    pending: PendingChanges,
    /// The cycles whose pod the instance knows.
    begun: Vec<CycleId>,
    classes: Classes,
    placed_classes: PlacedClasses,
    shown_pods: ShownPods,
    /// The pod that the present or last call is about.
    pod: Option<PodUid>,
    /// The reason why there is no instance.
    last_fault: String,
    /// Whether the plugin is skipped in this cycle, because its pods may be scheduled without the plugin.
    is_passed_over: bool,
    /// The time of the dry runs in the last cycle with dry runs.
    dry_runs: DryRunTime,
    /// A buffer for a set of nodes that is passed to a call.
    rows: Vec<u64>,
}

/// The time of the dry runs in a cycle.
#[derive(Clone, Copy, Default)]
struct DryRunTime {
    cycle: CycleId,
    taken: Duration,
}

/// The position in the node table up to which the instance has followed.
#[derive(Clone, Copy, Default)]
struct Replica {
    generation: u64,
    symbols_position: u64,
}

impl Replica {
    fn reached_by(delta: &Delta) -> Self {
        Self { generation: delta.generation, symbols_position: delta.symbols_position }
    }
}

impl ComponentPlugin {
    pub(crate) fn new(component: Arc<LoadedComponent>, args: &str) -> Result<Self, BuildError> {
        let instance = start(&component, args)?;
        Ok(Self {
            component,
            instance: Some(instance),
            replica: Replica::default(),
            kept: KeptChanges::default(),
            pending: PendingChanges::default(),
            begun: Vec::new(),
            classes: Classes::default(),
            placed_classes: PlacedClasses::default(),
            shown_pods: ShownPods::default(),
            pod: None,
            last_fault: String::new(),
            is_passed_over: false,
            dry_runs: Default::default(),
            rows: Vec::new(),
        })
    }

    /// Asks the instance, after it got all pending changes. A fault ends the instance and becomes an error status. The instance is not
    /// asked once plugins have taken too much time of a pod's step.
    fn ask<R>(
        &mut self,
        function: &'static str,
        limit: TimeLimit,
        ask: impl FnOnce(CallContext<'_>) -> Result<R, CallError>,
    ) -> Result<R, Status> {
        if let Some(reason) = self.component.step_is_over() {
            return Err(Status::error(reason));
        }
        self.deliver_pending()?;
        let answer = self.call(function, limit, ask)?;
        if self.pod.is_some() {
            self.component.stats.record_answer();
        }
        Ok(answer)
    }

    /// Calls the instance, even if changes are pending.
    fn call<R>(
        &mut self,
        function: &'static str,
        limit: TimeLimit,
        ask: impl FnOnce(CallContext<'_>) -> Result<R, CallError>,
    ) -> Result<R, Status> {
        let Some(instance) = &mut self.instance else { return Err(Status::error(self.why_out_of_service())) };
        let answer = instance.call(&self.component, function, limit, ask);
        answer.map_err(|fault| {
            self.lose(&fault);
            Status::error(self.last_fault.clone())
        })
    }

    /// Drops the instance after a fault.
    fn lose(&mut self, fault: &InstanceFault) {
        let start = self.instance.take().map_or(Duration::ZERO, |instance| instance.start_time());
        self.kept = KeptChanges::default();
        self.pending.forget();
        self.begun.clear();
        self.classes = Classes::default();
        self.placed_classes.forget();
        self.shown_pods.forget();
        self.last_fault = format!("{} {fault}", self.component.title());
        self.component.tell(fault, start, self.pod.clone());
    }

    /// The message for a plugin that has no instance.
    fn why_out_of_service(&self) -> String {
        format!("{}; the plugin is being restarted", self.last_fault)
    }

    /// Calls the instance about the pod of a cycle. An instance that does not know the pod first gets the pod. `None`
    /// if the plugin does not affect the pod.
    fn ask_in_cycle<R>(
        &mut self,
        call: &Call<'_>,
        function: &'static str,
        ask: impl FnOnce(CallContext<'_>, u64) -> Result<R, CallError>,
    ) -> Result<Option<R>, Status> {
        match self.enter(call)? {
            Participation::Skipped => Ok(None),
            Participation::In(cycle) => self.ask(function, TimeLimit::Call, |context| ask(context, cycle.0)).map(Some),
        }
    }

    /// Informs the instance how the cycle ended for its pod. This happens however much time plugins have used. `None` if
    /// the plugin does not affect the pod.
    fn tell_in_cycle<R>(
        &mut self,
        call: &Call<'_>,
        function: &'static str,
        tell: impl FnOnce(CallContext<'_>, u64) -> Result<R, CallError>,
    ) -> Result<Option<R>, Status> {
        match self.enter(call)? {
            Participation::Skipped => Ok(None),
            Participation::In(cycle) => {
                self.deliver_pending()?;
                self.call(function, TimeLimit::Call, |context| tell(context, cycle.0)).map(Some)
            }
        }
    }

    /// The way in which a call shows the pod of a cycle. After the call, the instance knows the pod or a pod of its
    /// equivalence class.
    fn enter(&mut self, call: &Call<'_>) -> Result<Participation, Status> {
        self.turn_to(call);
        if let Some(participation) = self.classes.participation(call.cycle) {
            return Ok(participation);
        }
        let participation =
            if self.begun.contains(&call.cycle) { Participation::In(call.cycle) } else { self.begin_or_share(call)? };
        self.classes.set_participation(call.cycle, participation);
        Ok(participation)
    }

    fn begin_or_share(&mut self, call: &Call<'_>) -> Result<Participation, Status> {
        let own = Participation::In(call.cycle);
        if !self.component.indices.has_reuse() {
            return self.begin(call).map(|()| own);
        }
        let reach = match self.classes.state(call.pod) {
            ClassState::Known(reach) if reach.is_nothing() => return Ok(Participation::Skipped),
            ClassState::Known(reach) => {
                if let Some(cycle) = self.classes.shared_with(call.pod) {
                    return Ok(Participation::In(cycle));
                }
                self.begin(call)?;
                reach
            }
            ClassState::New => return self.begin(call).map(|()| own),
            ClassState::Seen => {
                self.begin(call)?;
                self.learn_reach(call.cycle, call.pod)?
            }
        };
        if reach.is_nothing() {
            return Ok(Participation::Skipped);
        }
        if matches!(reach, Reach::Row { .. })
            && self.component.may_share_cycles()
            && let Some(unused) = self.classes.share(call.cycle, call.pod)
        {
            self.end(unused);
        }
        Ok(own)
    }

    /// Asks for the reach of answers about the pod of a begun cycle, and about pods of its class.
    fn learn_reach(&mut self, cycle: CycleId, pod: &Pod) -> Result<Reach, Status> {
        let reach = self.ask("reach-of", TimeLimit::Call, |context| {
            Ok(guest(&context.exports.reuse)?.call_reach_of(context.store, cycle.0)?)
        });
        let reach = match reach? {
            reuse::Reach::Cluster => Reach::Cluster,
            reuse::Reach::Row(version) => Reach::Row { version },
            reuse::Reach::Nothing => Reach::Nothing,
            reuse::Reach::NothingAnywhere => Reach::NothingAnywhere,
            reuse::Reach::NothingYet => Reach::NothingYet,
        };
        if let Some(unused) = self.classes.learn(pod, reach) {
            self.end(unused);
        }
        Ok(reach)
    }

    /// Whether the plugin does not affect a pod that is not in a cycle. The plugin is asked in a separate cycle, once
    /// for the pods of a class.
    fn has_nothing_to_do(&mut self, pod: &Pod) -> Result<bool, Status> {
        if !self.component.indices.has_reuse() {
            return Ok(false);
        }
        let reach = match self.classes.state(pod) {
            ClassState::New => return Ok(false),
            ClassState::Known(reach) => reach,
            ClassState::Seen => {
                self.tell(BEFORE_CYCLES, pod)?;
                let reach = self.learn_reach(BEFORE_CYCLES, pod);
                self.end(BEFORE_CYCLES);
                reach?
            }
        };
        Ok(reach.is_nothing())
    }

    /// Notes that the next calls are about this pod, in this cycle.
    fn turn_to(&mut self, call: &Call<'_>) {
        self.pod = Some(call.pod.uid.clone());
        if let Some(instance) = &mut self.instance {
            instance.set_cycle_time(call.now);
        }
    }

    /// Informs the instance of the pod of the cycle, unless the instance knows the pod.
    fn ensure_begun(&mut self, call: &Call<'_>) -> Result<(), Status> {
        self.turn_to(call);
        if self.begun.contains(&call.cycle) { Ok(()) } else { self.begin(call) }
    }

    fn begin(&mut self, call: &Call<'_>) -> Result<(), Status> {
        self.tell(call.cycle, call.pod)?;
        self.begun.push(call.cycle);
        Ok(())
    }

    fn tell(&mut self, cycle: CycleId, pod: &Pod) -> Result<(), Status> {
        let pod = self.lowered(pod);
        self.ask("begin", TimeLimit::Call, |context| {
            Ok(guest(&context.exports.cycle)?.call_begin(context.store, cycle.0, &pod)?)
        })
    }

    fn end(&mut self, cycle: CycleId) {
        self.begun.retain(|begun| *begun != cycle);
        let ended = self.call("end", TimeLimit::Call, |context| {
            Ok(guest(&context.exports.cycle)?.call_end(context.store, cycle.0)?)
        });
        self.note(ended);
    }

    fn apply(&mut self, source: &dyn DeltaSource) -> Result<(), Status> {
        while let Some(kept) = self.kept.take_oldest() {
            self.take_in(kept)?;
        }
        let delta = self.delta(source);
        let reached = Replica::reached_by(&delta);
        self.take_in(delta)?;
        self.replica = reached;
        Ok(())
    }

    /// The changes since the replica's generation.
    fn delta(&self, source: &dyn DeltaSource) -> Delta {
        let Replica { generation, symbols_position } = self.replica;
        source.delta_since(&self.component.manifest.needs, generation, symbols_position)
    }

    fn take_in(&mut self, mut delta: Delta) -> Result<(), Status> {
        if delta.is_empty() {
            return Ok(());
        }
        delta.pods_placed.retain(|placed| !self.classes.is_no_matter_anywhere(&placed.pod));
        let is_about_pods_only = is_about_pods_only(&delta);
        self.classes.pods_came(delta.pods_placed.iter().map(|placed| &*placed.pod));
        // The plugin releases its reservations for a pod when it is informed that the pod leaves.
        let is_reserver = self.component.points.contains(Point::Reserve);
        let would_hide_pods = is_reserver && self.pending.holds_pods_that_leave(&delta);
        if !is_about_pods_only || would_hide_pods || !self.pending.has_room_for(&delta) {
            self.deliver_pending()?;
        }
        if is_about_pods_only && self.component.may_hear_later() && self.pending.has_room_for(&delta) {
            self.pending.add(delta);
        } else {
            if !is_about_pods_only {
                let unused = self.classes.forget();
                unused.into_iter().for_each(|cycle| self.end(cycle));
            }
            self.deliver(delta)?;
        }
        Ok(())
    }

    /// Passes the pending changes to the instance. A fault during these changes does not belong to the pod that the
    /// instance is asked about.
    fn deliver_pending(&mut self) -> Result<(), Status> {
        let Some(delta) = self.pending.take() else { return Ok(()) };
        let asked_about = self.pod.take();
        self.deliver(delta)?;
        self.pod = asked_about;
        Ok(())
    }

    fn deliver(&mut self, delta: Delta) -> Result<(), Status> {
        if self.component.indices.has_sync_pods()
            && let Some(usage) = lower::only_usage(&delta)
        {
            return self.call("set-usage", TimeLimit::Call, |context| {
                let guest = guest(&context.exports.sync_pods)?;
                Ok(guest.call_set_usage(context.store, delta.generation, &usage)?)
            });
        }
        if delta.full {
            self.component.stats.record_resync();
        }
        let is_full = delta.full;
        // Filling an instance happens once, and is not charged.
        let is_first = self.replica.generation == 0;
        let portions = delta.into_portions();
        // Reading the time of a thread is a system call, so it is not read for the small delta that comes with every pod.
        let began = (is_full || portions.len() > 1).then(thread_time);
        let whole_time = self.component.limits.once_an_instance();
        for mut portion in portions {
            let alike = self.take_alike(&mut portion);
            let portion = lower::delta(portion);
            let limit = || {
                began.map_or(TimeLimit::Call, |began| {
                    let left = whole_time.saturating_sub(thread_time().saturating_sub(began));
                    if is_first { TimeLimit::FirstDelta(left) } else { TimeLimit::Delta(left) }
                })
            };
            self.call("sync", limit(), |context| {
                Ok(guest(&context.exports.sync)?.call_apply(context.store, &portion)?)
            })?;
            if !alike.is_empty() {
                self.call("place", limit(), |context| {
                    Ok(guest(&context.exports.sync_pods)?.call_place(context.store, &alike)?)
                })?;
            }
        }
        Ok(())
    }

    fn take_alike(&mut self, portion: &mut Delta) -> Vec<AlikePod> {
        if self.component.indices.has_sync_pods() { self.placed_classes.take_alike(portion) } else { Vec::new() }
    }

    /// The pod in the form that this plugin may see.
    fn lowered(&self, pod: &Pod) -> types::Pod {
        lower::pod(pod, self.component.manifest.needs.pod_json)
    }

    /// A set of nodes in the form for a call. The caller returns it to [`Self::rows`] afterwards.
    fn take_rows(&mut self, nodes: &NodeSet) -> Vec<u64> {
        let mut rows = std::mem::take(&mut self.rows);
        rows.clear();
        rows.extend_from_slice(nodes.words());
        rows
    }
}

impl Plugin for ComponentPlugin {
    fn manifest(&self) -> &Manifest {
        &self.component.manifest
    }

    fn version(&self) -> PluginVersion {
        self.component.version()
    }

    fn points(&self) -> Points {
        self.component.points
    }

    fn at(&mut self, point: Point) -> Option<PointRef<'_>> {
        // Reserve is always called: a reservation that was made while the plugin had time must be undone.
        let is_asked = !self.is_passed_over || point == Point::Reserve;
        (is_asked && self.component.points.contains(point)).then(|| PointRef::of_all(self, point))
    }

    fn hook(&mut self, hook: Hook) -> Option<HookRef<'_>> {
        match hook {
            Hook::EndCycle => Some(HookRef::EndCycle(self)),
            Hook::Hosted => Some(HookRef::Hosted(self)),
            // The state is gone with the instance.
            Hook::State if self.component.indices.has_state() && self.instance.is_some() => Some(HookRef::State(self)),
            // Answers that are kept while the plugin is passed over would lack its part.
            Hook::Reuse if self.component.indices.has_reuse() && !self.is_passed_over => Some(HookRef::Reuse(self)),
            Hook::ShareFacts if self.component.indices.has_shared_facts() => Some(HookRef::ShareFacts(self)),
            Hook::State | Hook::Follow | Hook::Reuse | Hook::ShareFacts => None,
        }
    }
}

impl Hosted for ComponentPlugin {
    fn sync(&mut self, source: &dyn DeltaSource) -> Result<(), Status> {
        self.pod = None;
        match self.out_of_service() {
            Some(status) => Err(status),
            None if self.component.indices.has_sync() && !self.is_passed_over => self.apply(source),
            None => Ok(()),
        }
    }

    fn out_of_service(&self) -> Option<Status> {
        self.instance.is_none().then(|| Status::unresolvable(self.why_out_of_service()))
    }

    fn has_time(&mut self) -> Result<(), Status> {
        self.is_passed_over = false;
        match self.component.out_of_time() {
            // Pods may be scheduled without a plugin that used up its own share. Pods must not be scheduled without a
            // plugin because other plugins used up their shares.
            Some((OutOfTime::Plugin(_), _)) if self.pass_over() => Ok(()),
            Some((_, reason)) => Err(Status::error(reason)),
            None if self.kept.is_empty() || self.pass_over() => Ok(()),
            None => Err(Status::error(format!(
                "{} has not received all added and removed pods yet",
                self.component.title()
            ))),
        }
    }

    fn waits_for_time(&self) -> bool {
        self.component.limits.share.is_some()
    }

    fn is_out_of_time(&self) -> bool {
        self.component.is_out_of_time()
    }

    fn knows(&self, cycle: CycleId) -> bool {
        self.begun.contains(&cycle)
    }

    fn pod_changed(&mut self, call: &Call<'_>) -> Result<(), Status> {
        if self.begun.contains(&call.cycle) { self.tell(call.cycle, call.pod) } else { Ok(()) }
    }

    fn keep_changes(&mut self, source: &dyn DeltaSource) -> bool {
        // An instance reserves only after its first delta.
        if self.instance.is_none() || self.replica.generation == 0 {
            return false;
        }
        let delta = self.delta(source);
        let reached = Replica::reached_by(&delta);
        let is_kept = self.kept.add(delta);
        if is_kept {
            self.replica = reached;
        }
        is_kept
    }

    fn tell_kept_changes(&mut self) {
        if let Some(delta) = self.kept.take_oldest() {
            self.pod = None;
            // A fault ends the instance, and the next attempt reports the fault.
            let _ = self.take_in(delta);
        }
    }

    fn pass_over(&mut self) -> bool {
        self.is_passed_over = self.component.limits.when_not_asked == WhenNotAsked::Pass;
        self.is_passed_over
    }

    fn answered_badly(&mut self, reason: &str) {
        let fault = InstanceFault::wrong_answer(reason);
        self.component.stats.record_fault(fault.kind);
        self.lose(&fault);
    }
}

impl Reuse for ComponentPlugin {
    fn reach(&mut self, call: &Call<'_>) -> Reach {
        // The next call reports a failure of this call.
        let entered = self.enter(call).is_ok();
        self.classes.reach(call.pod).filter(|_| entered).unwrap_or_default()
    }
}

impl EndCycle for ComponentPlugin {
    fn end_cycle(&mut self, cycle: CycleId) {
        if self.begun.contains(&cycle) && !self.classes.outlives(cycle) {
            self.shown_pods.forget();
            self.pod = None;
            self.end(cycle);
        }
    }
}
