//! The disruption controller: it updates the status of disruption budgets. The status contains how many of the covered
//! pods are healthy, how many must be healthy, and how many may be evicted.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::collections::{BUDGETS, PODS, SCALED};
use super::controller::{Controller, Observed};
use super::owners::controller_of;
use crate::fields::clock;
use crate::fields::conditions::{find_condition, set_condition};
use crate::fields::json::{child_mut, is_being_deleted, text};
use crate::fields::pods::is_ready;
use crate::objects::disruption_budgets::covers;
use crate::objects::update::edit;
use crate::selectors::spec_selector;
use crate::state::ClusterState;
use crate::status::ApiResult;
use crate::storage::{Object, key};

/// The seconds after which an evicted pod that still exists counts as healthy again.
const EVICTION_SECONDS: i64 = 120;
/// The condition that says whether a disruption is allowed.
const ALLOWED: &str = "DisruptionAllowed";

/// Updates the status of budgets. Its keys are the keys of budgets.
pub(super) struct DisruptionBudgetController;

/// The reason why a budget cannot be computed, in the words of the disruption controller.
#[derive(Debug, thiserror::Error)]
enum BudgetError {
    #[error("invalid value for IntOrString: invalid type: {text} is not a percentage")]
    NotAPercentage { text: String },
    #[error("found no controllers for pod {pod:?}")]
    NoController { pod: String },
}

/// The expected number of pods, and the number of pods that must stay healthy.
#[derive(Debug, Clone, Copy)]
struct BudgetTargets {
    expected: i64,
    healthy: i64,
}

impl Controller for DisruptionBudgetController {
    fn affected(&self, state: &ClusterState, observed: &Observed<'_>) -> Vec<String> {
        if observed.collection == BUDGETS {
            return if observed.gone { Vec::new() } else { vec![observed.key()] };
        }
        let is_scaled = SCALED.contains(&observed.collection);
        if !is_scaled && observed.collection != PODS {
            return Vec::new();
        }
        let namespace = observed.object.namespace();
        let (budgets, _) = state.collection(BUDGETS).list(namespace);
        let is_affected = |budget: &&Arc<Object>| is_scaled || observed.versions().any(|pod| covers(budget, pod));
        budgets.iter().filter(is_affected).map(|budget| key(namespace, budget.name())).collect()
    }

    fn reconcile(&self, state: &ClusterState, budget_key: &str) -> ApiResult<()> {
        edit(&state.collection(BUDGETS), budget_key, |budget| update_status(state, budget));
        Ok(())
    }
}

fn update_status(state: &ClusterState, budget: &mut Value) {
    let (all, _) = state.collection(PODS).list(text(budget, "/metadata/namespace"));
    let selector = budget.pointer("/spec/selector");
    let is_covered = |pod: &&Arc<Object>| selector.is_some_and(|selector| spec_selector::matches(selector, &pod.value));
    let pods: Vec<&Object> = all.iter().filter(is_covered).map(Arc::as_ref).collect();
    let generation = budget.pointer("/metadata/generation").cloned().unwrap_or_else(|| 1.into());
    let targets = match targets(state, budget, &pods) {
        Ok(targets) => targets,
        Err(error) => {
            let status = child_mut(budget, "status");
            status.insert("disruptionsAllowed".to_owned(), 0.into());
            status.insert("observedGeneration".to_owned(), generation);
            set_allowed(status, false, "SyncFailed", &error.to_string());
            return;
        }
    };
    let evicted = still_evicted(budget, &pods);
    let is_healthy =
        |pod: &&&Object| !is_being_deleted(&pod.value) && !evicted.contains_key(pod.name()) && is_ready(&pod.value);
    let healthy = i64::try_from(pods.iter().filter(is_healthy).count()).unwrap_or(i64::MAX);
    let allowed = if targets.expected > 0 { (healthy - targets.healthy).max(0) } else { 0 };
    let status = child_mut(budget, "status");
    for (field, number) in [
        ("currentHealthy", healthy),
        ("desiredHealthy", targets.healthy),
        ("expectedPods", targets.expected),
        ("disruptionsAllowed", allowed),
    ] {
        status.insert(field.to_owned(), number.into());
    }
    status.insert("observedGeneration".to_owned(), generation);
    if evicted.is_empty() {
        status.remove("disruptedPods");
    } else {
        status.insert("disruptedPods".to_owned(), evicted.into());
    }
    set_allowed(status, allowed > 0, if allowed > 0 { "SufficientPods" } else { "InsufficientPods" }, "");
}

