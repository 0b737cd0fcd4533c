//! The use of disruption budgets by evictions: the budget that covers a pod, and the number of disruptions that it
//! still allows.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use crate::fields::clock;
use crate::fields::conditions::set_condition;
use crate::fields::json::{as_map, child_mut, is_being_deleted, text};
use crate::fields::pods::{is_finished, is_ready};
use crate::selectors::spec_selector;
use crate::state::ClusterState;
use crate::status::{ApiResult, StatusError};
use crate::storage::{Collection, Object};

const BLOCKED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// Allows the eviction of a pod, or says which budget forbids it. An allowed eviction is counted in the budget and
/// marked in the pod's conditions, unless the request is a dry run. A pod that isn't running, or is already ending,
/// needs no budget.
pub(crate) fn allow_eviction(state: &ClusterState, pod: &Object, dry_run: bool) -> ApiResult<()> {
    if is_finished(&pod.value) || text(&pod.value, "/status/phase") == "Pending" || is_being_deleted(&pod.value) {
        return Ok(());
    }
    take_disruption(state, pod, dry_run)?;
    if !dry_run {
        mark_disrupted(&state.collection("pods"), &pod.key());
    }
    Ok(())
}

/// Adds the condition by which controllers distinguish an eviction from a failure.
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
        set_condition(child_mut(&mut value, "status"), condition);
        if pods.replace(key, &pod, value).is_ok() {
            return;
        }
    }
}

/// Takes one disruption from the budget that covers the pod, if there is one.
fn take_disruption(state: &ClusterState, pod: &Object, dry_run: bool) -> ApiResult<()> {
    let collection = state.collection("poddisruptionbudgets.policy");
    loop {
        let (budgets, _) = collection.list(pod.namespace());
        let mut covering = budgets.into_iter().filter(|budget| covers(budget, pod));
        let Some(budget) = covering.next() else { return Ok(()) };
        if covering.next().is_some() {
            let message =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(StatusError::internal(message));
        }
        if is_free_while_unready(&budget, pod) {
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
        if collection.replace(&budget.key(), &budget, value).is_ok() {
            return Ok(());
        }
    }
}

/// Whether the pod isn't ready and the budget allows the eviction of such pods without counting them. Depending on the
/// budget, the eviction is always allowed, or only while enough other pods are healthy.
fn is_free_while_unready(budget: &Object, pod: &Object) -> bool {
    let number = |field: &str| budget.value.pointer(field).and_then(Value::as_i64).unwrap_or(0);
    let (desired, healthy) = (number("/status/desiredHealthy"), number("/status/currentHealthy"));
    let always = text(&budget.value, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow";
    !is_ready(&pod.value) && (always || healthy >= desired && desired > 0)
}

fn check_budget(budget: &Arc<Object>) -> ApiResult<()> {
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

/// Whether a budget in the pod's namespace covers this pod.
pub(crate) fn covers(budget: &Object, pod: &Object) -> bool {
    budget.value.pointer("/spec/selector").is_some_and(|selector| spec_selector::matches(selector, &pod.value))
}
