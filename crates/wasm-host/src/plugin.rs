//! A configured plugin: the one that the scheduler calls, whichever instance serves it.
//!
//! An instance that faults is dropped, and the call in flight answers with an error. The next [`Hosted::sync`] starts a
//! fresh one from the top: `configure`, a full delta, and `reserve` again for the pods that are between Reserve and
//! PostBind. A component without `sync` holds no replica, so any call may start a fresh one. Pods carry symbols that the
//! replica must know, so `sync` comes before every call, those outside of cycles included.

mod points;
mod shown_pods;

use std::sync::Arc;

use berth_framework::{
    BuildError, Call, ConfigureError, CycleId, DeltaSource, EndCycle, Hook, HookRef, Hosted, Manifest, Plugin,
    PluginVersion, Point, PointRef, Points, Status,
};
use berth_model::{NodeIdx, NodeSet, Pod, Symbols};

use self::shown_pods::ShownPods;
use crate::{
    bindings::types,
    component::LoadedComponent,
    convert::{lower, on_one_line},
    cpu_time::thread_time,
    fault::{CallError, Fault},
    instance::{CallContext, Instance, TimeLimit, guest},
    limits::WithoutTime,
};

/// A component behind the framework's traits.
pub(crate) struct ComponentPlugin {
    component: Arc<LoadedComponent>,
    args: String,
    /// None after a fault, until a fresh one is started.
    instance: Option<Instance>,
    replica: Replica,
    /// Cycles that the instance knows the pod of.
    begun: Vec<CycleId>,
    shown_pods: ShownPods,
    /// What a fresh instance must be told again.
    reserved: Vec<Reservation>,
    /// The instance has not been told all of that yet.
    owes_reservations: bool,
    /// Why there is no instance.
    last_fault: String,
    /// It has used up its time and is passed over until it has some.
    is_passed_over: bool,
    /// Scratch for a set of nodes on its way into a call.
    rows: Vec<u64>,
}

/// How far the instance has followed the node table.
struct Replica {
    generation: u64,
    n_symbols: usize,
}

struct Reservation {
    cycle: CycleId,
    node: NodeIdx,
    pod: types::Pod,
}

impl Default for Replica {
    fn default() -> Self {
        Self { generation: 0, n_symbols: Symbols::N_WELL_KNOWN }
    }
}

impl ComponentPlugin {
    pub(crate) fn new(component: Arc<LoadedComponent>, args: &str) -> Result<Self, BuildError> {
        let instance = start(&component, args)?;
        Ok(Self {
            component,
            args: args.to_owned(),
            instance: Some(instance),
            replica: Replica::default(),
            begun: Vec::new(),
            shown_pods: ShownPods::default(),
            reserved: Vec::new(),
            owes_reservations: false,
            last_fault: String::new(),
            is_passed_over: false,
            rows: Vec::new(),
        })
    }

