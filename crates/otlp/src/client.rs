//! One request to the collector, over gRPC or HTTP.
//!
//! The gRPC protocol (`PROTOCOL-HTTP2.md` in grpc) is one POST over HTTP/2: five bytes before the message, and the
//! status in the trailers. A unary call needs nothing else, so this crate uses no gRPC library.

use std::{error::Error, sync::Arc, time::Duration};

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Collected, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use prost::Message as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;

use crate::{
    destination::{Destination, Protocol},
    messages::{ExportTraceServiceRequest, ExportTraceServiceResponse},
};

/// The time limit for a connection.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// The time limit for a request, as in the libraries of OpenTelemetry.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// The time after which a silent HTTP/2 connection is checked during a request, and the time for the answer to the
/// check. Without the check, requests would go to a collector that no longer exists.
const PING_TIME: Duration = Duration::from_secs(5);
/// The maximum number of bytes of an answer.
const MAX_ANSWER: usize = 64 << 10;
/// The number of bytes before a gRPC message: a flag for compression, and the length.
const GRPC_PREFIX: usize = 5;
const USER_AGENT: &str = concat!("berth/", env!("CARGO_PKG_VERSION"));

/// The reason why spans were not exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("no answer within {} s", REQUEST_TIME.as_secs())]
    TimedOut,
    #[error("{0}")]
    Unreachable(String),
    #[error("HTTP status {0}")]
    Http(StatusCode),
    #[error("gRPC status {code}: {message}")]
    Grpc { code: u32, message: String },
    #[error("the answer does not come from a trace collector: {0}")]
    Answer(String),
    #[error("{n_spans} spans were rejected: {message}")]
    Rejected { n_spans: u64, message: String },
}

impl ExportError {
    /// Whether the same request may succeed later
    /// (<https://opentelemetry.io/docs/specs/otlp/#failures> and `#failures-1`).
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::TimedOut | Self::Unreachable(_) => true,
            Self::Http(status) => matches!(status.as_u16(), 429 | 502 | 503 | 504),
            // CANCELLED, DEADLINE_EXCEEDED, ABORTED, OUT_OF_RANGE, UNAVAILABLE and DATA_LOSS.
            Self::Grpc { code, .. } => matches!(code, 1 | 4 | 10 | 11 | 14 | 15),
            Self::Answer(_) | Self::Rejected { .. } => false,
        }
    }
}

/// The connection to a collector. The connection is opened with the first request.
#[derive(Debug)]
pub(crate) struct Collector {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    destination: Destination,
}

impl Collector {
    pub(crate) fn new(destination: Destination) -> Result<Self, rustls::Error> {
        let is_grpc = destination.protocol == Protocol::Grpc;
        let mut roots = RootCertStore::empty();
        if destination.is_encrypted() {
            // If there are no certificates, connections fail with an error that says so.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        if is_grpc {
            tls.alpn_protocols = vec![b"h2".to_vec()];
        }
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT_TIME));
        let mut builder = Client::builder(TokioExecutor::new());
        builder.timer(TokioTimer::new()).pool_timer(TokioTimer::new()).http2_only(is_grpc);
        builder.http2_keep_alive_interval(PING_TIME).http2_keep_alive_timeout(PING_TIME);
        Ok(Self { client: builder.build(HttpsConnector::from((http, tls))), destination })
    }

    /// Sends the spans once.
    pub(crate) async fn export(&self, spans: &ExportTraceServiceRequest) -> Result<(), ExportError> {
        let answer =
            timeout(REQUEST_TIME, self.ask(self.request(spans))).await.map_err(|_| ExportError::TimedOut)??;
        let partial = answer.partial_success.unwrap_or_default();
        match u64::try_from(partial.rejected_spans) {
            Ok(n_spans) if n_spans > 0 => Err(ExportError::Rejected { n_spans, message: partial.error_message }),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn request(&self, spans: &ExportTraceServiceRequest) -> Request<Full<Bytes>> {
        let Destination { uri, protocol, headers } = &self.destination;
        let (content_type, body) = match protocol {
            Protocol::Grpc => ("application/grpc", grpc_body(spans)),
            Protocol::Http => ("application/x-protobuf", spans.encode_to_vec().into()),
        };
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = uri.clone();
        let sent = request.headers_mut();
        sent.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        sent.extend(headers.clone());
        sent.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        if *protocol == Protocol::Grpc {
            sent.insert(header::TE, HeaderValue::from_static("trailers"));
        }
        request
    }

    async fn ask(&self, request: Request<Full<Bytes>>) -> Result<ExportTraceServiceResponse, ExportError> {
        let answer = self.client.request(request).await.map_err(|error| ExportError::Unreachable(chain(&error)))?;
        if answer.status() != StatusCode::OK {
            return Err(ExportError::Http(answer.status()));
        }
        let message = match self.destination.protocol {
            Protocol::Http => read(answer.into_body()).await?.to_bytes(),
            Protocol::Grpc => grpc_message(answer).await?,
        };
        ExportTraceServiceResponse::decode(message).map_err(|error| ExportError::Answer(error.to_string()))
    }
}

fn grpc_body(spans: &ExportTraceServiceRequest) -> Bytes {
    let length = spans.encoded_len();
    let mut body = BytesMut::with_capacity(GRPC_PREFIX + length);
    body.put_u8(0);
    body.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    // There is room, because the buffer grows.
    let _ = spans.encode(&mut body);
    body.freeze()
}

/// The message of a gRPC answer whose status says that the call succeeded.
async fn grpc_message(answer: Response<Incoming>) -> Result<Bytes, ExportError> {
    let (head, body) = answer.into_parts();
    let body = read(body).await?;
    // An answer without a message may have the status among its headers.
    let trailers = body.trailers().filter(|_| !head.headers.contains_key("grpc-status"));
    check_grpc_status(trailers.unwrap_or(&head.headers))?;
    let mut bytes = body.to_bytes();
    if bytes.len() < GRPC_PREFIX {
        return Ok(Bytes::new());
    }
    Ok(bytes.split_off(GRPC_PREFIX))
}

fn check_grpc_status(headers: &HeaderMap) -> Result<(), ExportError> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(code) = text("grpc-status").and_then(|code| code.parse().ok()) else {
        return Err(ExportError::Answer("it has no grpc-status".to_owned()));
    };
    match code {
        0 => Ok(()),
        code => Err(ExportError::Grpc { code, message: text("grpc-message").unwrap_or_default().to_owned() }),
    }
}

async fn read(body: Incoming) -> Result<Collected<Bytes>, ExportError> {
    Limited::new(body, MAX_ANSWER).collect().await.map_err(|error| ExportError::Unreachable(chain(&*error)))
}

/// The error and its causes in one line.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
