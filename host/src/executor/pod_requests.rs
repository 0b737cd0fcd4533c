//! Requests about pods: those of one pod go one after the other, those of different pods side by side. Only what different
//! plugins want done before a pod is bound goes side by side for one pod as well.
//!
//! Each request that is under way has a task, so one that hangs holds up no other pod. How many requests are open at the API
//! server is the writer's business.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use berth_model::PodUid;
use berth_scheduler::{PodRequest, Request};
use tokio::task::JoinSet;

use super::{Executor, pass_on_panic};

/// The requests that are not done.
#[derive(Debug, Default)]
pub(super) struct PodRequests {
    /// The pods about which a request is under way.
    pods: HashMap<PodUid, PodLine>,
    n_waiting: usize,
    running: JoinSet<(PodUid, Company)>,
}

/// The requests about one pod.
#[derive(Debug, Default)]
struct PodLine {
    running: Vec<Company>,
    waiting: VecDeque<PodRequest>,
}

/// Beside what a request may be under way.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Company {
    /// Nothing else about its pod.
    None,
    /// The awaited effects of plugins other than this one.
    OtherPlugins(Arc<str>),
}

impl Company {
    fn of(request: &Request) -> Self {
        match request {
            Request::AwaitedEffects(effects) => Self::OtherPlugins(Arc::clone(&effects.plugin)),
            Request::Bind { .. } | Request::BindByExtender { .. } | Request::PatchStatus(_) | Request::Effects(_) => {
                Self::None
            }
        }
    }

    fn suits(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::OtherPlugins(plugin), Self::OtherPlugins(other)) => plugin != other,
            (Self::None, _) | (_, Self::None) => false,
        }
    }
}

impl PodLine {
    fn may_start(&self, request: &PodRequest) -> bool {
        let company = Company::of(&request.request);
        self.running.iter().all(|other| company.suits(other))
    }
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
        self.pods.entry(pod.clone()).or_default().waiting.push_back(request);
        self.n_waiting += 1;
        self.start_next(executor, &pod);
    }

    /// Waits until a request is done, and goes on to the next ones of its pod. Dropping the future loses nothing.
    pub(super) async fn one_done(&mut self, executor: &Executor) {
        let Some(done) = self.running.join_next().await else { return };
        let (pod, company) = pass_on_panic(done);
        if let Some(line) = self.pods.get_mut(&pod)
            && let Some(position) = line.running.iter().position(|running| *running == company)
        {
            line.running.swap_remove(position);
        }
        self.start_next(executor, &pod);
    }

    /// Starts the requests of the pod whose turn it is.
    fn start_next(&mut self, executor: &Executor, pod: &PodUid) {
        let Some(line) = self.pods.get_mut(pod) else { return };
        while let Some(request) = line.waiting.pop_front() {
            if !line.may_start(&request) {
                line.waiting.push_front(request);
                break;
            }
            self.n_waiting -= 1;
            let (executor, company) = (executor.clone(), Company::of(&request.request));
            line.running.push(company.clone());
            self.running.spawn(async move {
                let pod = request.pod.uid.clone();
                executor.carry_out(request).await;
                (pod, company)
            });
        }
        if line.running.is_empty() {
            self.pods.remove(pod);
        }
    }
}
