//! The connections of one server: bounded in number, in time and in size, since whoever reaches the endpoints may open some.
//!
//! When there are as many as may be, the one that has waited longest for its client gives way to the next. So a probe gets
//! through while somebody holds on to all connections that there are. One whose request is being answered stays.

use std::{
    collections::HashMap,
    convert::Infallible,
    io,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::Router;
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

/// Scrapers, probes and operators need a dozen. Each is a file descriptor, of which a process often has 1024.
const MAX_CONNECTIONS: usize = 256;

/// A client sends the whole header of its next request within this time, also when it has asked before: longer than
/// scrapers usually take from one request to the next. As in Go's servers of Kubernetes.
const HEADER_TIMEOUT: Duration = Duration::from_secs(32);

/// The header of a request, with room for large tokens.
const MAX_HEADER: u32 = 64 << 10;

/// What one connection may send at a time over HTTP/2: no request has a body of more than a few bytes.
const WINDOW: u32 = 64 << 10;

/// Where connections come from.
pub(crate) trait Listener: Send {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listener for TcpListener {
    type Stream = tokio::net::TcpStream;

    async fn accept(&self) -> io::Result<Self::Stream> {
        TcpListener::accept(self).await.map(|(stream, _)| stream)
    }
}

/// Serves each connection of `listener` in a task of its own, which `serve` makes.
pub(crate) async fn accept<L: Listener, F>(listener: L, serve: impl Fn(L::Stream, Activity) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let connections = Connections::default();
    loop {
        match listener.accept().await {
            Ok(stream) => connections.spawn(|activity| serve(stream, activity)),
            Err(error) => {
                // As a rule the process has no file descriptor left.
                warn!(%error, "no connection accepted");
                connections.open().make_room();
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// Answers the requests of one connection.
pub(crate) async fn serve_http1<S>(stream: S, routes: Router, activity: Activity)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(MAX_HEADER as usize);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), answering(routes, &activity)).await {
        debug!(%error, "a connection broke off");
    }
}

/// Answers the requests of one connection over HTTP/2, up to `max_streams` at a time. One that has no request for
/// [`HEADER_TIMEOUT`] is ended: HTTP/2 knows no bound on the time that a header takes.
pub(crate) async fn serve_http2<S>(stream: S, routes: Router, activity: Activity, max_streams: u32)
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
        () = activity.idle_for(HEADER_TIMEOUT) => {
            connection.as_mut().graceful_shutdown();
            // Answers may still be on their way, to a client that takes them or does not.
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
    Response = axum::response::Response,
    Error = Infallible,
    Future = impl Future<Output = Result<axum::response::Response, Infallible>> + Send + use<>,
> {
    let routes = TowerToHyperService::new(routes);
    service_fn(move |request: hyper::Request<Incoming>| {
        let (answer, busy) = (routes.call(request), activity.begin());
        async move {
            let answer = answer.await;
            drop(busy);
            answer
        }
    })
}

/// Those that are open.
#[derive(Clone, Debug, Default)]
struct Connections(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    last_id: u64,
    by_id: HashMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    /// Requests that are being answered.
    n_requests: usize,
    /// Since when its client has the word, if there are none.
    idle_since: Instant,
    /// `None` until its task runs.
    task: Option<AbortHandle>,
}

/// What one connection is at. Dropped when it ends.
#[derive(Debug)]
pub(crate) struct Activity {
    id: u64,
    connections: Connections,
}

/// A request is being answered.
#[derive(Debug)]
struct Busy {
    id: u64,
    connections: Connections,
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
            // It has ended, or had to make room.
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
    /// `None` if there is no room.
    fn enter(&mut self) -> Option<u64> {
        if self.by_id.len() >= MAX_CONNECTIONS && !self.make_room() {
            return None;
        }
        self.last_id += 1;
        self.by_id.insert(self.last_id, Connection { n_requests: 0, idle_since: Instant::now(), task: None });
        Some(self.last_id)
    }

    /// Ends the connection that has waited longest for its client. Whether there was one.
    fn make_room(&mut self) -> bool {
        let idle = self.by_id.iter().filter_map(|(id, connection)| Some((connection.idle_since()?, *id)));
        let Some((_, id)) = idle.min() else { return false };
        if let Some(task) = self.by_id.remove(&id).and_then(|connection| connection.task) {
            task.abort();
        }
        true
    }
}

impl Connection {
    fn idle_since(&self) -> Option<Instant> {
        (self.n_requests == 0).then_some(self.idle_since)
    }
}

impl Activity {
    fn begin(&self) -> Busy {
        self.connections.change(self.id, |connection| connection.n_requests += 1);
        Busy { id: self.id, connections: self.connections.clone() }
    }

    /// Waits until no request has been answered for so long.
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
