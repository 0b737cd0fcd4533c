//! The task that sends events.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Method, header};
use kube::Client;
use serde_json::json;
use tokio::{
    sync::mpsc,
    task::{JoinError, JoinSet},
    time::{Instant, MissedTickBehavior, interval_at},
};
use tracing::{debug, warn};

use crate::{
    api_error::RequestFailure,
    clock, end_as,
    fair_queue::{FairQueue, Flow},
    object::{ObjectRef, collection_path},
    observe::{note_rate_limit, note_retry},
    rate::{RequestRate, Throttle, Urgency},
    request,
    retry::{Retries, RetryPolicy},
    slots::Slots,
};

use super::{
    Command, FEW, NewEvent, QUEUE_LEN,
    series::{Action, Request, SeriesTable},
};

/// The interval in which the counts of series are updated.
const REFRESH_EVERY: Duration = Duration::from_secs(30 * 60);
/// The interval in which old series are ended.
const END_EVERY: Duration = Duration::from_secs(6 * 60);
/// The maximum number of events that are sent at a time. The number is half as high as for bindings, because bindings
/// matter more. The two requests of one series may overtake each other, which loses at most a count.
const MAX_OPEN_REQUESTS: usize = 32;
/// The number of events that are being sent or wait for another try. The queue fills beyond this number, and then drops
/// events: an API server that is away for long must not cost memory without bound.
const MAX_IN_FLIGHT: usize = 1000;
/// The number of one profile's events that are being sent or wait for another try. The limit leaves room to others if a
/// profile's events cannot be written.
const MAX_OF_PROFILE: usize = MAX_IN_FLIGHT / 4 * 3;
/// The number of events that are sorted before the next are sent.
const MAX_AT_ONCE: usize = 1000;
/// The maximum time of one try.
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
    /// Events that are not processed yet, because their series would count a processed event as sent.
    waiting: FairQueue<Box<NewEvent>>,
    /// Requests, each with its profile.
    in_flight: JoinSet<Arc<str>>,
    of_profile: HashMap<Arc<str>, usize>,
    n_dropped: Arc<AtomicU64>,
    /// The number of events that wait to be sent or are being sent.
    n_unwritten: Arc<AtomicUsize>,
}

/// The data that one request needs.
#[derive(Clone)]
struct Sender {
    client: Client,
    slots: Slots,
    throttle: Arc<Throttle>,
}

