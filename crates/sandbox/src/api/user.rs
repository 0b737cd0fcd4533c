//! The user of a request. Every client is the user `admin`, which may impersonate every other user, as in
//! `staging/src/k8s.io/apiserver/pkg/endpoints/filters/impersonation` of Kubernetes. Nothing but a SelfSubjectReview shows
//! the user. The uid and the extra fields of an impersonated user are ignored.

use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use crate::status::{ApiResult, StatusError};

const IMPERSONATE_USER: &str = "impersonate-user";
const IMPERSONATE_GROUP: &str = "impersonate-group";

const ANONYMOUS: &str = "system:anonymous";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Refuses a request that impersonates groups or other attributes without a user.
pub(super) fn check(headers: &HeaderMap) -> ApiResult<()> {
    let impersonates = headers.keys().any(|name| name.as_str().starts_with("impersonate-"));
    if impersonates && impersonated(headers).is_none() {
        return Err(StatusError::bad_request("requested impersonation without impersonating a user name"));
    }
    Ok(())
}

/// The `UserInfo` of the user that the request acts as.
pub(super) fn of(headers: &HeaderMap) -> Value {
    let Some(name) = impersonated(headers) else { return admin() };
    let groups = headers.get_all(IMPERSONATE_GROUP).iter().map(text);
    let mut groups: Vec<String> = groups.collect();
    let account = name.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':'));
    if let (true, Some((namespace, _))) = (groups.is_empty(), account) {
        groups.extend(["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]);
    }
    let is_in = |group: &str| groups.iter().any(|it| it == group);
    let missing = if name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
    if !is_in(missing) && !is_in(UNAUTHENTICATED) {
        groups.push(missing.to_owned());
    }
    json!({"username": name, "groups": groups})
}

/// The `UserInfo` of the user of every client.
pub(super) fn admin() -> Value {
    json!({"username": "admin", "groups": ["system:masters", AUTHENTICATED]})
}

fn impersonated(headers: &HeaderMap) -> Option<String> {
    headers.get(IMPERSONATE_USER).map(text).filter(|name| !name.is_empty())
}

fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}
