//! A trace collector for tests: it accepts spans over HTTP and gRPC, refuses spans, or never answers.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use berth_otlp::messages::{ExportTraceServiceRequest, KeyValue, Span};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::{
    body::{Bytes, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use prost::Message as _;
use rcgen::{CertificateParams, KeyPair};
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::watch,
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use crate::process::DEADLINE;

/// The path of the protocol over HTTP, and that over gRPC.
const PATHS: [&str; 2] = ["/v1/traces", "/opentelemetry.proto.collector.trace.v1.TraceService/Export"];

/// The answer of a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CollectorBehavior {
    Takes,
    Refuses,
    Hangs,
}

/// All that a collector has received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Received {
    pub spans: Vec<Span>,
    /// The attributes of the process.
    pub resource: Vec<KeyValue>,
    pub headers: HeaderMap,
    pub n_requests: usize,
}

/// A collector, which ends with the test.
#[derive(Debug)]
pub(crate) struct Collector {
    pub address: SocketAddr,
    received: watch::Receiver<Received>,
    serving: JoinHandle<()>,
}

impl Collector {
    pub(crate) async fn start(behavior: CollectorBehavior) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (sender, received) = watch::channel(Received::default());
        let serving = tokio::spawn(serve(listener, None, behavior, Arc::new(sender)));
        Self { address, received, serving }
    }

    /// A collector over TLS that takes everything. Returns it with its certificate for `localhost`, as PEM.
    pub(crate) async fn start_tls() -> (Self, String) {
        let key = KeyPair::generate().expect("a key");
        let parameters = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
        let certificate = parameters.self_signed(&key).expect("a certificate");
        let private = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("versions").with_no_client_auth();
        let mut config = config.with_single_cert(vec![certificate.der().clone()], private).expect("a certificate");
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (sender, received) = watch::channel(Received::default());
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let serving = tokio::spawn(serve(listener, Some(acceptor), CollectorBehavior::Takes, Arc::new(sender)));
        (Self { address, received, serving }, certificate.pem())
    }

    /// The requests that were received so far.
    pub(crate) fn now(&self) -> Received {
        self.received.borrow().clone()
    }

    /// Waits until enough was received.
    pub(crate) async fn until(&self, what: &str, is_enough: impl Fn(&Received) -> bool) -> Received {
        let mut received = self.received.clone();
        let waited = timeout(DEADLINE, received.wait_for(|received| is_enough(received))).await;
        if let Ok(Ok(received)) = &waited {
            return Received::clone(received);
        }
        drop(waited);
        let now = self.now();
        panic!("not {what}, but {} requests with {} spans: {:?}", now.n_requests, now.spans.len(), now.spans.last());
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    behavior: CollectorBehavior,
    received: Arc<watch::Sender<Received>>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let received = Arc::clone(&received);
        match &acceptor {
            None => drop(tokio::spawn(serve_connection(stream, behavior, received))),
            // A client that does not trust the certificate closes the connection.
            Some(acceptor) => {
                if let Ok(stream) = acceptor.accept(stream).await {
                    tokio::spawn(serve_connection(stream, behavior, received));
                }
            }
        }
    }
}

async fn serve_connection<S>(stream: S, behavior: CollectorBehavior, received: Arc<watch::Sender<Received>>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let answer = service_fn(move |request| answer(request, behavior, Arc::clone(&received)));
    // The scheduler closes the connection when it ends.
    let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer).await;
}

async fn answer(
    request: Request<Incoming>,
    behavior: CollectorBehavior,
    received: Arc<watch::Sender<Received>>,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible> {
    let [http, grpc] = PATHS;
    let is_grpc = request.uri().path() == grpc;
    let content_type = if is_grpc { "application/grpc" } else { "application/x-protobuf" };
    assert!(is_grpc || request.uri().path() == http, "{}", request.uri());
    assert_eq!(request.headers()["content-type"], content_type);
    let (head, body) = request.into_parts();
    let body = body.collect().await.expect("a whole body").to_bytes();
    let message = if is_grpc { grpc_message(&body) } else { &body };
    let message = ExportTraceServiceRequest::decode(message).expect("spans");
    received.send_modify(|received| {
        received.n_requests += 1;
        received.headers = head.headers;
        for resource in message.resource_spans {
            received.resource = resource.resource.expect("a resource").attributes;
            received.spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    });
    Ok(match (behavior, is_grpc) {
        (CollectorBehavior::Hangs, _) => std::future::pending().await,
        (CollectorBehavior::Takes, false) => response(StatusCode::OK, Full::default().boxed_unsync()),
        (CollectorBehavior::Refuses, false) => response(StatusCode::BAD_REQUEST, Full::default().boxed_unsync()),
        (CollectorBehavior::Takes, true) => response(StatusCode::OK, grpc_answer("0")),
        // INVALID_ARGUMENT
        (CollectorBehavior::Refuses, true) => response(StatusCode::OK, grpc_answer("3")),
    })
}

/// The message after the five bytes that come first.
fn grpc_message(body: &Bytes) -> &[u8] {
    let (prefix, message) = body.split_at(5);
    let [0, length @ ..] = prefix else { panic!("the message is compressed") };
    let length = u32::from_be_bytes(length.try_into().expect("four bytes"));
    assert_eq!(message.len(), usize::try_from(length).expect("a length"));
    message
}

/// An empty message, and the status in the trailers.
fn grpc_answer(status: &'static str) -> UnsyncBoxBody<Bytes, Infallible> {
    let trailers = HeaderMap::from_iter([("grpc-status".parse().expect("a name"), HeaderValue::from_static(status))]);
    Full::new(Bytes::from_static(&[0; 5])).with_trailers(async move { Some(Ok(trailers)) }).boxed_unsync()
}

fn response(status: StatusCode, body: UnsyncBoxBody<Bytes, Infallible>) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

/// The time that a span took.
pub(crate) fn duration(span: &Span) -> Duration {
    Duration::from_nanos(span.end_time_unix_nano - span.start_time_unix_nano)
}
