//! The connections of one server, and their requests. The number, the time and the size of requests are limited,
//! because every client that reaches the endpoints may open connections.
//!
//! If the maximum number of connections is open and another connection arrives, the server closes the connection that
//! has waited longest for its client. A probe therefore succeeds even while one client holds all connections. A
//! connection stays open while its request is being answered.

use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    io,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use http_body_util::BodyExt as _;
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    task::AbortHandle,
    time::Instant,
};
use tracing::{debug, warn};

/// The maximum number of connections. Scrapers, probes and operators need about a dozen. Each connection is a file
/// descriptor, and a process often has only 1024 of them.
const MAX_CONNECTIONS: usize = 256;

/// The maximum number of requests whose answers are being made or sent, over all connections. An answer may be as large
/// as the cluster.
const MAX_REQUESTS: usize = 512;

/// The time within which a client must receive an answer.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);

/// The time within which a client must send the whole header of its next request, even if it has sent requests before.
/// The time is longer than the usual interval of a scraper.
const HEADER_TIMEOUT: Duration = Duration::from_secs(32);

/// The maximum size of a request's header, with room for large tokens.
const MAX_HEADER: u32 = 64 << 10;

/// The number of bytes that one connection may send at a time over HTTP/2. No request has a body of more than a few
/// bytes.
const WINDOW: u32 = 64 << 10;

/// A source of connections.
pub trait Listener: Send {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listener for TcpListener {
    type Stream = tokio::net::TcpStream;

    async fn accept(&self) -> io::Result<Self::Stream> {
        TcpListener::accept(self).await.map(|(stream, _)| stream)
    }
}

/// Serves each connection of `listener` in a separate task, which `serve` creates.
pub async fn accept<L: Listener, F>(listener: L, serve: impl Fn(L::Stream, Activity) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let connections = Connections::default();
    loop {
        match listener.accept().await {
            Ok(stream) => connections.spawn(|activity| serve(stream, activity)),
            Err(error) => {
                // The process usually has no file descriptors left in this case.
                warn!(%error, "failed to accept a connection");
                connections.open().make_room();
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// Answers the requests of one connection.
pub async fn serve_http1<S>(stream: S, routes: Router, activity: Activity)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(MAX_HEADER as usize);
    let connection = builder.serve_connection(TokioIo::new(stream), answering(routes, &activity));
    let ended = tokio::select! {
        ended = connection => ended,
        () = activity.stalled() => return debug!("a client did not read its answer in time"),
    };
    if let Err(error) = ended {
        debug!(%error, "a connection broke off");
    }
}

/// Answers the requests of one connection over HTTP/2, up to `max_streams` at a time. A connection without a request
/// for [`HEADER_TIMEOUT`] is closed, because HTTP/2 does not limit the time that a header takes.
pub async fn serve_http2<S>(stream: S, routes: Router, activity: Activity, max_streams: u32)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(max_streams)
        .max_header_list_size(MAX_HEADER)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answering(routes, &activity)));
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = activity.stalled() => return debug!("a client did not read its answer in time"),
        () = activity.idle_for(HEADER_TIMEOUT) => {
            connection.as_mut().graceful_shutdown();
            // Answers may still be on their way to the client, which may or may not receive them.
            tokio::time::timeout(HEADER_TIMEOUT, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        debug!(%error, "a connection broke off");
    }
}

fn answering(
    routes: Router,
    activity: &Activity,
) -> impl hyper::service::Service<
    hyper::Request<Incoming>,
    Response = Response,
    Error = Infallible,
    Future = impl Future<Output = Result<Response, Infallible>> + Send + use<>,
> {
    let routes = TowerToHyperService::new(routes);
    service_fn(move |request: hyper::Request<Incoming>| {
        let answer = activity.begin().map(|busy| (busy, routes.call(request)));
        async move {
            let Some((busy, answer)) = answer else { return Ok(too_many_requests()) };
            let answer = answer.await?;
            let sending = Arc::new(busy.sends());
            let taken = move |data| Bytes::from_owner(Untaken { data, _sending: Arc::clone(&sending) });
            Ok(answer.map(|body| Body::new(body.map_frame(move |frame| frame.map_data(&taken)))))
        }
    })
}

fn too_many_requests() -> Response {
    let text = "too many requests at the same time: try again later\n";
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], text).into_response()
}

