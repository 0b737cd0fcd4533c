//! Who asks, and may they? As the components of Kubernetes decide it: by what a front proxy says, by client certificate or
//! bearer token, and by asking the API server (TokenReview, SubjectAccessReview).
//!
//! A request without credentials comes from `system:anonymous`. Open paths are for everybody, also when the API server
//! does not answer; the group `system:masters` may do all. Of plugins and orders about them the API server is asked as of
//! `plugins` in the group `berth.dev`, of other paths as such. Answers are remembered for a while, refusals too, and each
//! client causes only so many questions (`review_rate`).

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    net::IpAddr,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
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
use berth_cluster::{AccessReviewer, Caller, ConnectOptions, ResourceRequest, ReviewError, connect};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tracing::warn;

use super::{FrontProxy, PeerAddress, SecureServing, certificates::Peer, review_rate::ReviewRate};
use crate::{
    failure::{Usage, chain},
    user_agent::USER_AGENT,
};

const MASTERS: &str = "system:masters";

/// Answers that are remembered at the same time; beyond that, the oldest are asked for anew.
const MAX_ANSWERS: usize = 4096;

/// The name of whoever was let through; in the request for those who answer it.
#[derive(Clone, Debug)]
pub(crate) struct RequestUser(pub(crate) String);

/// Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Gate(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    open_paths: Vec<String>,
    front_proxy: Option<FrontProxy>,
    tokens: Option<AccessReviewer>,
    token_ttl: Duration,
    rights: Option<AccessReviewer>,
    authorized_ttl: Duration,
    unauthorized_ttl: Duration,
    /// By the digest of a token: tokens themselves are not kept.
    callers: Answers<[u8; 32], Option<Caller>>,
    verdicts: Answers<(String, String, String), bool>,
    rate: ReviewRate,
}

/// What the API server answered a moment ago.
#[derive(Debug)]
struct Answers<K, V>(Mutex<HashMap<K, (Instant, V)>>);

#[derive(Debug)]
enum Denial {
    Unauthenticated,
    Forbidden {
        user: String,
    },
    /// The client has asked for too much that nobody knows.
    TooMany,
    Unanswered,
}

