//! The client of `/admin/plugins` and `/explain`. The client uses the scheduler's Unix socket, or the HTTPS port with a
//! token or as the user of a kubeconfig.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use axum::{
    body::Body,
    http::{Method, Request, StatusCode, Uri, header},
};
use berth_cluster::{ConnectError, ConnectOptions, Connection, connect};
use berth_config::Usage;
use berth_explain::Explanation;
use berth_page::Overview;
use berth_plugin_host::{HostSettings, OrderReport, PluginReport};
use berth_serving::https_client;
use berth_telemetry::chain;
use http_body_util::BodyExt as _;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
};

/// Every answer of a scheduler is smaller, unless the scheduler has thousands of plugins.
const MAX_ANSWER: usize = 16 << 20;

/// The place where a scheduler answers.
pub struct AdminClient {
    place: Place,
    token: Option<String>,
}

#[derive(Debug)]
enum Place {
    Socket(PathBuf),
    /// The address, and the file with the certificates that vouch for the server.
    Https(Uri, PathBuf),
    /// A connection with the credentials of a kubeconfig.
    AsUser(Connection),
    /// A server that only reports its health and accepts no orders.
    Http(String),
}

#[derive(Deserialize)]
struct ErrorBody {
    error: String,
}

/// The body with which the components of Kubernetes refuse a request.
#[derive(Deserialize)]
struct Denial {
    message: String,
}

impl std::fmt::Debug for AdminClient {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The token is a secret.
        formatter.debug_struct("AdminClient").field("place", &self.place).finish_non_exhaustive()
    }
}

impl AdminClient {
    /// A client of the scheduler that listens on this socket.
    pub fn on_socket(path: PathBuf) -> Self {
        Self { place: Place::Socket(path), token: None }
    }

    /// A client of a scheduler's HTTPS port, as the user of the token.
    pub fn over_https(address: &str, token_file: &Path, authority: &Path) -> Result<Self> {
        let uri = https(address)?;
        let token = std::fs::read_to_string(token_file)
            .map_err(|error| Usage(format!("--token-file {}: cannot be read: {error}", token_file.display())))?;
        Ok(Self { place: Place::Https(uri, authority.to_owned()), token: Some(token.trim().to_owned()) })
    }

    /// A client of a scheduler's HTTPS port, as the user of a kubeconfig. The certificates of `user` vouch for the
    /// scheduler.
    pub async fn as_user(address: &str, user: ConnectOptions) -> Result<Self> {
        let options = ConnectOptions { other_server: Some(https(address)?.to_string()), ..user };
        let connection = connect(&options).await.map_err(|error| {
            Usage(match error {
                ConnectError::NoCluster => format!(
                    "--server {address}: no credentials: set --kubeconfig, or --token-file and --certificate-authority"
                ),
                other => chain(&other),
            })
        })?;
        Ok(Self { place: Place::AsUser(connection), token: None })
    }

    /// A client that asks for the health at this address over plain HTTP.
    pub fn over_http(address: &str) -> Self {
        Self { place: Place::Http(address.to_owned()), token: None }
    }

    pub async fn list(&self) -> Result<Vec<PluginReport>> {
        let answer = self.ask(Method::GET, "/admin/plugins").await?;
        serde_json::from_slice(&answer)
            .context("the scheduler's answer is not a list of plugins; is the scheduler another version of berth?")
    }

    /// The JSON that an endpoint answers.
    pub async fn document(&self, path: &str) -> Result<Value> {
        let answer = self.ask(Method::GET, path).await?;
        serde_json::from_slice(&answer).with_context(|| {
            format!("the scheduler's answer to {path} is not JSON; is the scheduler another version of berth?")
        })
    }