/// The connections that are open.
#[derive(Clone, Debug, Default)]
struct Connections(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    /// The last number that was used for a connection or an answer.
    last_id: u64,
    by_id: HashMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    /// The number of requests that are being answered.
    n_requests: usize,
    /// The answers that the client has not received yet, by id. Each id has the time at which its answer was ready.
    sending: BTreeMap<u64, Instant>,
    /// The time since which the server waits for the client, if no requests are being answered.
    idle_since: Instant,
    /// `None` until the task runs.
    task: Option<AbortHandle>,
}

/// The activity of one connection. It is dropped when the connection ends.
#[derive(Debug)]
pub struct Activity {
    id: u64,
    connections: Connections,
}

/// A request that is being answered.
#[derive(Debug)]
struct Busy {
    id: u64,
    connections: Connections,
}

/// An answer that is being sent.
#[derive(Debug)]
struct Sending {
    connection: u64,
    id: u64,
    connections: Connections,
}

/// A part of an answer. It exists until it is passed to the system.
#[derive(Debug)]
struct Untaken {
    data: Bytes,
    _sending: Arc<Sending>,
}

impl AsRef<[u8]> for Untaken {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Connections {
    fn spawn<F>(&self, serve: impl FnOnce(Activity) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Some(id) = self.open().enter() else { return debug!("too many connections, all with requests") };
        let task = tokio::spawn(serve(Activity { id, connections: self.clone() }));
        match self.open().by_id.get_mut(&id) {
            Some(connection) => connection.task = Some(task.abort_handle()),
            // The connection has already ended, or was closed to make room.
            None => task.abort(),
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, id: u64, change: impl FnOnce(&mut Connection)) {
        if let Some(connection) = self.open().by_id.get_mut(&id) {
            change(connection);
        }
    }
}

impl Open {
    /// Registers a connection; `None` if there is no room.
    fn enter(&mut self) -> Option<u64> {
        if self.by_id.len() >= MAX_CONNECTIONS && !self.make_room() {
            return None;
        }
        let id = self.next_id();
        let (sending, idle_since) = (BTreeMap::new(), Instant::now());
        self.by_id.insert(id, Connection { n_requests: 0, sending, idle_since, task: None });
        Some(id)
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Whether one more request of the connection may be answered.
    fn begin(&mut self, id: u64) -> bool {
        while self.by_id.values().map(Connection::n_open).sum::<usize>() >= MAX_REQUESTS {
            if !self.make_room_for_request() {
                return false;
            }
        }
        let connection = self.by_id.get_mut(&id);
        connection.map(|connection| connection.n_requests += 1).is_some()
    }

    /// Closes the connection that has waited longest for its client. Returns whether a connection was closed.
    fn make_room(&mut self) -> bool {
        let idle = self.by_id.iter().filter_map(|(id, connection)| Some((connection.idle_since()?, *id)));
        let Some((_, id)) = idle.min() else { return false };
        self.end(id);
        true
    }

    /// Closes the connection of the client that has not received an answer for the longest time. Returns whether a
    /// connection was closed.
    fn make_room_for_request(&mut self) -> bool {
        let waiting = self.by_id.iter().filter(|(_, connection)| connection.n_requests == 0);
        let waiting = waiting.filter_map(|(id, connection)| Some((connection.sending_since()?, *id)));
        let Some((_, id)) = waiting.min() else { return false };
        self.end(id);
        true
    }

    fn end(&mut self, id: u64) {
        if let Some(task) = self.by_id.remove(&id).and_then(|connection| connection.task) {
            task.abort();
        }
    }
}

impl Connection {
    fn idle_since(&self) -> Option<Instant> {
        (self.n_requests == 0).then_some(self.idle_since)
    }

    /// The time at which the oldest waiting answer was ready.
    fn sending_since(&self) -> Option<Instant> {
        self.sending.values().next().copied()
    }

    /// The number of requests whose answers are being made or sent.
    fn n_open(&self) -> usize {
        self.n_requests + self.sending.len()
    }
}

impl Activity {
    /// Registers a request; `None` if too many requests are being answered.
    fn begin(&self) -> Option<Busy> {
        let is_admitted = self.connections.open().begin(self.id);
        is_admitted.then(|| Busy { id: self.id, connections: self.connections.clone() })
    }

