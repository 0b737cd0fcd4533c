//! Requests about pods: those of one pod go one after the other, those of different pods side by side. Only what different
//! plugins want done before a pod is bound goes side by side for one pod as well.
//!
//! A request that waits may become needless: two patches of one status become one, and a binding drops the patches before it,
//! since the API server clears the nomination and sets the condition itself. kube-scheduler does the same with the gate
//! SchedulerAsyncAPICalls (`pkg/scheduler/backend/api_dispatcher/call_queue.go`).
//!
//! Each request that is under way has a task, so one that hangs holds up no other pod. How many requests are open at the API
//! server is the writer's business.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use berth_model::PodUid;
use berth_scheduler::{PodRequest, Request, StatusChange};
use berth_telemetry::metrics::{ApiCall, PendingCall};
use tokio::task::JoinSet;

use super::{Executor, pass_on_panic};

/// The requests that are not done.
#[derive(Debug, Default)]
pub(super) struct PodRequests {
    /// The pods about which a request is under way.
    pods: HashMap<PodUid, PodLine>,
    n_waiting: usize,
    running: JoinSet<(PodUid, Concurrency)>,
}

/// The requests about one pod.
#[derive(Debug, Default)]
struct PodLine {
    running: Vec<Concurrency>,
    waiting: VecDeque<Waiting>,
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

/// Beside which other requests about its pod a request may be under way.
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
    fn push(&mut self, mut request: PodRequest, executor: &Executor) {
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
                self.waiting.retain(|it| !matches!(it.request.request, Request::PatchStatus(_)));
                dropped_patches = self.waiting.len() < before;
            }
            Request::BindByExtender { .. } | Request::Effects(_) | Request::AwaitedEffects(_) => {}
        }
        let pending = call_type(&request.request).and_then(|call| executor.api_calls.as_ref().map(|it| it.waits(call)));
        self.waiting.push_back(Waiting { request, dropped_patches, _pending: pending });
    }
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
    /// Those under way and those that wait.
    pub(super) fn len(&self) -> usize {
        self.running.len() + self.n_waiting
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Carries it out, after those of its pod that were added before.
    pub(super) fn add(&mut self, executor: &Executor, request: PodRequest) {
        let pod = request.pod.uid.clone();
        let line = self.pods.entry(pod.clone()).or_default();
        let before = line.waiting.len();
        line.push(request, executor);
        self.n_waiting = (self.n_waiting + line.waiting.len()).saturating_sub(before);
        self.start_next(executor, &pod);
    }

    /// Waits until a request is done, and goes on to the next ones of its pod. Dropping the future loses nothing.
    pub(super) async fn one_done(&mut self, executor: &Executor) {
        let Some(done) = self.running.join_next().await else { return };
        let (pod, concurrency) = pass_on_panic(done);
        if let Some(line) = self.pods.get_mut(&pod)
            && let Some(position) = line.running.iter().position(|running| *running == concurrency)
        {
            line.running.swap_remove(position);
        }
        self.start_next(executor, &pod);
    }

    /// Starts the requests of the pod whose turn it is.
    fn start_next(&mut self, executor: &Executor, pod: &PodUid) {
        let Some(line) = self.pods.get_mut(pod) else { return };
        while let Some(waiting) = line.waiting.pop_front() {
            if !line.may_start(&waiting.request.request) {
                line.waiting.push_front(waiting);
                break;
            }
            self.n_waiting -= 1;
            let Waiting { request, dropped_patches, .. } = waiting;
            let (executor, concurrency) = (executor.clone(), Concurrency::of(&request.request));
            line.running.push(concurrency.clone());
            self.running.spawn(async move {
                let pod = request.pod.uid.clone();
                executor.carry_out(request, dropped_patches).await;
                (pod, concurrency)
            });
        }
        if line.running.is_empty() {
            self.pods.remove(pod);
        }
    }
}
