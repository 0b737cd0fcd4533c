//! Identifies callers and checks their rights, as the components of Kubernetes do: by the headers of a front proxy, by
//! client certificate or bearer token, and by questions to the API server (TokenReview, SubjectAccessReview).
//!
//! A request without credentials comes from `system:anonymous`. Open paths are for every caller, even if the API server
//! does not answer. The group `system:masters` may do everything. The API server decides about plugins and orders as
//! the resource `plugins` of the group `berth.dev`, and about other paths as non-resource URLs. `/explain` and the
//! [page](PAGE) show objects: their handlers check the right to see these objects through the [`RequestUser`]. Answers
//! are remembered for a while, including refusals, and the number of questions that each client can cause is limited
//! (`review_rate`).
//!
//! A browser has the token in a cookie, which is only accepted for the page. No other path accepts a cookie.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use axum::{
    Extension, Json,
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use berth_cluster::{
    AccessDecision, AccessReviewer, Caller, Client, ConnectOptions, ResourceRequest, ReviewError, connect,
};
use berth_config::Usage;
use berth_telemetry::{
    chain,
    metrics::{Authorization, Metrics},
};
use serde_json::json;
use tracing::warn;

use super::{
    FrontProxy, PeerAddress, SecureServing,
    answers::{Answers, Question},
    current_tls::ConnectedClient,
    review_rate::ReviewRate,
    trust::Peer,
};

const MASTERS: &str = "system:masters";

/// The maximum length of a path. The served paths are short. Each byte of a path is part of the question to the API
/// server, and of its audit log.
const MAX_PATH: usize = 1024;

/// The path of the page, and the beginning of the page's other paths.
pub const PAGE: &str = "/page";

/// The paths that a browser needs to ask for a token. They are open to every caller.
const OPEN_PAGES: [&str; 4] = ["/page/sign-in", "/page/icon.svg", "/page/style.css", "/page/script.js"];

/// Paths that show pods. They are open to no caller, whatever the open paths are.
const GUARDED: [&str; 5] = ["/debug/cache", "/debug/decisions", "/explain", "/metrics/resources", "/what-if"];

/// The cookie that contains a browser's token.
pub const TOKEN_COOKIE: &str = "__Secure-berth-token";

/// The caller of a request. Handlers find it in the request. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RequestUser {
    caller: Arc<Caller>,
    address: IpAddr,
    check: AccessCheck,
}

/// The reason why it is unknown whether the caller may do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoVerdict {
    /// The client has asked too many questions with answers that are not known.
    #[error("too many unknown tokens or paths: try again later")]
    TooMany,
    /// The API server did not answer.
    #[error("the API server could not be asked to authorize this request")]
    Unanswered,
}

/// The action that a caller requests.
#[derive(Clone, Copy, Debug)]
enum Right<'a> {
    Resource(ResourceRequest<'a>),
    Path { verb: &'a str, path: &'a str },
}

/// Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct AccessCheck(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    open_paths: Vec<String>,
    tokens: Option<AccessReviewer>,
    token_ttl: Duration,
    rights: Option<AccessReviewer>,
    authorized_ttl: Duration,
    unauthorized_ttl: Duration,
    callers: Answers<Option<Caller>>,
    verdicts: Answers<AccessDecision>,
    rate: ReviewRate,
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
enum Denial {
    Unauthenticated,
    Forbidden {
        user: String,
    },
    /// A browser without a valid token requests the page.
    NotSignedIn {
        /// Whether the browser had a token.
        had_token: bool,
    },
    /// Another site makes a browser request the page.
    CrossSite,
    NoVerdict(NoVerdict),
    /// The path is longer than the path of any endpoint.
    TooLong,
}

impl AccessCheck {
    pub(super) async fn new(serving: &SecureServing, metrics: &Arc<Metrics>) -> Result<Self> {
        Ok(Self(Arc::new(Inner {
            open_paths: serving.open_paths.clone(),
            tokens: reviewer(serving.authentication.as_ref(), "--authentication-kubeconfig").await?,
            token_ttl: serving.token_ttl,
            rights: reviewer(serving.authorization.as_ref(), "--authorization-kubeconfig").await?,
            authorized_ttl: serving.authorized_ttl,
            unauthorized_ttl: serving.unauthorized_ttl,
            callers: Answers::default(),
            verdicts: Answers::default(),
            rate: ReviewRate::default(),
            metrics: Arc::clone(metrics),
        })))
    }
}