    /// Waits until the client has failed to receive an answer for [`SEND_TIMEOUT`].
    async fn stalled(&self) {
        loop {
            let since = self.connections.open().by_id.get(&self.id).and_then(Connection::sending_since);
            let left = SEND_TIMEOUT.saturating_sub(since.map_or(Duration::ZERO, |since| since.elapsed()));
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }

    /// Waits until no request has been answered for this time.
    async fn idle_for(&self, limit: Duration) {
        loop {
            let since = self
                .connections
                .open()
                .by_id
                .get(&self.id)
                .map_or_else(Instant::now, |connection| connection.idle_since().unwrap_or_else(Instant::now));
            let left = limit.saturating_sub(since.elapsed());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        self.connections.open().by_id.remove(&self.id);
    }
}

impl Busy {
    /// The answer was made, and the client must now receive it.
    fn sends(self) -> Sending {
        let id = self.connections.open().next_id();
        self.connections.change(self.id, |connection| {
            connection.sending.insert(id, Instant::now());
        });
        Sending { connection: self.id, id, connections: self.connections.clone() }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.connections.change(self.connection, |connection| {
            connection.sending.remove(&self.id);
        });
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.connections.change(self.id, |connection| {
            connection.n_requests -= 1;
            connection.idle_since = Instant::now();
        });
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_http2_connection_without_requests_is_ended() {
        let (client, server) = tokio::io::duplex(1 << 20);
        let routes = Router::new().route("/livez", get(|| async { "ok" }));
        Connections::default().spawn(|activity| serve_http2(server, routes, activity, 10));
        let shaken = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client)).await;
        let (mut requests, connection) = shaken.expect("a handshake");
        let connection = tokio::spawn(connection);
        for _ in 0..3 {
            tokio::time::sleep(HEADER_TIMEOUT - Duration::from_secs(1)).await;
            let request = hyper::Request::get("http://a/livez").body(axum::body::Body::empty()).expect("a request");
            assert_eq!(requests.send_request(request).await.expect("an answer").status(), 200);
        }
        let began = Instant::now();
        connection.await.expect("no panic").expect("the server says that it ends");
        assert!(began.elapsed().abs_diff(HEADER_TIMEOUT) < Duration::from_secs(2), "{:?}", began.elapsed());
    }

    /// A server with an answer of a megabyte.
    fn large_answers() -> Router {
        Router::new().route("/large", get(|| async { vec![b'x'; 1 << 20] }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_take_its_answer_is_given_up() {
        let (mut client, server) = tokio::io::duplex(1 << 10);
        let connections = Connections::default();
        connections.spawn(|activity| serve_http1(server, large_answers(), activity));
        client.write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("sent");
        let began = Instant::now();
        while !connections.open().by_id.is_empty() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!(began.elapsed() >= SEND_TIMEOUT && began.elapsed() < 3 * SEND_TIMEOUT, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn requests_are_bounded_and_answers_that_nobody_takes_give_way() {
        let connections = Connections::default();
        let activities: Vec<Activity> = (0..3)
            .filter_map(|_| connections.open().enter())
            .map(|id| Activity { id, connections: connections.clone() })
            .collect();
        let [greedy, busy, probe] = &activities[..] else { panic!("three connections") };
        let left: Vec<Sending> = (0..MAX_REQUESTS - 1).filter_map(|_| greedy.begin()).map(Busy::sends).collect();
        assert_eq!(left.len(), MAX_REQUESTS - 1);
        let answered = busy.begin().expect("there is room");
        assert!(probe.begin().is_some(), "the answers that lie there give way");
        assert!(!connections.open().by_id.contains_key(&greedy.id));
        let all: Vec<Busy> = std::iter::from_fn(|| busy.begin()).collect();
        assert_eq!(all.len(), MAX_REQUESTS - 1);
        assert!(probe.begin().is_none(), "all are being answered");
        drop((all, answered));
        assert!(probe.begin().is_some());
    }

    #[test]
    fn the_connection_that_waited_longest_gives_way() {
        let mut open = Open::default();
        let ids: Vec<u64> =
            std::iter::from_fn(|| (open.by_id.len() < MAX_CONNECTIONS).then(|| open.enter())).flatten().collect();
        assert_eq!(ids.len(), MAX_CONNECTIONS);
        let busy = open.by_id.get_mut(&ids[0]).expect("open");
        busy.n_requests = 1;
        let next = open.enter().expect("there is room");
        assert!(open.by_id.contains_key(&ids[0]), "its request is being answered");
        assert!(!open.by_id.contains_key(&ids[1]) && open.by_id.contains_key(&next));
        open.by_id.values_mut().for_each(|connection| connection.n_requests = 1);
        assert_eq!(open.enter(), None);
    }
}
