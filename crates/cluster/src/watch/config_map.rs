//! One ConfigMap, which is read and then followed.
//!
//! The rights to `get` and `watch` this one object are enough, because the API server takes a watch with the field
//! selector `metadata.name` as a request for the object of this name
//! (<https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources>). Each failure ends in
//! another read. So a reader that may only `get` the object also sees its changes, half a minute to a minute later.
//!
//! A deletion is deliberately not reported: the content that was seen last stays valid until there is other content.

use std::{collections::BTreeMap, fmt, io, time::Duration};

use futures::TryStreamExt as _;
use http::{Response, Version};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Client,
    client::Body,
    core::{
        Request,
        params::{GetParams, WatchParams},
    },
};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, warn};

use crate::{
    api_error::RequestFailure,
    object::{BadName, collection_path},
    request,
    retry::jitter,
    server_info::rule,
};

use super::{
    reconnect_backoff::ReconnectBackoff,
    session::{GRACE, HEALTHY_AFTER, watch_seconds},
    wire::{Frame, Lines, ReadError},
};

/// The maximum time until the object is read, and until the server answers a watch.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A watch of one ConfigMap.
pub struct ConfigMapWatch {
    client: Client,
    namespace: String,
    name: String,
    /// The resource version from which to continue; `None` asks for the whole object.
    resume_from: Option<String>,
    /// The HTTP version of the last answer.
    version: Version,
    /// The last failure that was reported. A failure that repeats itself is reported once.
    reported: Option<ConfigMapError>,
}

