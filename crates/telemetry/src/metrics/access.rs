//! The metrics of kube-scheduler about the callers of its HTTPS port: who was identified, what was allowed, and the
//! questions to the API server about both (`apiserver/pkg/endpoints/filters`, `authentication/token/cache`,
//! `authentication/authenticatorfactory`, `authorization/authorizerfactory`).

use std::time::Duration;

use prometheus::{DEFAULT_BUCKETS, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec};

use super::{
    registration::{Registration, Stability::Alpha},
    scheduler::buckets,
};

/// The buckets of questions to the API server.
const QUESTION: [f64; 8] = [0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0];

/// The names of users that are shown. The number of series must not depend on the number of users.
const SHOWN_USERS: [&str; 5] =
    ["admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"];

/// The metrics about callers.
#[derive(Debug)]
pub struct AccessMetrics {
    users: IntCounterVec,
    authentications: IntCounterVec,
    authentication_duration: HistogramVec,
    authorizations: IntCounterVec,
    authorization_duration: HistogramVec,
    token_requests: IntCounterVec,
    token_request_duration: HistogramVec,
    token_fetches: IntCounterVec,
    active_token_fetches: IntGaugeVec,
    authentication_questions: Questions,
    authorization_questions: Questions,
}

/// Questions of one kind to the API server.
#[derive(Debug)]
struct Questions {
    total: IntCounterVec,
    duration: HistogramVec,
}

/// The result of asking whether a caller may do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authorization {
    Allowed,
    /// An authorizer of the API server forbids it.
    Denied,
    /// No authorizer of the API server allows or forbids it.
    NoOpinion,
    /// The API server could not be asked.
    Error,
}

/// A question about a token that waits for its answer. The question counts as waiting until this value is dropped.
#[derive(Debug)]
pub struct TokenFetch(IntGauge);

impl AccessMetrics {
    #[expect(clippy::too_many_lines, reason = "a table with one entry for each metric")]
    pub(super) fn new(add: &mut Registration) -> Self {
        let doubling = || buckets(0.001, 2.0, 15);
        Self {
            users: add.counter(
                Alpha,
                "authenticated_user_requests",
                "Requests of identified callers, by a few names of users.",
                &["username"],
            ),
            authentications: add.counter(
                Alpha,
                "authentication_attempts",
                "Requests whose caller had to be identified, by result.",
                &["result"],
            ),
            authentication_duration: add.histogram(
                Alpha,
                "authentication_duration_seconds",
                "How long it took to identify a caller.",
                &["result"],
                doubling(),
            ),
            authorizations: add.counter(
                Alpha,
                "authorization_attempts_total",
                "Questions whether a caller may do something, by result: allowed, denied, no-opinion or error.",
                &["result"],
            ),
            authorization_duration: add.histogram(
                Alpha,
                "authorization_duration_seconds",
                "How long it took to decide whether a caller may do something.",
                &["result"],
                doubling(),
            ),
            token_requests: add.counter(
                Alpha,
                "authentication_token_cache_request_total",
                "Tokens of callers, by whether a recent answer about the token was known.",
                &["status"],
            ),
            token_request_duration: add.histogram(
                Alpha,
                "authentication_token_cache_request_duration_seconds",
                "How long it took to find the user of a token.",
                &["status"],
                DEFAULT_BUCKETS.to_vec(),
            ),
            token_fetches: add.counter(
                Alpha,
                "authentication_token_cache_fetch_total",
                "Questions to the API server about tokens, by whether it answered.",
                &["status"],
            ),
            active_token_fetches: add.gauge(
                Alpha,
                "authentication_token_cache_active_fetch_count",
                "Questions to the API server about tokens that wait for their answers.",
                &["status"],
            ),
            authentication_questions: Questions::new(
                add,
                "apiserver_delegated_authn_request_total",
                "apiserver_delegated_authn_request_duration_seconds",
            ),
            authorization_questions: Questions::new(
                add,
                "apiserver_delegated_authz_request_total",
                "apiserver_delegated_authz_request_duration_seconds",
            ),
        }
    }

    /// Records that the caller of a request is `user`. `None` means that the caller could not be identified.
    pub fn authenticated(&self, user: Option<&str>, duration: Duration) {
        if let Some(user) = user {
            self.users.with_label_values(&[shown(user)]).inc();
        }
        let result = if user.is_some() { "success" } else { "error" };
        self.authentications.with_label_values(&[result]).inc();
        self.authentication_duration.with_label_values(&[result]).observe(duration.as_secs_f64());
    }

    /// Records the answer to the question whether a caller may do something.
    pub fn authorized(&self, result: Authorization, duration: Duration) {
        let result = match result {
            Authorization::Allowed => "allowed",
            Authorization::Denied => "denied",
            Authorization::NoOpinion => "no-opinion",
            Authorization::Error => "error",
        };
        self.authorizations.with_label_values(&[result]).inc();
        self.authorization_duration.with_label_values(&[result]).observe(duration.as_secs_f64());
    }

    /// Records that the user of a token was looked up. `is_hit` says whether a recent answer was known.
    pub fn token_looked_up(&self, is_hit: bool, duration: Duration) {
        let status = if is_hit { "hit" } else { "miss" };
        self.token_requests.with_label_values(&[status]).inc();
        self.token_request_duration.with_label_values(&[status]).observe(duration.as_secs_f64());
    }

    /// Records that the API server is asked about a token.
    pub fn token_fetch(&self) -> TokenFetch {
        let gauge = self.active_token_fetches.with_label_values(&["in_flight"]);
        gauge.inc();
        TokenFetch(gauge)
    }

    /// Records an answer to a TokenReview. `code` is the HTTP status; `None` if there was no answer.
    pub fn token_reviewed(&self, code: Option<u16>, duration: Duration) {
        let status = if code.is_some_and(|code| (200..300).contains(&code)) { "ok" } else { "error" };
        self.token_fetches.with_label_values(&[status]).inc();
        self.authentication_questions.answered(code, duration);
    }

    /// Records an answer to a SubjectAccessReview. `code` is the HTTP status; `None` if there was no answer.
    pub fn access_reviewed(&self, code: Option<u16>, duration: Duration) {
        self.authorization_questions.answered(code, duration);
    }
}

impl Questions {
    fn new(add: &mut Registration, total: &'static str, duration: &'static str) -> Self {
        let help = "Questions to the API server, by the status of the answer.";
        Self {
            total: add.counter(Alpha, total, help, &["code"]),
            duration: add.histogram(
                Alpha,
                duration,
                "How long a question to the API server took.",
                &["code"],
                QUESTION.to_vec(),
            ),
        }
    }

    fn answered(&self, code: Option<u16>, duration: Duration) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        self.total.with_label_values(&[&code]).inc();
        self.duration.with_label_values(&[&code]).observe(duration.as_secs_f64());
    }
}

impl Drop for TokenFetch {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The name under which a user is counted.
fn shown(user: &str) -> &str {
    match user {
        user if SHOWN_USERS.contains(&user) => user,
        user if user.contains('@') => "email_id",
        _ => "other",
    }
}
