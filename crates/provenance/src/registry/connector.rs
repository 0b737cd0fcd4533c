//! Connections to hosts, directly or through a proxy.
//!
//! A proxy gets requests over HTTP whole, and forwards them. For requests over HTTPS it opens a tunnel (`CONNECT`). TLS
//! in the tunnel reaches from Berth to the host, so the proxy sees the name of the host, and neither requests nor
//! credentials.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::Empty;
use hyper::{
    client::conn::http1,
    rt::{Read, ReadBufCursor, Write},
    upgrade::{self, Upgraded},
};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use tower::{BoxError, Service, ServiceExt as _};

use super::proxy::{Proxies, Proxy, is_plain_http, port_of};

/// Opens connections without TLS, except for TLS to a proxy.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    pub proxies: Proxies,
    pub to_host: HttpConnector,
    pub to_proxy: HttpsConnector<HttpConnector>,
}

/// A connection to a host, or to a proxy that forwards requests to the host.
pub(super) struct Socket {
    stream: Box<dyn Stream>,
    /// Whether the other side is a proxy, which needs the whole address of each request.
    is_forwarded: bool,
}

trait Stream: Read + Write + Send + Unpin {}

impl<T: Read + Write + Send + Unpin> Stream for T {}

/// The reason why a proxy leads to no host.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProxyError {
    #[error("cannot connect to {proxy}")]
    Unreachable { proxy: String, source: BoxError },
    #[error(
        "{proxy} requires credentials: put a user and a password into the variable, http://USER:PASSWORD@HOST:PORT"
    )]
    NoCredentials { proxy: String },
    #[error("{proxy} rejected the user or the password in the variable")]
    WrongCredentials { proxy: String },
    #[error("{proxy} refused to connect to {host}: {status}")]
    Refused { proxy: String, host: String, status: StatusCode },
    #[error("{proxy} did not connect to {host}")]
    NoTunnel { proxy: String, host: String, source: BoxError },
}

impl ProxyError {
    /// The proxy answered 407.
    pub(super) fn unauthorized(proxy: &Proxy) -> Self {
        let (has_credentials, proxy) = (proxy.authorization.is_some(), proxy.to_string());
        if has_credentials { Self::WrongCredentials { proxy } } else { Self::NoCredentials { proxy } }
    }
}

impl Connector {
    async fn connect(self, target: Uri) -> Result<Socket, BoxError> {
        let Self { proxies, to_host, to_proxy } = self;
        let Some(proxy) = proxies.proxy_for(&target)? else {
            let stream = to_host.oneshot(target).await?;
            return Ok(Socket { stream: Box::new(stream), is_forwarded: false });
        };
        let unreachable = |source| ProxyError::Unreachable { proxy: proxy.to_string(), source };
        let stream = to_proxy.oneshot(proxy.address.clone()).await.map_err(unreachable)?;
        if is_plain_http(&target) {
            return Ok(Socket { stream: Box::new(stream), is_forwarded: true });
        }
        let stream = tunnel(stream, proxy, &target).await?;
        Ok(Socket { stream: Box::new(stream), is_forwarded: false })
    }
}

impl Service<Uri> for Connector {
    type Response = Socket;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Socket, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        Box::pin(self.clone().connect(target))
    }
}

/// Asks a proxy for a connection to the host of `target`.
async fn tunnel<S>(stream: S, proxy: &Proxy, target: &Uri) -> Result<Upgraded, ProxyError>
where
    S: Read + Write + Send + Unpin + 'static,
{
    let host = format!("{}:{}", target.host().unwrap_or_default(), port_of(target));
    let failed = |source| ProxyError::NoTunnel { proxy: proxy.to_string(), host: host.clone(), source };
    let mut request = Request::connect(&*host).header(header::HOST, &*host);
    if let Some(authorization) = &proxy.authorization {
        request = request.header(header::PROXY_AUTHORIZATION, authorization);
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|error| failed(error.into()))?;
    let (mut sender, connection) = http1::handshake(stream).await.map_err(|error| failed(error.into()))?;
    // The task ends when the tunnel is open, or when this function returns. The answer reports its errors.
    tokio::spawn(async move { drop(connection.with_upgrades().await) });
    let answer = sender.send_request(request).await.map_err(|error| failed(error.into()))?;
    match answer.status() {
        status if status.is_success() => upgrade::on(answer).await.map_err(|error| failed(error.into())),
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => Err(ProxyError::unauthorized(proxy)),
        status => Err(ProxyError::Refused { proxy: proxy.to_string(), host, status }),
    }
}

impl Connection for Socket {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.is_forwarded)
    }
}

impl Read for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl Write for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }
}
