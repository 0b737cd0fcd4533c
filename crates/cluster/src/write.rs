//! Writes: carries out the scheduler's decisions, one request at a time.
//!
//! A [`Writer`] retries failures that may be temporary and reports other failures as one [`WriteError`]. All clones of
//! a writer share bounds on open requests, so that a burst of decisions cannot overload the API server. Bindings,
//! status patches and all other requests have separate bounds, because a slow admission webhook must not delay
//! bindings. A request that waits between two tries holds no slot. Profiles take turns for slots and for the rate, and
//! namespaces within a profile take turns ([`Flow`]), so that a profile or namespace with many requests delays no other
//! profile or namespace. kube-scheduler has one order for all.

use std::{fmt, sync::Arc, time::Duration};

use berth_model::{ConditionReason, api};
use http::{Method, Request, Uri, header};
use kube::Client;
use serde::Serialize;
use serde_json::{Value, json};
use tracing::debug;

use crate::{
    api_error::RequestFailure,
    clock,
    fair_queue::Flow,
    object::{ObjectRef, PodRef},
    observe::{note_rate_limit, note_retry},
    rate::{RequestRate, Throttle, Urgency},
    request,
    retry::{Retries, RetryPolicy},
    slots::Slots,
};

pub use error::WriteError;
pub use status::{Nomination, PodCondition, StatusPatch};

mod error;
mod status;
#[cfg(test)]
mod tests;

/// The number of bindings that one writer and its clones keep open at a time. A scheduler needs fewer open bindings to
/// saturate an API server at a few milliseconds per request. The number is also small enough for one connection for
/// each binding, which HTTP/1.1 requires.
const MAX_OPEN_BINDINGS: usize = 64;

/// The maximum number of open patches of pods' status. These patches are less urgent than bindings.
const MAX_OPEN_STATUSES: usize = 32;

/// The maximum number of open requests that plugins cause. An admission webhook may delay each request for long.
const MAX_OPEN_OBJECTS: usize = 64;

/// The maximum time of one attempt, a little longer than the time of a slow admission webhook.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(35);

/// The options of bindings, which are retried after a lost or overloaded answer. The pod stays assumed until it is
/// clear whether it was bound.
const BINDING: RequestOptions = RequestOptions {
    lane: Lane::Bindings,
    retries: RetryPolicy {
        tries: 5,
        first_wait: Duration::from_millis(100),
        factor: 3,
        jitter_percent: 20,
        retry_on: RequestFailure::is_temporary,
    },
};

/// The options of status patches. kube-scheduler also retries a status patch after a conflict (409), which may arise
/// inside the API server.
const STATUS: RequestOptions = RequestOptions {
    lane: Lane::Statuses,
    retries: RetryPolicy {
        tries: 4,
        first_wait: Duration::from_millis(10),
        factor: 5,
        jitter_percent: 10,
        retry_on: |failure| failure.is_ambiguous() || matches!(failure.code(), Some(409 | 429)),
    },
};

/// The options of [`STATUS`], for writes that a caller based on a version that it had read. The caller must handle a
/// conflict.
const OBJECT: RequestOptions = RequestOptions {
    lane: Lane::Objects,
    retries: RetryPolicy { retry_on: RequestFailure::is_temporary, ..STATUS.retries },
};

/// The options for reading a pod after a binding without a clear answer.
const BINDING_LOOK: RequestOptions = RequestOptions { lane: Lane::Bindings, ..OBJECT };

/// The options of a request.
#[derive(Clone, Copy, Debug)]
struct RequestOptions {
    lane: Lane,
    retries: RetryPolicy,
}

/// Requests that share a bound. The requests of one lane never wait for the requests of another lane.
#[derive(Clone, Copy, Debug)]
enum Lane {
    Bindings,
    Statuses,
    Objects,
}

/// The slots of each lane.
#[derive(Debug)]
struct Lanes {
    bindings: Slots,
    statuses: Slots,
    objects: Slots,
}

impl Lanes {
    fn new() -> Self {
        let [bindings, statuses, objects] = [MAX_OPEN_BINDINGS, MAX_OPEN_STATUSES, MAX_OPEN_OBJECTS].map(Slots::new);
        Self { bindings, statuses, objects }
    }

