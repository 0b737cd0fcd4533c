//! The task that sends events.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Method, header};
use kube::Client;
use serde_json::json;
use tokio::{
    sync::{Semaphore, mpsc},
    task::{JoinError, JoinSet},
    time::{Instant, MissedTickBehavior, interval_at},
};
use tracing::{debug, warn};

use crate::{
    api_error::RequestFailure,
    clock, end_as,
    fair_queue::Flow,
    object::{ObjectRef, collection_path},
    rate::{RequestRate, Throttle, Urgency},
    request,
    retry::{Retries, RetryPolicy},
};

use super::{
    Command,
    series::{Action, Request, SeriesTable},
};

/// How often a series' count is brought up to date.
const REFRESH_EVERY: Duration = Duration::from_secs(30 * 60);
/// How often old series are looked for.
const END_EVERY: Duration = Duration::from_secs(6 * 60);
/// Events sent at a time: half as many as bindings, which matter more. The two requests of one series may overtake each other; all that can be lost is a count.
const MAX_OPEN_REQUESTS: usize = 32;
/// Events being sent or waiting for another try. Beyond this the queue fills, and then drops: an API server that is
/// away for long must not cost memory without bound.
const MAX_IN_FLIGHT: usize = 1000;
/// The longest that one try may take.
const TRY_TIMEOUT: Duration = Duration::from_secs(30);

const RETRIES: RetryPolicy = RetryPolicy {
    tries: 12,
    first_wait: Duration::from_secs(10),
    factor: 1,
    jitter_percent: 25,
    retry_on: RequestFailure::is_temporary,
};

/// The state of the task.
pub(super) struct Poster {
    sender: Sender,
    series: SeriesTable,
    in_flight: JoinSet<()>,
    n_in_flight: Arc<AtomicUsize>,
}

/// What one request needs.
#[derive(Clone)]
struct Sender {
    client: Client,
    slots: Arc<Semaphore>,
    throttle: Arc<Throttle>,
}

impl Poster {
    pub(super) fn new(client: Client, hostname: String, rate: RequestRate) -> Self {
        let throttle = Arc::new(Throttle::new(rate));
        let sender = Sender { client, slots: Arc::new(Semaphore::new(MAX_OPEN_REQUESTS)), throttle };
        Self { sender, series: SeriesTable::new(hostname), in_flight: JoinSet::new(), n_in_flight: Arc::default() }
    }

    /// How many requests are not finished.
    pub(super) fn n_in_flight(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.n_in_flight)
    }

    pub(super) fn throttle(&self) -> Arc<Throttle> {
        Arc::clone(&self.sender.throttle)
    }

    /// Runs until the last recorder is gone and everything is sent.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let now = Instant::now();
        let mut refresh = interval_at(now + REFRESH_EVERY, REFRESH_EVERY);
        let mut end = interval_at(now + END_EVERY, END_EVERY);
        refresh.set_missed_tick_behavior(MissedTickBehavior::Delay);
        end.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                command = commands.recv(), if self.in_flight.len() < MAX_IN_FLIGHT => match command {
                    Some(Command::Record(event)) => {
                        let requests = self.series.observe(*event, clock::now());
                        self.send_all(requests);
                    }
                    Some(Command::Flush(done)) => {
                        self.drain().await;
                        // The caller may have stopped waiting.
                        let _ = done.send(());
                    }
                    None => break,
                },
                _ = refresh.tick() => self.send_all(self.series.refresh()),
                _ = end.tick() => {
                    let ended = self.series.end_old(clock::now());
                    self.send_all(ended);
                }
                Some(sent) = self.in_flight.join_next() => self.finished(sent),
            }
        }
        self.drain().await;
    }

    fn send_all(&mut self, requests: impl IntoIterator<Item = Request>) {
        for request in requests {
            self.n_in_flight.fetch_add(1, Ordering::Relaxed);
            self.in_flight.spawn(self.sender.clone().send(request));
        }
    }

    fn finished(&self, sent: Result<(), JoinError>) {
        self.n_in_flight.fetch_sub(1, Ordering::Relaxed);
        if let Err(error) = sent {
            end_as(error);
        }
    }

    async fn drain(&mut self) {
        while let Some(sent) = self.in_flight.join_next().await {
            self.finished(sent);
        }
    }
}

impl Sender {
    async fn send(self, mut request: Request) {
        let mut retries = Retries::new(RETRIES);
        loop {
            let failure = match self.attempt(&request).await {
                Ok(()) => return,
                Err(failure) => failure,
            };
            // The event that the series belongs to has expired, or was never stored: it is written again.
            if failure.code() == Some(404) && matches!(request.action, Action::PatchSeries(_)) {
                request.action = Action::Post;
                continue;
            }
            let event = &request.name;
            match retries.wait_after(&failure) {
                Some(wait) => {
                    debug!(event, reason = %failure, "event not sent; trying again");
                    tokio::time::sleep(wait).await;
                }
                // An earlier try whose answer was lost.
                None if failure.code() == Some(409) => return debug!(event, "event exists already"),
                None if failure.is_namespace_terminating() => {
                    return debug!(event, reason = %failure, "the namespace is being deleted; the event was not written");
                }
                None => return warn!(event, reason = %failure, "giving up on an event"),
            }
        }
    }

    async fn attempt(&self, request: &Request) -> Result<(), RequestFailure> {
        // The semaphore is never closed, so an error can't occur; without a slot the request goes out all the same.
        let _slot = self.slots.acquire().await.ok();
        self.throttle.wait(Urgency::Urgent, &Flow::default()).await;
        request::bytes(&self.client, http_request(request)?, TRY_TIMEOUT).await.map(drop)
    }
}

fn http_request(request: &Request) -> Result<http::Request<Vec<u8>>, RequestFailure> {
    let (group, version, plural) = ("events.k8s.io", "v1", "events");
    let (method, path, content_type, body) = match &request.action {
        Action::Post => {
            let path = collection_path(group, version, Some(&request.namespace), plural);
            (Method::POST, path, "application/json", request.event.clone())
        }
        Action::PatchSeries(series) => {
            let (namespace, name) = (Some(request.namespace.to_string()), request.name.clone());
            let object =
                ObjectRef { group: group.into(), version: version.into(), plural: plural.into(), namespace, name };
            let patch = json!({ "series": series }).to_string();
            let path = object.path(None).map(|path| path.to_string());
            (Method::PATCH, path, "application/strategic-merge-patch+json", patch)
        }
    };
    let bad_request = |message: String| {
        RequestFailure::Api(kube::core::Status::failure(&message, "BadRequest").with_code(400).boxed())
    };
    let path = path.map_err(|reason| bad_request(reason.to_string()))?;
    http::Request::builder()
        .method(method)
        .uri(path)
        .header(header::ACCEPT, "application/json")
        .header(header::CONTENT_TYPE, content_type)
        .body(body.into_bytes())
        .map_err(|reason| bad_request(reason.to_string()))
}
