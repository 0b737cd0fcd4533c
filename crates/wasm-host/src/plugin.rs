//! A configured plugin: the one that the scheduler calls, whichever instance serves it.
//!
//! An instance that faults is dropped, and the call in flight answers with an error. From then on the plugin is out of
//! service: what takes its place is made elsewhere. Pods carry symbols that the replica must know, so `sync` comes before
//! every call, those outside of cycles included.

mod points;
mod shown_pods;

use std::sync::Arc;

use berth_framework::{
    BuildError, Call, ConfigureError, CycleId, DeltaSource, EndCycle, Hook, HookRef, Hosted, Manifest, Plugin,
    PluginVersion, Point, PointRef, Points, Status,
};
use berth_model::{NodeSet, Pod, PodUid};

use self::shown_pods::ShownPods;
use crate::{
    bindings::types,
    component::LoadedComponent,
    convert::{lower, on_one_line},
    cpu_time::thread_time,
    fault::{CallError, Fault},
    instance::{CallContext, Instance, TimeLimit, guest},
    limits::WhenNotAsked,
};

/// A component behind the framework's traits.
pub(crate) struct ComponentPlugin {
    component: Arc<LoadedComponent>,
    /// None after a fault.
    instance: Option<Instance>,
    replica: Replica,
    /// Cycles that the instance knows the pod of.
    begun: Vec<CycleId>,
    shown_pods: ShownPods,
    /// The pod that the present or last call is about.
    pod: Option<PodUid>,
    /// Why there is no instance.
    last_fault: String,
    /// It is not asked in this cycle, and pods do without it.
    is_passed_over: bool,
    /// Scratch for a set of nodes on its way into a call.
    rows: Vec<u64>,
}

/// How far the instance has followed the node table.
#[derive(Clone, Copy, Default)]
struct Replica {
    generation: u64,
    symbols_position: u64,
}

impl ComponentPlugin {
    pub(crate) fn new(component: Arc<LoadedComponent>, args: &str) -> Result<Self, BuildError> {
        let instance = start(&component, args)?;
        Ok(Self {
            component,
            instance: Some(instance),
            replica: Replica::default(),
            begun: Vec::new(),
            shown_pods: ShownPods::default(),
            pod: None,
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
        let Some(instance) = &mut self.instance else { return Err(Status::error(self.why_out_of_service())) };
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
        self.component.tell(fault, self.pod.clone());
    }

    /// What is said of a plugin that has no instance.
    fn why_out_of_service(&self) -> String {
        format!("{}, and is being restarted", self.last_fault)
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
        self.pod = Some(call.pod.uid.clone());
        if self.begun.contains(&call.cycle) { Ok(()) } else { self.begin(call.cycle, &self.lowered(call.pod)) }
    }

    fn begin(&mut self, cycle: CycleId, pod: &types::Pod) -> Result<(), Status> {
        self.ask("begin", TimeLimit::Call, |context| {
            Ok(guest(&context.exports.cycle)?.call_begin(context.store, cycle.0, pod)?)
        })?;
        self.begun.push(cycle);
        Ok(())
    }

    fn apply(&mut self, source: &dyn DeltaSource) -> Result<(), Status> {
        let Replica { generation, symbols_position } = self.replica;
        let delta = source.delta_since(&self.component.manifest.needs, generation, symbols_position);
        let reached = Replica { generation: delta.generation, symbols_position: delta.symbols_position };
        if delta.is_empty() {
            self.replica = reached;
            return Ok(());
        }
        if delta.full {
            self.component.stats.record_resync();
        }
        let is_full = delta.full;
        let portions = delta.into_portions();
        let is_long = is_full || portions.len() > 1;
        let (begun, whole_time) = (thread_time(), self.component.limits.once_an_instance());
        for portion in portions {
            let portion = lower::delta(portion);
            let left = whole_time.saturating_sub(thread_time().saturating_sub(begun));
            let limit = if is_long { TimeLimit::Left(left) } else { TimeLimit::Call };
            self.ask("sync", limit, |context| Ok(guest(&context.exports.sync)?.call_apply(context.store, &portion)?))?;
        }
        self.replica = reached;
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

/// Why there is no instance.
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

impl From<StartFailure> for BuildError {
    fn from(failure: StartFailure) -> Self {
        match failure {
            StartFailure::Refused(refusal) => BuildError::Refused(refusal),
            StartFailure::Instantiation(_) | StartFailure::Faulty { .. } => BuildError::Start(failure.to_string()),
        }
    }
}

/// An instance, configured.
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
            Hook::State | Hook::Follow | Hook::Reuse => None,
        }
    }
}

impl Hosted for ComponentPlugin {
    fn sync(&mut self, source: &dyn DeltaSource) -> Result<(), Status> {
        self.pod = None;
        match self.out_of_service() {
            Some(status) => Err(status),
            None if self.component.indices.has_sync() => self.apply(source),
            None => Ok(()),
        }
    }

    fn out_of_service(&self) -> Option<Status> {
        self.instance.is_none().then(|| Status::unresolvable(self.why_out_of_service()))
    }

    fn has_time(&mut self) -> Result<(), Status> {
        self.is_passed_over = false;
        match self.component.out_of_time() {
            Some(_) if self.pass_over() => Ok(()),
            Some(reason) => Err(Status::error(reason)),
            None => Ok(()),
        }
    }

    fn pass_over(&mut self) -> bool {
        self.is_passed_over = self.component.limits.when_not_asked == WhenNotAsked::Pass;
        self.is_passed_over
    }

    fn answered_badly(&mut self, reason: &str) {
        let fault = Fault::wrong_answer(reason);
        self.component.stats.record_fault(fault.kind);
        self.lose(&fault);
    }
}

impl EndCycle for ComponentPlugin {
    fn end_cycle(&mut self, cycle: CycleId) {
        if !self.begun.contains(&cycle) {
            return;
        }
        self.begun.retain(|begun| *begun != cycle);
        self.shown_pods.forget();
        self.pod = None;
        let ended = self.ask("end", TimeLimit::Call, |context| {
            Ok(guest(&context.exports.cycle)?.call_end(context.store, cycle.0)?)
        });
        self.note(ended);
    }
}
