//! A small OCI registry in memory, over real HTTP, for tests: it accepts pushes, serves pulls, asks for tokens,
//! redirects, and misbehaves on request.
//!
//! The registry follows the part of the distribution specification that Berth's client uses, and knows nothing about
//! this client. A [`TestProxy`] stands between the two.

mod proxy;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    body::Bytes,
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::{net::TcpListener, task::JoinHandle};

pub use proxy::TestProxy;

/// A registry that serves until this value is dropped.
#[derive(Debug)]
pub struct TestRegistry {
    address: SocketAddr,
    state: Shared,
    server: JoinHandle<()>,
}

/// The behaviour of a registry.
#[derive(Clone, Debug, Default)]
pub struct Behaviour {
    /// Whether every request is answered with 503.
    pub is_away: bool,
    /// Whether blobs are served with a changed first byte.
    pub tampers: bool,
    /// Whether a redirect leads to another path, from which blobs are served.
    pub redirects: bool,
    /// The host to which redirects lead, if it is not the registry's machine.
    pub storage: Option<String>,
    /// A name and a password that are exchanged for a token.
    pub credentials: Option<(String, String)>,
    /// The host that issues tokens, if another host than the registry does this.
    pub token_service: Option<String>,
}

#[derive(Debug, Default)]
struct Contents {
    behaviour: Behaviour,
    /// The blobs by repository and digest.
    blobs: BTreeMap<String, Vec<u8>>,
    /// The manifests by repository and tag or digest, with the media type.
    manifests: BTreeMap<String, (String, Vec<u8>)>,
    /// The method and path of each request.
    requests: Vec<String>,
}

type Shared = Arc<Mutex<Contents>>;

const TOKEN: &str = "Bearer of-the-test-registry";

impl TestRegistry {
    /// Serves on a free port of the loopback address.
    ///
    /// # Errors
    /// There is no free port.
    pub async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let state = Shared::default();
        let app = Router::new().fallback(answer).with_state((Arc::clone(&state), address));
        let server = tokio::spawn(async move { drop(axum::serve(listener, app).await) });
        Ok(Self { address, state, server })
    }

    /// `127.0.0.1:PORT`, as in references.
    #[must_use]
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Changes the registry's behaviour from now on.
    pub fn behave(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut lock(&self.state).behaviour);
    }

    /// The method and path of the requests since the last call.
    #[must_use]
    pub fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.state).requests)
    }

    /// Stores a manifest under a tag, without any checks.
    pub fn put_manifest(&self, repository: &str, tag: &str, media_type: &str, bytes: &[u8]) {
        let mut contents = lock(&self.state);
        for version in [tag.to_owned(), digest(bytes)] {
            contents.manifests.insert(format!("{repository}@{version}"), (media_type.to_owned(), bytes.to_vec()));
        }
    }

    /// Stores a blob, and returns its digest.
    pub fn put_blob(&self, repository: &str, bytes: &[u8]) -> String {
        let digest = digest(bytes);
        lock(&self.state).blobs.insert(format!("{repository}@{digest}"), bytes.to_vec());
        digest
    }

    /// Copies everything from another registry.
    pub fn mirror(&self, other: &Self) {
        let other = lock(&other.state);
        let mut contents = lock(&self.state);
        contents.blobs = other.blobs.clone();
        contents.manifests = other.manifests.clone();
    }
}