    /// Calls the instance; a fault ends it and becomes an error status.
    fn ask<R>(
        &mut self,
        function: &'static str,
        limit: TimeLimit,
        ask: impl FnOnce(CallContext<'_>) -> Result<R, CallError>,
    ) -> Result<R, Status> {
        if self.instance.is_none() && !self.component.indices.has_sync() {
            self.restart()?;
        }
        let Some(instance) = &mut self.instance else {
            return Err(Status::error(format!("{}, and starts afresh in the next cycle", self.last_fault)));
        };
        let answer = instance.call(&self.component, function, limit, ask);
        answer.map_err(|fault| {
            self.lose(&fault);
            Status::error(self.last_fault.clone())
        })
    }

    /// The instance is worth nothing any more.
    fn lose(&mut self, fault: &Fault) {
        self.instance = None;
        self.begun.clear();
        self.shown_pods.forget();
        self.last_fault = format!("{} {fault}", self.component.title());
        self.component.tell(fault);
    }

    /// Calls the instance about the pod of a cycle, of which it learns first if it has not yet.
    fn ask_in_cycle<R>(
        &mut self,
        call: &Call<'_>,
        function: &'static str,
        ask: impl FnOnce(CallContext<'_>) -> Result<R, CallError>,
    ) -> Result<R, Status> {
        self.ensure_begun(call)?;
        self.ask(function, TimeLimit::Call, ask)
    }

    /// The same for a call in which the component may ask for dry runs, whose time counts.
    fn ask_with_dry_runs<R>(
        &mut self,
        call: &Call<'_>,
        function: &'static str,
        ask: impl FnOnce(CallContext<'_>) -> Result<R, CallError>,
    ) -> Result<R, Status> {
        self.ensure_begun(call)?;
        self.ask(function, TimeLimit::PostFilter, ask)
    }

    /// Tells the instance the pod of the cycle, unless it knows it.
    fn ensure_begun(&mut self, call: &Call<'_>) -> Result<(), Status> {
        if self.begun.contains(&call.cycle) { Ok(()) } else { self.begin(call.cycle, &self.lowered(call.pod)) }
    }

    fn begin(&mut self, cycle: CycleId, pod: &types::Pod) -> Result<(), Status> {
        self.ask("begin", TimeLimit::Call, |context| {
            Ok(guest(&context.exports.cycle)?.call_begin(context.store, cycle.0, pod)?)
        })?;
        self.begun.push(cycle);
        Ok(())
    }

    fn restart(&mut self) -> Result<(), Status> {
        let instance = match start(&self.component, &self.args) {
            Ok(instance) => instance,
            Err(failure) => {
                self.component.tell(&failure.fault());
                self.last_fault = failure.to_string();
                return Err(Status::error(self.last_fault.clone()));
            }
        };
        self.instance = Some(instance);
        self.replica = Replica::default();
        self.begun.clear();
        self.owes_reservations = true;
        Ok(())
    }

    fn apply(&mut self, source: &dyn DeltaSource) -> Result<(), Status> {
        let Replica { generation, n_symbols } = self.replica;
        let delta = source.delta_since(&self.component.manifest.needs, generation, n_symbols);
        let generation = delta.generation;
        if delta.is_empty() {
            self.replica.generation = generation;
            return Ok(());
        }
        let n_symbols = delta.symbols.last().map_or(n_symbols, |(sym, _)| n_symbols.max(sym.0 as usize + 1));
        if delta.full {
            self.component.stats.record_resync();
        }
        let is_full = delta.full;
        let portions = delta.into_portions();
        let is_long = is_full || portions.len() > 1;
        let (begun, whole_time) = (thread_time(), self.component.limits.lifecycle_timeout);
        for portion in portions {
            let portion = lower::delta(portion);
            let left = whole_time.saturating_sub(thread_time().saturating_sub(begun));
            let limit = if is_long { TimeLimit::Left(left) } else { TimeLimit::Call };
            self.ask("sync", limit, |context| Ok(guest(&context.exports.sync)?.call_apply(context.store, &portion)?))?;
        }
        self.replica = Replica { generation, n_symbols };
        Ok(())
    }

    /// Tells a fresh instance of the pods that are between Reserve and PostBind. What it could not be told is kept for the
    /// next one.
    fn reserve_again(&mut self) -> Result<(), Status> {
        let reserved = std::mem::take(&mut self.reserved);
        let told = reserved.iter().try_for_each(|reservation| self.reserve_one_again(reservation));
        self.reserved = reserved;
        self.owes_reservations = told.is_err();
        told
    }

    fn reserve_one_again(&mut self, Reservation { cycle, node, pod }: &Reservation) -> Result<(), Status> {
        self.begin(*cycle, pod)?;
        let answer = self.ask("reserve", TimeLimit::Call, |context| {
            Ok(guest(&context.exports.reserve)?.call_reserve(context.store, cycle.0, node.0)?)
        })?;
        if answer.is_err() {
            tracing::warn!(plugin = &*self.component.name, pod = pod.name, "a fresh instance refuses a reservation");
        }
        Ok(())
    }

    /// The pod as this plugin may see it.
    fn lowered(&self, pod: &Pod) -> types::Pod {
        lower::pod(pod, self.component.manifest.needs.pod_json)
    }

    /// A set of nodes in the form that a call takes; give it back to [`Self::rows`] afterwards.
    fn take_rows(&mut self, nodes: &NodeSet) -> Vec<u64> {
        let mut rows = std::mem::take(&mut self.rows);
        rows.clear();
        rows.extend_from_slice(nodes.words());
        rows
    }
}

/// Why there is no fresh instance.
#[derive(Debug, thiserror::Error)]
enum StartFailure {
    #[error("{0}")]
    Instantiation(String),
    /// In the plugin's words.
    #[error("{0}")]
    Refused(ConfigureError),
    #[error("{title} {fault}")]
    Faulty { title: String, fault: Fault },
}

impl StartFailure {
    /// As a fault of the plugin: it served before with the same arguments.
    fn fault(&self) -> Fault {
        match self {
            StartFailure::Instantiation(reason) => Fault::at_start(reason),
            StartFailure::Refused(reason) => Fault::at_start(&format!("it refuses its arguments: {reason}")),
            StartFailure::Faulty { fault, .. } => fault.clone(),
        }
    }
}

impl From<StartFailure> for BuildError {
    fn from(failure: StartFailure) -> Self {
        match failure {
            StartFailure::Refused(refusal) => BuildError::Refused(refusal),
            StartFailure::Instantiation(_) | StartFailure::Faulty { .. } => BuildError::Start(failure.to_string()),
        }
    }
}

/// A fresh instance, configured.
fn start(component: &LoadedComponent, args: &str) -> Result<Instance, StartFailure> {
    let failed = |error| StartFailure::Instantiation(format!("{} {error}", component.title()));
    let mut instance = Instance::new(component).map_err(failed)?;
    let configured = instance.call(component, "configure", TimeLimit::Lifecycle, |context| {
        Ok(guest(&context.exports.lifecycle)?.call_configure(context.store, args)?)
    });
    match configured {
        Ok(Ok(())) => Ok(instance),
        Ok(Err(reason)) => {
            let end = reason.floor_char_boundary(component.limits.text_bytes);
            let reason = on_one_line(reason.get(..end).unwrap_or_default().to_owned());
            Err(StartFailure::Refused(ConfigureError::new(reason)))
        }
        Err(fault) => Err(StartFailure::Faulty { title: component.title(), fault }),
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
        // Reserve has its answer below: what was reserved while there was time is to be undone.
        let is_asked = !self.is_passed_over || point == Point::Reserve;
        (is_asked && self.component.points.contains(point)).then(|| PointRef::of_all(self, point))
    }

    fn hook(&mut self, hook: Hook) -> Option<HookRef<'_>> {
        match hook {
            Hook::EndCycle => Some(HookRef::EndCycle(self)),
            Hook::Hosted => Some(HookRef::Hosted(self)),
            // An instance that is gone took its state along.
            Hook::State if self.component.indices.has_state() && self.instance.is_some() => Some(HookRef::State(self)),
            Hook::State | Hook::Follow => None,
        }
    }
}

impl Hosted for ComponentPlugin {
    fn sync(&mut self, source: &dyn DeltaSource) -> Result<(), Status> {
        if self.instance.is_none() {
            self.restart()?;
        }
        if self.component.indices.has_sync() {
            self.apply(source)?;
        }
        if self.owes_reservations { self.reserve_again() } else { Ok(()) }
    }

    /// Never: the next sync starts a fresh instance.
    fn out_of_service(&self) -> Option<Status> {
        None
    }

    fn has_time(&mut self) -> Result<(), Status> {
        let reason = self.component.out_of_time();
        let may_pass = self.component.limits.without_time == WithoutTime::Pass;
        self.is_passed_over = reason.is_some() && may_pass;
        match reason {
            Some(reason) if !may_pass => Err(Status::error(reason)),
            Some(_) | None => Ok(()),
        }
    }

    fn answered_badly(&mut self, reason: &str) {
        let fault = Fault::wrong_answer(reason);
        self.component.stats.record_fault(fault.kind);
        self.lose(&fault);
    }
}

impl EndCycle for ComponentPlugin {
    fn end_cycle(&mut self, cycle: CycleId) {
        self.reserved.retain(|reservation| reservation.cycle != cycle);
        if !self.begun.contains(&cycle) {
            return;
        }
        self.begun.retain(|begun| *begun != cycle);
        self.shown_pods.forget();
        let ended = self.ask("end", TimeLimit::Call, |context| {
            Ok(guest(&context.exports.cycle)?.call_end(context.store, cycle.0)?)
        });
        self.note(ended);
    }
}
