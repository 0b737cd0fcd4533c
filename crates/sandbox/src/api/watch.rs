//! Watches: a stream of the changes after a resource version, as JSON lines.
//!
//! A watch keeps a position in the collection's history, and sleeps until the collection has changes. The object of
//! each change is serialised once for all watches. Only selectors, tables and metadata need more work.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::context::Api;
use super::formats::media::Form;
use super::formats::{table, view};
use super::query::ListOptions;
use super::request::Target;
use crate::fields::json::metadata_mut;
use crate::kinds::Kind;
use crate::selectors::Selector;
use crate::status::{ApiResult, StatusError};
use crate::storage::{Change, ChangeKind, Collection, InvalidResourceVersion, Object, ResourceVersion};

/// The default duration of a watch.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// The time between two bookmarks of an idle watch.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// The time between the last bookmark and the end of a watch.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// The time for which a streamed list waits for a version that does not exist yet.
const TOO_LARGE_VERSION_WAIT: Duration = Duration::from_secs(3);
/// The maximum number of changes in one chunk of the response.
const BATCH: usize = 512;

/// One running watch.
struct Watch {
    kind: Arc<Kind>,
    collection: Arc<Collection>,
    namespace: String,
    selector: Selector,
    form: Form,
    include: table::Include,
    position: ResourceVersion,
    latest: watch::Receiver<ResourceVersion>,
    stopping: watch::Receiver<bool>,
    deadline: Instant,
    next_bookmark: Option<Instant>,
    /// The part that is sent before the first change.
    opening: Option<WatchOpening>,
    columns_sent: bool,
    finished: bool,
}

/// The beginning of a watch.
enum WatchOpening {
    /// The watch first sends the objects that exist. If `bookmark` is set, a bookmark then marks the end of this list.
    Objects { objects: Vec<Arc<Object>>, bookmark: bool },
    /// The watch sends only `error`, once `after` has passed.
    Error { error: StatusError, after: Duration },
}

/// Starts a watch and returns its streaming answer.
pub(crate) fn start(
    api: &Arc<Api>,
    target: &Target,
    options: ListOptions,
    form: Form,
    include: table::Include,
    headers: &HeaderMap,
) -> ApiResult<Response> {
    let collection = api.state.collection_of(&target.kind);
    let wanted =
        options.version.parse().map_err(|error: InvalidResourceVersion| StatusError::internal(error.to_string()))?;
    let latest = collection.subscribe();
    let (objects, current) = collection.list(&target.namespace);
    let (opening, position) = opening(&options, wanted, objects, current);
    let now = Instant::now();
    let timeout = options.timeout.unwrap_or(DEFAULT_TIMEOUT);
    let first_bookmark = timeout.checked_sub(BOOKMARK_BEFORE_END).filter(|wait| !wait.is_zero() && options.bookmarks);
    let watch = Watch {
        kind: Arc::clone(&target.kind),
        collection,
        namespace: target.namespace.clone(),
        selector: options.selector,
        form,
        include,
        position,
        latest,
        stopping: api.stopping.clone(),
        deadline: now + timeout,
        next_bookmark: first_bookmark.map(|wait| now + wait.min(BOOKMARK_INTERVAL)),
        opening,
        columns_sent: false,
        finished: false,
    };
    let chunks = stream::unfold(watch, |mut watch| async move {
        let chunk = watch.next_chunk().await?;
        Some((Ok::<_, std::convert::Infallible>(chunk), watch))
    });
    let mut response = Response::new(Body::from_stream(chunks));
    *response.status_mut() = StatusCode::OK;
    let streams = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("stream=watch"));
    let content_type = if streams { "application/json;stream=watch" } else { "application/json" };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    Ok(response)
}

fn opening(
    options: &ListOptions,
    wanted: ResourceVersion,
    objects: Vec<Arc<Object>>,
    current: ResourceVersion,
) -> (Option<WatchOpening>, ResourceVersion) {
    match options.initial_events {
        Some(true) if wanted > current => {
            let error = StatusError::too_large_version(wanted, current);
            (Some(WatchOpening::Error { error, after: TOO_LARGE_VERSION_WAIT }), current)
        }
        Some(true) => (Some(WatchOpening::Objects { objects, bookmark: options.bookmarks }), current),
        Some(false) if wanted == ResourceVersion::ZERO => (None, current),
        None if wanted == ResourceVersion::ZERO => (Some(WatchOpening::Objects { objects, bookmark: false }), current),
        Some(false) | None => (None, wanted),
    }
}

impl Watch {
    /// The next chunk of the response; `None` at the end of the response.
    async fn next_chunk(&mut self) -> Option<Bytes> {
        if let Some(opening) = self.opening.take() {
            let chunk = self.open(opening).await;
            if !chunk.is_empty() {
                return Some(chunk);
            }
        }
        while !self.finished {
            self.latest.borrow_and_update();
            let current = self.collection.version();
            let changes = match self.collection.changes_after(self.position, BATCH) {
                Ok(changes) => changes,
                Err(forgotten) => {
                    self.finished = true;
                    let message = format!("too old resource version: {} ({})", self.position, forgotten.floor);
                    return Some(error_line(&StatusError::expired(message)));
                }
            };
            let chunk = self.render(&changes);
            if !chunk.is_empty() {
                return Some(chunk);
            }
            if changes.is_empty()
                && let Some(bookmark) = self.wait(current).await
            {
                return Some(bookmark);
            }
        }
        None
    }

