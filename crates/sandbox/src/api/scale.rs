//! The `scale` subresource: the number of replicas of an object.

use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::context::Api;
use super::formats::media;
use super::patch::{Patch, patch_of};
use super::request::{Request, Target};
use super::responses;
use crate::fields::json::{as_map, child_mut, text};
use crate::kinds::Scale;
use crate::objects::decode::Decoded;
use crate::objects::update::{UpdateTarget, update};
use crate::selectors::spec_selector;
use crate::status::{ApiResult, StatusError};
use crate::storage::{Object, key};

/// Answers a request to `NAME/scale`.
pub(crate) fn answer(api: &Api, target: &Target, name: &str, request: &Request) -> ApiResult<Response> {
    let Some(scale) = &target.kind.scale else { return Err(StatusError::no_such_resource()) };
    match request.method {
        Method::GET => {
            let collection = api.state.collection_of(&target.kind);
            let object = collection.get(&key(&target.namespace, name));
            let object = object.ok_or_else(|| StatusError::not_found(&target.kind, name))?;
            Ok(responses::json_response(StatusCode::OK, render(scale, &object).to_string()))
        }
        Method::PUT => {
            let body = media::parse(&target.kind, &request.body, media::body_type(&request.headers)?)?;
            set(api, target, name, request, scale, |_| Ok(body.clone()))
        }
        Method::PATCH => {
            let patch = patch_of(&target.kind, request)?;
            set(api, target, name, request, scale, |current| patched(target, &patch, render(scale, current)))
        }
        _ => Err(StatusError::method_not_allowed()),
    }
}

fn set(
    api: &Api,
    target: &Target,
    name: &str,
    request: &Request,
    scale: &Scale,
    body_for: impl Fn(&Object) -> ApiResult<Value>,
) -> ApiResult<Response> {
    let options = request.query.write_options("UpdateOptions")?;
    let main = UpdateTarget { subresource: "", ..target.update(name) };
    let written = update(&api.state, main, options.dry_run, |current| {
        let body = body_for(current)?;
        let replicas = body.pointer("/spec/replicas").cloned().unwrap_or_else(|| 0.into());
        let mut value = current.value.clone();
        if let Some(field) = scale.spec_replicas.strip_prefix("/spec/") {
            child_mut(&mut value, "spec").insert(field.to_owned(), replicas);
        }
        let version = body.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
        child_mut(&mut value, "metadata").insert("resourceVersion".to_owned(), version);
        Ok(Decoded { value, warnings: Vec::new() })
    })?;
    Ok(responses::json_response(StatusCode::OK, render(scale, &written.object).to_string()))
}

fn patched(target: &Target, patch: &Patch, mut scale: Value) -> ApiResult<Value> {
    patch.apply_to_value(&target.kind, &mut scale).map_err(|error| StatusError::bad_request(error.to_string()))?;
    Ok(scale)
}

fn render(scale: &Scale, object: &Object) -> Value {
    let number = |pointer: &str| object.value.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let mut metadata = json!({
        "name": object.name(),
        "uid": object.uid(),
        "resourceVersion": object.version.to_string(),
        "creationTimestamp": text(&object.value, "/metadata/creationTimestamp"),
    });
    if !object.namespace().is_empty() {
        metadata["namespace"] = object.namespace().into();
    }
    let mut spec = json!({});
    if number(&scale.spec_replicas) != 0 {
        spec["replicas"] = number(&scale.spec_replicas).into();
    }
    let mut status = json!({"replicas": number(&scale.status_replicas)});
    if let Some(selector) = scale.selector.as_ref().and_then(|pointer| object.value.pointer(pointer)) {
        let selector = selector.as_str().map_or_else(|| spec_selector::to_query(selector), str::to_owned);
        as_map(&mut status).insert("selector".to_owned(), selector.into());
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}
