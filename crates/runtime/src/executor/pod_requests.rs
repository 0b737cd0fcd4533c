//! Requests about pods. Requests about one pod run one after the other, and requests about different pods run side by
//! side. The only exception are the effects that different plugins need before a pod is bound: these effects run side
//! by side, even for one pod.
//!
//! A waiting request may become unnecessary. Two patches of one status are merged into one. A binding drops the patches
//! before it, because the API server clears the nomination and sets the condition itself. kube-scheduler also merges
//! and drops calls with the gate SchedulerAsyncAPICalls (`pkg/scheduler/backend/api_dispatcher/call_queue.go`).
//!
//! Each request in progress has its own task, so that a request that hangs does not delay other pods. The writer limits
//! the number of open requests at the API server. Only some status patches have a task. The number of waiting status
//! patches may equal the number of pods in the cluster, and waiting patches must not prevent pods from being placed.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use berth_cluster::{FairQueue, Flow};
use berth_model::PodUid;
use berth_scheduler::{Event, PodRequest, Request, StatusChange};
use berth_telemetry::metrics::{ApiCall, PendingCall};
use tokio::task::JoinSet;
use tracing::warn;

use super::{Executor, pass_on_panic};

/// The maximum number of requests, other than status patches, that are in progress or wait for another request about
/// their pod. Each takes a few kilobytes. Beyond this number no action is accepted, so that the scheduling thread
/// starts no cycles. An API server that is unreachable for long must not make the memory grow without limit.
const MAX_REQUESTS: usize = 10_000;

/// The maximum number of waiting status patches. Further patches are not written before the pod's next attempt.
const MAX_PATCHES: usize = 20_000;

/// The maximum number of status patches that have a task: twice as many as the writer sends at a time.
const PATCHES_AT_A_TIME: usize = 64;

/// The requests that are not finished.
#[derive(Debug, Default)]
pub(super) struct PodRequests {
    /// The pods with a request that is in progress or waiting.
    pods: HashMap<PodUid, PodLine>,
    /// The numbers of requests that are in progress or waiting.
    counts: Counts,
    /// The pods with status patches that come next, once another task can be started.
    patches: FairQueue<PodUid>,
    n_patches_running: usize,
    running: JoinSet<(PodUid, Done)>,
}

#[derive(Debug, Default)]
struct Counts {
    patches: usize,
    others: usize,
}

impl Counts {
    fn of(&mut self, request: &Request) -> &mut usize {
        if is_patch(request) { &mut self.patches } else { &mut self.others }
    }
}

/// A request that is finished.
#[derive(Debug)]
struct Done {
    concurrency: Concurrency,
    was_patch: bool,
}

/// The requests about one pod.
#[derive(Debug, Default)]
struct PodLine {
    running: Vec<Concurrency>,
    waiting: VecDeque<Waiting>,
    /// Whether the pod is in [`PodRequests::patches`].
    waits_to_patch: bool,
}

/// A request that waits for its turn.
#[derive(Debug)]
struct Waiting {
    request: PodRequest,
    /// Whether a binding replaced patches of the pod's status. If the binding fails, these patches were not written.
    dropped_patches: bool,
    /// Counts the request among the waiting calls.
    _pending: Option<PendingCall>,
}

/// The other requests about the same pod that may be in progress at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Concurrency {
    /// No other request.
    Exclusive,
    /// The awaited effects of other plugins.
    WithOtherPlugins(Arc<str>),
}

impl Concurrency {
    fn of(request: &Request) -> Self {
        match request {
            Request::AwaitedEffects(effects) => Self::WithOtherPlugins(Arc::clone(&effects.plugin)),
            Request::Bind { .. } | Request::BindByExtender { .. } | Request::PatchStatus(_) | Request::Effects(_) => {
                Self::Exclusive
            }
        }
    }

    fn allows(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::WithOtherPlugins(plugin), Self::WithOtherPlugins(other)) => plugin != other,
            (Self::Exclusive, _) | (_, Self::Exclusive) => false,
        }
    }
}

impl PodLine {
    fn may_start(&self, request: &Request) -> bool {
        let concurrency = Concurrency::of(request);
        self.running.iter().all(|other| concurrency.allows(other))
    }

    /// Appends the request to the waiting requests, unless the new request or a waiting request becomes unnecessary.
    fn push(&mut self, mut request: PodRequest, executor: &Executor, counts: &mut Counts) {
        let mut dropped_patches = false;
        match &mut request.request {
            Request::PatchStatus(later) => {
                let binding = self.waiting.iter_mut().find(|it| matches!(it.request.request, Request::Bind { .. }));
                if let Some(binding) = binding {
                    binding.dropped_patches = true;
                    return;
                }
                if let Some(Request::PatchStatus(earlier)) = self.waiting.back_mut().map(|it| &mut it.request.request)
                    && let Some(both) = merged(earlier, later)
                {
                    *earlier = both;
                    return;
                }
            }
            Request::Bind { .. } => {
                let before = self.waiting.len();
                self.waiting.retain(|it| !is_patch(&it.request.request));
                let n_dropped = before - self.waiting.len();
                counts.patches -= n_dropped;
                dropped_patches = n_dropped > 0;
            }
            Request::BindByExtender { .. } | Request::Effects(_) | Request::AwaitedEffects(_) => {}
        }
        *counts.of(&request.request) += 1;
        let pending = call_type(&request.request).and_then(|call| executor.api_calls.as_ref().map(|it| it.waits(call)));
        self.waiting.push_back(Waiting { request, dropped_patches, _pending: pending });
    }
}

