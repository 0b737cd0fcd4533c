//! The server. It accepts connections, and applies the rules to each request before the handler gets the request.

use std::{future::Future, sync::Arc, time::Duration};

use axum::{body::Body, response::Response};
use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use crate::{
    endpoint,
    engine::{Faults, Verdict},
    http_status::refusal,
    request_info::RequestInfo,
    stopping::stopped,
    watch_stream::{self, Broken},
};

/// The pause when the system has no room for one more connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves HTTP/1.1 on `listener` until `stopping` turns true or its sender is dropped. The server then finishes the
/// requests in progress.
///
/// `handler` answers all requests except those to `/faults`. A delayed request reaches the handler after the delay. The
/// handler's answer to a watch ends when `stopping` turns true, even if the handler still sends.
pub async fn serve<H, F>(listener: TcpListener, faults: Arc<Faults>, mut stopping: watch::Receiver<bool>, handler: H)
where
    H: Fn(Request<Body>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = stopped(&mut stopping) => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let (faults, stopping, handler) = (Arc::clone(&faults), stopping.clone(), handler.clone());
                    connections.spawn(connection(stream, faults, stopping, handler));
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection<H, F>(stream: TcpStream, faults: Arc<Faults>, mut stopping: watch::Receiver<bool>, handler: H)
where
    H: Fn(Request<Body>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let ends = stopping.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        answer(request.map(Body::new), Arc::clone(&faults), ends.clone(), handler.clone())
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection broke");
    }
}

/// Answers a request. An error closes the request's connection.
async fn answer<H, F>(
    request: Request<Body>,
    faults: Arc<Faults>,
    stopping: watch::Receiver<bool>,
    handler: H,
) -> Result<Response, Broken>
where
    H: Fn(Request<Body>) -> F,
    F: Future<Output = Response>,
{
    if let Some(name) = endpoint::rule_name(request.uri().path()) {
        let (name, method) = (name.to_owned(), request.method().clone());
        return Ok(endpoint::answer(&faults, &method, &name, request.into_body()).await);
    }
    let info = RequestInfo::of(request.method(), request.uri(), request.headers());
    match faults.judge(&info) {
        Verdict::HangUp => Err(Broken::ByRule),
        Verdict::Refuse { after, code, retry_after_seconds } => {
            wait(after).await;
            Ok(refusal(&info, code, retry_after_seconds))
        }
        Verdict::Serve { after, loses_answer } => {
            wait(after).await;
            let response = handler(request).await;
            if loses_answer {
                return Err(Broken::ByRule);
            }
            let is_watch = info.verb == "watch" && response.status().is_success();
            Ok(if is_watch { response.map(|body| watch_stream::wrap(body, info, &faults, stopping)) } else { response })
        }
    }
}

async fn wait(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}
