//! Leader election: the replica that holds a Lease schedules, and the other replicas wait.
//!
//! Candidates write the Lease as client-go's `tools/leaderelection` does, so replicas of kube-scheduler and of Berth can
//! compete for the same Lease. `candidate` decides what may be written. This module reads and writes the Lease,
//! every write on condition that no other candidate wrote in between.
//!
//! A leader has finally lost the Lease if it could not renew the Lease within the renew deadline, or if it sees another
//! holder: its work must stop before the Lease runs out. The deadline counts from the start of the last write that
//! succeeded, which is before any other candidate can have seen it.
//!
//! In a coordinated election (KEP-4355), the API server's coordinator gives the Lease to one of the candidates, and the
//! other candidates never take the Lease. `candidacy` keeps the LeaseCandidate from which the coordinator chooses.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::{Method, Request, header};
use kube::Client;
use serde_json::{Value, json};
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout, timeout_at},
};
use tracing::{debug, info, warn};

use self::{
    candidacy::Candidacy,
    candidate::{Candidate, LeaseRecord, Verdict},
};
use crate::{
    api_error::RequestFailure,
    clock,
    object::{BadName, ObjectRef, collection_path},
    request,
    retry::jitter,
};

mod candidacy;
mod candidate;
#[cfg(test)]
mod tests;

/// The reason of the events about the Lease, which is the same as in client-go.
const EVENT_REASON: &str = "LeaderElection";

/// The time for which releasing the Lease, and writing the event about it, may delay the end of the process.
const FAREWELL: Duration = Duration::from_secs(1);

/// The time beyond the Lease's duration for which a leader that does not renew counts as healthy: kube-scheduler's
/// tolerance.
const TOLERANCE: Duration = Duration::from_secs(20);

/// The candidate, and the Lease that it competes for.
#[derive(Clone, Debug)]
pub struct ElectionSettings {
    pub namespace: String,
    pub name: String,
    /// A text that identifies only this process, even over restarts.
    pub identity: String,
    /// The component that sends the events about the election. kube-scheduler uses the name of its first profile.
    pub component: String,
    /// The time after which others take over if the Lease has not changed. The time is written in whole seconds.
    pub lease_duration: Duration,
    /// A leader that could not renew the Lease for this time gives up. Shorter than `lease_duration`.
    pub renew_deadline: Duration,
    /// The time between two attempts.
    pub retry_period: Duration,
    /// `None` if candidates take the Lease themselves.
    pub coordination: Option<Coordination>,
}

/// The versions in the LeaseCandidate of this program. Both versions have no `v`, such as `1.37.0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coordination {
    pub binary_version: String,
    /// The Kubernetes release whose decisions the program makes. The coordinator prefers the candidate with the oldest
    /// release.
    pub emulation_version: String,
}

/// The state of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CandidateState {
    /// Another candidate may lead. `leader` is the holder that the Lease named at the last attempt.
    Waiting { leader: Option<Arc<str>> },
    /// The candidate leads. `renewed` is the time of the last renewal.
    Leading { renewed: Instant },
    /// Leadership is lost and cannot come back.
    Lost(LeadershipLost),
}

/// The reason why a leader lost its lead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeadershipLost {
    #[error("the lease {lease} was not renewed for {deadline:?}")]
    NotRenewed { lease: String, deadline: Duration },
    #[error("the lease {lease} was taken by {holder}")]
    Taken { lease: String, holder: String },
    /// No other candidate leads before `until`, and none before the Lease is released.
    #[error("the coordinator prefers {preferred} as the holder of the lease {lease}")]
    EndOfTerm { lease: String, preferred: String, until: Instant },
}

