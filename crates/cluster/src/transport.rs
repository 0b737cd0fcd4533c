//! The HTTP client below every request: sockets, TLS, HTTP/2, proxies, and the headers of each request.
//!
//! The client is kube's own, except for the connections. kube's connections speak only HTTP/1.1 and have no keep-alive,
//! so the client notices late that a peer vanished. The connections of this module are client-go's
//! (`k8s.io/client-go/transport/cache.go`, `k8s.io/apimachinery/pkg/util/net/http.go`): HTTP/2 over TLS if the server
//! has it, pings over HTTP/2, and TCP keep-alive below both. A connection is closed if its peer sends nothing for 45
//! seconds.
//!
//! The client never repeats a request, since only a writer can decide which requests may be repeated.

use std::{sync::Arc, time::Duration};

use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use hyper::{
    body::Bytes,
    rt::{Read, Write},
};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::{
        legacy::{
            self, Builder,
            connect::{Connected, Connection, HttpConnector, proxy::Tunnel},
        },
        proxy::matcher::Matcher,
    },
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt as _},
};
use rustls::{ClientConfig, pki_types::ServerName};
use tower::{
    BoxError, Service, ServiceBuilder, ServiceExt as _, service_fn,
    util::{BoxCloneSyncService, MapErr, MapResponse},
};
use tower_http::decompression::DecompressionLayer;
use x509_parser::parse_x509_certificate;

use crate::clock::Time;

pub(crate) use http2::Http2;

mod http2;
#[cfg(test)]
mod tests;

/// The time of silence after which the peer's kernel is asked whether it still has the connection, as in client-go's
/// dialer.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(30);
/// The time that the peer has to answer, and the interval between two questions.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEP_ALIVE_RETRIES: u32 = 3;

/// The time for which sent data may stay unacknowledged. The connection is not probed during this time.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(45);

/// The time for which a connection without requests is kept, as in client-go.
const IDLE: Duration = Duration::from_secs(90);

/// The bytes of one answer over HTTP/2 that a server may send before the caller reads them, as in Go's client. An API
/// server ends a watch whose client does not read.
const STREAM_WINDOW: u32 = 4 << 20;
/// The bytes of all answers together that a server may send, as in Go's client. The number is so large that slow
/// readers of some answers never hold up the others.
const CONNECTION_WINDOW: u32 = 1 << 30;

/// The reason why there is no client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransportError {
    /// The certificates are invalid, or a credential plugin fails.
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error("invalid tls-server-name {name:?}: expected a DNS name or an IP address")]
    ServerName { name: String },
    #[error("unsupported scheme {scheme:?} of proxy {proxy:?}: use http or https")]
    Proxy { proxy: String, scheme: String },
}

/// An open connection of any kind. There is only one type, because the code of HTTP is compiled for each type of
/// connection.
trait Socket: Connection + Read + Write + Send + Unpin {}

impl<T: Connection + Read + Write + Send + Unpin> Socket for T {}

impl Connection for Box<dyn Socket> {
    fn connected(&self) -> Connected {
        (**self).connected()
    }
}

/// Opens sockets: to the server, or to a proxy that leads there.
type Connector = BoxCloneSyncService<Uri, Box<dyn Socket>, BoxError>;

/// An answer. Its body may take hours.
pub(crate) type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// The service that turns a request into its answer. A [`Client`] passes requests to a background task of its own, so a
/// client around another client would add such a task to each request. This module therefore stacks services, and makes
/// one client from them.
#[derive(Clone)]
pub(crate) struct Transport {
    service: BoxCloneSyncService<Request<Body>, Answer, BoxError>,
    default_namespace: String,
    /// The certificate that a credential plugin gave the client, if there is one.
    certificate: Option<Validity>,
}

/// The time in which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) from: Time,
    pub(crate) until: Time,
}

impl Transport {
    pub(crate) fn new<S>(service: S, default_namespace: &str) -> Self
    where
        S: Service<Request<Body>, Response = Answer, Error = BoxError> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        let service = BoxCloneSyncService::new(service);
        Self { service, default_namespace: default_namespace.to_owned(), certificate: None }
    }

    pub(crate) async fn send(self, request: Request<Body>) -> Result<Answer, BoxError> {
        self.service.oneshot(request).await
    }

    /// The transport with another service in front of it.
    pub(crate) fn with_service<S>(self, service: S) -> Self
    where
        S: Service<Request<Body>, Response = Answer, Error = BoxError> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        Self { service: BoxCloneSyncService::new(service), ..self }
    }

    pub(crate) fn certificate(&self) -> Option<Validity> {
        self.certificate
    }

    /// The client of this transport. This must be called inside a tokio runtime.
    pub(crate) fn into_client(self) -> Client {
        Client::new(self.service, self.default_namespace)
    }
}

