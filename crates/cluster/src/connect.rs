//! Finding the API server and the credentials for it.
//!
//! The order is kubectl's, with one difference: a pod's own service account comes before `~/.kube/config`, so that an
//! image with a stray file in its home still connects to the cluster in which it runs.

use std::{
    ffi::OsString,
    iter,
    path::{Path, PathBuf},
    sync::Arc,
};

use http::{
    HeaderValue, Method, StatusCode,
    header::{CONTENT_TYPE, USER_AGENT},
};
use http_body_util::{BodyExt as _, Limited};
use kube::{
    Client, Config,
    client::Body,
    config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig},
};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use tokio::task::spawn_blocking;
use tower::BoxError;
use tracing::{info, warn};

use crate::{
    impersonation::Impersonation,
    observe::{RequestObserver, observed},
    transport::{Http2, Transport, transport},
};

pub use error::{ConnectError, Origin};
pub use renewal::{Renewal, RenewalError, connect_for_long};

mod error;
mod proxy;
mod renewal;
#[cfg(test)]
mod tests;

/// The place where a cluster is found, and the name of this client.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// The only file to use.
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig that replaces the current context.
    pub context: Option<String>,
    /// The API server's address, which replaces the kubeconfig's. Without a kubeconfig, the server must accept requests
    /// without credentials.
    pub server: Option<String>,
    /// The address of another server that knows the users of the cluster, such as a scheduler. The cluster is found as
    /// usual, and its credentials are used at the other server.
    pub other_server: Option<String>,
    /// A PEM file with the certificates that vouch for `server` or `other_server`. This file replaces the kubeconfig's
    /// authorities.
    pub certificate_authority: Option<PathBuf>,
    /// The user as which requests are made; `None` stands for the user of the credentials.
    pub impersonation: Option<Impersonation>,
    /// The user agent of each request. The API server takes the name of the field manager from the part before the `/`.
    pub user_agent: String,
}

/// The way to an API server, and the source of its address.
#[derive(Clone)]
pub struct Connection {
    transport: Transport,
    pub origin: Origin,
    /// The API server's address.
    pub server: String,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { transport: _, origin, server } = self;
        f.debug_struct("Connection").field("origin", origin).field("server", server).finish_non_exhaustive()
    }
}

impl Connection {
    /// A new client.
    ///
    /// This must be called inside a tokio runtime.
    #[must_use]
    pub fn client(&self) -> Client {
        self.transport.clone().into_client()
    }

    /// A new client. `observer` sees its requests, watches included.
    ///
    /// This must be called inside a tokio runtime.
    #[must_use]
    pub fn observed_client(&self, observer: Arc<dyn RequestObserver>) -> Client {
        observed(self.transport.clone(), observer).into_client()
    }

    /// Sends one request. `body` is JSON or empty. Returns status and body of the answer, which may have `limit` bytes.
    ///
    /// # Errors
    /// The request has no answer, or the answer is too long.
    pub async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        limit: usize,
    ) -> Result<(StatusCode, Vec<u8>), ExchangeError> {
        let request = http::Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
        let request = request.body(Body::from(body)).map_err(|error| ExchangeError(error.into()))?;
        let answer = self.transport.clone().send(request).await.map_err(ExchangeError)?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), limit).collect().await.map_err(ExchangeError)?;
        Ok((status, body.to_bytes().into()))
    }
}

/// A server did not answer a request.
#[derive(Debug, thiserror::Error)]
#[error("it does not answer")]
pub struct ExchangeError(#[source] BoxError);

/// Connects to the cluster of the first source that exists: the file in the options, the files in `KUBECONFIG`, the
/// service account of the pod in which this process runs (unless a context is given), `~/.kube/config`.
///
/// The function reads files and may run the credential plugin of a kubeconfig, but sends no request.
pub async fn connect(options: &ConnectOptions) -> Result<Connection, ConnectError> {
    connect_in(options, Environment::of_process()).await
}

/// The facts that the process reads from its environment.
#[derive(Debug, Default)]
struct Environment {
    kubeconfig: Option<OsString>,
    home: Option<PathBuf>,
    in_cluster: bool,
    http2: Http2,
}

impl Environment {
    fn of_process() -> Self {
        Self {
            kubeconfig: std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty()),
            home: std::env::home_dir(),
            in_cluster: std::env::var_os("KUBERNETES_SERVICE_HOST").is_some(),
            http2: Http2::of_process(),
        }
    }
}