async fn reviewer(cluster: Option<&ConnectOptions>, flag: &str) -> Result<Option<AccessReviewer>> {
    Ok(client(cluster, flag).await?.map(AccessReviewer::new))
}

/// A client of the cluster that a flag names; `None` without a cluster.
///
/// # Errors
/// The kubeconfig of the flag cannot be used.
pub(super) async fn client(cluster: Option<&ConnectOptions>, flag: &str) -> Result<Option<Client>> {
    let Some(options) = cluster else { return Ok(None) };
    let connection = connect(options).await.map_err(|error| Usage(format!("{flag}: {}", chain(&error))))?;
    Ok(Some(connection.client()))
}

/// Passes a request on, or answers why it is refused.
pub(super) async fn check(
    State(gate): State<AccessCheck>,
    Extension(client): Extension<ConnectedClient>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    mut request: Request,
    next: Next,
) -> Response {
    let (peer, method, path) = (client.peer(), request.method().clone(), request.uri().path().to_owned());
    match gate.0.admit(&peer, address, request.headers(), &method, &path).await {
        Ok(caller) => {
            let caller = Arc::new(caller);
            request.extensions_mut().insert(RequestUser { caller, address, check: gate });
            next.run(request).await
        }
        Err(denial) => denial.answer(&method, &path),
    }
}

impl RequestUser {
    /// The user's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.caller.name()
    }

    /// Whether the API server allows the user this access to an object or a kind.
    ///
    /// # Errors
    /// The API server could not be asked.
    pub async fn may(&self, request: &ResourceRequest<'_>) -> Result<bool, NoVerdict> {
        self.check.0.may(&self.caller, self.address, Right::Resource(*request)).await
    }

    /// Whether the API server allows the user to use the path with this verb, such as `get`.
    ///
    /// # Errors
    /// The API server could not be asked.
    pub async fn may_use(&self, verb: &str, path: &str) -> Result<bool, NoVerdict> {
        self.check.0.may(&self.caller, self.address, Right::Path { verb, path }).await
    }
}

impl Inner {
    async fn admit(
        &self,
        peer: &Peer,
        address: IpAddr,
        headers: &HeaderMap,
        method: &Method,
        path: &str,
    ) -> Result<Caller, Denial> {
        if path.len() > MAX_PATH {
            return Err(Denial::TooLong);
        }
        if is_below(path, PAGE) {
            return self.page_user(peer, address, headers, path).await;
        }
        let caller = self.caller(peer, address, bearer_token(headers), headers).await;
        // An open path may be read. A request that changes something needs a right in any case.
        let is_open = [Method::GET, Method::HEAD].contains(method) && self.is_open(path);
        if is_open && !matches!(caller, Err(Denial::Unauthenticated)) {
            self.metrics.access.authorized(Authorization::Allowed, Duration::ZERO);
            return Ok(caller.unwrap_or_else(|_| Caller::anonymous()));
        }
        let caller = caller?;
        let verb = method.as_str().to_lowercase();
        let right = match plugins_verb(method, path) {
            Some(verb) => Right::Resource(ResourceRequest {
                group: "berth.dev",
                resource: "plugins",
                verb,
                namespace: None,
                name: plugin_in(path),
            }),
            None => Right::Path { verb: &verb, path },
        };
        // The handler determines the pod of the request, and checks whether the user may see it.
        if path == "/explain" || self.may(&caller, address, right).await.map_err(Denial::NoVerdict)? {
            return Ok(caller);
        }
        Err(Denial::Forbidden { user: caller.name().to_owned() })
    }

    /// The user of the page. The handlers decide which data the user sees.
    async fn page_user(&self, peer: &Peer, address: IpAddr, headers: &HeaderMap, path: &str) -> Result<Caller, Denial> {
        if is_cross_site(headers) {
            return Err(Denial::CrossSite);
        }
        if OPEN_PAGES.contains(&path) {
            return Ok(Caller::anonymous());
        }
        let token = bearer_token(headers).or_else(|| cookie(headers, TOKEN_COOKIE));
        let had_token = token.is_some();
        match self.caller(peer, address, token, headers).await {
            Ok(caller) if caller == Caller::anonymous() => Err(Denial::NotSignedIn { had_token }),
            Err(Denial::Unauthenticated) => Err(Denial::NotSignedIn { had_token }),
            known => known,
        }
    }

