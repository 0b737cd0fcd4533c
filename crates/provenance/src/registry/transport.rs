//! HTTP to one host: TLS with the system's roots and the operator's own, the proxies of the environment, time limits, and
//! bodies of limited size.

use std::{fs, io, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, header, uri::Scheme};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use tokio::time::timeout;

use super::{
    connector::{Connector, ProxyError},
    proxy::{Proxies, Proxy, is_plain_http},
};

/// The time limit for a connection to a host or to a proxy.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// The time limit for the head of an answer, including uploads.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// The time limit for the next part of a body.
const STALL_TIME: Duration = Duration::from_secs(30);
/// The maximum number of redirects. A registry redirects to its storage, which may redirect again.
const MAX_REDIRECTS: usize = 5;

#[derive(Clone, Debug)]
pub(crate) struct Transport {
    client: Client<HttpsConnector<Connector>, Full<Bytes>>,
    proxies: Proxies,
    pub scheme: Scheme,
}

/// The reason why no complete answer arrived.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransportError {
    #[error("{0}")]
    Failed(String),
    #[error(
        "{0}; if the registry speaks HTTP, give --plain-http, or set plainHTTP in the registry's entry of `registries`"
    )]
    WithoutTls(String),
    #[error("no answer within {} s{through}", .limit.as_secs())]
    TimedOut { limit: Duration, through: String },
    #[error("the answer is longer than {0} bytes")]
    TooLarge(u64),
    #[error("too many redirects, or a redirect without a valid address")]
    Redirects,
}

/// The reason why no connections can be made.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("registries: the caFile of {host}, {file}, cannot be used")]
    CaFile { host: String, file: String, source: io::Error },
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
}

impl Transport {
    /// The transport for a host. `ca_file` contains roots that count besides the system's.
    pub(crate) fn new(
        host: &str,
        is_plain: bool,
        ca_file: Option<&Path>,
        proxies: Proxies,
    ) -> Result<Self, SetupError> {
        let mut roots = RootCertStore::empty();
        let mut own = Vec::new();
        if let Some(file) = ca_file {
            let refused =
                |source| SetupError::CaFile { host: host.to_owned(), file: file.display().to_string(), source };
            own = read_certificates(file).map_err(refused)?;
        }
        if !is_plain || proxies.use_tls() {
            // If the system has no certificates, connections fail with an error that says so.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        roots.add_parsable_certificates(own);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_connect_timeout(Some(CONNECT_TIME));
        let to_proxy = HttpsConnector::from((http.clone(), tls.clone()));
        let connector = Connector { proxies: proxies.clone(), to_host: http, to_proxy };
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls);
        // Redirects to HTTP are followed only if HTTP was configured.
        let builder = if is_plain { builder.https_or_http() } else { builder.https_only() };
        let client = Client::builder(TokioExecutor::new()).build(builder.enable_http1().wrap_connector(connector));
        Ok(Self { client, proxies, scheme: if is_plain { Scheme::HTTP } else { Scheme::HTTPS } })
    }

    /// Sends a request once.
    pub(crate) async fn send(&self, mut request: Request<Full<Bytes>>) -> Result<Response<Incoming>, TransportError> {
        let proxy = self.proxies.proxy_for(request.uri());
        let proxy = proxy.map_err(|error| TransportError::Failed(error.to_string()))?;
        // A proxy that forwards requests finds its credentials in each of them. A tunnel is opened with them.
        let forwarding = proxy.filter(|_| is_plain_http(request.uri()));
        if let Some(authorization) = forwarding.and_then(|proxy| proxy.authorization.clone()) {
            request.headers_mut().insert(header::PROXY_AUTHORIZATION, authorization);
        }
        let answer = timeout(ANSWER_TIME, self.client.request(request)).await;
        let timed_out = |_| TransportError::TimedOut { limit: ANSWER_TIME, through: through(proxy) };
        let answer = answer.map_err(timed_out)?.map_err(|error| failed(&error, proxy))?;
        match forwarding {
            Some(proxy) if answer.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                Err(TransportError::Failed(ProxyError::unauthorized(proxy).to_string()))
            }
            Some(_) | None => Ok(answer),
        }
    }

    /// Sends a request without a body, and follows redirects. Another host does not get our credentials.
    pub(crate) async fn follow(&self, mut request: Request<()>) -> Result<Response<Incoming>, TransportError> {
        for _ in 0..=MAX_REDIRECTS {
            let answer = self.send(request.clone().map(|()| Full::default())).await?;
            if !answer.status().is_redirection() {
                return Ok(answer);
            }
            let location = answer.headers().get(header::LOCATION).and_then(|location| location.to_str().ok());
            let target = location.and_then(|location| resolve(request.uri(), location));
            let target = target.ok_or(TransportError::Redirects)?;
            if target.authority() != request.uri().authority() || target.scheme() != request.uri().scheme() {
                request.headers_mut().remove(header::AUTHORIZATION);
            }
            *request.uri_mut() = target;
        }
        Err(TransportError::Redirects)
    }
}

