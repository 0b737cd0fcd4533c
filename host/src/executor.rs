//! Carries out what the scheduler wants done, in order for each pod, and reports back.

mod effects;

use std::{
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher},
    sync::Arc,
};

use berth_cluster::{
    EventRecorder, EventType, Kinds, NewEvent, Nomination, ObjectReference, PodCondition, StatusPatch, Writer,
};
use berth_scheduler::{
    Action, Event, EventRecord, Level, Notice, PluginEffects, PodRef, PodRequest, Preparation, Request, RequestError,
    StatusChange,
};
use berth_wasm_host::threads;
use tokio::{
    sync::{mpsc, oneshot},
    task::{JoinHandle, JoinSet},
};
use tracing::{debug, error, info, warn};

use self::effects::Cause;
use crate::{metrics::Metrics, plugin_supervisor::Message};

/// One pod's requests go one after the other, those of different pods side by side: as many as the writer keeps open.
const WORKERS: usize = 64;

/// Requests that wait behind a slow one of the same worker.
const WORKER_BOUND: usize = 64;

/// What the workers share.
#[derive(Clone)]
pub(crate) struct Executor {
    pub writer: Writer,
    /// Where objects of each kind live.
    pub kinds: Kinds,
    pub recorder: EventRecorder,
    pub events: mpsc::Sender<Event>,
    /// Hears how swaps went.
    pub plugins: mpsc::Sender<Message>,
    pub metrics: Arc<Metrics>,
}

impl Executor {
    /// Works until the sender of actions is gone.
    pub(crate) fn spawn(self, actions: mpsc::Receiver<Action>) -> JoinHandle<()> {
        tokio::spawn(self.dispatch(actions))
    }

    async fn dispatch(self, mut actions: mpsc::Receiver<Action>) {
        let mut workers = JoinSet::new();
        let queues: Vec<mpsc::Sender<PodRequest>> = (0..WORKERS)
            .map(|_| {
                let (queue, waiting) = mpsc::channel(WORKER_BOUND);
                workers.spawn(self.clone().work(waiting));
                queue
            })
            .collect();
        while let Some(action) = actions.recv().await {
            match action {
                Action::Pod(request) => {
                    if let Some(queue) = queues.get(worker(&request.pod.uid)) {
                        // A worker ends only after its queue.
                        let _ = queue.send(request).await;
                    }
                }
                Action::PreparePlugin(preparation) => drop(tokio::spawn(self.clone().prepare(*preparation))),
                Action::Notice(notice) => self.publish(notice).await,
            }
        }
        drop(queues);
        while workers.join_next().await.is_some() {}
    }

    /// Builds and fills instances on a thread that may take its time.
    async fn prepare(self, preparation: Preparation) {
        let spare = preparation.clone();
        let (done, prepared) = oneshot::channel();
        // The scheduling thread ends before its channel does only when the process ends.
        let work = move || drop(done.send(preparation.run()));
        let started = threads::spawn_background("plugin-preparation", work);
        let prepared = match started {
            // The sender is gone without a word if the thread panicked.
            Ok(()) => prepared.await.unwrap_or_else(|_| spare.failed("preparing an instance broke off")),
            Err(error) => spare.failed(&format!("no thread to prepare an instance: {error}")),
        };
        self.report(Event::PluginPrepared(prepared)).await;
    }

    async fn work(self, mut waiting: mpsc::Receiver<PodRequest>) {
        while let Some(request) = waiting.recv().await {
            self.carry_out(request).await;
        }
    }

    async fn carry_out(&self, PodRequest { pod, request }: PodRequest) {
        match request {
            Request::Bind { cycle, node } => {
                let result = self.writer.bind(&target(&pod), &node).await;
                let result = result.map_err(|error| RequestError::new(error.to_string()));
                match &result {
                    Ok(()) => debug!(pod = %pod.name, namespace = %pod.namespace, node, "bound"),
                    Err(error) => warn!(pod = %pod.name, namespace = %pod.namespace, node, %error, "binding failed"),
                }
                self.report(Event::BindFinished { cycle, uid: pod.uid, result }).await;
            }
            Request::PatchStatus(change) => {
                if let Err(error) = self.writer.patch_status(&target(&pod), &status_patch(change)).await {
                    warn!(pod = %pod.name, namespace = %pod.namespace, %error, "the pod's status was not updated");
                    self.report(Event::StatusPatchFailed { uid: pod.uid }).await;
                }
            }
            Request::Effects(effects) => drop(self.plugin_effects(&pod, effects).await),
            Request::AwaitedEffects(effects) => {
                let cycle = effects.cycle;
                let result = self.plugin_effects(&pod, effects).await;
                self.report(Event::EffectsFinished { cycle, uid: pod.uid, result }).await;
            }
        }
    }

    async fn plugin_effects(&self, pod: &PodRef, effects: PluginEffects) -> Result<(), RequestError> {
        let PluginEffects { scheduler_name, plugin, effects, .. } = effects;
        let cause = Cause { pod, scheduler_name: &scheduler_name, plugin: &plugin };
        let result = self.effects(&cause, effects).await;
        if let Err(error) = &result {
            warn!(%plugin, pod = %pod.name, namespace = %pod.namespace, error = error.to_string(), "effect failed");
        }
        result.map_err(|error| RequestError::new(error.to_string()))
    }

    /// The scheduling thread ends before its channel does only when the process ends.
    async fn report(&self, event: Event) {
        let _ = self.events.send(event).await;
    }

    /// What is not written about one pod in its turn.
    async fn publish(&self, notice: Notice) {
        match notice {
            Notice::Event(record) => self.recorder.record(new_event(record)),
            // The supervisor ends before the executor does only when the process ends.
            Notice::PluginSwapped { scheduler_name, plugin, version, result } => {
                let _ = self.plugins.send(Message::Swapped { scheduler_name, plugin, version, result }).await;
            }
            Notice::EffectRefused { pod, plugin, permission } => {
                let (permission, namespace) = (permission.as_str(), &pod.namespace);
                warn!(%plugin, permission, pod = pod.name, namespace, "asked for an effect that it was not granted");
                self.metrics.effect_refused(&plugin, permission);
            }
            Notice::Log { level, message } => match level {
                Level::Debug => debug!("{message}"),
                Level::Info => info!("{message}"),
                Level::Warn => warn!("{message}"),
                Level::Error => error!("{message}"),
            },
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

fn worker(uid: &str) -> usize {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(uid);
    usize::try_from(hash % 64).unwrap_or(0) % WORKERS
}

fn target(pod: &PodRef) -> berth_cluster::PodRef {
    berth_cluster::PodRef { namespace: pod.namespace.clone(), name: pod.name.clone(), uid: pod.uid.to_string() }
}

fn new_event(record: EventRecord) -> NewEvent {
    let pod = record.regarding;
    NewEvent {
        type_: if record.warning { EventType::Warning } else { EventType::Normal },
        reason: record.reason,
        action: record.action,
        note: record.note,
        regarding: ObjectReference {
            kind: "Pod".to_owned(),
            api_version: "v1".to_owned(),
            namespace: pod.namespace,
            name: pod.name,
            uid: pod.uid.to_string(),
            resource_version: pod.resource_version,
        },
        related: None,
        reporting_controller: record.reporting_controller,
    }
}
