//! The deployment controller: it creates replica sets, and moves replicas from the old replica sets to the current set.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::pods::{label, replicas, set_count};
use crate::controllers::collections::{DEPLOYMENTS, REPLICA_SETS};
use crate::controllers::controller::{Controller, Observed};
use crate::controllers::owners;
use crate::fields::clock;
use crate::fields::conditions::{find_condition, set_condition};
use crate::fields::json::{annotate, annotation, child_mut, is_being_deleted, metadata_mut, text};
use crate::objects::create::create_object;
use crate::objects::update::edit;
use crate::rules::lifecycle;
use crate::state::ClusterState;
use crate::status::ApiResult;
use crate::storage::Object;

const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";
/// Letters and digits that cannot form words.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Reconciles deployments. Its keys are the keys of deployments.
pub(in crate::controllers) struct DeploymentController;

/// The number of replicas that a deployment wants, and the range that a rollout may use.
#[derive(Debug, Clone, Copy)]
struct RolloutBounds {
    wanted: i64,
    /// The maximum number of replicas beyond the wanted number.
    max_surge: i64,
    /// The maximum number of wanted replicas that may be unavailable.
    max_unavailable: i64,
}

impl Controller for DeploymentController {
    fn affected(&self, _state: &ClusterState, observed: &Observed<'_>) -> Vec<String> {
        owners::affected(observed, DEPLOYMENTS, REPLICA_SETS, "Deployment")
    }

    fn reconcile(&self, state: &ClusterState, deployment_key: &str) -> ApiResult<()> {
        let deployments = state.collection(DEPLOYMENTS);
        let Some(deployment) =
            deployments.get(deployment_key).filter(|deployment| !is_being_deleted(&deployment.value))
        else {
            return Ok(());
        };
        let name = format!("{}-{}", deployment.name(), hash(&deployment.value["spec"]["template"]));
        let is_paused = deployment.value.pointer("/spec/paused") == Some(&Value::Bool(true));
        let mut sets = sets_of(state, &deployment);
        if !is_paused {
            if !sets.iter().any(|set| set.name() == name) {
                create_set(state, &deployment, &name, next_revision(&sets))?;
                sets = sets_of(state, &deployment);
            }
            scale(state, &deployment, &sets, &name);
            sets = sets_of(state, &deployment);
        }
        let revision =
            sets.iter().find(|set| set.name() == name).map(|set| annotation(&set.value, REVISION).to_owned());
        edit(&deployments, deployment_key, |value| {
            count(value, &sets, &name);
            if let Some(revision) = &revision {
                annotate(value, REVISION, revision);
            }
        });
        Ok(())
    }
}

fn sets_of(state: &ClusterState, deployment: &Object) -> Vec<Arc<Object>> {
    let (sets, _) = state.collection(REPLICA_SETS).list(deployment.namespace());
    sets.into_iter().filter(|set| owners::controls(deployment, &set.value) && !is_being_deleted(&set.value)).collect()
}

fn next_revision(sets: &[Arc<Object>]) -> u64 {
    let revision = |set: &Arc<Object>| annotation(&set.value, REVISION).parse().unwrap_or(0);
    sets.iter().map(revision).max().unwrap_or(0) + 1
}

fn create_set(state: &ClusterState, deployment: &Object, name: &str, revision: u64) -> ApiResult<()> {
    let spec = &deployment.value["spec"];
    let (_, hash) = name.rsplit_once('-').unwrap_or_default();
    let mut template = spec["template"].clone();
    let mut selector = spec["selector"].clone();
    label(&mut template["metadata"]["labels"], HASH, hash);
    label(&mut selector["matchLabels"], HASH, hash);
    let mut set = json!({"spec": {"replicas": 0, "selector": selector, "template": template}});
    let labels = template.pointer("/metadata/labels").cloned().unwrap_or_default();
    let metadata = metadata_mut(&mut set);
    metadata.insert("name".to_owned(), name.into());
    metadata.insert("labels".to_owned(), labels);
    metadata.insert("ownerReferences".to_owned(), owners::reference_to(deployment, "apps/v1", "Deployment"));
    annotate(&mut set, REVISION, &revision.to_string());
    let kind = state.built_in_kind("apps", "replicasets")?;
    create_object(state, &kind, deployment.namespace(), set, false)?;
    Ok(())
}

