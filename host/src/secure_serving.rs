//! The endpoints over HTTPS, as kube-scheduler serves them: `certificates` has the server's certificate and the
//! authorities of clients, `access` says who may ask for what. The paths are those of `endpoints`.

mod access;
mod certificates;

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result};
use axum::{Extension, Router, middleware};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info, warn};

use self::access::Gate;
use crate::failure::chain;

/// A client that does not get through the handshake in this time is given up.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// What kube-scheduler's flags say about serving.
#[derive(Clone, Debug)]
pub(crate) struct SecureServing {
    pub address: SocketAddr,
    /// Both or none.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Where a self-signed certificate is kept; `None`: in memory.
    pub certificate_dir: Option<PathBuf>,
    pub only_tls13: bool,
    /// Whose client certificates are trusted.
    pub client_ca: Option<PathBuf>,
    /// Who is asked about tokens; `None`: nobody, so every token is invalid.
    pub authentication_kubeconfig: Option<PathBuf>,
    pub token_ttl: Duration,
    /// Who is asked about rights; `None`: nobody, so only the open paths are served.
    pub authorization_kubeconfig: Option<PathBuf>,
    pub authorized_ttl: Duration,
    pub unauthorized_ttl: Duration,
    /// Paths that everybody may ask for; `*` at the end stands for anything.
    pub open_paths: Vec<String>,
    /// What `/flagz` shows: the flags that were given.
    pub flags: Vec<(String, String)>,
}

impl SecureServing {
    /// kube-scheduler's defaults, on this address.
    pub(crate) fn on(address: IpAddr, port: u16) -> Self {
        Self {
            address: SocketAddr::new(address, port),
            certificate: None,
            certificate_dir: None,
            only_tls13: false,
            client_ca: None,
            authentication_kubeconfig: None,
            token_ttl: Duration::from_secs(10),
            authorization_kubeconfig: None,
            authorized_ttl: Duration::from_secs(10),
            unauthorized_ttl: Duration::from_secs(10),
            open_paths: ["/healthz", "/readyz", "/livez"].map(str::to_owned).to_vec(),
            flags: Vec::new(),
        }
    }

    /// Listens; the future serves. It ends only when it cannot go on.
    ///
    /// # Errors
    /// The address, a certificate or a kubeconfig cannot be used.
    pub(crate) async fn serve(&self, routes: Router) -> Result<impl Future<Output = ()> + Send + use<>> {
        let tls = certificates::server_config(self)?;
        let gate = Gate::new(self).await?;
        let listener = TcpListener::bind(self.address)
            .await
            .with_context(|| format!("--bind-address and --secure-port: {} cannot be used", self.address))?;
        info!(address = %listener.local_addr()?, "serving HTTPS");
        let routes = routes.layer(middleware::from_fn_with_state(gate, access::check));
        Ok(accept(listener, TlsAcceptor::from(Arc::new(tls)), routes))
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, routes: Router) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve_one(stream, acceptor.clone(), routes.clone()))),
            Err(error) => {
                // As a rule the process has no file descriptor left: it comes back.
                warn!(%error, "no connection accepted");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn serve_one(stream: TcpStream, acceptor: TlsAcceptor, routes: Router) {
    let stream = match timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(error = chain(&error), "no TLS handshake"),
        Err(_) => return debug!("no TLS handshake in time"),
    };
    let (_, connection) = stream.get_ref();
    let certificate = connection.peer_certificates().and_then(<[_]>::first).map(|it| certificates::subject(it));
    let service = TowerToHyperService::new(routes.layer(Extension(access::Peer(certificate.flatten()))));
    let served = http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service).await;
    if let Err(error) = served {
        debug!(%error, "a connection broke off");
    }
}
