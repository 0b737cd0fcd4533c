//! Finds the handler for a request: the path determines the target, and the method determines the handler.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode, Uri, request::Parts};

use super::context::Api;
use super::query::Query;
use super::request::{Request, Target, decode_percent};
use super::responses::page_not_found;
use super::{binding, delete, discovery, eviction, openapi, read, reviews, scale, user, write};
use crate::kinds::Resource;
use crate::status::{ApiResult, StatusError};

/// The maximum size of a body, in bytes.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// Answers a request.
pub(crate) async fn handle(api: Arc<Api>, parts: Parts, body: Body) -> Response {
    let Ok(body) = axum::body::to_bytes(body, BODY_LIMIT).await else {
        let message = format!("Request entity too large: limit is {BODY_LIMIT}");
        return StatusError::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message).into_response();
    };
    let Parts { method, uri, headers, .. } = parts;
    let request = Request { method, query: Query::of(&uri), headers, body };
    let answer = route(&api, &uri, &request);
    answer.unwrap_or_else(|error| {
        tracing::debug!(method = %request.method, %uri, code = %error.code(), "refused");
        error.into_response()
    })
}

fn route(api: &Arc<Api>, uri: &Uri, request: &Request) -> ApiResult<Response> {
    user::check(&request.headers)?;
    let path = uri.path();
    let segments: Vec<&str> = path.strip_suffix('/').unwrap_or(path).split('/').skip(1).collect();
    if let Some(response) = discovery::answer(api, &segments, request)? {
        return Ok(response);
    }
    match segments.as_slice() {
        ["api", "v1", rest @ ..] => group_version(api, "", "v1", rest, request),
        ["apis", group, version, rest @ ..] => group_version(api, group, version, rest, request),
        ["openapi", rest @ ..] => Ok(openapi::answer(api, rest).unwrap_or_else(page_not_found)),
        _ => Ok(page_not_found()),
    }
}

fn group_version(api: &Arc<Api>, group: &str, version: &str, rest: &[&str], request: &Request) -> ApiResult<Response> {
    if !api.state.registry().has_group(group) {
        return Ok(page_not_found());
    }
    let (rest, watch) = match rest {
        ["watch", rest @ ..] => (rest, true),
        rest => (rest, false),
    };
    let (namespace, rest) = match rest {
        ["namespaces", _, "status" | "finalize"] => ("", rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        rest => ("", rest),
    };
    let (resource, name, subresource) = match rest {
        [resource] => (*resource, None, ""),
        [resource, name] => (*resource, Some(*name), ""),
        [resource, name, subresource] => (*resource, Some(*name), *subresource),
        _ => return Err(StatusError::no_such_resource()),
    };
    let kind = match api.state.registry().find(group, version, resource) {
        Some(Resource::Stored(kind)) => kind,
        Some(Resource::Virtual(resource)) => return reviews::answer(api, resource, namespace, request),
        None => return Err(StatusError::no_such_resource()),
    };
    if kind.namespaced && namespace.is_empty() && name.is_some() || !kind.namespaced && !namespace.is_empty() {
        return Err(StatusError::no_such_resource());
    }
    let (namespace, name) = (decode_percent(namespace), name.map(decode_percent));
    dispatch(api, &Target { kind, namespace, name, subresource: subresource.to_owned(), watch }, request)
}

fn dispatch(api: &Arc<Api>, target: &Target, request: &Request) -> ApiResult<Response> {
    let Some(name) = &target.name else { return collection(api, target, request) };
    match target.subresource.as_str() {
        "" => {}
        "status" if target.kind.has_status => {}
        "scale" if target.kind.scale.is_some() => return scale::answer(api, target, name, request),
        "binding" if target.kind.plural == "pods" => return binding::answer(api, target, Some(name), request),
        "eviction" if target.kind.plural == "pods" => return eviction::answer(api, target, name, request),
        "resize" | "ephemeralcontainers" if target.kind.plural == "pods" => {}
        "finalize" if target.kind.plural == "namespaces" => {}
        _ => return Err(StatusError::no_such_resource()),
    }
    if target.watch {
        return watch_one(api, target, name, request);
    }
    match request.method {
        Method::GET => read::get(api, target, name, &request.query, &request.headers),
        Method::PUT => write::put(api, target, name, request),
        Method::PATCH => write::patch(api, target, name, request),
        Method::DELETE if target.subresource.is_empty() => delete::one(api, target, name, request),
        _ => Err(StatusError::method_not_allowed()),
    }
}

fn collection(api: &Arc<Api>, target: &Target, request: &Request) -> ApiResult<Response> {
    let writable = !target.kind.namespaced || !target.namespace.is_empty();
    match request.method {
        Method::GET => read::list_or_watch(api, target, &request.query, &request.headers),
        Method::POST if writable => write::create(api, target, request),
        Method::DELETE if writable && !target.kind.is("", "namespaces") => delete::collection(api, target, request),
        _ => Err(StatusError::method_not_allowed()),
    }
}

/// The old path to watch one object: a watch with a field selector.
fn watch_one(api: &Arc<Api>, target: &Target, name: &str, request: &Request) -> ApiResult<Response> {
    if request.method != Method::GET {
        return Err(StatusError::method_not_allowed());
    }
    let query = request.query.with("fieldSelector", &format!("metadata.name={name}"));
    read::list_or_watch(api, target, &query, &request.headers)
}
