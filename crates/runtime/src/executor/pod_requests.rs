//! Requests about pods: those of one pod go one after the other, those of different pods side by side. Only what different
//! plugins want done before a pod is bound goes side by side for one pod as well.
//!
//! A request that waits may become needless: two patches of one status become one, and a binding drops the patches before it,
//! since the API server clears the nomination and sets the condition itself. kube-scheduler does the same with the gate
//! SchedulerAsyncAPICalls (`pkg/scheduler/backend/api_dispatcher/call_queue.go`).
//!
//! Each request that is under way has a task, so one that hangs holds up no other pod. How many requests are open at the API
//! server is the writer's business. Of status patches only some have a task: there may be one for each pod of the cluster, and
//! those that wait must not keep pods from being placed.

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

/// Requests other than status patches that are under way or wait for another one of their pod, a few kilobytes each. Beyond
/// this no action is taken, so the scheduling thread starts no cycles: an API server that is away for long must not cost memory
/// without bound.
const MAX_REQUESTS: usize = 10_000;

/// Status patches that wait. Those beyond are not written before the pod's next attempt.
const MAX_PATCHES: usize = 20_000;

/// Status patches that have a task: twice as many as the writer sends at a time.
const PATCHES_AT_A_TIME: usize = 64;

/// The requests that are not done.
#[derive(Debug, Default)]
pub(super) struct PodRequests {
    /// The pods about which a request is under way or waits.
    pods: HashMap<PodUid, PodLine>,
    /// Counts of requests that are under way or waiting.
    counts: Counts,
    /// Pods whose status is to be patched next, once there is room for another task.
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

/// A request that is over.
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
    /// Whether it is among [`PodRequests::patches`].
    waits_to_patch: bool,
}

/// A request whose turn has not come.
#[derive(Debug)]
struct Waiting {
    request: PodRequest,
    /// A binding came in the place of patches of the pod's status. If it fails, they were not written.
    dropped_patches: bool,
    /// Counts it among the calls that wait.
    _pending: Option<PendingCall>,
}

/// The other requests about its pod beside which a request may be under way.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Concurrency {
    /// No other.
    Exclusive,
    /// The awaited effects of plugins other than this one.
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

    /// Puts the request behind those that wait, unless one of the two becomes needless.
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

/// What kube-scheduler's dispatcher calls it, if it is one of the dispatcher's calls.
fn call_type(request: &Request) -> Option<ApiCall> {
    match request {
        Request::Bind { .. } => Some(ApiCall::PodBinding),
        Request::PatchStatus(_) => Some(ApiCall::PodStatusPatch),
        Request::BindByExtender { .. } | Request::Effects(_) | Request::AwaitedEffects(_) => None,
    }
}

/// The change with the effect of both; `None` if they set different conditions.
fn merged(earlier: &StatusChange, later: &StatusChange) -> Option<StatusChange> {
    let types = [earlier, later].map(|change| change.condition.as_ref().map(|condition| &condition.type_));
    if let [Some(earlier), Some(later)] = types
        && earlier != later
    {
        return None;
    }
    Some(StatusChange {
        old_conditions: later.old_conditions.clone(),
        condition: later.condition.clone().or_else(|| earlier.condition.clone()),
        // The later one takes the earlier one's nomination for written.
        old_nominated_node_name: earlier.old_nominated_node_name.clone(),
        nominated_node_name: later.nominated_node_name.clone().or_else(|| earlier.nominated_node_name.clone()),
    })
}

impl PodRequests {
    /// Whether no more is taken on.
    pub(super) fn is_full(&self) -> bool {
        self.counts.others >= MAX_REQUESTS
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Carries it out, after those of its pod that were added before.
    pub(super) fn add(&mut self, executor: &Executor, request: PodRequest) {
        if is_patch(&request.request) && self.counts.patches >= MAX_PATCHES {
            return refuse(executor, request);
        }
        let pod = request.pod.uid.clone();
        self.pods.entry(pod.clone()).or_default().push(request, executor, &mut self.counts);
        self.start_next(executor, &pod);
    }

    /// Waits until a request is done, and goes on to the next ones of its pod. Dropping the future loses nothing.
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

    /// Starts the requests of the pod whose turn it is.
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

/// Gives up a status patch: the scheduler takes it for failed, and writes the status again at the pod's next attempt.
fn refuse(executor: &Executor, PodRequest { pod, .. }: PodRequest) {
    let (name, namespace) = (&*pod.name, &*pod.namespace);
    warn!(pod = name, namespace, "the pod's status was not updated: {MAX_PATCHES} other updates are waiting");
    executor.sinks.metrics.status_patch_dropped();
    let executor = executor.clone();
    drop(tokio::spawn(async move { executor.report(Event::StatusPatchFailed { uid: pod.uid }).await }));
}