    async fn caller(
        &self,
        peer: &Peer,
        address: IpAddr,
        token: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Caller, Denial> {
        let began = Instant::now();
        let caller = self.identify(peer, address, token, headers).await;
        self.metrics.access.authenticated(caller.as_ref().ok().map(Caller::name), began.elapsed());
        caller
    }

    async fn identify(
        &self,
        peer: &Peer,
        address: IpAddr,
        token: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Caller, Denial> {
        let named = peer.front_proxy.as_ref().and_then(|proxy| proxy.settings.caller(&proxy.name, headers));
        if let Some(caller) = named.or_else(|| peer.client.clone()) {
            return Ok(caller);
        }
        let (Some(token), Some(reviewer)) = (token.filter(|token| !token.is_empty()), &self.tokens) else {
            return Ok(Caller::anonymous());
        };
        let (question, began) = (Question::new(&[token]), Instant::now());
        let known = self.callers.get(question, began);
        let is_hit = known.is_some();
        let caller = match known {
            Some(caller) => caller,
            None => {
                self.count_question(address).map_err(Denial::NoVerdict)?;
                let caller = self.review_token(reviewer, token).await?;
                let bytes = caller.as_ref().map_or(0, |caller| caller.key().len());
                self.callers.put(question, caller.clone(), bytes, Instant::now(), self.token_ttl);
                caller
            }
        };
        self.metrics.access.token_looked_up(is_hit, began.elapsed());
        caller.ok_or(Denial::Unauthenticated)
    }

    async fn review_token(&self, reviewer: &AccessReviewer, token: &str) -> Result<Option<Caller>, Denial> {
        let _fetch = self.metrics.access.token_fetch();
        let began = Instant::now();
        let caller = reviewer.authenticate(token).await;
        self.metrics.access.token_reviewed(code_of(&caller), began.elapsed());
        caller.map_err(|error| Denial::NoVerdict(unanswered(&error)))
    }

    fn count_question(&self, address: IpAddr) -> Result<(), NoVerdict> {
        if self.rate.admits(address, Instant::now()) { Ok(()) } else { Err(NoVerdict::TooMany) }
    }

    async fn may(&self, caller: &Caller, address: IpAddr, right: Right<'_>) -> Result<bool, NoVerdict> {
        let began = Instant::now();
        let decision = self.decide(caller, address, right).await;
        let result = match decision {
            Ok(AccessDecision::Allowed) => Authorization::Allowed,
            Ok(AccessDecision::Denied) => Authorization::Denied,
            Ok(AccessDecision::NoOpinion) => Authorization::NoOpinion,
            Err(NoVerdict::TooMany | NoVerdict::Unanswered) => Authorization::Error,
        };
        self.metrics.access.authorized(result, began.elapsed());
        decision.map(|decision| decision == AccessDecision::Allowed)
    }

    async fn decide(&self, caller: &Caller, address: IpAddr, right: Right<'_>) -> Result<AccessDecision, NoVerdict> {
        if caller.groups().any(|group| group == MASTERS) {
            return Ok(AccessDecision::Allowed);
        }
        let question = right.question(&caller.key());
        if let Some(decision) = self.verdicts.get(question, Instant::now()) {
            return Ok(decision);
        }
        let Some(reviewer) = &self.rights else { return Ok(AccessDecision::NoOpinion) };
        self.count_question(address)?;
        let began = Instant::now();
        let decision = match right {
            Right::Resource(request) => reviewer.may(caller, &request).await,
            Right::Path { verb, path } => reviewer.may_use(caller, verb, path).await,
        };
        self.metrics.access.access_reviewed(code_of(&decision), began.elapsed());
        let decision = decision.map_err(|error| unanswered(&error))?;
        let ttl = match decision {
            AccessDecision::Allowed => self.authorized_ttl,
            AccessDecision::Denied | AccessDecision::NoOpinion => self.unauthorized_ttl,
        };
        self.verdicts.put(question, decision, 0, Instant::now(), ttl);
        Ok(decision)
    }

    fn is_open(&self, path: &str) -> bool {
        let is_it = |open: &String| match open.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => path == open,
        };
        // Orders, and the names of pods, are only for callers that the API server authorizes, whatever the open paths
        // are.
        let is_guarded = path.starts_with("/admin/") || GUARDED.contains(&path);
        !is_guarded && self.open_paths.iter().any(is_it)
    }
}

impl Right<'_> {
    fn question(&self, caller: &str) -> Question {
        match self {
            Self::Path { verb, path } => Question::new(&[caller, verb, path]),
            Self::Resource(ResourceRequest { group, resource, verb, namespace, name }) => {
                // The API server treats an empty name as no name.
                let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
                Question::new(&[caller, verb, group, resource, namespace, name])
            }
        }
    }
}

