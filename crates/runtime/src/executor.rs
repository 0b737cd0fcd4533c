//! Carries out the scheduler's requests, in order for each pod, and reports the results.

mod attempts;
mod effects;
#[cfg(test)]
mod fuzz;
mod pod_requests;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use berth_cluster::{
    EventRecorder, EventType, Kinds, NewEvent, Nomination, ObjectReference, PodCondition, StatusPatch, WriteError,
    Writer,
};
use berth_framework::{CycleId, ExtenderError, ExtenderIdx, Point};
use berth_scheduler::{
    Event, EventRecord, Level, Notice, PluginEffects, PodRef, PodRequest, Request, RequestError, StatusChange,
};
use berth_telemetry::{
    audit::By,
    klog::{V3, lines},
    log_rate,
    metrics::{ApiCall, ApiCallMetrics},
    notices::{self, Sinks},
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinError,
    time::Instant,
};
use tracing::{debug, error, field::display, info, warn};

use self::{
    effects::{Cause, PodIsGone},
    pod_requests::PodRequests,
};
use crate::{
    extenders::HttpExtenders,
    traces::{ApiRequest, Traces},
};

/// The plugin whose effects bind volumes, and whose pods wait for these effects.
const VOLUME_BINDING: &str = "VolumeBinding";

/// A task of the executor. The scheduler's other actions go to other receivers.
#[derive(Debug)]
pub(crate) enum Task {
    Pod(PodRequest),
    Notice(Notice),
}

/// The data that all tasks share.
#[derive(Clone)]
pub(crate) struct Executor {
    pub writer: Writer,
    /// The resources of each kind of objects.
    pub kinds: Kinds,
    pub recorder: EventRecorder,
    pub events: mpsc::Sender<Event>,
    /// The metrics, the audit log, and the outputs for notices.
    pub sinks: Sinks,
    /// The extenders of the current configuration.
    pub extenders: watch::Receiver<Option<Arc<HttpExtenders>>>,
    /// The traces of attempts, which have a span for each request.
    pub traces: Traces,
    /// The counters for status patches and bindings; `None` if they are not counted.
    pub api_calls: Option<ApiCallMetrics>,
}

impl Executor {
    /// Works until the sender of actions is dropped.
    pub(crate) async fn run(self, mut actions: mpsc::Receiver<Task>) {
        let mut requests = PodRequests::default();
        loop {
            tokio::select! {
                action = actions.recv(), if !requests.is_full() => match action {
                    Some(Task::Pod(request)) => requests.add(&self, request),
                    Some(Task::Notice(notice)) => self.publish(notice),
                    None => break,
                },
                () = requests.one_done(&self), if !requests.is_empty() => {}
            }
        }
        while !requests.is_empty() {
            requests.one_done(&self).await;
        }
    }