async fn connect_in(options: &ConnectOptions, environment: Environment) -> Result<Connection, ConnectError> {
    let http2 = environment.http2;
    let origin = find(options, environment)?;
    let server = options.other_server.as_deref().or(options.server.as_deref());
    let server = server.map(|server| parse_server(server, &origin)).transpose()?;
    let mut config = match &origin {
        Origin::Address(server) => Config::new(parse_server(server, &origin)?),
        Origin::InCluster => {
            Config::incluster().map_err(|source| ConnectError::InCluster { reason: error::one_line(&source) })?
        }
        Origin::File(_) | Origin::KubeconfigVariable(_) | Origin::Home(_) => {
            let kubeconfig = read(&origin)?;
            check(&kubeconfig, options.context.as_deref(), &origin)?;
            from_kubeconfig(kubeconfig, options, &origin).await?
        }
    };
    if let Some(server) = server {
        config.cluster_url = server;
    }
    if let Some(file) = &options.certificate_authority {
        // The kubeconfig's settings about certificates only concern its own server.
        (config.root_cert, config.tls_server_name, config.accept_invalid_certs) =
            (Some(certificates(file)?), None, false);
    }
    if let Some(impersonation) = &options.impersonation {
        impersonate(impersonation, &mut config.auth_info)?;
    }
    if !options.user_agent.is_empty() {
        let value = HeaderValue::from_str(&options.user_agent)
            .map_err(|_| ConnectError::UserAgent { value: options.user_agent.clone() })?;
        config.headers.push((USER_AGENT, value));
    }
    if config.accept_invalid_certs {
        warn!(%origin, "the API server's certificate is not verified, because insecure-skip-tls-verify is set");
    }
    let server = config.cluster_url.to_string();
    let plugin = config.auth_info.exec.as_ref().and_then(|exec| exec.command.clone());
    // A credential plugin may run for seconds, so the call must not block a thread that other tasks need.
    let made = spawn_blocking(move || transport(&config, http2)).await;
    let made = made.unwrap_or_else(|ended| std::panic::resume_unwind(ended.into_panic()));
    let transport = made.map_err(|source| {
        let plugin = plugin.map(|command| format!("credential plugin {command}: ")).unwrap_or_default();
        ConnectError::Client { origin: origin.clone(), reason: plugin + &error::one_line(&source) }
    })?;
    info!(%origin, server, "connecting to the cluster");
    Ok(Connection { transport, origin, server })
}

/// Adds a user to credentials. The user replaces the one that a kubeconfig may name with `as` and the fields that belong
/// to it.
fn impersonate(impersonation: &Impersonation, credentials: &mut AuthInfo) -> Result<(), ConnectError> {
    let Impersonation { user, groups } = impersonation;
    for value in iter::once(user).chain(groups) {
        HeaderValue::from_str(value).map_err(|_| ConnectError::Impersonation { value: value.clone() })?;
    }
    credentials.impersonate = Some(user.clone());
    credentials.impersonate_uid = None;
    credentials.impersonate_groups = Some(groups.clone());
    credentials.impersonate_user_extra = None;
    Ok(())
}

fn parse_server(server: &str, origin: &Origin) -> Result<http::Uri, ConnectError> {
    let parsed = server.parse::<http::Uri>().ok().filter(|uri| uri.scheme().is_some() && uri.host().is_some());
    let (origin, field) = (origin.clone(), "server".to_owned());
    parsed.ok_or_else(|| ConnectError::Server { origin, field, server: server.to_owned() })
}

fn certificates(file: &Path) -> Result<Vec<Vec<u8>>, ConnectError> {
    let certificates = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let unusable = |reason: String| ConnectError::CertificateAuthority { path: file.to_owned(), reason };
    let certificates = certificates.map_err(|error| unusable(error.to_string()))?;
    if certificates.is_empty() {
        return Err(unusable("it has no certificate".to_owned()));
    }
    Ok(certificates.into_iter().map(|certificate| certificate.to_vec()).collect())
}

fn find(options: &ConnectOptions, environment: Environment) -> Result<Origin, ConnectError> {
    if let Some(path) = &options.kubeconfig {
        return Ok(Origin::File(path.clone()));
    }
    if let Some(server) = &options.server {
        return Ok(Origin::Address(server.clone()));
    }
    if let Some(value) = environment.kubeconfig {
        let paths = std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty());
        return Ok(Origin::KubeconfigVariable(paths.collect()));
    }
    if environment.in_cluster && options.context.is_none() {
        return Ok(Origin::InCluster);
    }
    let path = environment.home.map(|home| home.join(".kube/config"));
    path.filter(|path| path.exists()).map(Origin::Home).ok_or(ConnectError::NoCluster)
}

