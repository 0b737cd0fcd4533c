//! The endpoints over HTTPS, as in kube-scheduler. `certificates` has the server's certificates, and `trust` the
//! authorities of clients. `current_tls` owns both, and reads changed files again. `lookup` follows the authorities that
//! the cluster publishes, and `access` controls access. `endpoints` has the paths.

mod access;
mod answers;
mod certificates;
mod current_tls;
mod lookup;
mod review_rate;
mod tls_choices;
mod trust;

use std::{
    future, io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result};
use axum::{Extension, Router, middleware};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info};

use self::{
    access::AccessCheck,
    current_tls::{ConnectedClient, CurrentTls},
};
pub use self::{
    access::{NoVerdict, PAGE, RequestUser, TOKEN_COOKIE},
    tls_choices::TlsChoices,
};
use crate::{connections, connections::Activity, connections::serve_http1, connections::serve_http2};
use berth_cluster::ConnectOptions;
use berth_telemetry::{chain, klog::Verbosity, metrics::Metrics};

/// The time limit for a client's handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The maximum number of open requests of a connection, as in kube-scheduler.
const MAX_STREAMS: u32 = 100;

/// The settings of kube-scheduler's flags about serving.
#[derive(Clone, Debug)]
pub struct SecureServing {
    pub address: SocketAddr,
    /// The files of the certificate and of its key. Both files are given, or neither.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// The folder for a self-signed certificate; `None` keeps it in memory.
    pub certificate_dir: Option<PathBuf>,
    pub only_tls13: bool,
    pub tls_choices: TlsChoices,
    /// Whether other processes may listen on the same port, and the kernel spreads connections over them.
    pub shares_port: bool,
    pub http2: ServeHttp2,
    /// Certificates for clients that ask for particular names.
    pub sni_certificates: Vec<SniCertificate>,
    /// The authorities of trusted client certificates.
    pub client_ca: Option<Authorities>,
    /// The proxies that may name the user of a request.
    pub front_proxy: Option<FrontProxy>,
    /// The API server that checks tokens. If it is `None`, every token is invalid.
    pub authentication: Option<ConnectOptions>,
    /// Whether the cluster is asked for the authorities that vouch for callers, if no file contains them.
    pub lookup: Lookup,
    pub token_ttl: Duration,
    /// The API server that checks rights. If it is `None`, only the open paths are served.
    pub authorization: Option<ConnectOptions>,
    pub authorized_ttl: Duration,
    pub unauthorized_ttl: Duration,
    /// The paths that are open to every caller. `*` at the end stands for any text.
    pub open_paths: Vec<String>,
    /// The flags that were given, which `/flagz` shows.
    pub flags: Vec<(String, String)>,
    /// The verbosity that `/debug/flags/v` changes; `None` if the path is not served.
    pub verbosity: Option<Verbosity>,
}

/// The certificates of authorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authorities {
    File(PathBuf),
    /// The certificates from the cluster.
    Pem(String),
}

/// Whether the cluster is asked for authorities, and whether its answer is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    None,
    /// Until the cluster answers, no authority vouches for callers.
    Tolerant,
    /// If the cluster does not answer, the program does not start.
    Strict,
}

/// Whether HTTP/2 is served besides HTTP/1.1, and the maximum number of open requests of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServeHttp2 {
    No,
    UpTo(u32),
}

/// `--tls-sni-cert-key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SniCertificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The names. `*.example.com` stands for any host of the domain. If there are none, the names in the certificate
    /// count.
    pub names: Vec<String>,
}

/// `--requestheader-*`: a proxy that has authenticated a user and names it in headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontProxy {
    /// The authority that vouches for the proxy's certificate.
    pub authority: Authorities,
    /// The common names that the certificate may have. If there are none, any name is allowed.
    pub allowed_names: Vec<String>,
    pub username_headers: Vec<String>,
    pub uid_headers: Vec<String>,
    pub group_headers: Vec<String>,
    pub extra_header_prefixes: Vec<String>,
}