    /// Carries out the request. `dropped_patches` says that a binding replaced patches of the pod's status. If such a
    /// binding fails, the patches have also failed.
    async fn carry_out(&self, PodRequest { pod, request, .. }: PodRequest, dropped_patches: bool) {
        match request {
            Request::Bind { cycle, node } => {
                let trace = self.traces.trace_of(cycle).map(display);
                let message = lines::BINDING.message;
                debug!(target: V3, pod = &*pod.name, namespace = &*pod.namespace, node = &*node, trace, "{message}");
                let span = self.traces.begin_request(Some(cycle), Some(Point::Bind), about(&pod, "POST", "binding"));
                let result = self.counted(ApiCall::PodBinding, self.writer.bind(&target(&pod), &node)).await;
                span.end(&result);
                match &result {
                    Ok(()) => debug!(pod = %pod.name, namespace = %pod.namespace, node = &*node, "bound"),
                    Err(error) if is_gone(error) => {
                        debug!(pod = %pod.name, namespace = %pod.namespace, node = &*node, %error, "the pod is being deleted; it was not bound");
                    }
                    Err(error) => {
                        warn!(pod = %pod.name, namespace = %pod.namespace, node = &*node, %error, "binding failed")
                    }
                }
                let result = result.map_err(|error| RequestError::new(error.to_string()));
                if result.is_err() && dropped_patches {
                    self.report(Event::StatusPatchFailed { uid: pod.uid.clone() }).await;
                }
                self.report(Event::BindFinished { cycle, uid: pod.uid, result }).await;
            }
            // The rarer requests are boxed, because each waiting request would otherwise take as much memory as the
            // largest.
            Request::BindByExtender { cycle, node, extender } => {
                Box::pin(self.bind_by_extender(pod, cycle, &node, extender)).await;
            }
            Request::PatchStatus(change) => {
                let span = self.traces.begin_request(change.cycle, None, about(&pod, "PATCH", "status"));
                let (target, patch) = (target(&pod), status_patch(change));
                let result = self.counted(ApiCall::PodStatusPatch, self.writer.patch_status(&target, &patch)).await;
                span.end(&result);
                if let Err(error) = result {
                    if is_gone(&error) {
                        debug!(pod = %pod.name, namespace = %pod.namespace, %error, "the pod is gone; its status was not written");
                    } else {
                        warn!(pod = %pod.name, namespace = %pod.namespace, %error, "failed to update the pod's status");
                    }
                    self.report(Event::StatusPatchFailed { uid: pod.uid }).await;
                }
            }
            Request::Effects(effects) => drop(Box::pin(self.plugin_effects(&pod, effects)).await),
            Request::AwaitedEffects(effects) => {
                let (cycle, plugin) = (effects.cycle, Arc::clone(&effects.plugin));
                let result = Box::pin(self.plugin_effects(&pod, effects)).await;
                if result.is_err() && *plugin == *VOLUME_BINDING {
                    self.sinks.metrics.volumes_not_bound();
                }
                self.report(Event::EffectsFinished { cycle, uid: pod.uid, plugin, result }).await;
            }
        }
    }

    async fn bind_by_extender(&self, pod: PodRef, cycle: CycleId, node: &str, extender: ExtenderIdx) {
        let extenders = self.extenders.borrow().clone();
        let span = self.traces.begin_request(Some(cycle), Some(Point::Bind), about(&pod, "POST", "binding"));
        let result = match extenders {
            Some(extenders) => extenders.bind(extender, &pod, node).await,
            None => Err(ExtenderError::new("no extenders are configured")),
        };
        span.end(&result);
        match &result {
            Ok(()) => debug!(pod = %pod.name, namespace = %pod.namespace, node, "bound by an extender"),
            Err(error) => {
                warn!(pod = %pod.name, namespace = %pod.namespace, node, %error, "an extender failed to bind the pod");
            }
        }
        let result = result.map_err(|error| RequestError::new(error.to_string()));
        self.report(Event::BindFinished { cycle, uid: pod.uid, result }).await;
    }

    async fn counted(
        &self,
        call: ApiCall,
        work: impl Future<Output = Result<(), WriteError>>,
    ) -> Result<(), WriteError> {
        let started = Instant::now();
        let result = work.await;
        if let Some(api_calls) = &self.api_calls {
            api_calls.executed(call, result.is_ok(), started.elapsed());
        }
        result
    }

    async fn plugin_effects(&self, pod: &PodRef, effects: PluginEffects) -> Result<(), RequestError> {
        // The effects are counted until all are carried out.
        let PluginEffects { cycle, point, scheduler_name, plugin, binary, effects, held: _held } = effects;
        let cause = Cause { pod, scheduler_name: &scheduler_name, plugin: &plugin, binary, cycle, point };
        // At Unreserve each effect undoes something else, and kube-scheduler's plugins continue after an error as well.
        let is_unreserve = point == Point::Reserve;
        let parts: Vec<_> =
            if is_unreserve { effects.into_iter().map(|effect| vec![effect]).collect() } else { vec![effects] };
        let mut result = Ok(());
        for effects in parts {
            if let Err(failure) = self.effects(&cause, effects).await {
                let (point, error) = (point.shown_with_effects(), failure.to_string());
                if failure.is::<PodIsGone>() {
                    debug!(%plugin, point, pod = %pod.name, namespace = %pod.namespace, error, "the pod is gone; the effect was not carried out");
                } else {
                    warn!(%plugin, point, pod = %pod.name, namespace = %pod.namespace, error, "effect failed");
                }
                result = Err(RequestError::new(error));
            }
        }
        result
    }