/// Reads and merges the files. Missing files among several files are skipped, as in kubectl.
fn read(origin: &Origin) -> Result<Kubeconfig, ConnectError> {
    let paths = origin.files();
    let mut merged: Option<Kubeconfig> = None;
    for path in paths {
        if paths.len() > 1 && !path.exists() {
            continue;
        }
        let next = Kubeconfig::read_from(path).map_err(|reason| error::unreadable(path, reason))?;
        merged = Some(match merged {
            None => next,
            Some(merged) => merged.merge(next).map_err(|reason| error::unreadable(path, reason))?,
        });
    }
    merged.ok_or_else(|| ConnectError::NoFile { origin: origin.clone() })
}

/// Checks for common mistakes, so that the error names the file and the field.
fn check(config: &Kubeconfig, context: Option<&str>, origin: &Origin) -> Result<(), ConnectError> {
    let missing = |field: &'static str, name: &str, known: Vec<String>| ConnectError::Unknown {
        origin: origin.clone(),
        field,
        name: name.to_owned(),
        known,
    };
    let Some(name) = context.or(config.current_context.as_deref()).filter(|name| !name.is_empty()) else {
        return Err(ConnectError::NoContext { origin: origin.clone() });
    };
    let found = config.contexts.iter().find(|named| named.name == name).and_then(|named| named.context.as_ref());
    let Some(context) = found else {
        return Err(missing("context", name, config.contexts.iter().map(|named| named.name.clone()).collect()));
    };

    let cluster = config.clusters.iter().find(|named| named.name == context.cluster);
    let Some(cluster) = cluster.and_then(|named| named.cluster.as_ref()) else {
        let known = config.clusters.iter().map(|named| named.name.clone()).collect();
        return Err(missing("cluster", &context.cluster, known));
    };
    check_cluster(cluster, &context.cluster, origin)?;

    let Some(user_name) = context.user.as_deref().filter(|name| !name.is_empty()) else { return Ok(()) };
    let user = config.auth_infos.iter().find(|named| named.name == user_name);
    match user {
        Some(user) => user.auth_info.as_ref().map_or(Ok(()), |user| check_user(user, user_name, origin)),
        None => Err(missing("user", user_name, config.auth_infos.iter().map(|named| named.name.clone()).collect())),
    }
}

fn check_cluster(cluster: &Cluster, name: &str, origin: &Origin) -> Result<(), ConnectError> {
    let field = |field: &str| format!("clusters[{name}].cluster.{field}");
    match cluster.server.as_deref().map(str::parse::<http::Uri>) {
        Some(Ok(server)) if server.host().is_some() => {}
        _ => {
            let server = cluster.server.clone().unwrap_or_default();
            return Err(ConnectError::Server { origin: origin.clone(), field: field("server"), server });
        }
    }
    if cluster.certificate_authority_data.is_none() {
        check_file(cluster.certificate_authority.as_deref(), &field("certificate-authority"), origin)?;
    }
    Ok(())
}

fn check_user(user: &AuthInfo, name: &str, origin: &Origin) -> Result<(), ConnectError> {
    let field = |field: &str| format!("users[{name}].user.{field}");
    if user.client_certificate_data.is_none() {
        check_file(user.client_certificate.as_deref(), &field("client-certificate"), origin)?;
    }
    if user.client_key_data.is_none() {
        check_file(user.client_key.as_deref(), &field("client-key"), origin)?;
    }
    if user.token.is_none() {
        check_file(user.token_file.as_deref(), &field("tokenFile"), origin)?;
    }
    Ok(())
}

fn check_file(path: Option<&str>, field: &str, origin: &Origin) -> Result<(), ConnectError> {
    let Some(path) = path.map(Path::new) else { return Ok(()) };
    match std::fs::read(path) {
        Ok(_) => Ok(()),
        Err(reason) => Err(ConnectError::Credential {
            origin: origin.clone(),
            field: field.to_owned(),
            path: path.to_owned(),
            reason: reason.to_string(),
        }),
    }
}

async fn from_kubeconfig(
    kubeconfig: Kubeconfig,
    options: &ConnectOptions,
    origin: &Origin,
) -> Result<Config, ConnectError> {
    let pick = KubeConfigOptions { context: options.context.clone(), ..KubeConfigOptions::default() };
    let asks_for_proxy = proxy::is_asked_for(&kubeconfig, options.context.as_deref());
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &pick)
        .await
        .map_err(|source| ConnectError::Client { origin: origin.clone(), reason: error::one_line(&source) })?;
    if !asks_for_proxy && proxy::is_bypassed(&config.cluster_url, std::env::var("NO_PROXY").ok().as_deref()) {
        config.proxy_url = None;
    }
    Ok(config)
}
