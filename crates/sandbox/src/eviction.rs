//! Eviction: a deletion that asks the disruption budgets first.

use std::sync::Arc;

use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};

use crate::api::{Api, Request, Target};
use crate::binding::set_condition;
use crate::delete::{DeleteOptions, delete};
use crate::object::{Object, as_map, child_mut, items, text};
use crate::status::{Answer, StatusError};
use crate::store::{Collection, key};
use crate::{clock, media, selection, view};

const BLOCKED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// Answers a POST to `pods/NAME/eviction`.
pub(crate) fn answer(api: &Api, target: &Target, name: &str, request: &Request) -> Answer<Response> {
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
    let pods = api.store.collection(&kind.collection());
    let pod = pods.get(&key(&target.namespace, name)).ok_or_else(|| StatusError::not_found(kind, name))?;
    let ends_anyway = matches!(text(&pod.value, "/status/phase"), "Succeeded" | "Failed" | "Pending")
        || pod.value.pointer("/metadata/deletionTimestamp").is_some();
    if !ends_anyway {
        spend_budget(api, &target.namespace, &pod, dry_run)?;
        if !dry_run {
            mark_disrupted(&pods, &key(&target.namespace, name));
        }
    }
    let options = DeleteOptions::from_body(eviction.get("deleteOptions").unwrap_or(&Value::Null));
    delete(api, kind, &target.namespace, name, &DeleteOptions { dry_run, ..options })?;
    let mut status = view::success(Map::new());
    status["code"] = 201.into();
    Ok(view::json_response(StatusCode::CREATED, status.to_string()))
}

/// Adds the condition by which controllers tell an eviction from a failure.
fn mark_disrupted(pods: &Collection, key: &str) {
    while let Some(pod) = pods.get(key) {
        let mut value = pod.value.clone();
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "lastTransitionTime": clock::now(),
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        });
        let conditions = child_mut(&mut value, "status").entry("conditions").or_insert_with(|| json!([]));
        set_condition(conditions, condition);
        if pods.replace(key, &pod, value).is_ok() {
            return;
        }
    }
}

/// Takes one disruption from the budget that covers the pod, if one does.
fn spend_budget(api: &Api, namespace: &str, pod: &Object, dry_run: bool) -> Answer<()> {
    let collection = api.store.collection("poddisruptionbudgets.policy");
    loop {
        let (budgets, _) = collection.list(namespace);
        let mut covering = budgets.into_iter().filter(|budget| covers(budget, pod));
        let Some(budget) = covering.next() else { return Ok(()) };
        if covering.next().is_some() {
            let message =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(StatusError::internal(message));
        }
        if may_go_unhealthy(&budget, pod) {
            return Ok(());
        }
        check_budget(&budget)?;
        if dry_run {
            return Ok(());
        }
        let mut value = budget.value.clone();
        let status = child_mut(&mut value, "status");
        let allowed = status.get("disruptionsAllowed").and_then(Value::as_i64).unwrap_or(0);
        status.insert("disruptionsAllowed".to_owned(), (allowed - 1).into());
        let disrupted = as_map(status.entry("disruptedPods").or_insert(Value::Null));
        disrupted.insert(pod.name().to_owned(), clock::now().into());
        if collection.replace(&key(namespace, budget.name()), &budget, value).is_ok() {
            return Ok(());
        }
    }
}

/// Whether the pod isn't ready, and the budget lets such pods go for free: always, or while enough others are healthy.
fn may_go_unhealthy(budget: &Object, pod: &Object) -> bool {
    let number = |field: &str| budget.value.pointer(field).and_then(Value::as_i64).unwrap_or(0);
    let (desired, healthy) = (number("/status/desiredHealthy"), number("/status/currentHealthy"));
    let always = text(&budget.value, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow";
    !is_ready(pod) && (always || healthy >= desired && desired > 0)
}

/// Whether a pod counts as healthy.
pub(crate) fn is_ready(pod: &Object) -> bool {
    items(&pod.value, "/status/conditions")
        .iter()
        .any(|condition| text(condition, "/type") == "Ready" && text(condition, "/status") == "True")
}

fn check_budget(budget: &Arc<Object>) -> Answer<()> {
    let number = |field: &str| budget.value.pointer(field).and_then(Value::as_i64).unwrap_or(0);
    let name = budget.name();
    let refuse = |why: String| {
        StatusError::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", BLOCKED).cause(
            "DisruptionBudget",
            &why,
            None,
        )
    };
    if number("/status/observedGeneration") < number("/metadata/generation") {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(refuse(why).retry_after(10));
    }
    if number("/status/disruptionsAllowed") > 0 {
        return Ok(());
    }
    let (desired, healthy) = (number("/status/desiredHealthy"), number("/status/currentHealthy"));
    if healthy <= desired {
        let why = format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently");
        return Err(refuse(why));
    }
    Err(refuse(format!("The disruption budget {name} does not allow evicting pods currently")))
}

/// Whether a budget of the pod's namespace is about this pod.
pub(crate) fn covers(budget: &Object, pod: &Object) -> bool {
    budget.value.pointer("/spec/selector").is_some_and(|selector| selection::matches(selector, &pod.value))
}