    /// Sends an event to the scheduling thread. That thread ends before its channel only if the process ends.
    async fn report(&self, event: Event) {
        let _ = self.events.send(event).await;
    }

    /// Handles a notice, which need not wait for other requests about a pod.
    fn publish(&self, notice: Notice) {
        match notice {
            Notice::Event(record) => self.recorder.record(new_event(record)),
            Notice::EffectRefused { pod, plugin, effect, count, message } => {
                let refused = notices::Notice::EffectRefused { effect: effect.as_str(), pod, count, message };
                self.sinks.tell(&plugin, By::Plugin, refused);
            }
            Notice::Attempted { cycle, pod, outcome } => attempts::tell(&pod, self.traces.trace_of(cycle), outcome),
            Notice::SlowSearch { cycle, pod, total, steps } => {
                attempts::tell_slow_search(&pod, self.traces.trace_of(cycle), total, &steps);
            }
            Notice::Log { level, plugin, place, message } => {
                let plugin = (!plugin.is_empty()).then_some(&*plugin);
                let _alike = log_rate::lines_of(place);
                match level {
                    Level::Debug => debug!(plugin, "{message}"),
                    Level::Info => info!(plugin, "{message}"),
                    Level::Warn => warn!(plugin, "{message}"),
                    Level::Error => error!(plugin, "{message}"),
                }
            }
        }
    }
}

fn status_patch(change: StatusChange) -> StatusPatch {
    let nomination = match change.nominated_node_name {
        None => Nomination::Keep,
        Some(node) if node.is_empty() => Nomination::Clear,
        Some(node) => Nomination::Set(node),
    };
    let condition = change.condition.map(|condition| PodCondition {
        type_: condition.type_,
        status: condition.status,
        reason: condition.reason,
        message: condition.message,
        observed_generation: condition.observed_generation,
    });
    StatusPatch {
        old_conditions: change.old_conditions,
        old_nominated_node_name: change.old_nominated_node_name,
        condition,
        nomination,
    }
}

/// Whether the pod no longer exists: a pod may be deleted while it waits.
fn is_gone(error: &WriteError) -> bool {
    match error {
        WriteError::NotFound { .. } | WriteError::Leaving { .. } => true,
        WriteError::Conflict { .. } | WriteError::Rejected { .. } | WriteError::Unavailable { .. } => false,
    }
}

/// Passes a task's panic on to the executor. Otherwise, its pod would never get an answer.
fn pass_on_panic<T>(ended: Result<T, JoinError>) -> T {
    match ended {
        Ok(value) => value,
        Err(error) => berth_cluster::end_as(error),
    }
}

/// A request for a subresource of the pod.
fn about<'a>(pod: &'a PodRef, method: &'static str, subresource: &'a str) -> ApiRequest<'a> {
    let (namespace, name) = (&*pod.namespace, &*pod.name);
    ApiRequest { method, resource: "pods", subresource: Some(subresource), namespace, name }
}

fn target(pod: &PodRef) -> berth_cluster::PodRef {
    berth_cluster::PodRef { namespace: pod.namespace.to_string(), name: pod.name.to_string(), uid: pod.uid.to_string() }
}

fn new_event(record: EventRecord) -> NewEvent {
    NewEvent {
        type_: if record.warning { EventType::Warning } else { EventType::Normal },
        reason: record.reason,
        action: record.action,
        note: record.note,
        regarding: reference(record.regarding),
        related: record.related.map(reference),
        reporting_controller: record.reporting_controller,
        note_counts: false,
    }
}

fn reference(pod: PodRef) -> ObjectReference {
    ObjectReference {
        kind: "Pod".into(),
        api_version: "v1".into(),
        namespace: pod.namespace,
        name: pod.name,
        uid: pod.uid.shared(),
        resource_version: pod.resource_version,
    }
}