    fn of(&self, lane: Lane) -> &Slots {
        match lane {
            Lane::Bindings => &self.bindings,
            Lane::Statuses => &self.statuses,
            Lane::Objects => &self.objects,
        }
    }
}

/// The format of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// A JSON patch (RFC 6902).
    Json,
    /// A JSON merge patch (RFC 7386).
    Merge,
    /// Kubernetes' own format, only for built-in kinds.
    StrategicMerge,
}

/// The fate of a victim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// The deletion of the victim has begun.
    Deleted {
        /// The node of the victim.
        node: String,
        /// The victim's resource version before the deletion.
        resource_version: String,
    },
    /// The victim no longer exists, or another client had already deleted it.
    AlreadyGone,
}

/// Carries out writes. A writer is cheap to clone.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    lanes: Arc<Lanes>,
    throttle: Option<Arc<Throttle>>,
    flow: Flow,
}

impl Writer {
    /// A writer that sends as fast as its bounds on open requests allow.
    pub fn new(client: Client) -> Self {
        Self { client, lanes: Arc::new(Lanes::new()), throttle: None, flow: Flow::default() }
    }

    /// A copy of the writer with a limit of `rate`. Retries count like first requests.
    pub fn with_rate(self, rate: RequestRate) -> Self {
        Self { throttle: Some(Arc::new(Throttle::new(rate))), ..self }
    }

    /// A copy of the writer for requests of this flow.
    #[must_use]
    pub fn on_behalf_of(self, flow: Flow) -> Self {
        Self { flow, ..self }
    }

    /// Sets the rate from this call on, for all clones of a writer that has a rate.
    pub fn set_rate(&self, rate: RequestRate) {
        if let Some(throttle) = &self.throttle {
            throttle.set(rate);
        }
    }

    /// Binds the pod to the node.
    ///
    /// This succeeds if the answer to one try is lost and a later try finds the pod bound to exactly this node: an
    /// earlier try then bound it.
    pub async fn bind(&self, pod: &PodRef, node: &str) -> Result<(), WriteError> {
        let path = pod.object().path(Some("binding"))?;
        let outcome = self.send::<()>(BINDING, &Method::POST, &path, JSON, Binding::new(pod, node).body()).await;
        let Err(FinalFailure { failure, maybe_done }) = outcome else { return Ok(()) };
        let undecided = failure.is_ambiguous() || failure.code() == Some(409);
        if maybe_done && undecided && self.is_bound(pod, node).await {
            return Ok(());
        }
        Err(failure.into())
    }

    /// Writes the differences between `patch` and the status from which it was made. Sends no request if there is no
    /// difference.
    pub async fn patch_status(&self, pod: &PodRef, patch: &StatusPatch) -> Result<(), WriteError> {
        let Some(body) = patch.body(clock::now()) else { return Ok(()) };
        let path = pod.object().path(Some("status"))?;
        let content_type = PatchType::StrategicMerge.content_type();
        Ok(self.send::<()>(STATUS, &Method::PATCH, &path, content_type, bytes_of(&body)).await?)
    }

    /// Asks for the deletion of exactly this pod with its own grace period. If another client deleted it, the error is
    /// [`WriteError::NotFound`], or [`WriteError::Conflict`] if another pod has its name.
    pub async fn delete_pod(&self, pod: &PodRef) -> Result<(), WriteError> {
        self.delete(&pod.object(), Some(&pod.uid), None).await
    }

    /// Removes a victim of preemption: marks it with the condition `DisruptionTarget` and this message, then deletes
    /// it. The writer does not check budgets, because the scheduler has already checked them.
    ///
    /// The pod is read first: its present conditions determine the patch, and a pod that is being deleted is left
    /// alone. The pod is read again after a conflict. The pod counts as gone only if the pod is then being deleted, or
    /// if another pod has its name.
    pub async fn evict(&self, pod: &PodRef, message: &str) -> Result<Evicted, WriteError> {
        match self.mark_and_delete(pod, message).await {
            Err(WriteError::NotFound { .. } | WriteError::Leaving { .. }) => Ok(Evicted::AlreadyGone),
            Err(conflict @ WriteError::Conflict { .. }) => match self.find_victim(pod).await? {
                None => Ok(Evicted::AlreadyGone),
                Some(_) => Err(conflict),
            },
            outcome => outcome,
        }
    }

