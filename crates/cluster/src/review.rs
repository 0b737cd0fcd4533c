//! Who is this, and may they? Asked of the API server, for endpoints that the scheduler itself serves.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};

/// Asks with the scheduler's own rights: it must be allowed to create `tokenreviews` and `subjectaccessreviews`, as the
/// role `system:auth-delegator` does.
#[derive(Clone)]
pub struct AccessReviewer {
    client: Client,
}

/// Whom a token belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Caller(UserInfo);

/// What a caller wants to do, outside of namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceRequest<'a> {
    pub group: &'a str,
    pub resource: &'a str,
    pub verb: &'a str,
    /// One object, or `None` for all of them.
    pub name: Option<&'a str>,
}

/// The API server did not answer the question.
#[derive(Debug, thiserror::Error)]
#[error("the API server answers no {review}")]
pub struct ReviewError {
    review: &'static str,
    #[source]
    source: Box<kube::Error>,
}

impl std::fmt::Debug for AccessReviewer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("AccessReviewer").finish_non_exhaustive()
    }
}

impl Caller {
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

    /// Whom the token belongs to; `None` when it is not valid.
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
            .map_err(|error| ReviewError { review: "TokenReview", source: Box::new(error) })?;
        let Some(status) = review.status.filter(|status| status.authenticated == Some(true)) else { return Ok(None) };
        Ok(status.user.map(Caller))
    }

    /// Whether the caller may do this.
    ///
    /// # Errors
    /// The API server cannot be asked.
    pub async fn may(&self, caller: &Caller, request: &ResourceRequest<'_>) -> Result<bool, ReviewError> {
        let ResourceRequest { group, resource, verb, name } = *request;
        let UserInfo { username, uid, groups, extra } = caller.0.clone();
        let attributes = ResourceAttributes {
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            verb: Some(verb.to_owned()),
            name: name.map(str::to_owned),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            user: username,
            uid,
            groups,
            extra: extra.filter(|extra: &BTreeMap<String, Vec<String>>| !extra.is_empty()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = api
            .create(&PostParams::default(), &review)
            .await
            .map_err(|error| ReviewError { review: "SubjectAccessReview", source: Box::new(error) })?;
        Ok(review.status.is_some_and(|status| status.allowed && status.denied != Some(true)))
    }
}
