//! The life of one kind's watch: list, follow, reconnect, relist.
//!
//! A session either knows the resource version from which to continue, or must list first. Lists are streamed over the
//! watch itself, as in kube-scheduler. If a server refuses or ignores streamed lists, the session asks for pages from
//! then on. A healthy session immediately continues after its connection ended, for any reason. Any other session waits
//! first, a little longer each time.

use std::{sync::Arc, time::Duration};

use futures::TryStreamExt as _;
use http::{Response, Version};
use http_body_util::BodyExt as _;
use kube::{
    Client,
    client::Body,
    core::{
        Request,
        params::{ListParams, WatchParams},
    },
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tracing::{debug, error, info, warn};

use crate::{
    Kinds, api_error::RequestFailure, object::BadName, request, retry::jitter, server_info::rule, write::WriteError,
};

use super::{
    RelistRequests, WatchEvent, WatchObserver,
    error::{WatchError, listing_failed, refused},
    kind::{Identity, Kind},
    known_objects::{KnownObjects, ObjectChange},
    reconnect_backoff::ReconnectBackoff,
    wire::{Frame, Lines, ReadError},
};

/// The seconds after which servers are asked to end a watch. The jitter adds at most this percentage, as in client-go.
/// Pings show whether the connection is dead.
const WATCH_SECONDS: u32 = 300;
const WATCH_JITTER_PERCENT: u32 = 100;
/// The seconds after which servers are asked to end a watch over HTTP/1.1. The jitter adds at most this percentage.
/// HTTP/1.1 has no pings, so a watch that does not end in time shows that its connection is dead.
const UNPINGED_WATCH_SECONDS: u32 = 30;
const UNPINGED_WATCH_JITTER_PERCENT: u32 = 33;
/// The maximum delay with which a server may end a watch.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// The seconds that servers are asked for when a connection begins with a list, which may be long.
const LIST_SECONDS: u32 = 600;
/// A server that streams a list is never silent for this long in the middle of it.
const LIST_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The number of objects in a page of an unstreamed list.
const PAGE_SIZE: u32 = 500;
/// The maximum time for one page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// A connection that lasted this long was healthy, so the next connection needs no wait.
pub(super) const HEALTHY_AFTER: Duration = Duration::from_secs(5);

/// The maximum wait for a kind that the server does not serve. Its definition may be created at any time, and pods wait for
/// it. Longer waits would spare an overloaded server, but a server that answers without the kind has not failed.
const MAX_MISSING_WAIT: Duration = Duration::from_secs(10);

/// The number of refusals in a row after which the session lists again, because the server may refuse the resource
/// version.
const MAX_REFUSALS: u32 = 5;

/// The watch of one kind.
pub(super) struct Session {
    client: Client,
    kinds: Kinds,
    kind: Kind,
    /// The kind as the caller named it, without the names that the server supplied.
    requested: Kind,
    sink: mpsc::Sender<WatchEvent>,
    known: KnownObjects,
    list_style: ListStyle,
    /// The resource version from which to continue; `None` asks for a list.
    resume_from: Option<String>,
    /// The HTTP version of the last answer.
    version: Version,
    /// The numbers of requests for new lists. The last numbers seen are older than the current list.
    relists: watch::Receiver<RelistRequests>,
    /// Whether the watch must end. The sender no longer exists for a watch that lasts as long as its reader.
    end: watch::Receiver<bool>,
    /// The requests that the current list answers.
    answered: RelistRequests,
    /// The last request that was reported to the reader as answered.
    synced: Option<u64>,
    /// The last request that was reported to the reader as forbidden.
    forbidden: Option<u64>,
    /// Whether the server did not serve the kind at the last attempt.
    is_missing: bool,
    observer: Option<Arc<dyn WatchObserver>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListStyle {
    Streamed,
    Paged,
}

impl Session {
    pub(super) fn new(
        client: Client,
        kinds: Kinds,
        kind: Kind,
        sink: mpsc::Sender<WatchEvent>,
        relists: watch::Receiver<RelistRequests>,
        end: watch::Receiver<bool>,
    ) -> Self {
        Self {
            client,
            kinds,
            requested: kind.clone(),
            kind,
            sink,
            known: KnownObjects::default(),
            list_style: ListStyle::Streamed,
            resume_from: None,
            version: Version::HTTP_11,
            relists,
            end,
            answered: RelistRequests::default(),
            synced: None,
            forbidden: None,
            is_missing: false,
            observer: None,
        }
    }

    pub(super) fn observed_by(self, observer: Option<Arc<dyn WatchObserver>>) -> Self {
        Self { observer, ..self }
    }

    /// Runs until the receiver of the events is dropped, or the end of the watch is requested.
    pub(super) async fn run(mut self) {
        self.stay_connected().await;
        if *self.end.borrow() {
            // The receiver may be dropped at the same time.
            let _ = self.report_end().await;
        }
    }

    /// Reports every known object as deleted, and then the end of the watch.
    async fn report_end(&mut self) -> Result<(), WatchError> {
        self.known.begin_relist();
        for object in self.known.end_relist() {
            self.send(self.kind.vanished(&object)).await?;
        }
        match self.requested.ended() {
            Some(event) => self.send(event).await,
            None => Ok(()),
        }
    }

    async fn stay_connected(&mut self) {
        let mut backoff = ReconnectBackoff::default();
        let sink = self.sink.clone();
        let mut n_refusals = 0;
        loop {
            let began = Instant::now();
            self.take_wish_for_list();
            let resumed_from = self.resume_from.clone();
            let ended = tokio::select! {
                ended = Box::pin(self.attempt()) => ended,
                () = sink.closed() => return,
            };
            let kind = self.kind.plural();
            let asked = ended.as_ref().err().and_then(WatchError::retry_after).unwrap_or_default();
            match ended {
                // A server that sends something over each connection may be asked again without a wait.
                Ok(()) if self.resume_from != resumed_from => {
                    n_refusals = 0;
                    continue;
                }
                Ok(()) => debug!(kind, "watch ended by the server"),
                Err(WatchError::Closed | WatchError::EndWanted) => return,
                Err(WatchError::RelistWanted) => continue,
                Err(WatchError::BadName(reason)) => return self.watch_nothing(&reason).await,
                Err(WatchError::Expired(reason)) => {
                    info!(kind, reason, "relisting");
                    self.resume_from = None;
                }
                Err(WatchError::NotStreamed(reason)) => {
                    info!(kind, reason, "falling back to paginated lists");
                    self.list_style = ListStyle::Paged;
                    continue;
                }
                Err(WatchError::NotServed(reason)) => {
                    let Ok(()) = self.go_without(&reason).await else { return };
                }
                Err(WatchError::Request(failure)) if failure.code() == Some(403) => {
                    let Ok(()) = self.tell_forbidden(&failure).await else { return };
                    n_refusals += 1;
                }
                Err(error) => {
                    warn!(kind, reason = %error, "watch broke; reconnecting");
                    n_refusals += u32::from(error.is_answer());
                }
            }
            if began.elapsed() >= HEALTHY_AFTER {
                n_refusals = 0;
                continue;
            }
            if n_refusals >= MAX_REFUSALS {
                n_refusals = 0;
                self.resume_from = None;
            }
            let max_wait = if self.is_missing { MAX_MISSING_WAIT } else { Duration::MAX };
            if self.pause(asked, backoff.next(Instant::now()).min(max_wait)).await.is_err() {
                return;
            }
        }
    }

    /// Waits until the end of a watch that cannot begin.
    async fn watch_nothing(&self, reason: &BadName) {
        error!(kind = self.kind.plural(), %reason, "cannot watch this kind");
        let _ = self.unless_ending(self.sink.closed()).await;
    }

    /// Waits before the next attempt. The wait lasts as long as the server asked, and `wait` in total unless a caller
    /// wants a new list. It stops if the watch must end.
    async fn pause(&self, asked: Duration, wait: Duration) -> Result<(), WatchError> {
        self.unless_ending(tokio::time::sleep(asked)).await?;
        let relist = tokio::time::timeout(wait.saturating_sub(asked), relist_wanted(&self.relists));
        self.unless_ending(relist).await.map(drop)
    }

    /// Reports to a caller that waits for a list that the list is forbidden. Objects that are known stay known while
    /// only the watch is refused.
    async fn tell_forbidden(&mut self, reason: &RequestFailure) -> Result<(), WatchError> {
        let kind = self.kind.plural();
        let rule = rule(self.kind.group(), kind, "", &["list", "watch"]);
        let fix = format!("add to this user's ClusterRole: {rule}");
        error!(kind, %reason, fix, "this user may not list and watch this kind");
        if self.resume_from.is_some() || self.forbidden == Some(self.answered.lists) {
            return Ok(());
        }
        self.forbidden = Some(self.answered.lists);
        match self.kind.forbidden(rule) {
            Some(event) => self.send(event).await,
            None => Ok(()),
        }
    }

    /// Makes the next connection begin with a list if a list was requested. The list answers all requests so far.
    fn take_wish_for_list(&mut self) {
        if self.relists.has_changed().unwrap_or_default() {
            self.resume_from = None;
        }
        if self.resume_from.is_none() {
            let requests = *self.relists.borrow_and_update();
            if let Kind::Pods { keep_json } = &mut self.kind
                && requests.whole_lists_of_pods > self.answered.whole_lists_of_pods
            {
                *keep_json |= requests.needs_pod_json;
                self.known.forget_versions();
            }
            self.answered = requests;
        }
    }

    /// Reports the kind as synced, because the server lacks the kind, or lost it. The session keeps trying, because
    /// kinds may be added to a server.
    async fn go_without(&mut self, reason: &str) -> Result<(), WatchError> {
        if !self.is_missing {
            let api_version = self.kind.named().api_version();
            // The reader of the events knows the plugins that need the kind, and gives the advice.
            info!(kind = self.kind.plural(), api_version, reason, "the server does not serve this kind");
        }
        self.resume_from = None;
        self.say_synced(Some(reason)).await
    }

    /// Reports the kind as synced, once for each list that was requested, and whenever the server begins or ceases to
    /// serve the kind. `missing` is the answer of a server that does not serve the kind.
    async fn say_synced(&mut self, missing: Option<&str>) -> Result<(), WatchError> {
        let was_missing = std::mem::replace(&mut self.is_missing, missing.is_some());
        let is_told = self.synced == Some(self.answered.lists) && self.forbidden != self.synced;
        if is_told && was_missing == self.is_missing {
            return Ok(());
        }
        self.synced = Some(self.answered.lists);
        self.forbidden = None;
        self.send(self.kind.synced(missing)).await
    }

    async fn attempt(&mut self) -> Result<(), WatchError> {
        if let Kind::Other(kind) = &self.kind {
            let found = self.unless_ending(self.kinds.resolve(kind)).await?.map_err(|error| match error {
                WriteError::NotFound { message } => WatchError::NotServed(message),
                other => WatchError::Unresolved(other),
            })?;
            self.kind = Kind::Other(Arc::new(found));
        }
        let path = self.kind.path()?;
        self.connect(&path).await
    }

    /// Follows one connection, from the version at which the last connection ended. `Ok` means that the server ended
    /// the connection regularly.
    async fn connect(&mut self, path: &str) -> Result<(), WatchError> {
        let listing = self.resume_from.is_none() && self.list_style == ListStyle::Streamed;
        if self.resume_from.is_none() {
            self.known.begin_relist();
            if self.list_style == ListStyle::Paged {
                let resource_version = self.list_pages(path).await?;
                self.complete_list(resource_version).await?;
            }
        }
        let jitter = jitter(100);
        let asked = if listing { LIST_SECONDS } else { watch_seconds(self.version, jitter) };
        let answer = self.open(path, asked, listing).await?;
        self.version = answer.version();
        let body = answer.into_body().into_data_stream().map_err(std::io::Error::other);
        let mut lines = Lines::new(body.into_async_read());
        if listing && !self.stream_list(&mut lines).await? {
            return Ok(());
        }
        let seconds = watch_seconds(self.version, jitter);
        match self.follow(&mut lines, Duration::from_secs(seconds.into()) + GRACE).await {
            Err(WatchError::Overdue) if seconds < asked => Ok(()),
            ended => ended,
        }
    }

    async fn open(&self, path: &str, seconds: u32, send_initial_events: bool) -> Result<Response<Body>, WatchError> {
        let params = WatchParams {
            field_selector: self.kind.field_selector().map(str::to_owned),
            timeout: Some(seconds),
            bookmarks: true,
            send_initial_events,
            ..WatchParams::default()
        };
        // An unset version asks for the newest state of a streamed list, where "0" would accept any cached state.
        let resume_from = self.resume_from.as_deref().unwrap_or_default();
        let request = Request::new(path).watch(&params, resume_from).map_err(kube::Error::BuildRequest);
        let request = request.map_err(RequestFailure::from)?;
        let opened = tokio::time::timeout(LIST_IDLE_TIMEOUT, request::send(&self.client, request));
        let answer = self.unless_relisting(opened).await?.map_err(|_| RequestFailure::TimedOut(LIST_IDLE_TIMEOUT))?;
        answer.map_err(|failure| match failure.code() {
            Some(400 | 405 | 422 | 501) if send_initial_events => WatchError::NotStreamed(failure.to_string()),
            Some(410) => WatchError::Expired(failure.to_string()),
            Some(404) => WatchError::NotServed(failure.to_string()),
            _ => failure.into(),
        })
    }

    /// Waits for the server as [`Self::unless_ending`] does, but also stops if a new list was requested while the server
    /// is silent.
    async fn unless_relisting<T>(&self, answer: impl Future<Output = T>) -> Result<T, WatchError> {
        tokio::select! {
            biased;
            () = end_wanted(&self.end) => Err(WatchError::EndWanted),
            () = relist_wanted(&self.relists) => Err(WatchError::RelistWanted),
            answer = answer => Ok(answer),
        }
    }

    /// Waits for `answer`, but stops if the watch must end. Only waits whose result is not consumed may be stopped in
    /// this way: a stopped report to the reader would be lost.
    async fn unless_ending<T>(&self, answer: impl Future<Output = T>) -> Result<T, WatchError> {
        tokio::select! {
            biased;
            () = end_wanted(&self.end) => Err(WatchError::EndWanted),
            answer = answer => Ok(answer),
        }
    }

    /// Reads the existing objects. Returns false if the server hung up before the end.
    async fn stream_list(&mut self, lines: &mut Lines) -> Result<bool, WatchError> {
        loop {
            let frame = match self.unless_relisting(lines.next(LIST_IDLE_TIMEOUT)).await? {
                Err(ReadError::Idle(_)) => {
                    return Err(WatchError::NotStreamed("the streamed list did not end in time".into()));
                }
                frame => frame?,
            };
            match frame {
                None => return Ok(false),
                Some(Frame::Applied(json)) => self.apply(json).await?,
                Some(Frame::Deleted(json)) => self.delete(json).await?,
                Some(Frame::Error(status)) => return Err(refused(status)),
                Some(Frame::Bookmark { ends_list: false, .. }) => {}
                Some(Frame::Bookmark { resource_version, ends_list: true }) => {
                    self.complete_list(resource_version).await?;
                    return Ok(true);
                }
            }
        }
    }

    /// Reads the existing objects, page by page, and returns the resource version of the whole list.
    async fn list_pages(&mut self, path: &str) -> Result<String, WatchError> {
        let mut params = ListParams {
            field_selector: self.kind.field_selector().map(str::to_owned),
            limit: Some(PAGE_SIZE),
            ..ListParams::default()
        };
        loop {
            let request = Request::new(path).list(&params).map_err(kube::Error::BuildRequest);
            let request = request.map_err(RequestFailure::from)?;
            let bytes = self.unless_ending(request::bytes(&self.client, request, PAGE_TIMEOUT)).await?;
            let bytes = bytes.map_err(listing_failed)?;
            let page: Page<'_> = serde_json::from_slice(&bytes)?;
            for item in page.items.unwrap_or_default() {
                self.apply(item.get()).await?;
            }
            match page.metadata.r#continue.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(page.metadata.resource_version),
            }
        }
    }

    async fn complete_list(&mut self, resource_version: String) -> Result<(), WatchError> {
        for gone in self.known.end_relist() {
            self.send(self.kind.vanished(&gone)).await?;
        }
        self.say_synced(None).await?;
        self.resume_at(resource_version);
        Ok(())
    }

    /// Notes the resource version up to which everything was read.
    fn resume_at(&mut self, resource_version: String) {
        if let Some(observer) = &self.observer {
            observer.read_up_to(self.kind.named(), &resource_version);
        }
        self.resume_from = Some(resource_version);
    }

    /// Takes in changes until the server ends the watch, for at most `limit`.
    async fn follow(&mut self, lines: &mut Lines, limit: Duration) -> Result<(), WatchError> {
        let overdue = Instant::now() + limit;
        loop {
            let rest = overdue.saturating_duration_since(Instant::now());
            let frame = match self.unless_relisting(lines.next(rest)).await? {
                Err(ReadError::Idle(_)) => return Err(WatchError::Overdue),
                frame => frame?,
            };
            let Some(frame) = frame else { return Ok(()) };
            match frame {
                Frame::Applied(json) => self.apply(json).await?,
                Frame::Deleted(json) => self.delete(json).await?,
                Frame::Bookmark { resource_version, .. } => self.resume_at(resource_version),
                Frame::Error(status) => return Err(refused(status)),
            }
        }
    }

    async fn apply(&mut self, json: &str) -> Result<(), WatchError> {
        // Except for the first list, most objects of a list are known. A known object is not decoded completely.
        if self.resume_from.is_none()
            && self.known.n_objects() > 0
            && let Ok(identity) = Identity::read(json)
            && self.known.refresh(&identity)
        {
            return Ok(());
        }
        let (identity, event) = match self.kind.applied(json) {
            Ok((identity, event)) => (identity, Some(event)),
            Err(reason) => {
                let Some(identity) = self.identify(json, &reason) else { return Ok(()) };
                (identity, None)
            }
        };
        let change = self.known.observe(&identity);
        if let ObjectChange::Replaced { old } = &change {
            self.send(self.kind.vanished(old)).await?;
        }
        if let Some(event) = event.filter(|_| change != ObjectChange::Unchanged) {
            self.send(event).await?;
        }
        self.advance(identity);
        Ok(())
    }

    async fn delete(&mut self, json: &str) -> Result<(), WatchError> {
        let identity = match Identity::read(json) {
            Ok(identity) => identity,
            Err(reason) => {
                error!(kind = self.kind.plural(), %reason, "cannot decode the metadata of a deleted object");
                return Ok(());
            }
        };
        if self.known.forget(&identity) {
            self.send(self.kind.deleted(&identity, json)).await?;
        }
        self.advance(identity);
        Ok(())
    }

    /// Logs the object that cannot be decoded. Its previous state remains valid until its next change.
    fn identify(&self, json: &str, reason: &serde_json::Error) -> Option<Identity> {
        let kind = self.kind.plural();
        match Identity::read(json) {
            Ok(identity) => {
                let Identity { namespace, name, .. } = &identity;
                error!(kind, namespace, name, %reason, "cannot decode this object; ignoring this version of it");
                Some(identity)
            }
            Err(_) => {
                error!(kind, %reason, "cannot decode an object, not even its name; ignoring it");
                None
            }
        }
    }

    /// Takes the version from which to continue. The versions of objects have another meaning while a list is read.
    fn advance(&mut self, identity: Identity) {
        if self.resume_from.is_some() && !identity.resource_version.is_empty() {
            self.resume_at(identity.resource_version);
        }
    }

    async fn send(&self, event: WatchEvent) -> Result<(), WatchError> {
        if let Some(observer) = &self.observer {
            observer.queued(event.kind());
        }
        self.sink.send(event).await.map_err(|_| WatchError::Closed)
    }
}

/// The duration of a watch over this version of HTTP. `jitter` is in percent.
pub(super) fn watch_seconds(version: Version, jitter: u32) -> u32 {
    let (seconds, most) = if version == Version::HTTP_2 {
        (WATCH_SECONDS, WATCH_JITTER_PERCENT)
    } else {
        (UNPINGED_WATCH_SECONDS, UNPINGED_WATCH_JITTER_PERCENT)
    };
    seconds + seconds * most * jitter / 10_000
}

/// Waits for a request that is newer than the current list.
async fn relist_wanted(relists: &watch::Receiver<RelistRequests>) {
    let mut relists = relists.clone();
    if relists.changed().await.is_err() {
        // The handle was dropped, so no caller can send further requests.
        std::future::pending().await
    }
}

/// Waits for a request to end the watch.
async fn end_wanted(end: &watch::Receiver<bool>) {
    let mut end = end.clone();
    let is_wanted = end.wait_for(|is_wanted| *is_wanted).await.is_ok();
    if !is_wanted {
        // The handle was dropped, or the watch lasts as long as its reader.
        std::future::pending().await
    }
}

#[derive(Deserialize)]
struct Page<'a> {
    metadata: PageMetadata,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    resource_version: String,
    r#continue: Option<String>,
}