fn is_patch(request: &Request) -> bool {
    matches!(request, Request::PatchStatus(_))
}

/// The dispatcher's name for the call in kube-scheduler, if it is one of the dispatcher's calls.
fn call_type(request: &Request) -> Option<ApiCall> {
    match request {
        Request::Bind { .. } => Some(ApiCall::PodBinding),
        Request::PatchStatus(_) => Some(ApiCall::PodStatusPatch),
        Request::BindByExtender { .. } | Request::Effects(_) | Request::AwaitedEffects(_) => None,
    }
}

/// A change with the effect of both changes; `None` if the two set different conditions.
fn merged(earlier: &StatusChange, later: &StatusChange) -> Option<StatusChange> {
    let types = [earlier, later].map(|change| change.condition.as_ref().map(|condition| &condition.type_));
    if let [Some(earlier), Some(later)] = types
        && earlier != later
    {
        return None;
    }
    Some(StatusChange {
        cycle: later.cycle.or(earlier.cycle),
        old_conditions: later.old_conditions.clone(),
        condition: later.condition.clone().or_else(|| earlier.condition.clone()),
        // The later change assumes that the nomination of the earlier change was written.
        old_nominated_node_name: earlier.old_nominated_node_name.clone(),
        nominated_node_name: later.nominated_node_name.clone().or_else(|| earlier.nominated_node_name.clone()),
    })
}

impl PodRequests {
    /// Whether no further request is accepted.
    pub(super) fn is_full(&self) -> bool {
        self.counts.others >= MAX_REQUESTS
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Carries out the request, after earlier requests about the same pod.
    pub(super) fn add(&mut self, executor: &Executor, request: PodRequest) {
        if is_patch(&request.request) && self.counts.patches >= MAX_PATCHES {
            return refuse(executor, request);
        }
        let pod = request.pod.uid.clone();
        self.pods.entry(pod.clone()).or_default().push(request, executor, &mut self.counts);
        self.start_next(executor, &pod);
    }

    /// Waits until a request is finished, and starts the next requests about its pod. The future can be dropped without
    /// loss.
    pub(super) async fn one_done(&mut self, executor: &Executor) {
        let Some(done) = self.running.join_next().await else { return };
        let (pod, Done { concurrency, was_patch }) = pass_on_panic(done);
        if let Some(line) = self.pods.get_mut(&pod)
            && let Some(position) = line.running.iter().position(|running| *running == concurrency)
        {
            line.running.swap_remove(position);
        }
        if was_patch {
            self.counts.patches -= 1;
            self.n_patches_running -= 1;
        } else {
            self.counts.others -= 1;
        }
        self.start_next(executor, &pod);
        while self.n_patches_running < PATCHES_AT_A_TIME
            && let Some((_, pod)) = self.patches.pop(|_| true)
        {
            if let Some(line) = self.pods.get_mut(&pod) {
                line.waits_to_patch = false;
            }
            self.start_next(executor, &pod);
        }
    }

    /// Starts the pod's next requests.
    fn start_next(&mut self, executor: &Executor, pod: &PodUid) {
        let Some(line) = self.pods.get_mut(pod) else { return };
        while let Some(Waiting { request, .. }) = line.waiting.front()
            && line.may_start(&request.request)
        {
            let flow = Flow { profile: Arc::clone(&request.profile), namespace: Arc::clone(&request.pod.namespace) };
            let was_patch = is_patch(&request.request);
            if was_patch && self.n_patches_running >= PATCHES_AT_A_TIME {
                if !std::mem::replace(&mut line.waits_to_patch, true) {
                    self.patches.push(&flow, pod.clone());
                }
                return;
            }
            self.n_patches_running += usize::from(was_patch);
            let Some(Waiting { request, dropped_patches, .. }) = line.waiting.pop_front() else { return };
            let concurrency = Concurrency::of(&request.request);
            line.running.push(concurrency.clone());
            let mut executor = executor.clone();
            executor.writer = executor.writer.on_behalf_of(flow);
            self.running.spawn(async move {
                let pod = request.pod.uid.clone();
                executor.carry_out(request, dropped_patches).await;
                (pod, Done { concurrency, was_patch })
            });
        }
        if line.running.is_empty() && line.waiting.is_empty() {
            self.pods.remove(pod);
        }
    }
}

/// Drops a status patch. The scheduler treats the patch as failed, and writes the status again at the pod's next
/// attempt.
fn refuse(executor: &Executor, PodRequest { pod, .. }: PodRequest) {
    let (name, namespace) = (&*pod.name, &*pod.namespace);
    warn!(pod = name, namespace, "the pod's status was not updated: {MAX_PATCHES} other updates are waiting");
    executor.sinks.metrics.status_patch_dropped();
    let executor = executor.clone();
    drop(tokio::spawn(async move { executor.report(Event::StatusPatchFailed { uid: pod.uid }).await }));
}
