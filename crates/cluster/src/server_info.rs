//! The facts that a client learns about its API server: whether it answers, its version and clock, and the client's
//! rights.

use http::{Request, header};
use k8s_openapi::{
    api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
    jiff::{Timestamp, fmt::rfc2822},
};
use kube::{Api, Client, api::PostParams, client::Body};
use serde::Deserialize;

use crate::{
    api_error::RequestFailure,
    clock::{self, Span, Time},
    review::ReviewError,
};

/// An API server that answers.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerInfo {
    /// The version, such as `v1.36.0`.
    pub version: String,
    /// The seconds by which the server's clock is ahead of this machine's, rounded towards zero; `None` if the server
    /// sends no time.
    pub seconds_ahead: Option<i64>,
}

/// The API server does not answer, or refuses to say its version.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the API server's version: {reason}")]
pub struct ServerInfoError {
    reason: String,
    /// Whether the server answered, but without the information.
    is_refusal: bool,
    is_impersonation_refused: bool,
}

impl ServerInfoError {
    /// Whether the server answered and would answer the same again.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.is_refusal
    }

    /// Whether the server refuses every request because the user of the credentials lacks the right to `impersonate`.
    #[must_use]
    pub fn is_impersonation_refused(&self) -> bool {
        self.is_impersonation_refused
    }
}

/// A verb on a kind of objects, or on one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceAccess {
    /// The namespace; empty for all namespaces.
    pub namespace: String,
    /// The `metadata.name`; empty for all objects.
    pub name: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource in the plural.
    pub resource: String,
    /// The subresource; empty for the object itself.
    pub subresource: String,
    pub verb: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    git_version: String,
}

impl ResourceAccess {
    /// `resource` may name a subresource: `pods/binding`.
    #[must_use]
    pub fn new(group: &str, resource: &str, verb: &str) -> Self {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let own = str::to_owned;
        let (namespace, name) = (String::new(), String::new());
        Self {
            namespace,
            name,
            group: own(group),
            resource: own(resource),
            subresource: own(subresource),
            verb: own(verb),
        }
    }

    /// A copy of the access for one namespace. If `name` is not empty, the access is to this object alone.
    #[must_use]
    pub fn to_object(self, namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned(), ..self }
    }

    /// The rule of a ClusterRole or Role that grants the access.
    #[must_use]
    pub fn rule(&self) -> String {
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        let resource = format!("{}{slash}{}", self.resource, self.subresource);
        rule(&self.group, &resource, &self.name, &[&self.verb])
    }
}

impl std::fmt::Display for ResourceAccess {
    /// Writes the access as `create pods/binding` or `list csinodes.storage.k8s.io`.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { namespace, name, group, resource, subresource, verb } = self;
        write!(formatter, "{verb} {resource}")?;
        if !group.is_empty() {
            write!(formatter, ".{group}")?;
        }
        if !subresource.is_empty() {
            write!(formatter, "/{subresource}")?;
        }
        if !name.is_empty() {
            write!(formatter, " {name:?}")?;
        }
        if namespace.is_empty() { Ok(()) } else { write!(formatter, " in namespace {namespace:?}") }
    }
}

/// A rule of a ClusterRole or Role. `name` is empty for all objects.
pub(crate) fn rule(group: &str, resource: &str, name: &str, verbs: &[&str]) -> String {
    let names = if name.is_empty() { String::new() } else { format!("resourceNames: [{name:?}], ") };
    format!("{{apiGroups: [{group:?}], resources: [{resource:?}], {names}verbs: [{}]}}", verbs.join(", "))
}

/// Asks for the server's version and time.
///
/// # Errors
/// The server does not answer, or is not an API server.
pub async fn server_info(client: &Client) -> Result<ServerInfo, ServerInfoError> {
    let failed = |failure: RequestFailure| {
        let is_refusal = failure.code().is_some_and(|code| (400..500).contains(&code) && code != 429);
        let is_impersonation_refused = failure.is_impersonation_refused();
        ServerInfoError { reason: failure.to_string(), is_refusal, is_impersonation_refused }
    };
    let malformed = |error: http::Error| ServerInfoError {
        reason: error.to_string(),
        is_refusal: true,
        is_impersonation_refused: false,
    };
    let request = Request::get("/version").body(Body::empty());
    let request = request.map_err(malformed)?;
    let before = clock::now();
    let answer = client.send(request).await.map_err(|error| failed(error.into()))?;
    let after = clock::now();
    let date = answer.headers().get(header::DATE).and_then(|date| date.to_str().ok()).and_then(http_date);
    let request = Request::get("/version").body(Vec::new());
    let request = request.map_err(malformed)?;
    let version: Version = client.request(request).await.map_err(|error| failed(error.into()))?;
    let seconds_ahead = date.map(|date| ahead(date, before, after).as_secs());
    Ok(ServerInfo { version: version.git_version, seconds_ahead })
}

/// Reads a time such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<Time> {
    rfc2822::parse(text).ok().map(|date| Timestamp::from(&date))
}

