//! The `binding` subresource of pods: gives a pod its node, once.

use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::context::Api;
use super::formats::media;
use super::request::{Request, Target};
use super::responses;
use crate::fields::clock;
use crate::fields::conditions::set_condition;
use crate::fields::json::{as_map, child_mut, is_being_deleted, items, metadata_mut, text};
use crate::objects::decode::Decoded;
use crate::objects::update::{UpdateTarget, update};
use crate::rules::{admission, metadata};
use crate::status::{ApiResult, StatusError};

/// Answers a POST to `pods/NAME/binding`, or to `bindings` if the path names no pod.
pub(crate) fn answer(api: &Api, target: &Target, name: Option<&str>, request: &Request) -> ApiResult<Response> {
    if request.method != Method::POST {
        return Err(StatusError::method_not_allowed());
    }
    let options = request.query.write_options("CreateOptions")?;
    let binding = media::parse(&target.kind, &request.body, media::body_type(&request.headers)?)?;
    let named = text(&binding, "/metadata/name");
    let name = name.unwrap_or(named);
    if !named.is_empty() && named != name {
        return Err(StatusError::bad_request("name in URL does not match name in Binding object"));
    }
    let node = text(&binding, "/target/name");
    if !matches!(text(&binding, "/target/kind"), "" | "Node") {
        let found = text(&binding, "/target/kind");
        let message = format!("target.kind: Unsupported value: \"{found}\": supported values: \"Node\", \"<empty>\"");
        return Err(StatusError::internal(message));
    }
    if node.is_empty() {
        return Err(StatusError::internal("target.name: Required value"));
    }
    admission::namespace_exists(&api.state, &target.kind, &target.namespace, name)?;
    bind(api, target, name, &binding, options.dry_run)?;
    let mut status = responses::success(serde_json::Map::new());
    status["code"] = 201.into();
    Ok(responses::json_response(StatusCode::CREATED, status.to_string()))
}

fn bind(api: &Api, target: &Target, name: &str, binding: &Value, dry_run: bool) -> ApiResult<()> {
    let kind = &target.kind;
    let node = text(binding, "/target/name");
    // An update of this subresource is not subject to the rules that forbid ordinary updates of a pod's spec.
    let target = UpdateTarget { kind, namespace: &target.namespace, name, subresource: "binding" };
    update(&api.state, target, dry_run, |current| {
        let uid = text(binding, "/metadata/uid");
        metadata::check_precondition(kind, name, target.namespace, uid, &current.value)?;
        let refuse = |why: String| StatusError::conflict_on(kind, "pods/binding", name, &why);
        if is_being_deleted(&current.value) {
            return Err(refuse(format!("pod {name} is being deleted, cannot be assigned to a host")));
        }
        let bound = text(&current.value, "/spec/nodeName");
        if !bound.is_empty() {
            return Err(refuse(format!("pod {name} is already assigned to node \"{bound}\"")));
        }
        if !items(&current.value, "/spec/schedulingGates").is_empty() {
            return Err(refuse(format!("pod {name} has non-empty .spec.schedulingGates")));
        }
        Ok(Decoded { value: bound_pod(&current.value, binding, node), warnings: Vec::new() })
    })?;
    Ok(())
}

fn bound_pod(pod: &Value, binding: &Value, node: &str) -> Value {
    let mut pod = pod.clone();
    child_mut(&mut pod, "spec").insert("nodeName".to_owned(), node.into());
    for field in ["labels", "annotations"] {
        if let Some(extra) = binding.pointer(&format!("/metadata/{field}")).and_then(Value::as_object) {
            let own = as_map(metadata_mut(&mut pod).entry(field).or_insert(Value::Null));
            own.extend(extra.clone());
        }
    }
    let status = child_mut(&mut pod, "status");
    status.remove("nominatedNodeName");
    let scheduled = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": clock::now()});
    set_condition(status, scheduled);
    pod
}