/// Scales the set of this name up as far as the bounds allow, and scales the other sets down as far as the bounds
/// allow.
fn scale(state: &ClusterState, deployment: &Object, sets: &[Arc<Object>], name: &str) {
    let bounds = RolloutBounds::of(&deployment.value);
    let (current, old): (Vec<&Arc<Object>>, Vec<&Arc<Object>>) = sets.iter().partition(|set| set.name() == name);
    let Some(current) = current.first() else { return };
    let n_old: i64 = old.iter().map(|set| number(set, "/spec/replicas").max(number(set, "/status/replicas"))).sum();
    let fits = (bounds.wanted + bounds.max_surge - n_old).clamp(0, bounds.wanted);
    let replicas_now = replicas(&current.value);
    let next = if replicas_now > bounds.wanted { bounds.wanted } else { fits.max(replicas_now) };
    set_replicas(state, current, next);
    let mut n_removable =
        n_old - (bounds.wanted - bounds.max_unavailable - number(current, "/status/availableReplicas")).max(0);
    for set in old {
        let replicas = replicas(&set.value);
        let fewer = replicas.min(n_removable.max(0));
        n_removable -= fewer;
        set_replicas(state, set, replicas - fewer);
    }
}

impl RolloutBounds {
    fn of(deployment: &Value) -> Self {
        let wanted = replicas(deployment);
        if text(deployment, "/spec/strategy/type") == "Recreate" {
            return Self { wanted, max_surge: 0, max_unavailable: wanted };
        }
        let rolling = deployment.pointer("/spec/strategy/rollingUpdate");
        let share = |field: &str, rounding: i64| match rolling.and_then(|rolling| rolling.get(field)) {
            Some(Value::String(text)) => {
                let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(25);
                (percent.saturating_mul(wanted) + rounding) / 100
            }
            Some(number) => number.as_i64().unwrap_or(1),
            None => (wanted * 25 + rounding) / 100,
        };
        let (max_surge, max_unavailable) = (share("maxSurge", 99), share("maxUnavailable", 0));
        // No replica could be replaced if both bounds were zero.
        let max_unavailable = if max_surge == 0 { max_unavailable.max(1) } else { max_unavailable };
        Self { wanted, max_surge, max_unavailable }
    }
}

fn set_replicas(state: &ClusterState, set: &Object, replicas: i64) {
    let sets = state.collection(REPLICA_SETS);
    edit(&sets, &set.key(), |value| {
        if value.pointer("/spec/replicas").and_then(Value::as_i64) != Some(replicas) {
            child_mut(value, "spec").insert("replicas".to_owned(), replicas.into());
            lifecycle::increase_generation(value);
        }
    });
}

fn count(deployment: &mut Value, sets: &[Arc<Object>], name: &str) {
    let total = |field: &str, of: &dyn Fn(&Object) -> bool| -> i64 {
        sets.iter().filter(|set| of(set)).map(|set| number(set, field)).sum()
    };
    let all = |_: &Object| true;
    let available = total("/status/availableReplicas", &all);
    let wanted = replicas(deployment);
    let counts = [
        ("replicas", total("/status/replicas", &all)),
        ("updatedReplicas", total("/status/replicas", &|set| set.name() == name)),
        ("readyReplicas", total("/status/readyReplicas", &all)),
        ("availableReplicas", available),
        ("unavailableReplicas", (wanted - available).max(0)),
    ];
    let least = wanted - RolloutBounds::of(deployment).max_unavailable;
    let generation = deployment.pointer("/metadata/generation").cloned().unwrap_or_else(|| 1.into());
    let status = child_mut(deployment, "status");
    for (field, number) in counts {
        set_count(status, field, usize::try_from(number).unwrap_or(0));
    }
    status.insert("observedGeneration".to_owned(), generation);
    let is_done = counts[1].1 == wanted && counts[0].1 == wanted && available >= wanted;
    let progress = if is_done {
        ("NewReplicaSetAvailable", format!("ReplicaSet \"{name}\" has successfully progressed."))
    } else {
        ("ReplicaSetUpdated", format!("ReplicaSet \"{name}\" is progressing."))
    };
    let (has, reason, message) = if available >= least {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    set_condition_text(status, "Available", has, reason, message);
    set_condition_text(status, "Progressing", "True", progress.0, &progress.1);
}

/// Sets a condition. Its times change only with its status, reason or message.
fn set_condition_text(
    status: &mut Map<String, Value>,
    condition_type: &str,
    status_text: &str,
    reason: &str,
    message: &str,
) {
    let fields = [("/status", status_text), ("/reason", reason), ("/message", message)];
    let is_same = |condition: &Value| fields.iter().all(|(field, value)| text(condition, field) == *value);
    if find_condition(status, condition_type).is_some_and(is_same) {
        return;
    }
    let now = clock::now();
    let condition = json!({
        "type": condition_type,
        "status": status_text,
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
        "lastUpdateTime": now,
    });
    set_condition(status, condition);
}

fn number(object: &Object, pointer: &str) -> i64 {
    object.value.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// A short hash of a template, for names and labels.
fn hash(template: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    template.to_string().hash(&mut hasher);
    let mut rest = hasher.finish();
    let letters = u64::try_from(ALPHABET.len()).unwrap_or(1);
    let letter = |_| {
        let position = usize::try_from(rest % letters).unwrap_or(0);
        rest /= letters;
        ALPHABET.get(position).copied().map_or('x', char::from)
    };
    (0..10).map(letter).collect()
}