    async fn mark_and_delete(&self, pod: &PodRef, message: &str) -> Result<Evicted, WriteError> {
        let Some(victim) = self.find_victim(pod).await? else { return Ok(Evicted::AlreadyGone) };
        let preemption = ConditionReason::PreemptionByScheduler;
        let condition = PodCondition {
            type_: preemption.condition_type().to_owned(),
            status: preemption.condition_status().to_owned(),
            reason: preemption.as_str().to_owned(),
            message: message.to_owned(),
            observed_generation: victim.metadata.generation,
        };
        let old_conditions = victim.status.conditions;
        let patch = StatusPatch { old_conditions, condition: Some(condition), ..StatusPatch::default() };
        self.patch_status(pod, &patch).await?;
        self.delete_pod(pod).await?;
        Ok(Evicted::Deleted { node: victim.spec.node_name, resource_version: victim.metadata.resource_version })
    }

    /// The pod in its present state; `None` if the pod is gone or being deleted, or if another pod has its name.
    async fn find_victim(&self, pod: &PodRef) -> Result<Option<api::Pod>, WriteError> {
        let path = pod.object().path(None)?;
        let found =
            match self.send::<Value>(OBJECT, &Method::GET, &path, JSON, Vec::new()).await.map_err(WriteError::from) {
                Err(WriteError::NotFound { .. }) => return Ok(None),
                found => found?,
            };
        let victim: api::Pod = serde_json::from_value(found)
            .map_err(|error| WriteError::Unavailable { message: format!("not a pod: {error}") })?;
        let is_here = victim.metadata.uid == pod.uid && victim.metadata.deletion_timestamp.is_none();
        Ok(is_here.then_some(victim))
    }

    /// Creates an object and returns it as the server stored it. `object` names the collection; its name is ignored.
    pub async fn create_object(&self, object: &ObjectRef, body: &Value) -> Result<Value, WriteError> {
        let path = object.collection_path()?;
        Ok(self.send(OBJECT, &Method::POST, &path, JSON, bytes_of(body)).await?)
    }

    /// Deletes any object. If a `uid` is given, the object must have it.
    ///
    /// # Errors
    /// [`WriteError::Conflict`] if the object has another uid.
    pub async fn delete_object(&self, object: &ObjectRef, uid: Option<&str>) -> Result<(), WriteError> {
        self.delete(object, uid, None).await
    }

    /// Deletes a pod with a grace period of zero, because no kubelet has to stop it.
    ///
    /// # Errors
    /// Fails as [`Self::delete_object`] does.
    pub async fn delete_at_once(&self, object: &ObjectRef) -> Result<(), WriteError> {
        self.delete(object, None, Some(0)).await
    }

    async fn delete(&self, object: &ObjectRef, uid: Option<&str>, grace: Option<u32>) -> Result<(), WriteError> {
        let path = object.path(None)?;
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        if let Some(seconds) = grace {
            options["gracePeriodSeconds"] = json!(seconds);
        }
        if let Some(uid) = uid {
            options["preconditions"] = json!({ "uid": uid });
        }
        match self.send::<()>(OBJECT, &Method::DELETE, &path, JSON, bytes_of(&options)).await {
            // An earlier try deleted the object.
            Err(FinalFailure { failure, maybe_done: true }) if failure.code() == Some(404) => Ok(()),
            outcome => outcome.map_err(WriteError::from),
        }
    }

    /// Patches any object, or one of its subresources, and returns the new object.
    pub async fn patch_object(
        &self,
        object: &ObjectRef,
        subresource: Option<&str>,
        patch_type: PatchType,
        body: &Value,
    ) -> Result<Value, WriteError> {
        let path = object.path(subresource)?;
        Ok(self.send(OBJECT, &Method::PATCH, &path, patch_type.content_type(), bytes_of(body)).await?)
    }

    /// Replaces any object, or one of its subresources, and returns the new object. If the body has a resource version,
    /// a later change by another client is a [`WriteError::Conflict`].
    pub async fn put_object(
        &self,
        object: &ObjectRef,
        subresource: Option<&str>,
        body: &Value,
    ) -> Result<Value, WriteError> {
        let path = object.path(subresource)?;
        Ok(self.send(OBJECT, &Method::PUT, &path, JSON, bytes_of(body)).await?)
    }