/// The way to the server that `config` names. It uses the timeouts, proxy, certificates and headers of `config`, but
/// not its `default_retry`. The call may run a credential plugin.
///
/// This must be called inside a tokio runtime.
pub(crate) fn transport(config: &Config, http2: Http2) -> Result<Transport, TransportError> {
    let mut connector = boxed(http_connector());
    if let Some(proxy) = &config.proxy_url {
        connector = match proxy.scheme_str() {
            Some("http") => boxed(tunnel(proxy, connector)),
            Some("https") => {
                let tls = config.rustls_client_config()?;
                boxed(tunnel(proxy, https_connector(connector, tls, config)?))
            }
            scheme => {
                return Err(TransportError::Proxy {
                    proxy: proxy.host().unwrap_or_default().to_owned(),
                    scheme: scheme.unwrap_or_default().to_owned(),
                });
            }
        };
    }
    over(connector, config, http2)
}

fn boxed<C>(connector: C) -> Connector
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Socket + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    let connector = MapResponse::new(connector, |socket| Box::new(socket) as Box<dyn Socket>);
    BoxCloneSyncService::new(MapErr::new(connector, Into::into))
}

fn http_connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_keepalive(Some(KEEP_ALIVE_AFTER));
    connector.set_keepalive_interval(Some(KEEP_ALIVE_INTERVAL));
    connector.set_keepalive_retries(Some(KEEP_ALIVE_RETRIES));
    #[cfg(target_os = "linux")]
    connector.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    connector
}

/// A tunnel through an HTTP proxy, with the user and password from its address.
fn tunnel<C>(proxy: &Uri, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy.clone(), connector);
    let intercepted = Matcher::builder().all(proxy.to_string()).build().intercept(&Uri::from_static("https://any"));
    match intercepted.as_ref().and_then(|proxy| proxy.basic_auth()) {
        Some(auth) => tunnel.with_auth(auth.clone()),
        None => tunnel,
    }
}

fn https_connector(
    connector: Connector,
    tls: ClientConfig,
    config: &Config,
) -> Result<HttpsConnector<Connector>, TransportError> {
    let Some(name) = &config.tls_server_name else { return Ok(HttpsConnector::from((connector, tls))) };
    let bad_name = |_| TransportError::ServerName { name: name.clone() };
    let resolver = FixedServerNameResolver::new(ServerName::try_from(name.clone()).map_err(bad_name)?);
    Ok(HttpsConnector::new(connector, tls, false, Arc::new(resolver)))
}

/// The TLS settings for the server. Only a server with TLS needs a certificate authority. A system without authorities
/// is therefore no error, as in a container image built `FROM scratch`.
fn tls(config: &Config) -> Result<ClientConfig, TransportError> {
    let is_plain = config.cluster_url.scheme_str() == Some("http");
    if is_plain && config.root_cert.is_none() {
        let mut config = config.clone();
        config.root_cert = Some(Vec::new());
        return Ok(config.rustls_client_config()?);
    }
    Ok(config.rustls_client_config()?)
}

/// The whole transport, over sockets that `connector` opens.
fn over(connector: Connector, config: &Config, http2: Http2) -> Result<Transport, TransportError> {
    // This call may run the credential plugin of a kubeconfig.
    let auth_layer = config.auth_layer()?;
    let mut tls = tls(config)?;
    tls.alpn_protocols = http2.application_protocols();
    let certificate = config.auth_info.exec.as_ref().and_then(|_| validity(&tls));
    let mut connector = TimeoutConnector::new(https_connector(connector, tls, config)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);

    let mut builder = Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new()).pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE);
    builder.http2_initial_stream_window_size(STREAM_WINDOW).http2_initial_connection_window_size(CONNECTION_WINDOW);
    http2.set_pings(&mut builder);
    // API servers take up to 100 requests at a time on a connection.
    let pods: legacy::Client<_, Body> = builder.build(connector.clone());
    let others: legacy::Client<_, Body> = builder.build(connector);
    let http = service_fn(move |request: Request<Body>| {
        let client = if is_about_pod(request.uri().path()) { &pods } else { &others };
        client.request(request)
    });

    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(DecompressionLayer::new().gzip(!config.disable_compression))
        .option_layer(auth_layer)
        .layer(config.extra_headers_layer()?)
        .service(MapErr::new(http, BoxError::from));
    let service = service.map_response(|answer| answer.map(|body| body.map_err(Into::into).boxed_unsync()));
    Ok(Transport { certificate, ..Transport::new(service.map_err(Into::into), &config.default_namespace) })
}

/// Whether every pod needs this kind of request: its binding, its status or its events. Such requests have a separate
/// connection, so that they wait neither for watches nor for slow requests of plugins.
fn is_about_pod(path: &str) -> bool {
    let is_of_pod = path.contains("/pods/") && (path.ends_with("/binding") || path.ends_with("/status"));
    is_of_pod || path.ends_with("/events") || path.contains("/events/")
}

/// The validity of the client's own certificate, if the client has a certificate.
fn validity(tls: &ClientConfig) -> Option<Validity> {
    let own = tls.client_auth_cert_resolver.resolve(&[], &[])?;
    let (_, certificate) = parse_x509_certificate(own.cert.first()?).ok()?;
    let validity = certificate.validity();
    let from = Time::from_second(validity.not_before.timestamp()).ok()?;
    let until = Time::from_second(validity.not_after.timestamp()).ok()?;
    Some(Validity { from, until })
}
