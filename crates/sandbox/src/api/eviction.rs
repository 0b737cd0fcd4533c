//! The `eviction` subresource of pods: a deletion that disruption budgets can refuse.

use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Map, Value};

use super::context::Api;
use super::formats::media;
use super::request::{Request, Target};
use super::responses;
use crate::objects::delete::{DeleteOptions, delete};
use crate::objects::disruption_budgets::allow_eviction;
use crate::status::{ApiResult, StatusError};
use crate::storage::key;

/// Answers a POST to `pods/NAME/eviction`.
pub(crate) fn answer(api: &Api, target: &Target, name: &str, request: &Request) -> ApiResult<Response> {
    if request.method != Method::POST {
        return Err(StatusError::method_not_allowed());
    }
    let mut errors = Vec::new();
    let dry_run = request.query.dry_run(&mut errors);
    if !errors.is_empty() {
        return Err(StatusError::invalid_options("CreateOptions", &errors));
    }
    let kind = &target.kind;
    let eviction = media::parse(kind, &request.body, media::body_type(&request.headers)?)?;
    let pods = api.state.collection_of(kind);
    let pod = pods.get(&key(&target.namespace, name)).ok_or_else(|| StatusError::not_found(kind, name))?;
    allow_eviction(&api.state, &pod, dry_run)?;
    let options = DeleteOptions::from_body(eviction.get("deleteOptions").unwrap_or(&Value::Null));
    delete(&api.state, kind, &target.namespace, name, &DeleteOptions { dry_run, ..options })?;
    let mut status = responses::success(Map::new());
    status["code"] = 201.into();
    Ok(responses::json_response(StatusCode::CREATED, status.to_string()))
}
