//! Reviews: questions about authentication and authorization that are answered without storing anything. The sandbox
//! allows everything to every user.

use std::sync::Arc;

use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::context::Api;
use super::formats::media;
use super::formats::media::BodyType;
use super::request::{Request, Target};
use super::{binding, responses, user};
use crate::fields::json::as_map;
use crate::kinds::VirtualResource;
use crate::status::{ApiResult, StatusError};

/// Answers a POST to a virtual resource.
pub(crate) fn answer(
    api: &Arc<Api>,
    resource: VirtualResource,
    namespace: &str,
    request: &Request,
) -> ApiResult<Response> {
    if request.method != Method::POST || resource.namespaced == namespace.is_empty() {
        return Err(StatusError::method_not_allowed());
    }
    if resource.plural == "bindings" {
        let Some(kind) = api.state.registry().built_in("", "pods") else { return Err(StatusError::no_such_resource()) };
        let namespace = namespace.to_owned();
        let target = Target { kind, namespace, name: None, subresource: "binding".to_owned(), watch: false };
        return binding::answer(api, &target, None, request);
    }
    // The answer does not depend on the body, so a review in protobuf need not be decoded.
    let mut review: Value = match media::body_type(&request.headers)? {
        BodyType::Protobuf => json!({"spec": {}}),
        BodyType::Json | BodyType::Yaml => {
            serde_saphyr::from_slice(&request.body).map_err(|error| StatusError::bad_request(error.to_string()))?
        }
    };
    let group = resource.group;
    let members = as_map(&mut review);
    members.insert("apiVersion".to_owned(), format!("{group}/v1").into());
    members.insert("kind".to_owned(), resource.kind.into());
    members.insert("status".to_owned(), status(resource.plural, request));
    Ok(responses::json_response(StatusCode::CREATED, review.to_string()))
}

fn status(plural: &str, request: &Request) -> Value {
    match plural {
        "selfsubjectreviews" => json!({"userInfo": user::of(&request.headers)}),
        "tokenreviews" => json!({"authenticated": true, "user": user::admin()}),
        "selfsubjectrulesreviews" => json!({
            "incomplete": false,
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }),
        _ => json!({"allowed": true, "reason": "the sandbox allows everything"}),
    }
}
