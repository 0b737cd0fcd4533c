//! Who asks, and may they? As the components of Kubernetes decide it: by what a front proxy says, by client certificate or
//! bearer token, and by asking the API server (TokenReview, SubjectAccessReview).
//!
//! A request without credentials comes from `system:anonymous`. Open paths are for everybody, also when the API server
//! does not answer; the group `system:masters` may do all. Of plugins and orders about them the API server is asked as of
//! `plugins` in the group `berth.dev`, of other paths as such. Answers are remembered for a while, refusals too, and each
//! client causes only so many questions (`review_rate`).

use std::{
    collections::BTreeMap,
    net::IpAddr,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use axum::{
    Extension, Json,
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use berth_cluster::{AccessReviewer, Caller, ConnectOptions, ResourceRequest, ReviewError, USER_AGENT, connect};
use berth_config::Usage;
use berth_telemetry::chain;
use serde_json::json;
use tracing::warn;

use super::{
    FrontProxy, PeerAddress, SecureServing,
    answers::{Answers, Question},
    certificates::Peer,
    review_rate::ReviewRate,
};

const MASTERS: &str = "system:masters";

/// The paths that are served are short; each byte of a path is in the question to the API server, and in its audit log.
const MAX_PATH: usize = 1024;

/// The name of the caller that was let through; it is in the request, for the handlers.
#[derive(Clone, Debug)]
pub struct RequestUser(pub String);

/// Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct AccessCheck(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    open_paths: Vec<String>,
    front_proxy: Option<FrontProxy>,
    tokens: Option<AccessReviewer>,
    token_ttl: Duration,
    rights: Option<AccessReviewer>,
    authorized_ttl: Duration,
    unauthorized_ttl: Duration,
    callers: Answers<Option<Caller>>,
    verdicts: Answers<bool>,
    rate: ReviewRate,
}

#[derive(Debug)]
enum Denial {
    Unauthenticated,
    Forbidden {
        user: String,
    },
    /// The client has asked for too much that is not known.
    TooMany,
    /// No endpoint has a path of that length.
    TooLong,
    Unanswered,
}

impl AccessCheck {
    pub(super) async fn new(serving: &SecureServing) -> Result<Self> {
        Ok(Self(Arc::new(Inner {
            open_paths: serving.open_paths.clone(),
            front_proxy: serving.front_proxy.clone(),
            tokens: reviewer(serving.authentication_kubeconfig.as_deref(), "--authentication-kubeconfig").await?,
            token_ttl: serving.token_ttl,
            rights: reviewer(serving.authorization_kubeconfig.as_deref(), "--authorization-kubeconfig").await?,
            authorized_ttl: serving.authorized_ttl,
            unauthorized_ttl: serving.unauthorized_ttl,
            callers: Answers::default(),
            verdicts: Answers::default(),
            rate: ReviewRate::default(),
        })))
    }
}

pub(super) async fn reviewer(kubeconfig: Option<&Path>, flag: &str) -> Result<Option<AccessReviewer>> {
    let Some(file) = kubeconfig else { return Ok(None) };
    let options = ConnectOptions {
        kubeconfig: Some(file.to_owned()),
        user_agent: USER_AGENT.to_owned(),
        ..ConnectOptions::default()
    };
    let connection = connect(&options).await.map_err(|error| Usage(format!("{flag}: {}", chain(&error))))?;
    Ok(Some(AccessReviewer::new(connection.client())))
}

/// Lets a request through, or answers why not.
pub(super) async fn check(
    State(gate): State<AccessCheck>,
    Extension(peer): Extension<Peer>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    mut request: Request,
    next: Next,
) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    match gate.0.admit(&peer, address, request.headers(), &method, &path).await {
        Ok(user) => {
            request.extensions_mut().insert(user);
            next.run(request).await
        }
        Err(denial) => denial.answer(&method, &path),
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
    ) -> Result<RequestUser, Denial> {
        if path.len() > MAX_PATH {
            return Err(Denial::TooLong);
        }
        let caller = self.caller(peer, address, headers).await;
        if self.is_open(path) && !matches!(caller, Err(Denial::Unauthenticated)) {
            return Ok(RequestUser(caller.unwrap_or_else(|_| Caller::anonymous()).name().to_owned()));
        }
        let caller = caller?;
        if caller.groups().any(|group| group == MASTERS) || self.may(&caller, address, method, path).await? {
            return Ok(RequestUser(caller.name().to_owned()));
        }
        Err(Denial::Forbidden { user: caller.name().to_owned() })
    }

    async fn caller(&self, peer: &Peer, address: IpAddr, headers: &HeaderMap) -> Result<Caller, Denial> {
        let named = self.front_proxy.as_ref().and_then(|proxy| proxy.caller(peer.front_proxy.as_deref()?, headers));
        if let Some(caller) = named.or_else(|| peer.client.clone()) {
            return Ok(caller);
        }
        let header = headers.get(header::AUTHORIZATION).and_then(|header| header.to_str().ok());
        let token = header.and_then(|header| header.strip_prefix("Bearer ")).map(str::trim);
        let (Some(token), Some(reviewer)) = (token.filter(|token| !token.is_empty()), &self.tokens) else {
            return Ok(Caller::anonymous());
        };
        let question = Question::new(&[token]);
        let caller = match self.callers.get(question, Instant::now()) {
            Some(caller) => caller,
            None => {
                self.count_question(address)?;
                let caller = reviewer.authenticate(token).await.map_err(|error| unanswered(&error))?;
                let bytes = caller.as_ref().map_or(0, |caller| caller.key().len());
                self.callers.put(question, caller.clone(), bytes, Instant::now(), self.token_ttl);
                caller
            }
        };
        caller.ok_or(Denial::Unauthenticated)
    }

    fn count_question(&self, address: IpAddr) -> Result<(), Denial> {
        if self.rate.admits(address, Instant::now()) { Ok(()) } else { Err(Denial::TooMany) }
    }

    async fn may(&self, caller: &Caller, address: IpAddr, method: &Method, path: &str) -> Result<bool, Denial> {
        let Some(reviewer) = &self.rights else { return Ok(false) };
        let verb = method.as_str().to_lowercase();
        let question = Question::new(&[&caller.key(), &verb, path]);
        if let Some(may) = self.verdicts.get(question, Instant::now()) {
            return Ok(may);
        }
        self.count_question(address)?;
        let may = match plugins_verb(method, path) {
            Some(verb) => {
                let request = ResourceRequest { group: "berth.dev", resource: "plugins", verb, name: plugin_in(path) };
                reviewer.may(caller, &request).await
            }
            None => reviewer.may_use(caller, &verb, path).await,
        };
        let may = may.map_err(|error| unanswered(&error))?;
        let ttl = if may { self.authorized_ttl } else { self.unauthorized_ttl };
        self.verdicts.put(question, may, 0, Instant::now(), ttl);
        Ok(may)
    }

    fn is_open(&self, path: &str) -> bool {
        let is_it = |open: &String| match open.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => path == open,
        };
        // Orders, and the names of all pods, are for callers that the API server authorizes, whatever the paths say.
        let is_guarded = path.starts_with("/admin/") || path == "/metrics/resources";
        !is_guarded && self.open_paths.iter().any(is_it)
    }
}

