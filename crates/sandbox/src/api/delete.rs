//! DELETE of objects and collections.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::context::Api;
use super::formats::media::{Form, negotiate};
use super::formats::view;
use super::request::{Request, Target};
use super::responses;
use crate::fields::FieldError;
use crate::fields::json::{items, text};
use crate::kinds::Kind;
use crate::objects::delete::{DeleteOptions, Deletion, delete};
use crate::status::{ApiResult, StatusError};
use crate::storage::Object;

/// Reads the options of a request from its query and its body.
fn options_of(request: &Request) -> ApiResult<DeleteOptions> {
    let mut errors = Vec::new();
    let body: Value = if request.body.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(&request.body).map_err(|error| StatusError::bad_request(error.to_string()))?
    };
    let policy = request.query.get("propagationPolicy").unwrap_or(text(&body, "/propagationPolicy"));
    if !matches!(policy, "" | "Foreground" | "Background" | "Orphan") {
        let supported = ["Foreground", "Background", "Orphan", "nil"];
        errors.push(FieldError::not_supported("propagationPolicy", &policy.into(), &supported));
    }
    let dry_run = request.query.dry_run(&mut errors) || !items(&body, "/dryRun").is_empty();
    if !errors.is_empty() {
        return Err(StatusError::invalid_options("DeleteOptions", &errors));
    }
    let options = DeleteOptions::from_body(&body);
    let grace = request.query.get("gracePeriodSeconds").and_then(|seconds| seconds.parse().ok()).or(options.grace);
    Ok(DeleteOptions { grace, dry_run, ..options })
}

/// Answers a DELETE of one object.
pub(crate) fn one(api: &Api, target: &Target, name: &str, request: &Request) -> ApiResult<Response> {
    let kind = &target.kind;
    let form = negotiate(&request.headers, &[Form::Table, Form::Partial], false)?;
    let options = options_of(request)?;
    check_allowed(kind, name)?;
    let deletion = delete(&api.state, kind, &target.namespace, name, &options)?;
    let (object, gone) = match deletion {
        Deletion::Gone(object) => (object, true),
        Deletion::Pending(object) => (object, false),
    };
    if gone && !returns_object(kind) {
        return Ok(responses::json_response(StatusCode::OK, responses::success(details(kind, &object)).to_string()));
    }
    let include = request.query.table_include()?;
    Ok(responses::object_response(kind, &object, StatusCode::OK, form, include, &[]))
}

/// Answers a DELETE of a collection. The answer contains its objects.
pub(crate) fn collection(api: &Api, target: &Target, request: &Request) -> ApiResult<Response> {
    let kind = &target.kind;
    let list = request.query.list_options(kind)?;
    let options = options_of(request)?;
    let collection = api.state.collection_of(kind);
    let (objects, version) = collection.list(&target.namespace);
    let chosen: Vec<Arc<Object>> = objects.into_iter().filter(|object| list.selector.matches(&object.value)).collect();
    for object in &chosen {
        match delete(&api.state, kind, object.namespace(), object.name(), &options) {
            Ok(_) => {}
            Err(error) if error.code() == StatusCode::NOT_FOUND => {}
            Err(error) => return Err(error),
        }
    }
    let metadata = json!({"resourceVersion": version.to_string()});
    let objects: Vec<&Object> = chosen.iter().map(Arc::as_ref).collect();
    Ok(responses::json_response(StatusCode::OK, view::list_json(kind, &objects, &metadata)))
}

fn check_allowed(kind: &Kind, name: &str) -> ApiResult<()> {
    if kind.is("scheduling.k8s.io", "priorityclasses") && name.starts_with("system-") {
        let why = "this is a system priority class and cannot be deleted";
        return Err(StatusError::forbidden(kind, name, why));
    }
    if kind.is("", "namespaces") && matches!(name, "default" | "kube-system" | "kube-public") {
        return Err(StatusError::forbidden(kind, name, "this namespace may not be deleted"));
    }
    Ok(())
}

/// Whether a deletion of this kind returns the last state instead of a `Status`.
fn returns_object(kind: &Kind) -> bool {
    let core = [
        "pods",
        "podtemplates",
        "resourcequotas",
        "serviceaccounts",
        "persistentvolumes",
        "persistentvolumeclaims",
        "services",
    ];
    match kind.group.as_str() {
        "" => core.contains(&kind.plural.as_str()),
        "storage.k8s.io" => kind.plural != "csistoragecapacities",
        "resource.k8s.io" => true,
        _ => false,
    }
}

fn details(kind: &Kind, object: &Object) -> Map<String, Value> {
    let mut details = Map::new();
    details.insert("name".to_owned(), object.name().into());
    if !kind.group.is_empty() {
        details.insert("group".to_owned(), kind.group.as_str().into());
    }
    details.insert("kind".to_owned(), kind.plural.as_str().into());
    details.insert("uid".to_owned(), object.uid().into());
    details
}