/// A running candidate.
#[derive(Debug)]
pub struct Elector {
    state: Leadership,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// The observable state of a candidate.
#[derive(Clone, Debug)]
pub struct Leadership {
    state: watch::Receiver<CandidateState>,
    identity: Arc<str>,
    lease_duration: Duration,
    /// Whether the LeaseCandidate exists; `None` if the election is not coordinated.
    is_candidate: Option<watch::Receiver<bool>>,
    /// The number of renewals that had to read the Lease first.
    n_slow_renewals: Arc<AtomicU64>,
}

impl Elector {
    /// Starts to compete once `ready` is done. A candidate that is dropped stops competing. If this candidate led,
    /// others must wait until the Lease expires.
    ///
    /// This must be called inside a tokio runtime.
    #[must_use]
    pub fn spawn(client: Client, settings: ElectionSettings, ready: impl Future<Output = ()> + Send + 'static) -> Self {
        let (sender, state) = watch::channel(CandidateState::Waiting { leader: None });
        let (stop, stopped) = oneshot::channel();
        let (identity, lease_duration) = (Arc::from(settings.identity.as_str()), settings.lease_duration);
        let is_coordinated = settings.coordination.is_some();
        let candidate = Candidate::new(settings.identity.clone(), lease_duration, is_coordinated);
        let (candidacy, is_candidate) = watch::channel(false);
        let is_candidate = is_coordinated.then_some(is_candidate);
        let started = Instant::now();
        let n_slow_renewals = Arc::<AtomicU64>::default();
        let slow = Arc::clone(&n_slow_renewals);
        let election =
            Election { client, settings, candidate, lease: None, state: sender, started, n_slow_renewals: slow };
        let task = tokio::spawn(election.run(ready, candidacy, stopped));
        let state = Leadership { state, identity, lease_duration, is_candidate, n_slow_renewals };
        Self { state, stop, task }
    }

    #[must_use]
    pub fn leadership(&self) -> Leadership {
        self.state.clone()
    }