/// The numbers that the budget asks for. A percentage and `maxUnavailable` refer to the replicas that the pods'
/// controllers want. Pods without a controller are not counted in these cases.
fn targets(state: &ClusterState, budget: &Value, pods: &[&Object]) -> Result<BudgetTargets, BudgetError> {
    if let Some(unavailable) = budget.pointer("/spec/maxUnavailable") {
        let expected = wanted_replicas(state, pods)?;
        let healthy = (expected - share(unavailable, expected)?).max(0);
        return Ok(BudgetTargets { expected, healthy });
    }
    match budget.pointer("/spec/minAvailable") {
        Some(Value::Number(number)) => Ok(BudgetTargets {
            expected: i64::try_from(pods.len()).unwrap_or(i64::MAX),
            healthy: number.as_i64().unwrap_or(0),
        }),
        Some(percentage) => {
            let expected = wanted_replicas(state, pods)?;
            Ok(BudgetTargets { expected, healthy: share(percentage, expected)? })
        }
        None => Ok(BudgetTargets { expected: 0, healthy: 0 }),
    }
}

/// The given number, or the given percentage of `whole`, rounded up.
fn share(value: &Value, whole: i64) -> Result<i64, BudgetError> {
    if let Some(number) = value.as_i64() {
        return Ok(number);
    }
    let text = value.as_str().unwrap_or_default();
    let percent = text.strip_suffix('%').and_then(|number| number.parse::<i64>().ok());
    let percent = percent.ok_or_else(|| BudgetError::NotAPercentage { text: text.to_owned() })?;
    Ok(percent.saturating_mul(whole).saturating_add(99).div_euclid(100))
}

/// The sum of the replicas of the controllers of the pods, each counted once.
fn wanted_replicas(state: &ClusterState, pods: &[&Object]) -> Result<i64, BudgetError> {
    let mut replicas_by_uid: BTreeMap<String, i64> = BTreeMap::new();
    for pod in pods {
        let Some(reference) = controller_of(&pod.value) else { continue };
        let (uid, replicas) = scaled(state, pod.namespace(), reference)
            .ok_or_else(|| BudgetError::NoController { pod: pod.name().to_owned() })?;
        replicas_by_uid.insert(uid, replicas);
    }
    Ok(replicas_by_uid.values().sum())
}

/// The uid and the wanted replicas of a controller, or of the controller's deployment.
fn scaled(state: &ClusterState, namespace: &str, reference: &Value) -> Option<(String, i64)> {
    let (group, _) = text(reference, "/apiVersion").split_once('/').unwrap_or_default();
    let kinds = state.registry().kinds();
    let kind = kinds.iter().find(|kind| kind.group == group && kind.kind == text(reference, "/kind"))?;
    let scale = kind.scale.as_ref()?;
    let object = state.collection_of(kind).get(&key(namespace, text(reference, "/name")))?;
    let uid = object.uid();
    if uid != text(reference, "/uid") {
        return None;
    }
    let is_deployment = |owner: &&Value| kind.kind == "ReplicaSet" && text(owner, "/kind") == "Deployment";
    let deployment = controller_of(&object.value).filter(is_deployment);
    deployment.and_then(|owner| scaled(state, namespace, owner)).or_else(|| {
        let replicas = object.value.pointer(&scale.spec_replicas).and_then(Value::as_i64)?;
        Some((uid.to_owned(), replicas))
    })
}

/// The recent allowed evictions of pods that still exist.
fn still_evicted(budget: &Value, pods: &[&Object]) -> Map<String, Value> {
    let evicted = budget.pointer("/status/disruptedPods").and_then(Value::as_object).into_iter().flatten();
    let is_still = |(name, since): &(&String, &Value)| {
        let is_recent = since.as_str().and_then(clock::seconds_since).is_some_and(|age| age <= EVICTION_SECONDS);
        is_recent && pods.iter().any(|pod| pod.name() == name.as_str() && !is_being_deleted(&pod.value))
    };
    evicted.filter(is_still).map(|(name, since)| (name.clone(), since.clone())).collect()
}

/// Sets the condition that repeats the result. Its time changes only with its status.
fn set_allowed(status: &mut Map<String, Value>, is_allowed: bool, reason: &str, message: &str) {
    let generation = status.get("observedGeneration").cloned().unwrap_or_default();
    let word = if is_allowed { "True" } else { "False" };
    let before = find_condition(status, ALLOWED);
    let since = before.filter(|condition| text(condition, "/status") == word);
    let since = since.map_or_else(clock::now, |condition| text(condition, "/lastTransitionTime").to_owned());
    let condition = json!({
        "type": ALLOWED,
        "status": word,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
        "observedGeneration": generation,
    });
    set_condition(status, condition);
}
