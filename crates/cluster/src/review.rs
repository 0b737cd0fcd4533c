//! Authentication and authorization by the API server, for endpoints that the scheduler itself serves.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};

use crate::api_error::RequestFailure;

/// Sends reviews with the scheduler's own rights. The scheduler must be allowed to create `tokenreviews` and
/// `subjectaccessreviews`, as the role `system:auth-delegator` does.
#[derive(Clone)]
pub struct AccessReviewer {
    client: Client,
}

/// The user that a token belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Caller(UserInfo);

/// The action that a caller wants to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceRequest<'a> {
    pub group: &'a str,
    pub resource: &'a str,
    pub verb: &'a str,
    /// The namespace; `None` for objects without a namespace, and for all namespaces.
    pub namespace: Option<&'a str>,
    /// The name of one object, or `None` for all objects.
    pub name: Option<&'a str>,
}

/// The API server's decision about a request of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessDecision {
    Allowed,
    /// An authorizer forbids the request. An answer that allows the request as well counts as this.
    Denied,
    /// No authorizer allows or forbids the request, so it is not allowed.
    NoOpinion,
}

/// The API server did not answer the question.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not answer the {review}: {failure}")]
pub struct ReviewError {
    review: &'static str,
    /// The cause. It is not a source, because the text of kube's error has all fields of the answer's `Status`.
    failure: Box<RequestFailure>,
}

impl ReviewError {
    /// The HTTP status of the answer; `None` if there was no answer.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        self.failure.code()
    }

    pub(crate) fn new(review: &'static str, error: kube::Error) -> Self {
        Self { review, failure: Box::new(error.into()) }
    }
}

impl std::fmt::Debug for AccessReviewer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("AccessReviewer").finish_non_exhaustive()
    }
}

/// The groups of authenticated and of unauthenticated users.
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";

impl Caller {
    /// A user that an authenticator other than the API server has identified.
    #[must_use]
    pub fn named(name: String, mut groups: Vec<String>) -> Self {
        groups.push(AUTHENTICATED.to_owned());
        Self(UserInfo { username: Some(name), groups: Some(groups), ..UserInfo::default() })
    }

    /// A copy of the user with additional details, as a front proxy sends them.
    #[must_use]
    pub fn with_details(mut self, uid: Option<String>, extra: BTreeMap<String, Vec<String>>) -> Self {
        self.0.uid = uid;
        self.0.extra = Some(extra).filter(|extra| !extra.is_empty());
        self
    }

    /// A caller without credentials.
    #[must_use]
    pub fn anonymous() -> Self {
        let groups = Some(vec![UNAUTHENTICATED.to_owned()]);
        Self(UserInfo { username: Some("system:anonymous".to_owned()), groups, ..UserInfo::default() })
    }

    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.0.groups.iter().flatten().map(String::as_str)
    }

    /// All facts that identify the caller, as one text. Only equal callers have equal texts.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{:?}", self.0)
    }

    #[must_use]
    pub fn name(&self) -> &str {
        self.0.username.as_deref().unwrap_or_default()
    }
}

impl AccessReviewer {
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The user of the token; `None` if the token is not valid.
    ///
    /// # Errors
    /// The API server cannot be asked.
    pub async fn authenticate(&self, token: &str) -> Result<Option<Caller>, ReviewError> {
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let review = api
            .create(&PostParams::default(), &review)
            .await
            .map_err(|error| ReviewError::new("TokenReview", error))?;
        let Some(status) = review.status.filter(|status| status.authenticated == Some(true)) else { return Ok(None) };
        Ok(status.user.map(Caller))
    }

