//! An API server for tests. Each request waits until the test takes it and answers.

use bytes::Bytes;
use http::{Method, Request, Response, Version};
use http_body_util::{BodyExt, Full, channel};
use kube::{Client, client::Body};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tower::BoxError;

use crate::transport::{Answer, Transport};

type Reply = Result<Answer, BoxError>;

/// The server side of a client that [`server`] made.
pub(crate) struct Server {
    calls: mpsc::UnboundedReceiver<Call>,
}

/// A request that waits for its answer.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    /// The query in its encoded form.
    pub(crate) query: String,
    pub(crate) content_type: Option<String>,
    /// The body; null without a body.
    pub(crate) body: Value,
    reply: oneshot::Sender<Reply>,
}

/// The body of a watch that stays open until this value is dropped.
pub(crate) struct Stream(channel::Sender<Bytes, BoxError>);

pub(crate) fn server() -> (Client, Server) {
    let (transport, server) = transport();
    (transport.into_client(), server)
}

pub(crate) fn transport() -> (Transport, Server) {
    let (sender, calls) = mpsc::unbounded_channel();
    let service = tower::service_fn(move |request: Request<Body>| {
        let sender = sender.clone();
        async move {
            let (reply, answer) = oneshot::channel();
            let call = Call::read(request, reply).await;
            sender.send(call).map_err(|_| "the server is gone")?;
            answer.await.unwrap_or_else(|_| Err("connection reset by peer".into()))
        }
    });
    (Transport::new(service, "default"), Server { calls })
}

impl Server {
    pub(crate) async fn next(&mut self) -> Call {
        self.calls.recv().await.expect("the client is gone")
    }

    /// Whether no request waits, for tests in which no further request is allowed.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.calls.try_recv().is_err()
    }
}

impl Call {
    async fn read(request: Request<Body>, reply: oneshot::Sender<Reply>) -> Self {
        let (parts, body) = request.into_parts();
        let bytes = body.collect().await.expect("a request body").to_bytes();
        Self {
            method: parts.method,
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            content_type: parts.headers.get("content-type").map(|value| value.to_str().unwrap().to_owned()),
            body: if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).expect("a JSON body") },
            reply,
        }
    }

    /// The request as `"METHOD path"`, for comparisons.
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    pub(crate) fn has(&self, query: &str) -> bool {
        self.query.split('&').any(|pair| pair == query)
    }

    pub(crate) fn answer(self, code: u16, body: &Value) {
        let body = Full::from(body.to_string()).map_err(BoxError::from).boxed_unsync();
        let _ = self.reply.send(Ok(Response::builder().status(code).body(body).unwrap()));
    }

    /// Answers as API Priority and Fairness answers a request for which it has no room.
    pub(crate) fn turn_away(self, retry_after: u32) {
        let body = Full::from("Too many requests, please try again later.\n").map_err(BoxError::from).boxed_unsync();
        let answer = Response::builder().status(429).header("retry-after", retry_after).body(body).unwrap();
        let _ = self.reply.send(Ok(answer));
    }

    pub(crate) fn refuse(self, code: u16, reason: &str, message: &str) {
        let status = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure",
            "code": code, "reason": reason, "message": message,
        });
        self.answer(code, &status);
    }

    /// Breaks the connection before an answer arrives.
    pub(crate) fn lose(self) {
        drop(self.reply);
    }

    pub(crate) fn stream(self) -> Stream {
        self.stream_over(Version::HTTP_11)
    }

    /// Starts the stream with this version of HTTP.
    pub(crate) fn stream_over(self, version: Version) -> Stream {
        let (sender, body) = channel::Channel::new(64);
        let answer = Response::builder().version(version).body(body.boxed_unsync()).unwrap();
        let _ = self.reply.send(Ok(answer));
        Stream(sender)
    }
}

impl Stream {
    pub(crate) async fn send(&mut self, r#type: &str, object: &Value) {
        let line = format!("{{\"type\":\"{type}\",\"object\":{object}}}\n");
        self.0.send_data(line.into()).await.expect("the client is gone");
    }

    /// Sends the bookmark after the last object of a streamed list.
    pub(crate) async fn end_list(&mut self, resource_version: &str) {
        let annotations = serde_json::json!({"k8s.io/initial-events-end": "true"});
        let metadata = serde_json::json!({"resourceVersion": resource_version, "annotations": annotations});
        self.send("BOOKMARK", &serde_json::json!({"metadata": metadata})).await;
    }

    /// Breaks the connection.
    pub(crate) fn break_off(self) {
        self.0.abort("connection reset by peer".into());
    }
}