    /// The text that an endpoint answers.
    pub async fn text(&self, path: &str) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.ask(Method::GET, path).await?).into_owned())
    }

    /// The bytes that an endpoint answers.
    pub async fn bytes(&self, path: &str) -> Result<Vec<u8>> {
        self.ask(Method::GET, path).await
    }

    /// Whether an endpoint answers with 200.
    pub async fn check(&self, path: &str) -> Result<()> {
        self.ask(Method::GET, path).await.map(drop)
    }

    pub async fn settings(&self) -> Result<HostSettings> {
        let answer = self.ask(Method::GET, "/admin/settings").await?;
        serde_json::from_slice(&answer)
            .context("the scheduler's answer is not about its settings; is the scheduler another version of berth?")
    }

    /// The reason why a pod is on its node or waits. The names contain no characters that must be escaped in a query.
    pub async fn explain(&self, namespace: &str, name: &str, node: Option<&str>) -> Result<Explanation> {
        let node = node.map(|node| format!("&node={node}")).unwrap_or_default();
        let answer = self.ask(Method::GET, &format!("/explain?namespace={namespace}&name={name}{node}")).await?;
        serde_json::from_slice(&answer)
            .context("the scheduler's answer is not an explanation; is the scheduler another version of berth?")
    }

    /// The current state of the scheduler.
    pub async fn overview(&self) -> Result<Overview> {
        let answer = self.ask(Method::GET, "/overview").await?;
        serde_json::from_slice(&answer)
            .context("the scheduler's answer is not an overview; is the scheduler another version of berth?")
    }

    /// The plugins' answers about a pod that does not exist. `manifest` is JSON.
    pub async fn explain_manifest(&self, manifest: Vec<u8>, node: Option<&str>) -> Result<Explanation> {
        let node = node.map(|node| format!("?node={node}")).unwrap_or_default();
        let answer = self.send(Method::POST, &format!("/explain{node}"), manifest).await?;
        serde_json::from_slice(&answer)
            .context("the scheduler's answer is not an explanation; is the scheduler another version of berth?")
    }

    pub async fn order(&self, name: &str, order: &str) -> Result<OrderReport> {
        if name.is_empty() || name.contains(['/', '?', '#', '%', ' ']) {
            return Err(Usage(format!("invalid plugin name {name:?}")).into());
        }
        let answer = self.ask(Method::POST, &format!("/admin/plugins/{name}/{order}")).await?;
        serde_json::from_slice(&answer)
            .context("the scheduler's answer is not a plugin's state; is the scheduler another version of berth?")
    }

    async fn ask(&self, method: Method, path: &str) -> Result<Vec<u8>> {
        self.send(method, path, Vec::new()).await
    }

    async fn send(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Vec<u8>> {
        let answered = match &self.place {
            Place::Socket(socket) => {
                let stream = UnixStream::connect(socket).await.map_err(|error| unreachable(socket, &error))?;
                exchange(stream, self.request(method, path, body)?).await
            }
            Place::Https(uri, authority) => {
                exchange(https_client::connect(uri, authority).await?, self.request(method, path, body)?).await
            }
            Place::AsUser(connection) => {
                let answered = connection.exchange(method, path, body, MAX_ANSWER).await;
                answered.map_err(|error| anyhow!("{}", chain(&error)))
            }
            Place::Http(address) => match TcpStream::connect(address).await {
                Ok(stream) => exchange(stream, self.request(method, path, body)?).await,
                Err(error) => Err(error.into()),
            },
        };
        let (status, body) =
            answered.map_err(|error| anyhow!("no scheduler answers at {}: {error:#}", self.place.name()))?;
        if status == StatusCode::OK {
            return Ok(body);
        }
        let told = serde_json::from_slice::<ErrorBody>(&body).map(|failure| failure.error);
        match told.or_else(|_| serde_json::from_slice::<Denial>(&body).map(|denial| denial.message)) {
            Ok(failure) => bail!("{failure}"),
            Err(_) if status.is_server_error() => bail!("{}", String::from_utf8_lossy(&body).trim_end()),
            Err(_) => bail!("{} answered {status}: is it a scheduler?", self.place.name()),
        }
    }
}

impl AdminClient {
    fn request(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Request<Body>> {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, self.place.host());
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        Ok(request
            .body(Body::from(body))
            .map_err(|error| Usage(format!("cannot build the request for {path}: {error}")))?)
    }
}

/// The address of an HTTPS port.
fn https(address: &str) -> Result<Uri, Usage> {
    let address = address.trim_end_matches('/');
    let usage = |problem: &str| Usage(format!("--server {address}: {problem}"));
    if address.starts_with("http://") {
        return Err(usage("credentials are sent only over HTTPS; leave out --server to ask the local scheduler"));
    }
    let text = if address.starts_with("https://") { address.to_owned() } else { format!("https://{address}") };
    let uri: Uri = text.parse().map_err(|_| usage("expected HOST:PORT"))?;
    if uri.host().is_none() { Err(usage("expected HOST:PORT")) } else { Ok(uri) }
}

impl Place {
    fn host(&self) -> &str {
        match self {
            Self::Socket(_) => "localhost",
            Self::Https(uri, _) => uri.authority().map_or("", |authority| authority.as_str()),
            // The connection already names the host.
            Self::AsUser(_) => "",
            Self::Http(address) => address,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Socket(path) => path.display().to_string(),
            Self::Https(uri, _) => uri.to_string(),
            Self::AsUser(connection) => connection.server.clone(),
            Self::Http(address) => address.clone(),
        }
    }
}

fn unreachable(socket: &Path, error: &std::io::Error) -> anyhow::Error {
    let help = match error.kind() {
        std::io::ErrorKind::PermissionDenied => "only root and the scheduler's own user may",
        _ => {
            "is `berth run` running on this machine, or in this container, and as this user? Give --socket PATH if it has \
             another --admin-socket"
        }
    };
    anyhow!("no scheduler answers at {}: {error}; {help}", socket.display())
}

/// The status and body of the scheduler's response.
async fn exchange<S>(stream: S, request: Request<Body>) -> Result<(StatusCode, Vec<u8>)>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let told = |error: hyper::Error| anyhow!("{}", chain(&error));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(told)?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(told)?;
    let status = response.status();
    let body = http_body_util::Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    let body = body.map_err(|error| anyhow!("its answer ended early: {error}"))?.to_bytes();
    connection.abort();
    Ok((status, body.into()))
}