    /// Whether this pod, and not a later pod of its name, is on the node. A missing answer counts as no.
    async fn is_bound(&self, pod: &PodRef, node: &str) -> bool {
        let Ok(path) = pod.object().path(None) else { return false };
        let look = self.send::<Value>(BINDING_LOOK, &Method::GET, &path, JSON, Vec::new());
        let Ok(found) = look.await else { return false };
        found["metadata"]["uid"] == pod.uid.as_str() && found["spec"]["nodeName"] == node
    }

    /// Sends one request, with as many tries as `options` allows.
    async fn send<T: Answer>(
        &self,
        options: RequestOptions,
        method: &Method,
        path: &Uri,
        content_type: &str,
        body: Vec<u8>,
    ) -> Result<T, FinalFailure> {
        let mut retries = Retries::new(options.retries);
        let mut maybe_done = false;
        let mut is_retry = false;
        loop {
            let request = Request::builder()
                .method(method)
                .uri(path)
                .header(header::ACCEPT, JSON)
                .header(header::CONTENT_TYPE, content_type)
                .body(body.clone())
                .map_err(kube::Error::HttpError);
            let attempt = match request {
                Ok(mut request) => {
                    if is_retry {
                        note_retry(&mut request);
                    }
                    self.attempt(options.lane, request).await
                }
                Err(error) => Err(error.into()),
            };
            let failure = match attempt {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            maybe_done |= failure.is_ambiguous();
            let Some(wait) = retries.wait_after(&failure) else {
                return Err(FinalFailure { failure, maybe_done });
            };
            debug!(%method, %path, reason = %failure, ?wait, "trying again");
            tokio::time::sleep(wait).await;
            is_retry = true;
        }
    }

    async fn attempt<T: Answer>(&self, lane: Lane, mut request: Request<Vec<u8>>) -> Result<T, RequestFailure> {
        let _slot = self.lanes.of(lane).acquire(&self.flow).await;
        if let Some(throttle) = &self.throttle {
            let urgency = match lane {
                Lane::Statuses => Urgency::Patient,
                Lane::Bindings | Lane::Objects => Urgency::Urgent,
            };
            note_rate_limit(&mut request, throttle.wait(urgency, &self.flow).await);
        }
        T::read(&request::bytes(&self.client, request, ATTEMPT_TIMEOUT).await?)
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("lanes", &self.lanes).finish_non_exhaustive()
    }
}

const JSON: &str = "application/json";

/// A value that is read from the API server's answer to a request.
trait Answer: Sized {
    fn read(body: &[u8]) -> Result<Self, RequestFailure>;
}

/// No value: the answer only shows that the request succeeded, and the returned object is not read.
impl Answer for () {
    fn read(_body: &[u8]) -> Result<Self, RequestFailure> {
        Ok(())
    }
}

/// The new object.
impl Answer for Value {
    fn read(body: &[u8]) -> Result<Self, RequestFailure> {
        serde_json::from_slice(body).map_err(|error| RequestFailure::Transport(kube::Error::SerdeError(error)))
    }
}

/// `v1.Binding` in the form of kube-scheduler.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Binding<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: BindingMetadata<'a>,
    target: BindingTarget<'a>,
}

#[derive(Serialize)]
struct BindingMetadata<'a> {
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
}

#[derive(Serialize)]
struct BindingTarget<'a> {
    kind: &'static str,
    name: &'a str,
}

impl<'a> Binding<'a> {
    fn new(pod: &'a PodRef, node: &'a str) -> Self {
        Self {
            kind: "Binding",
            api_version: "v1",
            metadata: BindingMetadata { name: &pod.name, namespace: &pod.namespace, uid: &pod.uid },
            target: BindingTarget { kind: "Node", name: node },
        }
    }

    #[expect(clippy::expect_used, reason = "strings alone, which JSON can always hold")]
    fn body(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings are JSON")
    }
}

fn bytes_of(body: &Value) -> Vec<u8> {
    body.to_string().into_bytes()
}

impl PatchType {
    fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::StrategicMerge => "application/strategic-merge-patch+json",
        }
    }
}

/// The last failure of a request, and whether a try of the request may have taken effect.
struct FinalFailure {
    failure: RequestFailure,
    maybe_done: bool,
}

impl From<FinalFailure> for WriteError {
    fn from(failed: FinalFailure) -> Self {
        failed.failure.into()
    }
}