impl FrontProxy {
    /// The user that the proxy of this name gives for a request; `None` if the proxy may not name a user, or does not
    /// name a user.
    fn caller(&self, proxy: &str, headers: &HeaderMap) -> Option<Caller> {
        if !self.allowed_names.is_empty() && !self.allowed_names.iter().any(|name| name == proxy) {
            return None;
        }
        let first = |names: &[String]| {
            let mut values = names.iter().filter_map(|name| headers.get(name)?.to_str().ok());
            values.find(|value| !value.is_empty()).map(str::to_owned)
        };
        let name = first(&self.username_headers)?;
        let groups = self.group_headers.iter().flat_map(|name| headers.get_all(name));
        let groups = groups.filter_map(|value| Some(value.to_str().ok()?.to_owned())).collect();
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (header, value) in headers {
            let mut prefixes = self.extra_header_prefixes.iter();
            let key = prefixes.find_map(|prefix| header.as_str().strip_prefix(&*prefix.to_lowercase()));
            if let (Some(key), Ok(value)) = (key, value.to_str()) {
                extra.entry(key.to_owned()).or_default().push(value.to_owned());
            }
        }
        Some(Caller::named(name, groups).with_details(first(&self.uid_headers), extra))
    }
}

/// The verb of the request about plugins; `None` for other paths.
fn plugins_verb(method: &Method, path: &str) -> Option<&'static str> {
    path.starts_with("/admin/").then(|| if method == Method::GET { "get" } else { "update" })
}

/// The plugin in the path; `None` if the path names no plugin.
fn plugin_in(path: &str) -> Option<&str> {
    path.strip_prefix("/admin/plugins/")?.split('/').next().filter(|name| !name.is_empty())
}

/// The HTTP status of the answer to a review; `None` if there was no answer.
fn code_of<T>(answer: &Result<T, ReviewError>) -> Option<u16> {
    match answer {
        Ok(_) => Some(StatusCode::CREATED.as_u16()),
        Err(error) => error.code(),
    }
}

fn unanswered(error: &ReviewError) -> NoVerdict {
    warn!(error = chain(error), "the API server did not authorize a request to the endpoints");
    NoVerdict::Unanswered
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let header = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    header.strip_prefix("Bearer ").map(str::trim)
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|header| header.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// Whether another site caused the browser's request. A browser says so in a header that no page can set
/// (<https://www.w3.org/TR/fetch-metadata/>). A link on another site that the user follows is allowed.
fn is_cross_site(headers: &HeaderMap) -> bool {
    let is = |name: &str, value: &str| headers.get(name).is_some_and(|found| found == value);
    let is_followed = is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document");
    let site = headers.get("sec-fetch-site");
    let is_own = site.is_none_or(|site| site == "same-origin" || site == "none");
    !is_own && (!is_followed || headers.contains_key(header::ORIGIN))
}

impl Denial {
    /// A `Status`, in the form that every component of Kubernetes uses.
    fn answer(self, method: &Method, path: &str) -> Response {
        let (code, reason, message) = match self {
            Self::Unauthenticated => (StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized".to_owned()),
            Self::Forbidden { user } => {
                let verb = method.as_str().to_lowercase();
                let message = format!("forbidden: User {user:?} cannot {verb} path {path:?}");
                (StatusCode::FORBIDDEN, "Forbidden", message)
            }
            Self::NotSignedIn { had_token } => return to_sign_in(had_token),
            Self::CrossSite => {
                let message = "the request comes from another site: open the page by its address".to_owned();
                (StatusCode::FORBIDDEN, "Forbidden", message)
            }
            Self::NoVerdict(verdict) => {
                let (code, reason) = match verdict {
                    NoVerdict::TooMany => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
                    NoVerdict::Unanswered => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
                };
                (code, reason, verdict.to_string())
            }
            Self::TooLong => {
                let message = format!("the path is longer than {MAX_PATH} bytes");
                (StatusCode::URI_TOO_LONG, "RequestURITooLong", message)
            }
        };
        refusal(code, reason, &message)
    }
}

impl RequestUser {
    /// The answer to a request that the user may not make, in the API server's words.
    #[must_use]
    pub fn forbidden(&self, request: &ResourceRequest<'_>) -> Response {
        let ResourceRequest { group, resource, verb, namespace, name } = *request;
        let object = name.map(|name| format!(" {name:?}")).unwrap_or_default();
        let place = match namespace {
            Some(namespace) => format!("in the namespace {namespace:?}"),
            None => "at the cluster scope".to_owned(),
        };
        let user = self.name();
        let message = format!(
            "{resource}{object} is forbidden: User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {place}"
        );
        refusal(StatusCode::FORBIDDEN, "Forbidden", &message)
    }
}

impl IntoResponse for NoVerdict {
    fn into_response(self) -> Response {
        Denial::NoVerdict(self).answer(&Method::GET, "")
    }
}

fn refusal(code: StatusCode, reason: &str, message: &str) -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "details": {}, "code": code.as_u16(),
    });
    (code, Json(status)).into_response()
}