impl Poster {
    /// Makes the task's state. `n_dropped` counts events that find the queue full, and `n_unwritten` events that are
    /// still to be written.
    pub(super) fn new(
        client: Client,
        hostname: String,
        rate: RequestRate,
        n_dropped: Arc<AtomicU64>,
        n_unwritten: Arc<AtomicUsize>,
    ) -> Self {
        let throttle = Arc::new(Throttle::new(rate));
        Self {
            sender: Sender { client, slots: Slots::new(MAX_OPEN_REQUESTS), throttle },
            series: SeriesTable::new(hostname),
            waiting: FairQueue::default(),
            in_flight: JoinSet::new(),
            of_profile: HashMap::new(),
            n_dropped,
            n_unwritten,
        }
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
        let mut arrived = Vec::new();
        loop {
            self.send_waiting();
            tokio::select! {
                n_arrived = commands.recv_many(&mut arrived, MAX_AT_ONCE) => {
                    if n_arrived == 0 {
                        break;
                    }
                    for command in arrived.drain(..) {
                        match command {
                            Command::Record(event) => self.enqueue(event),
                            Command::Flush(done) => {
                                self.drain().await;
                                // The caller may have stopped waiting.
                                let _ = done.send(());
                            }
                        }
                    }
                }
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

    fn enqueue(&mut self, event: Box<NewEvent>) {
        let profile = Arc::clone(&event.reporting_controller);
        if self.waiting.len() >= QUEUE_LEN && self.waiting.len_of_profile(&profile) >= FEW {
            self.n_dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.n_unwritten.fetch_add(1, Ordering::Relaxed);
        self.waiting.push(&Flow { profile, namespace: Arc::clone(&event.regarding.namespace) }, event);
    }

    /// Sends waiting events as long as there is room.
    fn send_waiting(&mut self) {
        while self.in_flight.len() < MAX_IN_FLIGHT {
            let Self { waiting, of_profile, .. } = self;
            let has_room = |profile: &str| of_profile.get(profile).is_none_or(|n| *n < MAX_OF_PROFILE);
            let Some((_, event)) = waiting.pop(has_room) else { return };
            let requests = self.series.observe(*event, clock::now());
            self.send_all(requests);
            self.n_unwritten.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn send_all(&mut self, requests: impl IntoIterator<Item = Request>) {
        for request in requests {
            let profile = Arc::clone(&request.flow.profile);
            self.n_unwritten.fetch_add(1, Ordering::Relaxed);
            *self.of_profile.entry(Arc::clone(&profile)).or_default() += 1;
            let sent = self.sender.clone().send(request);
            self.in_flight.spawn(async move {
                sent.await;
                profile
            });
        }
    }

    fn finished(&mut self, sent: Result<Arc<str>, JoinError>) {
        self.n_unwritten.fetch_sub(1, Ordering::Relaxed);
        let profile = match sent {
            Ok(profile) => profile,
            Err(error) => end_as(error),
        };
        if let Some(n) = self.of_profile.get_mut(&profile) {
            *n -= 1;
            if *n == 0 {
                self.of_profile.remove(&profile);
            }
        }
    }

    async fn drain(&mut self) {
        self.send_waiting();
        while let Some(sent) = self.in_flight.join_next().await {
            self.finished(sent);
            self.send_waiting();
        }
    }
}

impl Sender {
    async fn send(self, mut request: Request) {
        let mut retries = Retries::new(RETRIES);
        let mut is_retry = false;
        loop {
            let failure = match self.attempt(&request, is_retry).await {
                Ok(()) => return,
                Err(failure) => failure,
            };
            // The event of the series has expired, or was never stored, so the event is written again.
            if failure.code() == Some(404) && matches!(request.action, Action::PatchSeries(_)) {
                request.action = Action::Post;
                continue;
            }
            let event = &request.name;
            match retries.wait_after(&failure) {
                Some(wait) => {
                    debug!(event, reason = %failure, "event not sent; trying again");
                    tokio::time::sleep(wait).await;
                    is_retry = true;
                }
                // An earlier try succeeded, but its answer was lost.
                None if failure.code() == Some(409) => return debug!(event, "event exists already"),
                None if failure.is_namespace_terminating() => {
                    return debug!(event, reason = %failure, "the namespace is being deleted; the event was not written");
                }
                None => return warn!(event, reason = %failure, "an event was not written"),
            }
        }
    }

    async fn attempt(&self, request: &Request, is_retry: bool) -> Result<(), RequestFailure> {
        let waited = self.throttle.wait(Urgency::Urgent, &request.flow).await;
        let _slot = self.slots.acquire(&request.flow).await;
        let mut request = http_request(request)?;
        note_rate_limit(&mut request, waited);
        if is_retry {
            note_retry(&mut request);
        }
        request::bytes(&self.client, request, TRY_TIMEOUT).await.map(drop)
    }
}

fn http_request(request: &Request) -> Result<http::Request<Vec<u8>>, RequestFailure> {
    let (group, version, plural) = ("events.k8s.io", "v1", "events");
    let (method, path, content_type, body) = match &request.action {
        Action::Post => {
            let path = collection_path(group, version, Some(&request.flow.namespace), plural);
            (Method::POST, path, "application/json", request.event.clone())
        }
        Action::PatchSeries(series) => {
            let (namespace, name) = (Some(request.flow.namespace.to_string()), request.name.clone());
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
