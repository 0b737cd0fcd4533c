//! OCI registries over HTTP (<https://github.com/opencontainers/distribution-spec>): manifests, blobs, referrers.
//!
//! A registry may have mirrors, which are asked first. The digests of an answer are checked: a blob is hashed, and so
//! is a manifest that was requested by its digest.

mod challenge;
mod connector;
mod credentials;
mod helper;
mod proxy;
mod transport;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use berth_model::Digest;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::Full;
use hyper::body::Incoming;
use serde::Deserialize;

use self::{
    challenge::Challenge,
    credentials::Credentials,
    transport::{Transport, TransportError, read_body, resolve},
};
pub use self::{credentials::CredentialsError, helper::HelperError, proxy::Proxies, transport::SetupError};
use crate::{
    artifact::digest_of,
    manifest::{DOCKER_LIST, DOCKER_MANIFEST, INDEX, MANIFEST},
    reference::Reference,
};

/// The size that the distribution specification requires registries to accept. This size is larger than any manifest of
/// a component.
pub(crate) const MAX_MANIFEST: u64 = 4 << 20;
/// The maximum number of bytes in a token, or in a registry's error message.
const MAX_MESSAGE: u64 = 64 << 10;

/// Docker's registry, and the host that issues tokens for this registry (<https://docs.docker.com/docker-hub/>).
const DOCKER_HUB: &str = "docker.io";
const DOCKER_HUB_TOKENS: &str = "auth.docker.io";

/// The operator's settings for a registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistryOptions {
    /// The host, with the port unless it is the default port of HTTPS.
    pub host: String,
    /// The hosts of mirrors, each with a path if the mirror keeps the registry's repositories below that path. Berth
    /// asks the mirrors first, in this order.
    pub mirrors: Vec<String>,
    /// Whether to use HTTP without TLS.
    pub plain_http: bool,
    /// Certificates that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
    /// The file with the credentials, in the form that `docker login` writes.
    pub pull_secret_file: Option<PathBuf>,
    /// Whether Berth runs the helper programs that this file names. Only the user whose file it is may allow that.
    pub runs_credential_helpers: bool,
    /// The host that issues tokens for these credentials, with its port if the port is not 443. `None` stands for the
    /// registry itself.
    pub token_service: Option<String>,
}

/// A client for registries. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Registries {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The options by host.
    options: BTreeMap<String, RegistryOptions>,
    transports: BTreeMap<String, Transport>,
    /// The transport for hosts without separate settings.
    default: Transport,
    /// The file with credentials for hosts without a separate file.
    secret_file: Option<PathBuf>,
    /// The headers that were last accepted, by host, repository and action.
    authorizations: Mutex<BTreeMap<String, HeaderValue>>,
}

/// The place to ask for a repository: the registry itself, or a mirror.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    /// The host in the form that operators write.
    pub host: String,
    /// The path of the repository on the host.
    repository: String,
}

/// The access to a repository, as in the scopes of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Pull,
    Push,
}

/// The reason why a registry gave no usable answer. The text continues the registry's host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    #[error("cannot be queried: {0}")]
    Unreachable(String),
    #[error("answered 404 to the request for {0}")]
    NotFound(String),
    #[error("rejected the credentials{from}, or they do not allow access to {what}: {message}")]
    Forbidden { from: String, what: String, message: String },
    #[error("requires credentials for {0}: set pullSecretFile in the registry's entry of `registries`")]
    NoCredentials(String),
    #[error("answered {status} to the request for {what}: {message}")]
    Status { what: String, status: u16, message: String },
    #[error("sent the wrong bytes for {what}: their digest is sha256:{actual}")]
    Digest { what: String, actual: Digest },
    #[error("sent an unusable answer for {what}: {problem}")]
    Unusable { what: String, problem: String },
    #[error(
        "asks to send the credentials for {registry} to another host, {named}; they were not sent: to allow it, set \
         tokenService in the registry's entry of `registries`"
    )]
    TokenService { registry: String, named: String },
    #[error("cannot be queried: the credentials cannot be read: {0}")]
    Credentials(#[from] CredentialsError),
}