/// Redirects to the form that asks for a token. The cookie is removed.
fn to_sign_in(had_token: bool) -> Response {
    let place = if had_token { "/page/sign-in?refused" } else { "/page/sign-in" };
    let forget = format!("{TOKEN_COOKIE}=; Max-Age=0; Path={PAGE}; HttpOnly; Secure; SameSite=Strict");
    (StatusCode::SEE_OTHER, [(header::LOCATION, place), (header::SET_COOKIE, &forget)]).into_response()
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::secure_serving::Authorities;

    async fn gate(open_paths: &[&str]) -> AccessCheck {
        let mut serving = SecureServing::on(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        serving.open_paths = open_paths.iter().map(|path| (*path).to_owned()).collect();
        AccessCheck::new(&serving, &Arc::default()).await.expect("no API server is asked")
    }

    async fn admits(gate: &AccessCheck, caller: Option<Caller>, path: &str) -> bool {
        let peer = Peer { client: caller, front_proxy: None };
        gate.0.admit(&peer, IpAddr::V4(Ipv4Addr::LOCALHOST), &HeaderMap::new(), &Method::GET, path).await.is_ok()
    }

    #[tokio::test]
    async fn open_paths_are_for_everybody_and_the_rest_for_masters() {
        let gate = gate(&["/healthz", "/open/*", "/admin/*", "/debug/*", "/metrics/*"]).await;
        let named = |group: &str| Some(Caller::named("ada".to_owned(), vec![group.to_owned()]));
        for (path, is_open) in [
            ("/healthz", true),
            ("/open/door", true),
            ("/admin/plugins", false),
            ("/healthz/ping", false),
            ("/debug/pprof/", true),
            ("/debug/cache", false),
            ("/debug/decisions", false),
            ("/metrics/slis", true),
            ("/metrics/resources", false),
            ("/healthzz", false),
            ("/metrics", false),
            ("/page/sign-in", true),
        ] {
            assert_eq!(admits(&gate, None, path).await, is_open, "{path}");
            assert_eq!(admits(&gate, named("operators"), path).await, is_open, "{path}");
            assert!(admits(&gate, named(MASTERS), path).await, "{path}");
        }
    }

    #[tokio::test]
    async fn an_open_path_is_open_for_reading_only() {
        let gate = gate(&["/metrics"]).await;
        let peer = Peer { client: None, front_proxy: None };
        let (address, headers) = (IpAddr::V4(Ipv4Addr::LOCALHOST), HeaderMap::new());
        for (method, is_admitted) in [(Method::GET, true), (Method::HEAD, true), (Method::DELETE, false)] {
            let admitted = gate.0.admit(&peer, address, &headers, &method, "/metrics").await;
            assert_eq!(admitted.is_ok(), is_admitted, "{method}");
        }
        let text = gate.0.metrics.render();
        for line in [
            "authentication_attempts{result=\"success\"} 3",
            "authenticated_user_requests{username=\"other\"} 3",
            "authorization_attempts_total{result=\"allowed\"} 2",
            "authorization_attempts_total{result=\"no-opinion\"} 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is missing from\n{text}");
        }
    }

    #[tokio::test]
    async fn an_explicit_denial_is_counted_as_such() {
        let gate = gate(&[]).await;
        let ada = Caller::named("ada".to_owned(), Vec::new());
        let right = Right::Path { verb: "get", path: "/metrics" };
        let (question, ttl) = (right.question(&ada.key()), Duration::from_secs(60));
        gate.0.verdicts.put(question, AccessDecision::Denied, 0, Instant::now(), ttl);
        assert!(!admits(&gate, Some(ada), "/metrics").await);
        let (text, line) = (gate.0.metrics.render(), "authorization_attempts_total{result=\"denied\"} 1");
        assert!(text.lines().any(|it| it == line), "{line} is missing from\n{text}");
    }

    #[test]
    fn a_browser_that_another_site_sends_is_refused() {
        let headers = |pairs: &[(&'static str, &'static str)]| {
            let pairs = pairs.iter().map(|(name, value)| {
                (name.parse::<header::HeaderName>().expect("a name"), value.parse().expect("a value"))
            });
            pairs.collect::<HeaderMap>()
        };
        let own = [("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "cors")];
        let typed = [("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")];
        let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        for fine in [&own[..], &typed, &link, &[]] {
            assert!(!is_cross_site(&headers(fine)), "{fine:?}");
        }
        let form = [&link[..], &[("origin", "https://evil.example")]].concat();
        let frame = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
        for foreign in [&form[..], &frame, &[("sec-fetch-site", "same-site"), ("sec-fetch-mode", "no-cors")]] {
            assert!(is_cross_site(&headers(foreign)), "{foreign:?}");
        }
        let cookies = headers(&[("cookie", "a=b; __Secure-berth-token=secret; c=d")]);
        assert_eq!(cookie(&cookies, TOKEN_COOKIE), Some("secret"));
        assert_eq!(cookie(&cookies, "token"), None);
    }

    #[test]
    fn orders_name_plugins() {
        assert_eq!(plugin_in("/admin/plugins/NodeName/reload"), Some("NodeName"));
        assert_eq!(plugin_in("/admin/plugins"), None);
        assert_eq!(plugins_verb(&Method::GET, "/admin/plugins"), Some("get"));
        assert_eq!(plugins_verb(&Method::POST, "/admin/plugins/NodeName/reload"), Some("update"));
        assert_eq!(plugins_verb(&Method::GET, "/metrics"), None);
    }

    #[test]
    fn a_front_proxy_says_for_whom_it_asks() {
        let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let proxy = FrontProxy {
            authority: Authorities::File("ca.crt".into()),
            allowed_names: own(&["front"]),
            username_headers: own(&["X-Remote-User"]),
            uid_headers: own(&["X-Remote-Uid"]),
            group_headers: own(&["X-Remote-Group"]),
            extra_header_prefixes: own(&["X-Remote-Extra-"]),
        };
        let mut headers = HeaderMap::new();
        assert_eq!(proxy.caller("front", &headers), None, "the headers name no user");
        for (name, value) in [
            ("x-remote-user", "ada"),
            ("x-remote-uid", "7"),
            ("x-remote-group", "operators"),
            ("x-remote-group", "readers"),
            ("x-remote-extra-scopes", "all"),
        ] {
            headers.append(name, value.parse().expect("a value"));
        }
        assert_eq!(proxy.caller("somebody", &headers), None, "any certificate of the authority will not do");
        let extra = BTreeMap::from([("scopes".to_owned(), own(&["all"]))]);
        let expected = Caller::named("ada".to_owned(), own(&["operators", "readers"]));
        assert_eq!(proxy.caller("front", &headers), Some(expected.with_details(Some("7".to_owned()), extra)));
    }

    #[tokio::test]
    async fn a_path_that_is_too_long_is_refused_unasked() {
        let gate = gate(&["/open/*"]).await;
        let masters = Some(Caller::named("ada".to_owned(), vec![MASTERS.to_owned()]));
        let path = |length: usize| format!("/open/{}", "x".repeat(length));
        assert!(admits(&gate, masters.clone(), &path(MAX_PATH - 6)).await);
        assert!(!admits(&gate, masters, &path(MAX_PATH - 5)).await);
    }
}