impl SecureServing {
    /// The defaults of kube-scheduler, for this address.
    pub fn on(address: IpAddr, port: u16) -> Self {
        Self {
            address: SocketAddr::new(address, port),
            certificate: None,
            certificate_dir: None,
            only_tls13: false,
            tls_choices: TlsChoices::default(),
            shares_port: false,
            http2: ServeHttp2::UpTo(MAX_STREAMS),
            sni_certificates: Vec::new(),
            client_ca: None,
            front_proxy: None,
            authentication: None,
            lookup: Lookup::Tolerant,
            token_ttl: Duration::from_secs(10),
            authorization: None,
            authorized_ttl: Duration::from_secs(10),
            unauthorized_ttl: Duration::from_secs(10),
            open_paths: ["/healthz", "/readyz", "/livez"].map(str::to_owned).to_vec(),
            flags: Vec::new(),
            verbosity: None,
        }
    }

    /// Listens on the address. The returned future serves requests, and ends only if it cannot continue. `metrics` count
    /// the callers.
    ///
    /// # Errors
    /// The address, a certificate or a kubeconfig cannot be used.
    pub async fn serve(
        &self,
        routes: Router,
        metrics: &Arc<Metrics>,
    ) -> Result<impl Future<Output = ()> + Send + use<>> {
        let tls = Arc::new(CurrentTls::read(self)?);
        let published = lookup::look_up(&tls).await?;
        let watch = tls.follow_files();
        let gate = AccessCheck::new(self, metrics).await?;
        let listener = self
            .listen()
            .with_context(|| format!("--bind-address and --secure-port: {} cannot be used", self.address))?;
        info!(address = %listener.local_addr()?, "serving HTTPS");
        let routes = routes.layer(middleware::from_fn_with_state(gate, access::check));
        let http2 = self.http2;
        Ok(async move {
            let _watch = watch;
            let follow = async {
                match published {
                    Some(published) => published.follow(Arc::clone(&tls)).await,
                    None => future::pending().await,
                }
            };
            let serve = |stream, activity| serve_one(stream, Arc::clone(&tls), routes.clone(), http2, activity);
            tokio::select! {
                () = connections::accept(listener, serve) => {}
                () = follow => {}
            }
        })
    }

    /// Listens on the address, as tokio's `TcpListener::bind` does.
    fn listen(&self) -> io::Result<TcpListener> {
        const BACKLOG: u32 = 1024;
        let socket = if self.address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(self.shares_port)?;
        socket.bind(self.address)?;
        socket.listen(BACKLOG)
    }
}

/// The address of the client.
#[derive(Clone, Copy, Debug)]
struct PeerAddress(IpAddr);

async fn serve_one(stream: TcpStream, tls: Arc<CurrentTls>, routes: Router, http2: ServeHttp2, activity: Activity) {
    let Ok(address) = stream.peer_addr() else { return };
    let acceptor = TlsAcceptor::from(Arc::clone(&tls.get().config));
    let stream = match timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(error = chain(&error), "TLS handshake failed"),
        Err(_) => return debug!("TLS handshake timed out"),
    };
    let (_, connection) = stream.get_ref();
    let client = ConnectedClient::new(connection.peer_certificates().unwrap_or_default(), tls);
    let is_http2 = connection.alpn_protocol() == Some(b"h2");
    let routes = routes.layer(Extension(client)).layer(Extension(PeerAddress(address.ip())));
    match http2 {
        ServeHttp2::UpTo(max_streams) if is_http2 => serve_http2(stream, routes, activity, max_streams).await,
        ServeHttp2::UpTo(_) | ServeHttp2::No => serve_http1(stream, routes, activity).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_is_shared_if_both_allow_it() {
        let mut first = SecureServing::on(IpAddr::from([127, 0, 0, 1]), 0);
        first.shares_port = true;
        let listener = first.listen().expect("a free port");
        let mut second = first.clone();
        second.address = listener.local_addr().expect("an address");
        second.listen().expect("it is shared");
        second.shares_port = false;
        assert_eq!(second.listen().expect_err("it is not shared").kind(), io::ErrorKind::AddrInUse);
    }
}