impl Registries {
    /// Reads the files with certificates. `secret_file` contains credentials for registries without a separate file.
    /// `proxies` are for all hosts: registries, mirrors, token services, and hosts to which registries redirect.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn new(
        options: Vec<RegistryOptions>,
        secret_file: Option<PathBuf>,
        proxies: &Proxies,
    ) -> Result<Self, SetupError> {
        let mut transports = BTreeMap::new();
        for registry in &options {
            let RegistryOptions { host, plain_http, ca_file, .. } = registry;
            transports.insert(host.clone(), Transport::new(host, *plain_http, ca_file.as_deref(), proxies.clone())?);
        }
        let default = Transport::new("", false, None, proxies.clone())?;
        let options = options.into_iter().map(|registry| (registry.host.clone(), registry)).collect();
        let authorizations = Mutex::default();
        Ok(Self { shared: Arc::new(Shared { options, transports, default, secret_file, authorizations }) })
    }

    /// The places to ask for a repository, mirrors first.
    pub(crate) fn endpoints(&self, reference: &Reference) -> Vec<Endpoint> {
        let mirrors = self.shared.options.get(reference.registry()).into_iter().flat_map(|registry| &registry.mirrors);
        let mirrors = mirrors.map(|mirror| {
            let (host, path) = mirror.split_once('/').unwrap_or((mirror, ""));
            let path = path.trim_matches('/');
            let repository = reference.repository();
            let repository = if path.is_empty() { repository.to_owned() } else { format!("{path}/{repository}") };
            Endpoint { host: host.to_owned(), repository }
        });
        mirrors.chain([self.origin(reference)]).collect()
    }

    /// The registry itself, which receives pushes.
    #[expect(clippy::unused_self, reason = "it belongs next to `endpoints`")]
    pub(crate) fn origin(&self, reference: &Reference) -> Endpoint {
        Endpoint { host: reference.registry().to_owned(), repository: reference.repository().to_owned() }
    }

    /// A manifest by tag or by digest (`sha256:…`), with its digest.
    pub(crate) async fn manifest(&self, at: &Endpoint, version: &str) -> Result<(Vec<u8>, Digest), RegistryError> {
        let what = format!("{}:{version}", at.repository);
        let accept = [MANIFEST, INDEX, DOCKER_MANIFEST, DOCKER_LIST].join(", ");
        let bytes = self.get(at, &format!("manifests/{version}"), &accept, &what, MAX_MANIFEST).await?;
        let actual = digest_of(&bytes);
        match crate::reference::parse_digest(version) {
            Some(wanted) if wanted != actual => Err(RegistryError::Digest { what, actual }),
            Some(_) | None => Ok((bytes, actual)),
        }
    }

    pub(crate) async fn blob(&self, at: &Endpoint, digest: Digest, limit: u64) -> Result<Vec<u8>, RegistryError> {
        let what = format!("the blob sha256:{digest} of {}", at.repository);
        let bytes = self.get(at, &format!("blobs/sha256:{digest}"), "*/*", &what, limit).await?;
        let actual = digest_of(&bytes);
        if actual == digest { Ok(bytes) } else { Err(RegistryError::Digest { what, actual }) }
    }

    /// The index of the manifests that refer to a manifest.
    pub(crate) async fn referrers(&self, at: &Endpoint, manifest: Digest) -> Result<Vec<u8>, RegistryError> {
        let what = format!("referrers of sha256:{manifest} of {}", at.repository);
        self.get(at, &format!("referrers/sha256:{manifest}"), INDEX, &what, MAX_MANIFEST).await
    }

    /// Uploads a blob, unless the registry has it.
    pub(crate) async fn push_blob(&self, at: &Endpoint, bytes: &[u8]) -> Result<Digest, RegistryError> {
        let digest = digest_of(bytes);
        let what = format!("the blob sha256:{digest} of {}", at.repository);
        let head = self.request(at, Method::HEAD, &format!("blobs/sha256:{digest}"))?.body(Bytes::new());
        let head = self.exchange(at, Action::Push, valid(head)?).await?;
        if head.status() == StatusCode::OK {
            return Ok(digest);
        }
        let start = self.request(at, Method::POST, "blobs/uploads/")?.body(Bytes::new());
        let start = valid(start)?;
        let base = start.uri().clone();
        let start = self.exchange(at, Action::Push, start).await?;
        let location = start.headers().get(header::LOCATION).and_then(|location| location.to_str().ok());
        let location = location.and_then(|location| resolve(&base, location));
        if start.status() != StatusCode::ACCEPTED {
            return Err(self.refusal(at, &what, start).await);
        }
        let problem = || RegistryError::Unusable { what: what.clone(), problem: "no place to upload it to".to_owned() };
        let location = location.ok_or_else(problem)?.to_string();
        let separator = if location.contains('?') { '&' } else { '?' };
        let upload = Request::put(format!("{location}{separator}digest=sha256:{digest}"))
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .body(Bytes::copy_from_slice(bytes));
        let done = self.exchange(at, Action::Push, valid(upload)?).await?;
        if done.status() == StatusCode::CREATED { Ok(digest) } else { Err(self.refusal(at, &what, done).await) }
    }

    /// Puts a manifest under a tag, or under its digest.
    pub(crate) async fn push_manifest(&self, at: &Endpoint, version: &str, bytes: &[u8]) -> Result<(), RegistryError> {
        let request = self.request(at, Method::PUT, &format!("manifests/{version}"))?;
        let request = request.header(header::CONTENT_TYPE, MANIFEST).body(Bytes::copy_from_slice(bytes));
        let done = self.exchange(at, Action::Push, valid(request)?).await?;
        let is_done = matches!(done.status(), StatusCode::CREATED | StatusCode::OK);
        if is_done { Ok(()) } else { Err(self.refusal(at, &format!("{}:{version}", at.repository), done).await) }
    }

    async fn get(
        &self,
        at: &Endpoint,
        path: &str,
        accept: &str,
        what: &str,
        limit: u64,
    ) -> Result<Vec<u8>, RegistryError> {
        let request = self.request(at, Method::GET, path)?.header(header::ACCEPT, accept).body(Bytes::new());
        let answer = self.exchange(at, Action::Pull, valid(request)?).await?;
        if answer.status() != StatusCode::OK {
            return Err(self.refusal(at, what, answer).await);
        }
        read_body(answer, limit).await.map_err(|error| match error {
            TransportError::TooLarge(limit) => {
                RegistryError::Unusable { what: what.to_owned(), problem: format!("more than {limit} bytes") }
            }
            error => error.into(),
        })
    }

    fn request(&self, at: &Endpoint, method: Method, path: &str) -> Result<http::request::Builder, RegistryError> {
        let scheme = &self.transport(&at.host).scheme;
        // The host of Docker's API differs from the name of the registry.
        let host = if at.host == DOCKER_HUB { "registry-1.docker.io" } else { &at.host };
        let uri: Result<Uri, _> = format!("{scheme}://{host}/v2/{}/{path}", at.repository).parse();
        let uri = uri.map_err(|error| RegistryError::Unreachable(error.to_string()))?;
        Ok(Request::builder().method(method).uri(uri))
    }

    /// Sends a request. If the registry requires authorization, sends the request again with authorization.
    async fn exchange(
        &self,
        at: &Endpoint,
        action: Action,
        request: Request<Bytes>,
    ) -> Result<Response<Incoming>, RegistryError> {
        let key = format!("{} {} {action:?}", at.host, at.repository);
        let known = self.authorizations().get(&key).cloned();
        let answer = self.send(at, request.clone(), known).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let Some(challenge) = Challenge::find(answer.headers()) else { return Ok(answer) };
        let Some(authorization) = self.authorize(at, action, challenge).await? else { return Ok(answer) };
        self.authorizations().insert(key, authorization.clone());
        self.send(at, request, Some(authorization)).await
    }

    fn authorizations(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, HeaderValue>> {
        self.shared.authorizations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(
        &self,
        at: &Endpoint,
        mut request: Request<Bytes>,
        authorization: Option<HeaderValue>,
    ) -> Result<Response<Incoming>, RegistryError> {
        let transport = self.transport(&at.host);
        // An upload may go to another host, which must not get our credentials.
        let is_own = self
            .request(at, Method::GET, "")?
            .body(())
            .is_ok_and(|own| own.uri().authority() == request.uri().authority());
        if let Some(authorization) = authorization.filter(|_| is_own) {
            request.headers_mut().insert(header::AUTHORIZATION, authorization);
        }
        request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static("berth"));
        if matches!(*request.method(), Method::GET | Method::HEAD) {
            return Ok(transport.follow(request.map(drop)).await?);
        }
        Ok(transport.send(request.map(Full::new)).await?)
    }

    /// The answer to a challenge; `None` if there are no credentials for it.
    async fn authorize(
        &self,
        at: &Endpoint,
        action: Action,
        challenge: Challenge,
    ) -> Result<Option<HeaderValue>, RegistryError> {
        let credentials = self.credentials(at).await?;
        let (realm, service, scope) = match challenge {
            Challenge::Basic => return Ok(credentials.as_ref().and_then(basic)),
            Challenge::Bearer { realm, service, scope } => (realm, service, scope),
        };
        let actions = match action {
            Action::Pull => "pull",
            Action::Push => "pull,push",
        };
        let scope = scope.unwrap_or_else(|| format!("repository:{}:{actions}", at.repository));
        let mut uri = format!("{realm}{}scope={}", if realm.contains('?') { '&' } else { '?' }, encoded(&scope));
        if let Some(service) = service {
            uri = format!("{uri}&service={}", encoded(&service));
        }
        let uri: Uri = uri
            .parse()
            .map_err(|_| RegistryError::Unreachable(format!("invalid address of the token service: {realm:?}")))?;
        let mut request = Request::get(uri.clone());
        if let Some(basic) = credentials.as_ref().and_then(basic) {
            self.check_token_service(at, &uri)?;
            request = request.header(header::AUTHORIZATION, basic);
        }
        let what = format!("a token for {scope} from {realm}");
        let answer = self.transport(&at.host).follow(valid(request.body(()))?).await?;
        if answer.status() != StatusCode::OK {
            return Err(self.refusal(at, &what, answer).await);
        }
        let token: Result<Token, _> = serde_json::from_slice(&read_body(answer, MAX_MESSAGE).await?);
        let token = token.ok().and_then(|token| token.token.or(token.access_token));
        let problem = || RegistryError::Unusable { what, problem: "it contains no token".to_owned() };
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.ok_or_else(problem)?))
            .map_err(|error| RegistryError::Unreachable(error.to_string()))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// The registry, or a server that pretends to be the registry, chooses the host that issues tokens. Credentials are
    /// only sent to the registry itself, or to the host that the operator names.
    fn check_token_service(&self, at: &Endpoint, realm: &Uri) -> Result<(), RegistryError> {
        let configured = self.shared.options.get(&at.host).and_then(|registry| registry.token_service.as_deref());
        let expected = configured.or((at.host == DOCKER_HUB).then_some(DOCKER_HUB_TOKENS)).unwrap_or(&at.host);
        let named = realm.authority().map(|authority| authority.as_str().to_ascii_lowercase()).unwrap_or_default();
        let with_port = |host: &str| if host.contains(':') { host.to_owned() } else { format!("{host}:443") };
        let is_expected = with_port(&named) == with_port(&expected.to_ascii_lowercase());
        if is_expected { Ok(()) } else { Err(RegistryError::TokenService { registry: at.host.clone(), named }) }
    }

    async fn credentials(&self, at: &Endpoint) -> Result<Option<Credentials>, RegistryError> {
        let Some(file) = self.secret_file(at) else { return Ok(None) };
        let name = format!("{}/{}", at.host, at.repository);
        let runs_helpers = self.shared.options.get(&at.host).is_some_and(|registry| registry.runs_credential_helpers);
        Ok(credentials::find(file, &name, runs_helpers).await?)
    }

    fn secret_file(&self, at: &Endpoint) -> Option<&Path> {
        let own = self.shared.options.get(&at.host).and_then(|registry| registry.pull_secret_file.as_deref());
        own.or(self.shared.secret_file.as_deref())
    }

    fn transport(&self, host: &str) -> &Transport {
        self.shared.transports.get(host).unwrap_or(&self.shared.default)
    }

    /// The error for an answer with an unexpected status.
    async fn refusal(&self, at: &Endpoint, what: &str, answer: Response<Incoming>) -> RegistryError {
        let (what, status) = (what.to_owned(), answer.status());
        let body = read_body(answer, MAX_MESSAGE).await.unwrap_or_default();
        let message = message(&body);
        // Only this answer is worth the question, because a credential helper may ask its user for something.
        let is_anonymous =
            status == StatusCode::UNAUTHORIZED && !self.credentials(at).await.is_ok_and(|it| it.is_some());
        match status {
            StatusCode::NOT_FOUND => RegistryError::NotFound(what),
            StatusCode::UNAUTHORIZED if is_anonymous => RegistryError::NoCredentials(what),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let from = self.secret_file(at).map(|file| format!(" of {}", file.display())).unwrap_or_default();
                RegistryError::Forbidden { from, what, message }
            }
            status => RegistryError::Status { what, status: status.as_u16(), message },
        }
    }
}