/// Reads the body of an answer. The body may have at most `limit` bytes.
pub(crate) async fn read_body(answer: Response<Incoming>, limit: u64) -> Result<Vec<u8>, TransportError> {
    let mut body = answer.into_body();
    let mut bytes = Vec::new();
    loop {
        let timed_out = |_| TransportError::TimedOut { limit: STALL_TIME, through: String::new() };
        let frame = timeout(STALL_TIME, body.frame()).await.map_err(timed_out)?;
        let Some(frame) = frame else { return Ok(bytes) };
        let frame = frame.map_err(|error| failed(&error, None))?;
        let Ok(data) = frame.into_data() else { continue };
        if (bytes.len() + data.len()) as u64 > limit {
            return Err(TransportError::TooLarge(limit));
        }
        bytes.extend_from_slice(&data);
    }
}

/// Resolves `location` against `base`. `location` is an absolute URI or a path from the root of the host; the result is
/// `None` for anything else.
pub(crate) fn resolve(base: &Uri, location: &str) -> Option<Uri> {
    if location.starts_with('/') && !location.starts_with("//") {
        let mut parts = base.clone().into_parts();
        parts.path_and_query = Some(location.parse().ok()?);
        return Uri::from_parts(parts).ok();
    }
    location.parse::<Uri>().ok().filter(|uri| uri.scheme().is_some() && uri.authority().is_some())
}

fn read_certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let text = fs::read(file)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates = certificates.map_err(io::Error::other)?;
    if certificates.is_empty() { Err(io::Error::other("it contains no CERTIFICATE in PEM")) } else { Ok(certificates) }
}

/// Whether a connection failed because the host answered a TLS handshake with something else, or closed the connection.
fn is_without_tls(error: &dyn std::error::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        // The host was not asked.
        if error.is::<ProxyError>() {
            return false;
        }
        // hyper-rustls wraps the error of a handshake in a second `io::Error`. Errors of TCP have another type.
        let outer = error.downcast_ref::<io::Error>();
        if let Some(handshake) = outer.and_then(|outer| outer.get_ref()?.downcast_ref::<io::Error>()) {
            return match handshake.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
                Some(refusal) => matches!(refusal, rustls::Error::InvalidMessage(_)),
                None => matches!(
                    handshake.kind(),
                    io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
                ),
            };
        }
        cause = error.source();
    }
    false
}

/// The proxy of a request, for a message that does not name it yet.
fn through(proxy: Option<&Proxy>) -> String {
    proxy.map(|proxy| format!(" (through {proxy})")).unwrap_or_default()
}

/// The failure of a request to a host or, if there is one, to `proxy`.
fn failed(error: &dyn std::error::Error, proxy: Option<&Proxy>) -> TransportError {
    let mut text = error.to_string();
    let mut route = through(proxy);
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        if error.is::<ProxyError>() {
            route.clear();
        }
        cause = error.source();
    }
    text.push_str(&route);
    if is_without_tls(error) { TransportError::WithoutTls(text) } else { TransportError::Failed(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_relative_to_their_host() {
        let base: Uri = "https://registry.example/v2/a/blobs/uploads/".parse().unwrap();
        let to = |location: &str| resolve(&base, location).map(|uri| uri.to_string());
        assert_eq!(to("/v2/x?state=1").as_deref(), Some("https://registry.example/v2/x?state=1"));
        assert_eq!(to("https://storage.example/x").as_deref(), Some("https://storage.example/x"));
        assert_eq!(to("x"), None);
        assert_eq!(to("//storage.example/x"), None);
    }
}
