//! A proxy before a test registry: it forwards requests over HTTP, opens tunnels, and may ask for a password.
//!
//! The proxy leads to the one registry, whatever host a client names. So tests may use names that no resolver knows. In a
//! tunnel the proxy itself speaks TLS as the host, because the registry speaks HTTP only.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    body::Bytes,
    http::{Method, Request, Response, StatusCode, Uri, header, uri::PathAndQuery},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{body::Incoming, client, server, service::service_fn, upgrade};
use hyper_util::rt::TokioIo;
use rustls::{ServerConfig, pki_types::PrivatePkcs8KeyDer};
use tokio::{
    io::{AsyncRead, AsyncWrite, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

use crate::TestRegistry;

/// A proxy that serves until this value is dropped.
#[derive(Debug)]
pub struct TestProxy {
    address: SocketAddr,
    authority: String,
    state: Arc<Mutex<State>>,
    server: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct State {
    /// The value of `Proxy-Authorization` that clients need.
    authorization: Option<String>,
    /// The answer to every request, if the proxy does not allow any.
    refusal: Option<StatusCode>,
    /// The method and target of each request.
    requests: Vec<String>,
}

/// The parts that each connection needs.
#[derive(Clone)]
struct Route {
    state: Arc<Mutex<State>>,
    registry: SocketAddr,
    tls: TlsAcceptor,
}

type Answer = Response<BoxBody<Bytes, hyper::Error>>;

impl TestProxy {
    /// Serves on a free port of the loopback address, over HTTP. `hosts` are the hosts whose tunnels end in `registry`.
    ///
    /// # Errors
    /// There is no free port, or no certificate can be made for the hosts.
    pub async fn start(registry: &TestRegistry, hosts: &[&str]) -> io::Result<Self> {
        Self::serve(registry, hosts, false).await
    }

    /// As [`TestProxy::start`], but clients speak TLS with the proxy itself, too.
    ///
    /// # Errors
    /// As those of [`TestProxy::start`].
    pub async fn start_with_tls(registry: &TestRegistry, hosts: &[&str]) -> io::Result<Self> {
        Self::serve(registry, hosts, true).await
    }

    async fn serve(registry: &TestRegistry, hosts: &[&str], has_tls: bool) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (tls, authority) = acceptor(hosts)?;
        let state: Arc<Mutex<State>> = Arc::default();
        let route = Route { state: Arc::clone(&state), registry: registry.address, tls };
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(accept(route.clone(), stream, has_tls));
            }
        });
        Ok(Self { address, authority, state, server })
    }

    /// `127.0.0.1:PORT`.
    #[must_use]
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// The certificate that vouches for the hosts and for `127.0.0.1`, in PEM.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// From now on clients need this name and this password.
    pub fn require(&self, user: &str, password: &str) {
        let authorization = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
        lock(&self.state).authorization = Some(authorization);
    }

    /// From now on every request is answered with this status.
    pub fn refuse(&self, status: StatusCode) {
        lock(&self.state).refusal = Some(status);
    }

    /// The method and target of the requests since the last call: `CONNECT registry.example:443`, or
    /// `GET http://registry.example/v2/`.
    #[must_use]
    pub fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.state).requests)
    }
}

impl Drop for TestProxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A server's side of TLS for some hosts and the proxy, and its certificate in PEM.
fn acceptor(hosts: &[&str]) -> io::Result<(TlsAcceptor, String)> {
    let names: Vec<String> = hosts.iter().chain(&["127.0.0.1"]).map(|host| (*host).to_owned()).collect();
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(names).map_err(io::Error::other)?;
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let tls = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key.into())
        .map_err(io::Error::other)?;
    Ok((TlsAcceptor::from(Arc::new(tls)), cert.pem()))
}

async fn accept(route: Route, stream: TcpStream, has_tls: bool) {
    if has_tls {
        if let Ok(stream) = route.tls.accept(stream).await {
            converse(route, stream).await;
        }
    } else {
        converse(route, stream).await;
    }
}

async fn converse(route: Route, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
    let service = service_fn(move |request| answer(route.clone(), request));
    let connection = server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // A client that hangs up is not an error of the proxy.
    drop(connection.with_upgrades().await);
}

async fn answer(route: Route, request: Request<Incoming>) -> io::Result<Answer> {
    if let Some(status) = refusal(&route, &request) {
        return Ok(empty(status));
    }
    if request.method() == Method::CONNECT {
        tokio::spawn(tunnel(route, request));
        return Ok(empty(StatusCode::OK));
    }
    forward(route.registry, request).await
}

/// Notes the request, and decides whether it is refused.
fn refusal(route: &Route, request: &Request<Incoming>) -> Option<StatusCode> {
    let mut state = lock(&route.state);
    state.requests.push(format!("{} {}", request.method(), request.uri()));
    let given = request.headers().get(header::PROXY_AUTHORIZATION).and_then(|given| given.to_str().ok());
    let is_known = state.authorization.is_none() || state.authorization.as_deref() == given;
    state.refusal.or((!is_known).then_some(StatusCode::PROXY_AUTHENTICATION_REQUIRED))
}

async fn forward(registry: SocketAddr, mut request: Request<Incoming>) -> io::Result<Answer> {
    let stream = TcpStream::connect(registry).await?;
    let (mut sender, connection) =
        client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::spawn(connection);
    let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from(path);
    request.headers_mut().remove(header::PROXY_AUTHORIZATION);
    let answer = sender.send_request(request).await.map_err(io::Error::other)?;
    Ok(answer.map(BodyExt::boxed))
}

async fn tunnel(route: Route, request: Request<Incoming>) -> io::Result<()> {
    let stream = upgrade::on(request).await.map_err(io::Error::other)?;
    let mut stream = route.tls.accept(TokioIo::new(stream)).await?;
    let mut registry = TcpStream::connect(route.registry).await?;
    copy_bidirectional(&mut stream, &mut registry).await?;
    Ok(())
}

fn empty(status: StatusCode) -> Answer {
    let body = Full::new(Bytes::new()).map_err(|never| match never {}).boxed();
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer
}