    /// Sleeps until there may be something to send. Returns a bookmark if one is due.
    async fn wait(&mut self, current: ResourceVersion) -> Option<Bytes> {
        let bookmark_at = self.next_bookmark.unwrap_or(self.deadline).min(self.deadline);
        let ended = tokio::select! {
            _ = self.stopping.wait_for(|stopping| *stopping) => Some(true),
            changed = self.latest.changed() => Some(changed.is_err()),
            () = sleep_until(bookmark_at) => None,
        };
        match ended {
            Some(ended) => {
                self.finished = ended;
                None
            }
            None => self.timed_bookmark(bookmark_at, current),
        }
    }

    /// The bookmark that is due. If the end of the watch has come instead, ends the watch.
    fn timed_bookmark(&mut self, due: Instant, current: ResourceVersion) -> Option<Bytes> {
        if self.next_bookmark.is_none() || due >= self.deadline {
            self.finished = true;
            return None;
        }
        let last_chance = self.deadline.checked_sub(BOOKMARK_BEFORE_END).unwrap_or(self.deadline);
        let next = due + BOOKMARK_INTERVAL;
        self.next_bookmark = Some(if due < last_chance { next.min(last_chance) } else { self.deadline });
        Some(self.bookmark(current.max(self.position), false))
    }

    async fn open(&mut self, opening: WatchOpening) -> Bytes {
        match opening {
            WatchOpening::Error { error, after } => {
                tokio::time::sleep(after).await;
                self.finished = true;
                error_line(&error)
            }
            WatchOpening::Objects { objects, bookmark } => {
                let mut out = Vec::new();
                for object in &objects {
                    if self.selector.matches(&object.value) {
                        self.write_event("ADDED", object, &mut out);
                    }
                }
                if bookmark {
                    out.extend_from_slice(&self.bookmark(self.position, true));
                }
                Bytes::from(out)
            }
        }
    }

    fn render(&mut self, changes: &[Arc<Change>]) -> Bytes {
        let mut out = Vec::new();
        for change in changes {
            self.position = change.object.version;
            if self.namespace.is_empty() || change.object.namespace() == self.namespace {
                self.write_change(change, &mut out);
            }
        }
        Bytes::from(out)
    }

    fn write_change(&mut self, change: &Change, out: &mut Vec<u8>) {
        if self.selector.is_empty() {
            let event = match change.kind {
                ChangeKind::Added => "ADDED",
                ChangeKind::Modified => "MODIFIED",
                ChangeKind::Deleted => "DELETED",
            };
            self.write_event(event, &change.object, out);
            return;
        }
        let matched = change.before.as_ref().is_some_and(|before| self.selector.matches(&before.value));
        let matches = change.kind != ChangeKind::Deleted && self.selector.matches(&change.object.value);
        match (matched, matches, &change.before) {
            (false, true, _) => self.write_event("ADDED", &change.object, out),
            (true, true, _) => self.write_event("MODIFIED", &change.object, out),
            (true, false, Some(before)) if change.kind != ChangeKind::Deleted => {
                // The selector no longer matches. The watch sends the last state that the client knows, at the new
                // version.
                let last = Object::new(before.value.clone(), change.object.version);
                self.write_event("DELETED", &last, out);
            }
            (true, false, _) => self.write_event("DELETED", &change.object, out),
            (false, false, _) => {}
        }
    }

    fn write_event(&mut self, event: &str, object: &Object, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("{{\"type\":\"{event}\",\"object\":").as_bytes());
        match self.form {
            Form::Table => {
                let metadata = json!({"resourceVersion": object.version.to_string()});
                let mut rows = table::render(&self.kind, &[object], &metadata, self.include);
                if self.columns_sent {
                    rows["columnDefinitions"] = Value::Null;
                }
                self.columns_sent = true;
                out.extend_from_slice(rows.to_string().as_bytes());
            }
            Form::Partial | Form::PartialList => {
                out.extend_from_slice(view::partial(&object.value).to_string().as_bytes());
            }
            Form::Json | Form::Yaml | Form::Discovery => view::write_object(&self.kind, object, out),
        }
        out.extend_from_slice(b"}\n");
    }

    fn bookmark(&mut self, version: ResourceVersion, ends_initial_events: bool) -> Bytes {
        let mut value = json!({"metadata": {}});
        if ends_initial_events {
            let annotations = json!({"k8s.io/initial-events-end": "true"});
            metadata_mut(&mut value).insert("annotations".to_owned(), annotations);
        }
        let mut out = Vec::new();
        self.write_event("BOOKMARK", &Object::new(value, version), &mut out);
        Bytes::from(out)
    }
}

fn error_line(error: &StatusError) -> Bytes {
    Bytes::from(format!("{}\n", json!({"type": "ERROR", "object": error.to_status()})))
}