impl From<TransportError> for RegistryError {
    fn from(error: TransportError) -> Self {
        Self::Unreachable(error.to_string())
    }
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

#[derive(Deserialize)]
struct ErrorResponse {
    errors: Vec<ErrorEntry>,
}

#[derive(Deserialize)]
struct ErrorEntry {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

/// A registry's error message, shortened and on one line.
fn message(body: &[u8]) -> String {
    let text = match serde_json::from_slice::<ErrorResponse>(body) {
        Ok(failure) => {
            failure.errors.into_iter().map(|it| format!("{} {}", it.code, it.message)).collect::<Vec<_>>().join("; ")
        }
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    let line: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(200).collect();
    if line.trim().is_empty() { "no reason given".to_owned() } else { line.trim().to_owned() }
}

fn basic(credentials: &Credentials) -> Option<HeaderValue> {
    let text = BASE64_STANDARD.encode(format!("{}:{}", credentials.user, credentials.password));
    let mut value = HeaderValue::try_from(format!("Basic {text}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn valid<T>(request: Result<Request<T>, http::Error>) -> Result<Request<T>, RegistryError> {
    request.map_err(|error| RegistryError::Unreachable(error.to_string()))
}

/// The text as a part of an address's query.
fn encoded(text: &str) -> String {
    let letter = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(letter).collect()
}