    /// Releases a Lease that is held. Call this when the work is done, because another candidate may begin immediately.
    pub async fn release(self) {
        // The task has ended if the lead was lost.
        let _ = self.stop.send(());
        if timeout(2 * FAREWELL, self.task).await.is_err() {
            warn!("lease release timed out");
        }
    }
}

impl Leadership {
    /// Waits until the candidate leads, which may never happen. Dropping the future loses nothing.
    pub async fn won(&mut self) {
        let won = self.state.wait_for(|state| matches!(state, CandidateState::Leading { .. })).await.is_ok();
        if !won {
            // The election was stopped before a decision, so the process is ending.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the lead is lost, and returns the reason. Waits for ever if the Lease is released.
    pub async fn lost(&mut self) -> LeadershipLost {
        if let Ok(state) = self.state.wait_for(|state| matches!(state, CandidateState::Lost(_))).await
            && let CandidateState::Lost(reason) = &*state
        {
            return reason.clone();
        }
        std::future::pending().await
    }

    /// Waits until the state changes. Waits for ever once the election is over.
    pub async fn changed(&mut self) {
        if self.state.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    #[must_use]
    pub fn is_leading(&self) -> bool {
        matches!(&*self.state.borrow(), CandidateState::Leading { .. })
    }

    /// The identity of the candidate that leads, as far as this candidate knows. The named candidate may have lost its
    /// lead since.
    #[must_use]
    pub fn leader(&self) -> Option<Arc<str>> {
        match &*self.state.borrow() {
            CandidateState::Waiting { leader } => leader.clone(),
            CandidateState::Leading { .. } => Some(Arc::clone(&self.identity)),
            CandidateState::Lost(LeadershipLost::Taken { holder, .. }) => Some(Arc::from(holder.as_str())),
            CandidateState::Lost(LeadershipLost::NotRenewed { .. } | LeadershipLost::EndOfTerm { .. }) => None,
        }
    }

    /// The number of renewals that had to read the Lease first, because another client had changed it.
    #[must_use]
    pub fn n_slow_renewals(&self) -> u64 {
        self.n_slow_renewals.load(Ordering::Relaxed)
    }

    /// Whether the coordinator can choose this candidate; `None` if the election is not coordinated.
    #[must_use]
    pub fn is_candidate(&self) -> Option<bool> {
        self.is_candidate.as_ref().map(|is_candidate| *is_candidate.borrow())
    }

    /// Whether the candidate is healthy: false for a leader that has not renewed the Lease for long and still works, as
    /// client-go's `HealthzAdaptor` sees it.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        match &*self.state.borrow() {
            CandidateState::Waiting { .. } => true,
            CandidateState::Leading { renewed } => renewed.elapsed() <= self.lease_duration + TOLERANCE,
            CandidateState::Lost(_) => false,
        }
    }
}

/// The result of one attempt.
#[derive(Debug)]
enum Attempt {
    /// The Lease was written by a request that began at this time.
    Leading(Instant),
    Held {
        by: String,
    },
    /// The coordinator has to give the Lease to a candidate first.
    Unassigned,
    /// The coordinator prefers another candidate.
    EndOfTerm {
        preferred: String,
    },
}

#[derive(Debug, thiserror::Error)]
enum AttemptError {
    #[error(transparent)]
    Request(#[from] RequestFailure),
    #[error(transparent)]
    BadName(#[from] BadName),
    #[error("the request cannot be built")]
    Http(#[from] http::Error),
}

impl AttemptError {
    fn code(&self) -> Option<u16> {
        match self {
            Self::Request(failure) => failure.code(),
            Self::BadName(_) | Self::Http(_) => None,
        }
    }
}

struct Election {
    client: Client,
    settings: ElectionSettings,
    candidate: Candidate,
    /// The Lease in the version that was last read or written.
    lease: Option<Value>,
    state: watch::Sender<CandidateState>,
    /// The start of the candidate's clock.
    started: Instant,
    n_slow_renewals: Arc<AtomicU64>,
}

impl Election {
    async fn run(
        self,
        ready: impl Future<Output = ()>,
        is_candidate: watch::Sender<bool>,
        mut stop: oneshot::Receiver<()>,
    ) {
        let coordination = self.settings.coordination.clone();
        let candidacy = coordination.map(|it| Candidacy::new(self.client.clone(), &self.settings, it));
        // Only a ready replica is a candidate: another replica could not begin if it were chosen.
        tokio::select! {
            () = ready => {}
            _ = &mut stop => return,
        }
        let competing = self.compete(stop);
        match candidacy {
            None => competing.await,
            Some(candidacy) => tokio::select! {
                () = competing => {}
                () = candidacy.run(is_candidate) => {}
            },
        }
    }

    async fn compete(mut self, mut stop: oneshot::Receiver<()>) {
        let lease = self.lease_name();
        let mut renewed = tokio::select! {
            began = self.acquire() => began,
            _ = &mut stop => return,
        };
        info!(lease, "leading");
        let event = self.tell("became leader");
        self.state.send_replace(CandidateState::Leading { renewed });
        let reason = loop {
            let deadline = renewed + self.settings.renew_deadline;
            let outcome = tokio::select! {
                outcome = timeout_at(deadline, self.renew(deadline)) => outcome,
                asked = &mut stop => return if asked.is_ok() { self.leave(event).await },
            };
            match outcome {
                Ok(Ok(began)) => {
                    renewed = began;
                    self.state.send_replace(CandidateState::Leading { renewed });
                }
                Ok(Err(lost)) => break lost,
                Err(_) => break LeadershipLost::NotRenewed { lease, deadline: self.settings.renew_deadline },
            }
        };
        // The work of this candidate stops before anything else is tried.
        let is_handed_over = matches!(reason, LeadershipLost::EndOfTerm { .. });
        self.state.send_replace(CandidateState::Lost(reason));
        if !is_handed_over {
            drop(self.tell("stopped leading"));
        } else if stop.await.is_ok() {
            self.leave(event).await;
        }
    }

    /// Tries until the Lease is won. Returns the start of the attempt that won it.
    async fn acquire(&mut self) -> Instant {
        info!(lease = self.lease_name(), identity = self.settings.identity, "waiting to lead");
        loop {
            match self.attempt().await {
                Ok(Attempt::Leading(began)) => return began,
                Ok(Attempt::Held { by }) => {
                    debug!(lease = self.lease_name(), by, "the lease is held");
                    self.follows(&by);
                }
                Ok(Attempt::Unassigned | Attempt::EndOfTerm { .. }) => {
                    debug!(lease = self.lease_name(), "the coordinator has not given the lease to this candidate");
                }
                Err(error) => warn!(lease = self.lease_name(), %error, "the lease was not acquired; trying again"),
            }
            // The wait is up to 1.2 times longer, as in client-go, so that candidates do not all come at the same time.
            sleep(self.settings.retry_period + self.settings.retry_period * jitter(120) / 100).await;
        }
    }

    /// Records the holder of the Lease.
    fn follows(&self, holder: &str) {
        self.state.send_if_modified(|state| match state {
            CandidateState::Waiting { leader } if leader.as_deref() != Some(holder) => {
                *leader = Some(Arc::from(holder));
                true
            }
            CandidateState::Waiting { .. } | CandidateState::Leading { .. } | CandidateState::Lost(_) => false,
        });
    }

    /// Waits until the next renewal is due, and renews the Lease. Fails if another candidate holds the Lease, or if the
    /// Lease prefers another candidate. A failed request is repeated. Without a renewal, the lead ends at `until`.
    async fn renew(&mut self, until: Instant) -> Result<Instant, LeadershipLost> {
        loop {
            sleep(self.settings.retry_period).await;
            match self.attempt().await {
                Ok(Attempt::Leading(began)) => return Ok(began),
                Ok(Attempt::Held { by: holder }) => {
                    return Err(LeadershipLost::Taken { lease: self.lease_name(), holder });
                }
                Ok(Attempt::EndOfTerm { preferred }) => {
                    return Err(LeadershipLost::EndOfTerm { lease: self.lease_name(), preferred, until });
                }
                Ok(Attempt::Unassigned) => warn!(lease = self.lease_name(), "the lease has no holder; trying again"),
                Err(error) => warn!(lease = self.lease_name(), %error, "the lease was not renewed; trying again"),
            }
        }
    }

    /// Reads and writes the Lease once. A leader writes without reading until another candidate has written.
    async fn attempt(&mut self) -> Result<Attempt, AttemptError> {
        let began = Instant::now();
        let time = clock::micros(clock::now());
        if let (Some(lease), Some(record)) = (self.lease.clone(), self.candidate.renewal(&time)) {
            match self.write(Some(lease), record).await {
                Ok(()) => return Ok(Attempt::Leading(began)),
                Err(error) if matches!(error.code(), Some(404 | 409)) => {
                    self.n_slow_renewals.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => return Err(error),
            }
        }
        let found = self.read().await?;
        let record = found.as_ref().map(record);
        match self.candidate.look(record, self.started.elapsed(), &time) {
            Verdict::Held { by } => Ok(Attempt::Held { by }),
            Verdict::Unassigned => Ok(Attempt::Unassigned),
            Verdict::EndOfTerm { preferred } => Ok(Attempt::EndOfTerm { preferred }),
            Verdict::Write(record) => {
                // Another candidate was faster. The next attempt sees its record.
                self.write(found, record).await?;
                Ok(Attempt::Leading(began))
            }
        }
    }

    async fn read(&self) -> Result<Option<Value>, AttemptError> {
        match self.request(Method::GET, &self.object().path(None)?.to_string(), None).await {
            Ok(lease) => Ok(Some(lease)),
            Err(AttemptError::Request(failure)) if failure.code() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the record into the Lease that was read, and keeps the Lease's other fields.
    async fn write(&mut self, lease: Option<Value>, record: LeaseRecord) -> Result<(), AttemptError> {
        let written = match lease {
            Some(mut lease) => {
                lay_into(&mut lease, &record);
                self.request(Method::PUT, &self.object().path(None)?.to_string(), Some(&lease)).await?
            }
            None => {
                let ElectionSettings { namespace, name, .. } = &self.settings;
                let mut lease = json!({
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": {"name": name, "namespace": namespace},
                });
                lay_into(&mut lease, &record);
                let path = collection_path("coordination.k8s.io", "v1", Some(namespace), "leases")?;
                self.request(Method::POST, &path, Some(&lease)).await?
            }
        };
        self.lease = Some(written);
        self.candidate.wrote(record, self.started.elapsed());
        Ok(())
    }

    /// Ends the candidate after its work: writes an event, and releases the Lease.
    async fn leave(mut self, event: JoinHandle<()>) {
        let told = self.tell("stopped leading");
        match timeout(FAREWELL, self.release()).await {
            Ok(Ok(())) => info!(lease = self.lease_name(), "the lease is released"),
            Ok(Err(error)) => warn!(lease = self.lease_name(), %error, "the lease was not released"),
            Err(_) => warn!(lease = self.lease_name(), "lease release timed out"),
        }
        // Events are not essential, so the process ends in any case.
        let _ = timeout(FAREWELL, async { tokio::join!(event, told) }).await;
    }

    async fn release(&mut self) -> Result<(), AttemptError> {
        // A renewal may have been interrupted, so the last written record is not known.
        let Some(mut lease) = self.read().await? else { return Ok(()) };
        let found = record(&lease);
        if let Some(spec) = lease["spec"].as_object_mut() {
            // The coordinator chooses again.
            spec.remove("preferredHolder");
        }
        if found.holder_identity != self.settings.identity {
            return Ok(());
        }
        let time = clock::micros(clock::now());
        self.write(Some(lease), Candidate::release(&found, &time)).await
    }

    async fn request(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, AttemptError> {
        exchange(&self.client, self.request_limit(), method, path, body).await
    }

    /// The maximum time of a request: half the deadline, so that a request that hangs leaves time for another request.
    fn request_limit(&self) -> Duration {
        (self.settings.renew_deadline / 2).max(Duration::from_secs(1))
    }

    /// Writes an event about the Lease, in the form that client-go's recorders for elections use (core/v1).
    fn tell(&self, what: &str) -> JoinHandle<()> {
        let ElectionSettings { namespace, name, identity, component, .. } = &self.settings;
        let metadata = self.lease.as_ref().map(|lease| lease["metadata"].clone()).unwrap_or_default();
        let now = clock::now();
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": format!("{name}.{:x}", now.as_nanosecond()), "namespace": namespace},
            "involvedObject": {
                "kind": "Lease",
                "apiVersion": "coordination.k8s.io/v1",
                "namespace": namespace,
                "name": name,
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
            "reason": EVENT_REASON,
            "message": format!("{identity} {what}"),
            "source": {"component": component},
            "firstTimestamp": clock::seconds(now),
            "lastTimestamp": clock::seconds(now),
            "count": 1,
            "type": "Normal",
            "eventTime": null,
            "reportingComponent": component,
            "reportingInstance": "",
        });
        let (client, limit) = (self.client.clone(), self.request_limit());
        let path = collection_path("", "v1", Some(namespace), "events");
        tokio::spawn(async move {
            let posted = async {
                let request = Request::post(path?)
                    .header(header::CONTENT_TYPE, "application/json")
                    .body(event.to_string().into_bytes())?;
                request::retried_json::<Value>(&client, request, limit).await?;
                Ok::<(), AttemptError>(())
            };
            if let Err(error) = posted.await {
                warn!(%error, "failed to write the leader election event");
            }
        })
    }

    fn object(&self) -> ObjectRef {
        ObjectRef {
            group: "coordination.k8s.io".into(),
            version: "v1".into(),
            plural: "leases".into(),
            namespace: Some(self.settings.namespace.clone()),
            name: self.settings.name.clone(),
        }
    }

    fn lease_name(&self) -> String {
        format!("{}/{}", self.settings.namespace, self.settings.name)
    }
}

/// Sends a request about one object, and returns the object in the answer.
async fn exchange(
    client: &Client,
    limit: Duration,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Value, AttemptError> {
    let request = Request::builder()
        .method(method)
        .uri(format!("{path}?timeout={}s", limit.as_secs()))
        .header(header::ACCEPT, "application/json")
        .header(header::CONTENT_TYPE, "application/json")
        .body(body.map(|body| body.to_string().into_bytes()).unwrap_or_default())?;
    Ok(request::retried_json(client, request, limit).await?)
}

/// The record of a Lease. A Lease without a readable record counts as free, as in client-go.
fn record(lease: &Value) -> LeaseRecord {
    serde_json::from_value(lease["spec"].clone()).unwrap_or_default()
}

fn lay_into(lease: &mut Value, record: &LeaseRecord) {
    lease["spec"]["holderIdentity"] = json!(record.holder_identity);
    lease["spec"]["leaseDurationSeconds"] = json!(record.lease_duration_seconds);
    lease["spec"]["acquireTime"] = json!(record.acquire_time);
    lease["spec"]["renewTime"] = json!(record.renew_time);
    lease["spec"]["leaseTransitions"] = json!(record.lease_transitions);
}
