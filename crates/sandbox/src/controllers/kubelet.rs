//! The kubelets of nodes on which nothing runs: a bound pod starts after a delay, and a deleted pod is removed after a
//! delay.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::fields::clock;
use crate::fields::conditions::set_condition;
use crate::fields::json::{child_mut, is_being_deleted, items, text};
use crate::kinds::Kind;
use crate::objects::delete::{DeleteOptions, delete};
use crate::state::ClusterState;
use crate::storage::{ChangeKind, Collection, Follower, Object, split_key};

/// A pod with the time of its next step. The step is a start or a stop.
#[derive(Debug)]
struct DuePod {
    at: Instant,
    key: String,
    uid: String,
}

/// The pods that wait for their next step. Each queue has one delay, so both stay sorted.
#[derive(Debug, Default)]
struct PodQueues {
    starting: VecDeque<DuePod>,
    stopping: VecDeque<DuePod>,
}

/// Follows the pods until the server stops.
pub(crate) async fn run(
    state: Arc<ClusterState>,
    mut stopping: watch::Receiver<bool>,
    start_delay: Duration,
    stop_delay: Duration,
) {
    let Ok(kind) = state.built_in_kind("", "pods") else { return };
    let pods = state.collection("pods");
    let mut follower = Follower::new(Arc::clone(&pods));
    let mut queues = PodQueues::default();
    for pod in follower.state() {
        queues.observe(&pod, None, start_delay, stop_delay);
    }
    loop {
        if let Ok(changes) = follower.changes() {
            for change in changes.iter().filter(|change| change.kind != ChangeKind::Deleted) {
                queues.observe(&change.object, change.before.as_deref(), start_delay, stop_delay);
            }
        } else {
            for pod in follower.state() {
                queues.observe(&pod, None, start_delay, stop_delay);
            }
        }
        queues.run_due(&state, &kind, &pods);
        let next = queues.next();
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => return,
            more = follower.changed() => if !more { return },
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
    }
}

impl PodQueues {
    fn observe(&mut self, pod: &Object, before: Option<&Object>, start_delay: Duration, stop_delay: Duration) {
        let is_bound = |pod: &Object| !text(&pod.value, "/spec/nodeName").is_empty();
        let is_leaving = |pod: &Object| is_being_deleted(&pod.value);
        let due = |delay: Duration| DuePod { at: Instant::now() + delay, key: pod.key(), uid: pod.uid().to_owned() };
        if !is_bound(pod) {
            return;
        }
        if is_leaving(pod) {
            if !before.is_some_and(is_leaving) {
                self.stopping.push_back(due(stop_delay));
            }
        } else if !before.is_some_and(is_bound) && text(&pod.value, "/status/phase") == "Pending" {
            self.starting.push_back(due(start_delay));
        }
    }

    fn next(&self) -> Option<Instant> {
        self.starting.front().into_iter().chain(self.stopping.front()).map(|due| due.at).min()
    }

    fn run_due(&mut self, state: &ClusterState, kind: &Kind, pods: &Collection) {
        while let Some(due) = pop_due(&mut self.starting) {
            start(pods, &due);
        }
        while let Some(due) = pop_due(&mut self.stopping) {
            let options = DeleteOptions { grace: Some(0), uid: due.uid, ..DeleteOptions::default() };
            let (namespace, name) = split_key(&due.key);
            if let Err(error) = delete(state, kind, namespace, name, &options) {
                tracing::trace!(pod = due.key, ?error, "pod was gone already");
            }
        }
    }
}

fn pop_due(queue: &mut VecDeque<DuePod>) -> Option<DuePod> {
    queue.pop_front_if(|due| due.at <= Instant::now())
}

fn start(pods: &Collection, due: &DuePod) {
    while let Some(current) = pods.get(&due.key) {
        let pod = &current.value;
        let is_same = text(pod, "/metadata/uid") == due.uid;
        if !is_same || is_being_deleted(pod) || text(pod, "/status/phase") != "Pending" {
            return;
        }
        if pods.replace(&due.key, &current, running(pod, current.version.number())).is_ok() {
            return;
        }
    }
}

/// The pod with the status that a kubelet reports when all containers run.
fn running(pod: &Value, version: u64) -> Value {
    let now = clock::now();
    let address = format!("10.{}.{}.{}", 64 + (version >> 16) % 64, (version >> 8) % 256, version % 256);
    let statuses = |pointer: &str| -> Vec<Value> {
        items(pod, pointer)
            .iter()
            .map(|container| {
                json!({
                    "name": text(container, "/name"),
                    "image": text(container, "/image"),
                    "imageID": "",
                    "lastState": {},
                    "ready": true,
                    "started": true,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": now}},
                })
            })
            .collect()
    };
    let mut next = pod.clone();
    let status = child_mut(&mut next, "status");
    status.insert("phase".to_owned(), "Running".into());
    status.insert("startTime".to_owned(), now.as_str().into());
    status.insert("podIP".to_owned(), address.as_str().into());
    status.insert("podIPs".to_owned(), json!([{"ip": address}]));
    status.insert("hostIP".to_owned(), "10.0.0.1".into());
    status.insert("hostIPs".to_owned(), json!([{"ip": "10.0.0.1"}]));
    status.insert("containerStatuses".to_owned(), statuses("/spec/containers").into());
    for kind in ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"] {
        set_condition(status, json!({"type": kind, "status": "True", "lastTransitionTime": now}));
    }
    next
}
