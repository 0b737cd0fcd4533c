//! OpenAPI documents with only the parts that make `kubectl` leave validation to the server.
//!
//! Before a write, `kubectl` checks whether the PATCH of a kind has a `fieldValidation` parameter. If the PATCH has
//! this parameter, `kubectl` sends `fieldValidation=Strict` and prints the server's messages. There are no schemas, so
//! `kubectl explain` finds nothing.

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use serde_json::{Map, Value, json};

use super::context::Api;
use super::discovery::{groups, versions};
use super::responses;
use crate::kinds::Kind;

/// Answers a path below `/openapi`. Returns `None` for an unknown path.
pub(crate) fn answer(api: &Api, rest: &[&str]) -> Option<Response> {
    let document = match rest {
        ["v2"] => return Some(empty_v2()),
        ["v3"] => index(api),
        ["v3", "api", "v1"] => group_version(api, "", "v1"),
        ["v3", "apis", group, version] if api.state.registry().has_group(group) => group_version(api, group, version),
        _ => return None,
    };
    Some(responses::json_response(StatusCode::OK, document.to_string()))
}

/// An OpenAPI v2 document without definitions, in the protobuf form that `kubectl` asks for.
///
/// `kubectl` validates files with a `List` itself, and skips every kind that the document doesn't define.
fn empty_v2() -> Response {
    const SWAGGER: &[u8] = b"\x0a\x032.0";
    const INFO: &[u8] = b"\x12\x15\x0a\x0aKubernetes\x12\x07v1.36.2";
    const NO_PATHS: &[u8] = b"\x42\x00";
    let mut response = Response::new(Body::from([SWAGGER, INFO, NO_PATHS].concat()));
    let media_type = HeaderValue::from_static("application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    response
}

fn index(api: &Api) -> Value {
    let mut paths = Map::new();
    let mut add = |path: String| {
        let url = format!("/openapi/v3/{path}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    };
    add("api/v1".to_owned());
    for group in groups(api) {
        for version in versions(api, &group) {
            add(format!("apis/{group}/{version}"));
        }
    }
    json!({"paths": paths})
}

fn group_version(api: &Api, group: &str, version: &str) -> Value {
    let kinds = api.state.registry().kinds();
    let paths: Map<String, Value> = kinds
        .iter()
        .filter(|kind| kind.group == group && kind.version == version)
        .map(|kind| (path_of(kind), json!({"patch": patch_operation(kind)})))
        .collect();
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": api.state.release().git_version()},
        "paths": paths,
        "components": {"schemas": {}},
    })
}

fn path_of(kind: &Kind) -> String {
    let root = if kind.group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{}", kind.api_version()) };
    let namespace = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
    format!("{root}{namespace}/{}/{{name}}", kind.plural)
}

fn patch_operation(kind: &Kind) -> Value {
    let parameters: Vec<Value> = ["dryRun", "fieldManager", "fieldValidation", "force"]
        .iter()
        .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}}))
        .collect();
    json!({
        "operationId": format!("patch{}", kind.kind),
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
    })
}