impl Drop for TestRegistry {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn lock(state: &Shared) -> std::sync::MutexGuard<'_, Contents> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer(State((state, address)): State<(Shared, SocketAddr)>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, 256 << 20).await else { return StatusCode::BAD_REQUEST.into_response() };
    let mut contents = lock(&state);
    let path = parts.uri.path().to_owned();
    contents.requests.push(format!("{} {path}", parts.method));
    if contents.behaviour.is_away {
        return (StatusCode::SERVICE_UNAVAILABLE, "away").into_response();
    }
    if path == "/token" {
        return token(&contents.behaviour, &parts.headers);
    }
    if let Some(path) = path.strip_prefix("/storage/") {
        // The target of a redirect must not get the credentials.
        let is_told = parts.headers.contains_key(header::AUTHORIZATION);
        let blob = contents.blobs.get(path).cloned();
        return if is_told { StatusCode::BAD_REQUEST.into_response() } else { bytes(blob) };
    }
    if contents.behaviour.credentials.is_some() && text(&parts.headers, header::AUTHORIZATION) != Some(TOKEN) {
        let tokens = contents.behaviour.token_service.clone().unwrap_or_else(|| address.to_string());
        let challenge = format!(r#"Bearer realm="http://{tokens}/token",service="test""#);
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
    }
    let Some(path) = path.strip_prefix("/v2/") else { return StatusCode::NOT_FOUND.into_response() };
    if let Some((repository, version)) = path.split_once("/manifests/") {
        return manifest(&mut contents, &parts.method, &parts.headers, repository, version, &body);
    }
    if let Some((repository, rest)) = path.split_once("/blobs/uploads/") {
        let query = parts.uri.query().unwrap_or_default();
        return upload(&mut contents, &parts.method, repository, rest, query, &body);
    }
    match path.split_once("/blobs/") {
        Some((repository, digest)) => blob(&contents, &format!("{repository}@{digest}"), address),
        None => failure(StatusCode::NOT_FOUND, "NAME_UNKNOWN"),
    }
}

fn token(behaviour: &Behaviour, headers: &HeaderMap) -> Response {
    let wanted = behaviour
        .credentials
        .as_ref()
        .map(|(user, password)| format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}"))));
    if text(headers, header::AUTHORIZATION) != wanted.as_deref() {
        return failure(StatusCode::UNAUTHORIZED, "UNAUTHORIZED");
    }
    json!({ "token": TOKEN.trim_start_matches("Bearer ") }).to_string().into_response()
}

fn manifest(
    contents: &mut Contents,
    method: &Method,
    headers: &HeaderMap,
    repository: &str,
    version: &str,
    body: &Bytes,
) -> Response {
    if method == Method::PUT {
        let media_type = text(headers, header::CONTENT_TYPE).unwrap_or_default().to_owned();
        for version in [version.to_owned(), digest(body)] {
            contents.manifests.insert(format!("{repository}@{version}"), (media_type.clone(), body.to_vec()));
        }
        return StatusCode::CREATED.into_response();
    }
    match contents.manifests.get(&format!("{repository}@{version}")) {
        Some((media_type, bytes)) => ([(header::CONTENT_TYPE, media_type.clone())], bytes.clone()).into_response(),
        None => failure(StatusCode::NOT_FOUND, "MANIFEST_UNKNOWN"),
    }
}

/// An upload with two requests: the first asks for a place, and the second contains the bytes.
fn upload(
    contents: &mut Contents,
    method: &Method,
    repository: &str,
    place: &str,
    query: &str,
    body: &Bytes,
) -> Response {
    if method == Method::POST {
        let location = format!("/v2/{repository}/blobs/uploads/1?state=x");
        return (StatusCode::ACCEPTED, [(header::LOCATION, location)]).into_response();
    }
    let actual = digest(body);
    if place != "1" || query != format!("state=x&digest={actual}") {
        return failure(StatusCode::BAD_REQUEST, "DIGEST_INVALID");
    }
    contents.blobs.insert(format!("{repository}@{actual}"), body.to_vec());
    StatusCode::CREATED.into_response()
}

fn blob(contents: &Contents, name: &str, address: SocketAddr) -> Response {
    let Some(found) = contents.blobs.get(name) else { return failure(StatusCode::NOT_FOUND, "BLOB_UNKNOWN") };
    if contents.behaviour.redirects {
        // A machine under another name is another host for HTTP.
        let storage = contents.behaviour.storage.clone().unwrap_or_else(|| format!("localhost:{}", address.port()));
        let location = format!("http://{storage}/storage/{name}");
        return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, location)]).into_response();
    }
    let mut found = found.clone();
    if contents.behaviour.tampers
        && let Some(first) = found.first_mut()
    {
        *first ^= 1;
    }
    found.into_response()
}

fn bytes(found: Option<Vec<u8>>) -> Response {
    found.map_or_else(|| StatusCode::NOT_FOUND.into_response(), axum::response::IntoResponse::into_response)
}

fn failure(status: StatusCode, code: &str) -> Response {
    (status, json!({ "errors": [{ "code": code, "message": "says the test registry" }] }).to_string()).into_response()
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}