/// The minimum time by which the API server's clock is ahead. The server's clock showed `date`, in whole seconds, at
/// some moment between `before` and `after`.
fn ahead(date: Time, before: Time, after: Time) -> Span {
    let earliest = date.duration_since(after);
    let latest = date.duration_since(before) + Span::from_secs(1);
    if earliest > Span::ZERO {
        earliest
    } else if latest < Span::ZERO {
        latest
    } else {
        Span::ZERO
    }
}

/// Whether this client's user has the access, according to a SelfSubjectAccessReview.
///
/// # Errors
/// The API server does not answer the review.
pub async fn has_access(client: &Client, access: &ResourceAccess) -> Result<bool, ReviewError> {
    let some = |text: &String| (!text.is_empty()).then(|| text.clone());
    let attributes = ResourceAttributes {
        group: some(&access.group),
        resource: some(&access.resource),
        subresource: some(&access.subresource),
        verb: some(&access.verb),
        namespace: some(&access.namespace),
        name: some(&access.name),
        ..ResourceAttributes::default()
    };
    let spec =
        SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..SelfSubjectAccessReviewSpec::default() };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let review = api.create(&PostParams::default(), &review).await;
    let review = review.map_err(|error| ReviewError::new("SelfSubjectAccessReview", error))?;
    Ok(review.status.is_some_and(|status| status.allowed && status.denied != Some(true)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_server;

    async fn may(answer: serde_json::Value) -> bool {
        let (client, mut server) = test_server::server();
        let access = ResourceAccess::new("", "pods/binding", "create");
        let asking = tokio::spawn(async move { has_access(&client, &access).await });
        let call = server.next().await;
        assert_eq!(call.line(), "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
        let attributes = json!({"resource": "pods", "subresource": "binding", "verb": "create"});
        assert_eq!(call.body["spec"], json!({"resourceAttributes": attributes}));
        call.answer(201, &json!({"metadata": {}, "spec": {}, "status": answer}));
        asking.await.expect("no panic").expect("an answer")
    }

    #[tokio::test]
    async fn only_a_plain_yes_is_access() {
        assert!(may(json!({"allowed": true})).await);
        assert!(!may(json!({"allowed": false})).await);
        assert!(!may(json!({"allowed": true, "denied": true})).await);
    }

    /// The messages are those of an API server without and with constrained impersonation.
    #[tokio::test]
    async fn a_user_without_the_right_to_impersonate_is_distinguished_from_one_without_rights() {
        let own = r#"User "ada" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "a""#;
        let constrained = r#"forbidden: User "ada" cannot impersonate-on:serviceaccount:get path "/version""#;
        let other = r#"forbidden: User "system:serviceaccount:a:berth" cannot get path "/version""#;
        for (message, expected) in [(own, true), (constrained, true), (other, false)] {
            let (client, mut server) = test_server::server();
            let asking = tokio::spawn(async move { server_info(&client).await });
            server.next().await.refuse(403, "Forbidden", message);
            server.next().await.refuse(403, "Forbidden", message);
            let error = asking.await.expect("no panic").expect_err("a refusal");
            assert_eq!((error.is_refusal(), error.is_impersonation_refused()), (true, expected), "{message}");
        }
    }

    #[test]
    fn clocks_within_the_precision_of_the_header_agree() {
        let date = http_date("Sun, 06 Nov 1994 08:49:37 GMT").expect("a date");
        let time = |text: &str| -> Time { text.parse().expect("a time") };
        assert_eq!(date, time("1994-11-06T08:49:37Z"));
        let ahead = |before, after| ahead(date, time(before), time(after)).as_secs();
        assert_eq!(ahead("1994-11-06T08:49:36.5Z", "1994-11-06T08:49:37.2Z"), 0);
        assert_eq!(ahead("1994-11-06T08:49:37.9Z", "1994-11-06T08:49:38.1Z"), 0);
        assert_eq!(ahead("1994-11-06T08:49:00Z", "1994-11-06T08:49:07Z"), 30);
        assert_eq!(ahead("1994-11-06T08:50:38Z", "1994-11-06T08:50:39Z"), -60);
    }

    #[test]
    fn what_allows_an_access_is_a_rule() {
        let binding = ResourceAccess::new("", "pods/binding", "create");
        assert_eq!(binding.rule(), r#"{apiGroups: [""], resources: ["pods/binding"], verbs: [create]}"#);
        let lease = ResourceAccess::new("coordination.k8s.io", "leases", "update").to_object("kube-system", "berth");
        let rule =
            r#"{apiGroups: ["coordination.k8s.io"], resources: ["leases"], resourceNames: ["berth"], verbs: [update]}"#;
        assert_eq!(lease.rule(), rule);
        assert_eq!(lease.to_string(), "update leases.coordination.k8s.io \"berth\" in namespace \"kube-system\"");
    }

    #[test]
    fn access_reads_as_in_a_role() {
        assert_eq!(ResourceAccess::new("", "pods/binding", "create").to_string(), "create pods/binding");
        assert_eq!(
            ResourceAccess::new("storage.k8s.io", "csinodes", "list").to_string(),
            "list csinodes.storage.k8s.io"
        );
    }
}