/// The ConfigMap could not be read or watched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ConfigMap {namespace}/{name} cannot be read or watched: {reason}")]
pub struct ConfigMapError {
    namespace: String,
    name: String,
    /// The cause. If a right is missing, the text has the rule that grants it.
    reason: String,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    BadName(#[from] BadName),
    #[error(transparent)]
    Request(#[from] RequestFailure),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the answer is not a ConfigMap: {0}")]
    Malformed(#[from] serde_json::Error),
}

impl Failure {
    fn as_request(&self) -> Option<&RequestFailure> {
        match self {
            Self::Request(failure) => Some(failure),
            Self::BadName(_) | Self::Read(_) | Self::Malformed(_) => None,
        }
    }

    fn code(&self) -> Option<u16> {
        self.as_request().and_then(RequestFailure::code)
    }

    fn retry_after(&self) -> Option<Duration> {
        self.as_request().and_then(RequestFailure::retry_after)
    }
}

impl ConfigMapWatch {
    /// A watch that begins with the first [`Self::read`], or with [`Self::follow`].
    #[must_use]
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            resume_from: None,
            version: Version::HTTP_11,
            reported: None,
        }
    }

    /// Reads the data of the ConfigMap. [`Self::follow`] continues from what was read.
    ///
    /// # Errors
    /// The ConfigMap does not exist or may not be read, or the API server does not answer.
    pub async fn read(&mut self) -> Result<BTreeMap<String, String>, ConfigMapError> {
        match self.get().await {
            Ok(data) => Ok(data),
            Err(failure) => {
                let error = self.error(&failure);
                self.reported = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Calls `changed` with the data of each later version of the ConfigMap, and after each failure with the current
    /// data, which may be the same as before. The future never ends. Failures are logged.
    pub async fn follow(mut self, mut changed: impl FnMut(BTreeMap<String, String>)) {
        let mut backoff = ReconnectBackoff::default();
        loop {
            let began = Instant::now();
            let ended = Box::pin(self.attempt(&mut changed)).await;
            let mut wait = Duration::ZERO;
            if let Err(failure) = &ended {
                // The cause may be the resource version.
                self.resume_from = None;
                self.report(failure);
                wait = failure.retry_after().unwrap_or_default();
            }
            if began.elapsed() < HEALTHY_AFTER {
                wait = wait.max(backoff.next(Instant::now()));
            }
            sleep(wait).await;
        }
    }

    /// Follows one connection. `Ok` means that the server ended the connection regularly.
    async fn attempt(&mut self, changed: &mut impl FnMut(BTreeMap<String, String>)) -> Result<(), Failure> {
        if self.resume_from.is_none() {
            let data = self.get().await?;
            changed(data);
        }
        let seconds = watch_seconds(self.version, jitter(100));
        let answer = self.open(seconds).await?;
        self.reported = None;
        self.version = answer.version();
        let body = answer.into_body().into_data_stream().map_err(io::Error::other);
        let mut lines = Lines::new(body.into_async_read());
        let overdue = Instant::now() + Duration::from_secs(seconds.into()) + GRACE;
        loop {
            let rest = overdue.saturating_duration_since(Instant::now());
            let Some(frame) = lines.next(rest).await? else { return Ok(()) };
            match frame {
                Frame::Applied(json) => changed(self.take(serde_json::from_str(json)?)),
                Frame::Deleted(json) => {
                    self.take(serde_json::from_str(json)?);
                }
                Frame::Bookmark { resource_version, .. } => self.resume_from = Some(resource_version),
                Frame::Error(status) => return Err(RequestFailure::Api(status).into()),
            }
        }
    }

    async fn get(&mut self) -> Result<BTreeMap<String, String>, Failure> {
        let request = Request::new(self.collection()?).get(&self.name, &GetParams::default());
        let request = request.map_err(kube::Error::BuildRequest).map_err(RequestFailure::from)?;
        let object = request::retried_json(&self.client, request, TIMEOUT).await?;
        Ok(self.take(object))
    }

    async fn open(&self, seconds: u32) -> Result<Response<Body>, Failure> {
        let params = WatchParams {
            field_selector: Some(format!("metadata.name={}", self.name)),
            timeout: Some(seconds),
            bookmarks: true,
            ..WatchParams::default()
        };
        let resume_from = self.resume_from.as_deref().unwrap_or_default();
        let request = Request::new(self.collection()?).watch(&params, resume_from);
        let request = request.map_err(kube::Error::BuildRequest).map_err(RequestFailure::from)?;
        let answer = timeout(TIMEOUT, request::send(&self.client, request)).await;
        Ok(answer.map_err(|_| RequestFailure::TimedOut(TIMEOUT))??)
    }

    fn collection(&self) -> Result<String, BadName> {
        collection_path("", "v1", Some(&self.namespace), "configmaps")
    }

    /// The object's data. The next watch continues from this version of the object.
    fn take(&mut self, object: ConfigMap) -> BTreeMap<String, String> {
        self.resume_from = object.metadata.resource_version;
        object.data.unwrap_or_default()
    }

    fn report(&mut self, failure: &Failure) {
        if failure.code() == Some(410) {
            return debug!(name = self.name, "the API server no longer has the changes; reading the ConfigMap again");
        }
        let error = self.error(failure);
        if self.reported.as_ref() != Some(&error) {
            warn!(%error, "cannot follow a ConfigMap; trying again");
            self.reported = Some(error);
        }
    }

    fn error(&self, failure: &Failure) -> ConfigMapError {
        let (namespace, name) = (self.namespace.clone(), self.name.clone());
        let mut reason = failure.to_string();
        if failure.code() == Some(403) {
            let rule = rule("", "configmaps", &name, &["get", "watch"]);
            reason = format!("{reason}; add to a Role of this user in the namespace {namespace}: {rule}");
        }
        ConfigMapError { namespace, name, reason }
    }
}

impl fmt::Debug for ConfigMapWatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client: _, namespace, name, resume_from, version, reported } = self;
        formatter
            .debug_struct("ConfigMapWatch")
            .field("namespace", namespace)
            .field("name", name)
            .field("resume_from", resume_from)
            .field("version", version)
            .field("reported", reported)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::sync::mpsc;

    use super::*;
    use crate::test_server::{self, Server};

    type Seen = Result<BTreeMap<String, String>, ConfigMapError>;

    const OBJECT: &str = "GET /api/v1/namespaces/kube-system/configmaps/authorities";
    const COLLECTION: &str = "GET /api/v1/namespaces/kube-system/configmaps";

    fn config_map(resource_version: &str, text: &str) -> Value {
        let metadata = json!({"name": "authorities", "namespace": "kube-system", "resourceVersion": resource_version});
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"ca": text}})
    }

    /// A ConfigMap that is read and then followed, and all that a reader sees.
    fn follow() -> (Server, mpsc::UnboundedReceiver<Seen>) {
        let (client, server) = test_server::server();
        let (sender, seen) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut watch = ConfigMapWatch::new(client, "kube-system", "authorities");
            let _ = sender.send(watch.read().await);
            watch.follow(|data| drop(sender.send(Ok(data)))).await;
        });
        (server, seen)
    }

    async fn text(seen: &mut mpsc::UnboundedReceiver<Seen>) -> String {
        let data = seen.recv().await.expect("it never ends").expect("it may be read");
        data["ca"].clone()
    }

    #[tokio::test(start_paused = true)]
    async fn a_config_map_is_read_once_and_then_followed() {
        let (mut server, mut seen) = follow();
        let call = server.next().await;
        assert_eq!(call.line(), OBJECT);
        call.answer(200, &config_map("1", "a"));
        assert_eq!(text(&mut seen).await, "a");
        let call = server.next().await;
        assert_eq!(call.line(), COLLECTION);
        for part in ["watch=true", "fieldSelector=metadata.name%3Dauthorities", "resourceVersion=1"] {
            assert!(call.has(part), "{part} is missing from {}", call.query);
        }
        let mut stream = call.stream();
        stream.send("MODIFIED", &config_map("2", "b")).await;
        assert_eq!(text(&mut seen).await, "b");
        stream.send("DELETED", &config_map("3", "b")).await;
        stream.send("ADDED", &config_map("4", "c")).await;
        assert_eq!(text(&mut seen).await, "c");
        drop(stream);
        let call = server.next().await;
        assert!(call.line() == COLLECTION && call.has("resourceVersion=4"), "{}", call.query);
        call.refuse(410, "Expired", "too old resource version: 4 (9)");
        let call = server.next().await;
        assert_eq!(call.line(), OBJECT);
        call.answer(200, &config_map("9", "d"));
        assert_eq!(text(&mut seen).await, "d");
    }

    #[tokio::test(start_paused = true)]
    async fn without_the_right_to_watch_it_is_read_again() {
        let (mut server, mut seen) = follow();
        server.next().await.answer(200, &config_map("1", "a"));
        assert_eq!(text(&mut seen).await, "a");
        for (version, expected) in [("2", "b"), ("3", "c")] {
            let call = server.next().await;
            assert_eq!(call.line(), COLLECTION);
            call.refuse(403, "Forbidden", "no watch for you");
            let call = server.next().await;
            assert_eq!(call.line(), OBJECT);
            call.answer(200, &config_map(version, expected));
            assert_eq!(text(&mut seen).await, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_right_that_is_granted_later_is_used() {
        let (mut server, mut seen) = follow();
        server.next().await.refuse(403, "Forbidden", "not for you");
        let error = seen.recv().await.expect("it never ends").expect_err("forbidden").to_string();
        let expected = "the ConfigMap kube-system/authorities cannot be read or watched: not for you; add to a Role of \
                        this user in the namespace kube-system: {apiGroups: [\"\"], resources: [\"configmaps\"], \
                        resourceNames: [\"authorities\"], verbs: [get, watch]}";
        assert_eq!(error, expected);
        server.next().await.refuse(403, "Forbidden", "not for you");
        server.next().await.answer(200, &config_map("1", "a"));
        assert_eq!(text(&mut seen).await, "a");
    }
}