impl FrontProxy {
    /// The user that the proxy of this name asks for; `None` if it may not say, or does not.
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

/// What the request does to plugins; `None` for other paths.
fn plugins_verb(method: &Method, path: &str) -> Option<&'static str> {
    path.starts_with("/admin/").then(|| if method == Method::GET { "get" } else { "update" })
}

/// The plugin that a path is about, if it is about one.
fn plugin_in(path: &str) -> Option<&str> {
    path.strip_prefix("/admin/plugins/")?.split('/').next().filter(|name| !name.is_empty())
}

fn unanswered(error: &ReviewError) -> Denial {
    warn!(error = chain(error), "the API server did not authorize a request to the endpoints");
    Denial::Unanswered
}

impl Denial {
    /// A `Status`, as every component of Kubernetes answers.
    fn answer(self, method: &Method, path: &str) -> Response {
        let (code, reason, message) = match self {
            Self::Unauthenticated => (StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized".to_owned()),
            Self::Forbidden { user } => {
                let verb = method.as_str().to_lowercase();
                let message = format!("forbidden: User {user:?} cannot {verb} path {path:?}");
                (StatusCode::FORBIDDEN, "Forbidden", message)
            }
            Self::TooMany => {
                let message = "too many unknown tokens or paths: try again later".to_owned();
                (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message)
            }
            Self::TooLong => {
                let message = format!("no path here is longer than {MAX_PATH} bytes");
                (StatusCode::URI_TOO_LONG, "RequestURITooLong", message)
            }
            Self::Unanswered => {
                let message = "the API server could not be asked who may do this".to_owned();
                (StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
            }
        };
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "details": {}, "code": code.as_u16(),
        });
        (code, Json(status)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::secure_serving::Authorities;

    async fn gate(open_paths: &[&str]) -> AccessCheck {
        let mut serving = SecureServing::on(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        serving.open_paths = open_paths.iter().map(|path| (*path).to_owned()).collect();
        AccessCheck::new(&serving).await.expect("nobody is asked")
    }

    async fn admits(gate: &AccessCheck, caller: Option<Caller>, path: &str) -> bool {
        let peer = Peer { client: caller, front_proxy: None };
        gate.0.admit(&peer, IpAddr::V4(Ipv4Addr::LOCALHOST), &HeaderMap::new(), &Method::GET, path).await.is_ok()
    }

    #[tokio::test]
    async fn open_paths_are_for_everybody_and_the_rest_for_masters() {
        let gate = gate(&["/healthz", "/open/*", "/admin/*", "/metrics/*"]).await;
        let named = |group: &str| Some(Caller::named("ada".to_owned(), vec![group.to_owned()]));
        for (path, is_open) in [
            ("/healthz", true),
            ("/open/door", true),
            ("/admin/plugins", false),
            ("/healthz/ping", false),
            ("/metrics/slis", true),
            ("/metrics/resources", false),
            ("/healthzz", false),
            ("/metrics", false),
        ] {
            assert_eq!(admits(&gate, None, path).await, is_open, "{path}");
            assert_eq!(admits(&gate, named("operators"), path).await, is_open, "{path}");
            assert!(admits(&gate, named(MASTERS), path).await, "{path}");
        }
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
        assert_eq!(proxy.caller("front", &headers), None, "nobody is named");
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
