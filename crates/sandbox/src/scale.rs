//! The `scale` subresource: an object seen as its number of replicas.

use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::api::{Api, Request, Target};
use crate::decode::Decoded;
use crate::kinds::Scale;
use crate::media;
use crate::object::{Object, as_map, child_mut, text};
use crate::patch::{Patch, patch_of};
use crate::status::{Answer, StatusError};
use crate::store::key;
use crate::{selection, strategic, view, write};

/// Answers a request to `NAME/scale`.
pub(crate) fn answer(api: &Api, target: &Target, name: &str, request: &Request) -> Answer<Response> {
    let Some(scale) = &target.kind.scale else { return Err(StatusError::no_such_resource()) };
    match request.method {
        Method::GET => {
            let collection = api.store.collection(&target.kind.collection());
            let object = collection.get(&key(&target.namespace, name));
            let object = object.ok_or_else(|| StatusError::not_found(&target.kind, name))?;
            Ok(view::json_response(StatusCode::OK, render(scale, &object).to_string()))
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
    body_for: impl Fn(&Object) -> Answer<Value>,
) -> Answer<Response> {
    let options = request.query.write_options("UpdateOptions")?;
    let main = Target {
        kind: std::sync::Arc::clone(&target.kind),
        namespace: target.namespace.clone(),
        name: target.name.clone(),
        subresource: String::new(),
        watch: false,
    };
    let written = write::update(api, &main, name, options.dry_run, |current| {
        let body = body_for(current)?;
        let replicas = body.pointer("/spec/replicas").cloned().unwrap_or_else(|| 0.into());
        let mut value = current.value.clone();
        if let Some(field) = scale.spec_replicas.strip_prefix("/spec/") {
            child_mut(&mut value, "spec").insert(field.to_owned(), replicas);
        }
        let revision = body.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
        child_mut(&mut value, "metadata").insert("resourceVersion".to_owned(), revision);
        Ok(Decoded { value, warnings: Vec::new() })
    })?;
    Ok(view::json_response(StatusCode::OK, render(scale, &written.object).to_string()))
}

fn patched(target: &Target, patch: &Patch, mut scale: Value) -> Answer<Value> {
    match patch {
        Patch::Json(patch) => {
            json_patch::patch(&mut scale, patch).map_err(|error| StatusError::bad_request(error.to_string()))?
        }
        Patch::Merge(patch) => json_patch::merge(&mut scale, patch),
        Patch::Strategic(patch) | Patch::Apply(patch) => strategic::merge(&target.kind, &mut scale, patch),
    }
    Ok(scale)
}

fn render(scale: &Scale, object: &Object) -> Value {
    let number = |pointer: &str| object.value.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let mut metadata = json!({
        "name": object.name(),
        "uid": text(&object.value, "/metadata/uid"),
        "resourceVersion": object.revision.to_string(),
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
        let selector = selector.as_str().map_or_else(|| selection::to_query(selector), str::to_owned);
        as_map(&mut status).insert("selector".to_owned(), selector.into());
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}
