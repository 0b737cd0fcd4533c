//! Who asks, and may they? As the components of Kubernetes decide it: by client certificate or bearer token, and by asking
//! the API server (TokenReview, SubjectAccessReview).
//!
//! A request without credentials comes from `system:anonymous`. Open paths are for everybody, also when the API server
//! does not answer; the group `system:masters` may do all.

use std::{
    collections::HashMap,
    hash::Hash,
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
use berth_cluster::{AccessReviewer, Caller, ConnectOptions, ReviewError, connect};
use serde_json::json;
use tracing::warn;

use super::SecureServing;
use crate::{
    failure::{Usage, chain},
    user_agent::USER_AGENT,
};

const MASTERS: &str = "system:masters";

/// Answers that are remembered at the same time; beyond that, the oldest are asked for anew.
const MAX_ANSWERS: usize = 4096;

/// Whom the verified client certificate of a connection names.
#[derive(Clone, Debug)]
pub(super) struct Peer(pub(super) Option<Caller>);

/// Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Gate(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    open_paths: Vec<String>,
    tokens: Option<AccessReviewer>,
    token_ttl: Duration,
    rights: Option<AccessReviewer>,
    authorized_ttl: Duration,
    unauthorized_ttl: Duration,
    callers: Answers<String, Option<Caller>>,
    verdicts: Answers<(String, String, String), bool>,
}

/// What the API server answered a moment ago.
#[derive(Debug)]
struct Answers<K, V>(Mutex<HashMap<K, (Instant, V)>>);

#[derive(Debug)]
enum Denial {
    Unauthenticated,
    Forbidden { user: String },
    Unanswered,
}

impl Gate {
    pub(super) async fn new(serving: &SecureServing) -> Result<Self> {
        Ok(Self(Arc::new(Inner {
            open_paths: serving.open_paths.clone(),
            tokens: reviewer(serving.authentication_kubeconfig.as_deref(), "--authentication-kubeconfig").await?,
            token_ttl: serving.token_ttl,
            rights: reviewer(serving.authorization_kubeconfig.as_deref(), "--authorization-kubeconfig").await?,
            authorized_ttl: serving.authorized_ttl,
            unauthorized_ttl: serving.unauthorized_ttl,
            callers: Answers(Mutex::default()),
            verdicts: Answers(Mutex::default()),
        })))
    }
}

async fn reviewer(kubeconfig: Option<&Path>, flag: &str) -> Result<Option<AccessReviewer>> {
    let Some(file) = kubeconfig else { return Ok(None) };
    let options = ConnectOptions {
        kubeconfig: Some(file.to_owned()),
        user_agent: USER_AGENT.to_owned(),
        ..ConnectOptions::default()
    };
    let connection = connect(&options).await.map_err(|error| Usage(format!("{flag}: {}", chain(&error))))?;
    Ok(Some(AccessReviewer::new(connection.client)))
}

/// Lets a request through, or answers why not.
pub(super) async fn check(
    State(gate): State<Gate>,
    Extension(peer): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    match gate.0.admit(peer.0, request.headers(), &method, &path).await {
        Ok(()) => next.run(request).await,
        Err(denial) => denial.answer(&method, &path),
    }
}

impl Inner {
    async fn admit(
        &self,
        peer: Option<Caller>,
        headers: &HeaderMap,
        method: &Method,
        path: &str,
    ) -> Result<(), Denial> {
        let caller = self.caller(peer, headers).await;
        if self.is_open(path) && !matches!(caller, Err(Denial::Unauthenticated)) {
            return Ok(());
        }
        let caller = caller?;
        if caller.groups().any(|group| group == MASTERS) || self.may(&caller, method, path).await? {
            return Ok(());
        }
        Err(Denial::Forbidden { user: caller.name().to_owned() })
    }

    async fn caller(&self, peer: Option<Caller>, headers: &HeaderMap) -> Result<Caller, Denial> {
        if let Some(peer) = peer {
            return Ok(peer);
        }
        let header = headers.get(header::AUTHORIZATION).and_then(|header| header.to_str().ok());
        let token = header.and_then(|header| header.strip_prefix("Bearer ")).map(str::trim);
        let (Some(token), Some(reviewer)) = (token.filter(|token| !token.is_empty()), &self.tokens) else {
            return Ok(Caller::anonymous());
        };
        let key = token.to_owned();
        let known = self.callers.get(&key, |_| self.token_ttl);
        let caller = match known {
            Some(caller) => caller,
            None => {
                let caller = reviewer.authenticate(token).await.map_err(|error| unanswered(&error))?;
                self.callers.put(key, caller.clone());
                caller
            }
        };
        caller.ok_or(Denial::Unauthenticated)
    }

    async fn may(&self, caller: &Caller, method: &Method, path: &str) -> Result<bool, Denial> {
        let Some(reviewer) = &self.rights else { return Ok(false) };
        let verb = method.as_str().to_lowercase();
        let key = (caller.key(), verb.clone(), path.to_owned());
        let ttl = |may: &bool| if *may { self.authorized_ttl } else { self.unauthorized_ttl };
        if let Some(may) = self.verdicts.get(&key, ttl) {
            return Ok(may);
        }
        let may = reviewer.may_use(caller, &verb, path).await.map_err(|error| unanswered(&error))?;
        self.verdicts.put(key, may);
        Ok(may)
    }

    fn is_open(&self, path: &str) -> bool {
        let is_it = |open: &String| match open.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => path == open,
        };
        self.open_paths.iter().any(is_it)
    }
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

    async fn gate(open_paths: &[&str]) -> Gate {
        let mut serving = SecureServing::on(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        serving.open_paths = open_paths.iter().map(|path| (*path).to_owned()).collect();
        Gate::new(&serving).await.expect("nobody is asked")
    }

    async fn admits(gate: &Gate, caller: Option<Caller>, path: &str) -> bool {
        gate.0.admit(caller, &HeaderMap::new(), &Method::GET, path).await.is_ok()
    }

    #[tokio::test]
    async fn open_paths_are_for_everybody_and_the_rest_for_masters() {
        let gate = gate(&["/healthz", "/open/*"]).await;
        let named = |group: &str| Some(Caller::named("ada".to_owned(), vec![group.to_owned()]));
        for (path, is_open) in [
            ("/healthz", true),
            ("/open/door", true),
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
    fn answers_hold_for_their_time_only() {
        let answers = Answers(Mutex::default());
        answers.put("ada", true);
        assert_eq!(answers.get(&"ada", |_| Duration::from_secs(60)), Some(true));
        assert_eq!(answers.get(&"ada", |_| Duration::ZERO), None);
        assert_eq!(answers.get(&"eve", |_| Duration::from_secs(60)), None);
    }
}
