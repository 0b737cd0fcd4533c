//! Requests about pods: those of one pod go one after the other, those of different pods side by side.
//!
//! Each pod with a request under way has a task, so one whose request hangs holds up nobody else. How many requests are open
//! at the API server is the writer's business.

use std::collections::{HashMap, VecDeque};

use berth_model::PodUid;
use berth_scheduler::PodRequest;
use tokio::task::JoinSet;

use super::{Executor, pass_on_panic};

/// The requests that are not done.
#[derive(Debug, Default)]
pub(super) struct PodRequests {
    /// What waits behind the request that is under way, for each pod that has one.
    waiting: HashMap<PodUid, VecDeque<PodRequest>>,
    n_waiting: usize,
    running: JoinSet<PodUid>,
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
        if let Some(queue) = self.waiting.get_mut(&request.pod.uid) {
            queue.push_back(request);
            self.n_waiting += 1;
            return;
        }
        self.waiting.insert(request.pod.uid.clone(), VecDeque::new());
        self.start(executor, request);
    }

    /// Waits until a request is done, and goes on to the next one of its pod. Dropping the future loses nothing.
    pub(super) async fn one_done(&mut self, executor: &Executor) {
        let Some(done) = self.running.join_next().await else { return };
        let pod = pass_on_panic(done);
        match self.waiting.get_mut(&pod).and_then(VecDeque::pop_front) {
            Some(next) => {
                self.n_waiting -= 1;
                self.start(executor, next);
            }
            None => drop(self.waiting.remove(&pod)),
        }
    }

    fn start(&mut self, executor: &Executor, request: PodRequest) {
        let executor = executor.clone();
        self.running.spawn(async move {
            let pod = request.pod.uid.clone();
            executor.carry_out(request).await;
            pod
        });
    }
}