    /// Whether the caller may do what the request says.
    ///
    /// # Errors
    /// The API server cannot be asked.
    pub async fn may(&self, caller: &Caller, request: &ResourceRequest<'_>) -> Result<AccessDecision, ReviewError> {
        let ResourceRequest { group, resource, verb, namespace, name } = *request;
        let attributes = ResourceAttributes {
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            verb: Some(verb.to_owned()),
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec { resource_attributes: Some(attributes), ..spec_of(caller) };
        self.review(spec).await
    }

    /// Whether the caller may use a path that belongs to no resource, such as `/metrics`. `verb` is the method in lower
    /// case.
    ///
    /// # Errors
    /// The API server cannot be asked.
    pub async fn may_use(&self, caller: &Caller, verb: &str, path: &str) -> Result<AccessDecision, ReviewError> {
        let attributes = NonResourceAttributes { path: Some(path.to_owned()), verb: Some(verb.to_owned()) };
        let spec = SubjectAccessReviewSpec { non_resource_attributes: Some(attributes), ..spec_of(caller) };
        self.review(spec).await
    }

    async fn review(&self, spec: SubjectAccessReviewSpec) -> Result<AccessDecision, ReviewError> {
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = api
            .create(&PostParams::default(), &review)
            .await
            .map_err(|error| ReviewError::new("SubjectAccessReview", error))?;
        Ok(review.status.map_or(AccessDecision::NoOpinion, |status| match (status.denied, status.allowed) {
            (Some(true), _) => AccessDecision::Denied,
            (Some(false) | None, true) => AccessDecision::Allowed,
            (Some(false) | None, false) => AccessDecision::NoOpinion,
        }))
    }
}

/// The spec of a review with the caller as its subject.
fn spec_of(caller: &Caller) -> SubjectAccessReviewSpec {
    let UserInfo { username, uid, groups, extra } = caller.0.clone();
    let extra = extra.filter(|extra: &BTreeMap<String, Vec<String>>| !extra.is_empty());
    SubjectAccessReviewSpec { user: username, uid, groups, extra, ..SubjectAccessReviewSpec::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_server;

    const UPDATE: ResourceRequest<'static> = ResourceRequest {
        group: "berth.dev",
        resource: "plugins",
        verb: "update",
        namespace: None,
        name: Some("NodeName"),
    };

    fn caller() -> Caller {
        let user = json!({"username": "ada", "uid": "7", "groups": ["operators"], "extra": {"scope": ["all"]}});
        Caller(serde_json::from_value(user).expect("a user"))
    }

    async fn authenticate(answer: serde_json::Value) -> Option<Caller> {
        let (client, mut server) = test_server::server();
        let asking = tokio::spawn(async move { AccessReviewer::new(client).authenticate("secret").await });
        let call = server.next().await;
        assert_eq!(call.line(), "POST /apis/authentication.k8s.io/v1/tokenreviews");
        assert_eq!(call.body["spec"], json!({"token": "secret"}));
        call.answer(201, &json!({"metadata": {}, "spec": {"token": "secret"}, "status": answer}));
        asking.await.expect("no panic").expect("an answer")
    }

    #[tokio::test]
    async fn a_token_belongs_to_somebody_or_nobody() {
        let user = json!({"username": "ada", "uid": "7", "groups": ["operators"], "extra": {"scope": ["all"]}});
        assert_eq!(authenticate(json!({"authenticated": true, "user": user})).await, Some(caller()));
        assert_eq!(authenticate(json!({"authenticated": false})).await, None);
        assert_eq!(authenticate(json!({"error": "no authenticator", "user": user})).await, None);
    }

    async fn may(answer: serde_json::Value) -> AccessDecision {
        let (client, mut server) = test_server::server();
        let asking = tokio::spawn(async move { AccessReviewer::new(client).may(&caller(), &UPDATE).await });
        let call = server.next().await;
        assert_eq!(call.line(), "POST /apis/authorization.k8s.io/v1/subjectaccessreviews");
        let attributes = json!({"group": "berth.dev", "resource": "plugins", "verb": "update", "name": "NodeName"});
        let expected = json!({
            "user": "ada", "uid": "7", "groups": ["operators"], "extra": {"scope": ["all"]},
            "resourceAttributes": attributes,
        });
        assert_eq!(call.body["spec"], expected);
        call.answer(201, &json!({"metadata": {}, "spec": {}, "status": answer}));
        asking.await.expect("no panic").expect("an answer")
    }

    #[tokio::test]
    async fn only_a_plain_yes_is_one() {
        assert_eq!(may(json!({"allowed": true})).await, AccessDecision::Allowed);
        assert_eq!(may(json!({"allowed": true, "denied": false})).await, AccessDecision::Allowed);
        assert_eq!(may(json!({"allowed": false, "denied": true})).await, AccessDecision::Denied);
        assert_eq!(may(json!({"allowed": true, "denied": true})).await, AccessDecision::Denied);
        assert_eq!(may(json!({"allowed": false})).await, AccessDecision::NoOpinion);
        let no_opinion = json!({"allowed": false, "reason": "no opinion", "evaluationError": "none"});
        assert_eq!(may(no_opinion).await, AccessDecision::NoOpinion);
    }

    #[tokio::test]
    async fn an_object_of_a_namespace_is_named_with_it() {
        let (client, mut server) = test_server::server();
        let request =
            ResourceRequest { group: "", resource: "pods", verb: "get", namespace: Some("default"), name: Some("web") };
        let asking = tokio::spawn(async move { AccessReviewer::new(client).may(&caller(), &request).await });
        let call = server.next().await;
        let expected = json!({"group": "", "resource": "pods", "verb": "get", "namespace": "default", "name": "web"});
        assert_eq!(call.body["spec"]["resourceAttributes"], expected);
        call.answer(201, &json!({"metadata": {}, "spec": {}, "status": {"allowed": true}}));
        assert_eq!(asking.await.expect("no panic").expect("an answer"), AccessDecision::Allowed);
    }

    #[tokio::test]
    async fn paths_are_asked_about_too() {
        let (client, mut server) = test_server::server();
        let asking = async move { AccessReviewer::new(client).may_use(&Caller::anonymous(), "get", "/metrics").await };
        let asking = tokio::spawn(asking);
        let call = server.next().await;
        let expected = json!({
            "user": "system:anonymous", "groups": ["system:unauthenticated"],
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        });
        assert_eq!(call.body["spec"], expected);
        call.answer(201, &json!({"metadata": {}, "spec": {}, "status": {"allowed": true}}));
        assert_eq!(asking.await.expect("no panic").expect("an answer"), AccessDecision::Allowed);
    }

    #[tokio::test]
    async fn no_answer_is_no_permission() {
        let (client, mut server) = test_server::server();
        let asking = tokio::spawn(async move { AccessReviewer::new(client).may(&caller(), &UPDATE).await });
        server.next().await.refuse(403, "Forbidden", "the scheduler may not ask");
        let error = asking.await.expect("no panic").expect_err("no answer");
        let text = "the API server did not answer the SubjectAccessReview: the scheduler may not ask";
        assert_eq!(error.to_string(), text);
        assert!(std::error::Error::source(&error).is_none());
        assert_eq!(error.code(), Some(403));
    }
}