impl Gate {
    pub(super) async fn new(serving: &SecureServing) -> Result<Self> {
        Ok(Self(Arc::new(Inner {
            open_paths: serving.open_paths.clone(),
            front_proxy: serving.front_proxy.clone(),
            tokens: reviewer(serving.authentication_kubeconfig.as_deref(), "--authentication-kubeconfig").await?,
            token_ttl: serving.token_ttl,
            rights: reviewer(serving.authorization_kubeconfig.as_deref(), "--authorization-kubeconfig").await?,
            authorized_ttl: serving.authorized_ttl,
            unauthorized_ttl: serving.unauthorized_ttl,
            callers: Answers(Mutex::default()),
            verdicts: Answers(Mutex::default()),
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
    State(gate): State<Gate>,
    Extension(peer): Extension<Peer>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    mut request: Request,
    next: Next,
) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    match gate.0.admit((&peer, address), request.headers(), &method, &path).await {
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
        (peer, address): (&Peer, IpAddr),
        headers: &HeaderMap,
        method: &Method,
        path: &str,
    ) -> Result<RequestUser, Denial> {
        let caller = self.caller((peer, address), headers).await;
        if self.is_open(path) && !matches!(caller, Err(Denial::Unauthenticated)) {
            return Ok(RequestUser(caller.unwrap_or_else(|_| Caller::anonymous()).name().to_owned()));
        }
        let caller = caller?;
        if caller.groups().any(|group| group == MASTERS) || self.may((&caller, address), method, path).await? {
            return Ok(RequestUser(caller.name().to_owned()));
        }
        Err(Denial::Forbidden { user: caller.name().to_owned() })
    }

    async fn caller(&self, (peer, address): (&Peer, IpAddr), headers: &HeaderMap) -> Result<Caller, Denial> {
        let named = self.front_proxy.as_ref().and_then(|proxy| proxy.caller(peer.front_proxy.as_deref()?, headers));
        if let Some(caller) = named.or_else(|| peer.client.clone()) {
            return Ok(caller);
        }
        let header = headers.get(header::AUTHORIZATION).and_then(|header| header.to_str().ok());
        let token = header.and_then(|header| header.strip_prefix("Bearer ")).map(str::trim);
        let (Some(token), Some(reviewer)) = (token.filter(|token| !token.is_empty()), &self.tokens) else {
            return Ok(Caller::anonymous());
        };
        let key: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let known = self.callers.get(&key, |_| self.token_ttl);
        let caller = match known {
            Some(caller) => caller,
            None => {
                self.count_question(address)?;
                let caller = reviewer.authenticate(token).await.map_err(|error| unanswered(&error))?;
                self.callers.put(key, caller.clone());
                caller
            }
        };
        caller.ok_or(Denial::Unauthenticated)
    }

    fn count_question(&self, address: IpAddr) -> Result<(), Denial> {
        if self.rate.admits(address, Instant::now()) { Ok(()) } else { Err(Denial::TooMany) }
    }

    async fn may(&self, (caller, address): (&Caller, IpAddr), method: &Method, path: &str) -> Result<bool, Denial> {
        let Some(reviewer) = &self.rights else { return Ok(false) };
        let verb = method.as_str().to_lowercase();
        let key = (caller.key(), verb.clone(), path.to_owned());
        let ttl = |may: &bool| if *may { self.authorized_ttl } else { self.unauthorized_ttl };
        if let Some(may) = self.verdicts.get(&key, ttl) {
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
        self.verdicts.put(key, may);
        Ok(may)
    }

    fn is_open(&self, path: &str) -> bool {
        let is_it = |open: &String| match open.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => path == open,
        };
        // Orders are for nobody without a name, whatever the paths say.
        !path.starts_with("/admin/") && self.open_paths.iter().any(is_it)
    }
}

impl FrontProxy {
    /// For whom the proxy of this name asks; `None` if it may not say, or does not.
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
    warn!(error = chain(error), "the API server does not say who may use the endpoints");
    Denial::Unanswered
}

impl<K: Eq + Hash, V: Clone> Answers<K, V> {
    fn get(&self, key: &K, ttl: impl Fn(&V) -> Duration) -> Option<V> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, value) = answers.get(key)?;
        (since.elapsed() < ttl(value)).then(|| value.clone())
    }

    fn put(&self, key: K, value: V) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= MAX_ANSWERS {
            answers.clear();
        }
        answers.insert(key, (Instant::now(), value));
    }
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

    async fn gate(open_paths: &[&str]) -> Gate {
        let mut serving = SecureServing::on(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        serving.open_paths = open_paths.iter().map(|path| (*path).to_owned()).collect();
        Gate::new(&serving).await.expect("nobody is asked")
    }

    async fn admits(gate: &Gate, caller: Option<Caller>, path: &str) -> bool {
        let peer = Peer { client: caller, front_proxy: None };
        gate.0.admit((&peer, IpAddr::V4(Ipv4Addr::LOCALHOST)), &HeaderMap::new(), &Method::GET, path).await.is_ok()
    }

    #[tokio::test]
    async fn open_paths_are_for_everybody_and_the_rest_for_masters() {
        let gate = gate(&["/healthz", "/open/*", "/admin/*"]).await;
        let named = |group: &str| Some(Caller::named("ada".to_owned(), vec![group.to_owned()]));
        for (path, is_open) in [
            ("/healthz", true),
            ("/open/door", true),
            ("/admin/plugins", false),
            ("/healthz/ping", false),
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

    #[test]
    fn answers_hold_for_their_time_only() {
        let answers = Answers(Mutex::default());
        answers.put("ada", true);
        assert_eq!(answers.get(&"ada", |_| Duration::from_secs(60)), Some(true));
        assert_eq!(answers.get(&"ada", |_| Duration::ZERO), None);
        assert_eq!(answers.get(&"eve", |_| Duration::from_secs(60)), None);
    }
}
