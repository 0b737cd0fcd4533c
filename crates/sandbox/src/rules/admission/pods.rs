//! Admission of pods. This module does the work of the API server's admission plugins `Priority`, `RuntimeClass`,
//! `ServiceAccount` and `DefaultTolerationSeconds`, see
//! <https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/>.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::fields::clock;
use crate::fields::json::{as_map, child_mut, items, text};
use crate::fields::pods::qos_class;
use crate::kinds::Kind;
use crate::state::ClusterState;
use crate::status::{ApiResult, StatusError};
use crate::storage::Object;

/// Tolerations that every pod gets, so that a short absence of a node doesn't evict the pod.
const DEFAULT_TOLERATIONS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const TOLERATION_SECONDS: i64 = 300;

/// The reason why a pod is refused, in the API server's words.
#[derive(Debug, thiserror::Error)]
enum PodAdmissionError {
    #[error("no PriorityClass with name {0} was found")]
    UnknownPriorityClass(String),
    #[error(
        "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {computed} from the given PriorityClass name"
    )]
    Priority { given: i64, computed: i64 },
    #[error(
        "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {computed} from the given PriorityClass name"
    )]
    PreemptionPolicy { given: String, computed: String },
    #[error("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")]
    OverheadWithoutClass,
    #[error("pod rejected: RuntimeClass \"{0}\" not found")]
    UnknownRuntimeClass(String),
    #[error("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")]
    OtherOverhead,
    #[error("conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; pod.spec.nodeSelector[{key}] = {given}")]
    NodeSelector { key: String, wanted: String, given: String },
}

/// Admits a new pod: sets its priority, tolerations, service account, label requirements and QoS class.
pub(super) fn admit(state: &ClusterState, kind: &Kind, namespace: &str, pod: &mut Value) -> ApiResult<()> {
    let name = text(pod, "/metadata/name").to_owned();
    let refuse = |error: PodAdmissionError| StatusError::forbidden(kind, &name, &error.to_string());
    admit_priority(state, pod).map_err(refuse)?;
    let spec = child_mut(pod, "spec");
    add_tolerations(spec);
    admit_runtime_class(state, pod).map_err(refuse)?;
    let spec = child_mut(pod, "spec");
    let account = spec.get("serviceAccountName").or(spec.get("serviceAccount")).cloned();
    let account = account.unwrap_or_else(|| "default".into());
    spec.insert("serviceAccountName".to_owned(), account.clone());
    spec.insert("serviceAccount".to_owned(), account);
    merge_label_keys(pod);
    let class = qos_class(pod);
    child_mut(pod, "status").insert("qosClass".to_owned(), class.into());
    if !items(pod, "/spec/schedulingGates").is_empty() {
        let condition = json!({
            "type": "PodScheduled",
            "status": "False",
            "lastTransitionTime": clock::now(),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        });
        child_mut(pod, "status").insert("conditions".to_owned(), json!([condition]));
    }
    tracing::trace!(namespace, pod = name, "admitted");
    Ok(())
}

fn admit_priority(state: &ClusterState, pod: &mut Value) -> Result<(), PodAdmissionError> {
    let class_name = text(pod, "/spec/priorityClassName").to_owned();
    let classes = state.collection("priorityclasses.scheduling.k8s.io");
    let class: Option<Arc<Object>> = if class_name.is_empty() {
        let is_default = |object: &&Arc<Object>| object.value.get("globalDefault") == Some(&Value::Bool(true));
        classes.list("").0.iter().find(is_default).cloned()
    } else {
        let class = classes.get(&class_name);
        Some(class.ok_or(PodAdmissionError::UnknownPriorityClass(class_name))?)
    };
    let (priority, policy) = match &class {
        Some(class) => (
            class.value.get("value").and_then(Value::as_i64).unwrap_or(0),
            text(&class.value, "/preemptionPolicy").to_owned(),
        ),
        None => (0, "PreemptLowerPriority".to_owned()),
    };
    let spec = child_mut(pod, "spec");
    if let Some(own) = spec.get("priority").and_then(Value::as_i64).filter(|&own| own != priority) {
        return Err(PodAdmissionError::Priority { given: own, computed: priority });
    }
    if let Some(own) = spec.get("preemptionPolicy").and_then(Value::as_str).filter(|&own| own != policy) {
        return Err(PodAdmissionError::PreemptionPolicy { given: own.to_owned(), computed: policy });
    }
    if let Some(class) = class {
        spec.insert("priorityClassName".to_owned(), class.name().into());
    }
    spec.insert("priority".to_owned(), priority.into());
    spec.insert("preemptionPolicy".to_owned(), policy.into());
    Ok(())
}

fn admit_runtime_class(state: &ClusterState, pod: &mut Value) -> Result<(), PodAdmissionError> {
    let name = text(pod, "/spec/runtimeClassName").to_owned();
    let overhead = pod.pointer("/spec/overhead").cloned();
    if name.is_empty() {
        return match overhead {
            Some(_) => Err(PodAdmissionError::OverheadWithoutClass),
            None => Ok(()),
        };
    }
    let class = state.collection("runtimeclasses.node.k8s.io").get(&name);
    let class = class.ok_or(PodAdmissionError::UnknownRuntimeClass(name))?;
    let fixed = class.value.pointer("/overhead/podFixed").cloned();
    if overhead.is_some() && overhead != fixed {
        return Err(PodAdmissionError::OtherOverhead);
    }
    let spec = child_mut(pod, "spec");
    if let Some(fixed) = fixed {
        spec.insert("overhead".to_owned(), fixed);
    }
    if let Some(wanted) = class.value.pointer("/scheduling/nodeSelector").and_then(Value::as_object) {
        let selector = as_map(spec.entry("nodeSelector").or_insert(Value::Null));
        for (key, value) in wanted {
            if let Some(own) = selector.get(key).filter(|own| *own != value) {
                return Err(PodAdmissionError::NodeSelector {
                    key: key.clone(),
                    wanted: value.as_str().unwrap_or_default().to_owned(),
                    given: own.as_str().unwrap_or_default().to_owned(),
                });
            }
            selector.insert(key.clone(), value.clone());
        }
    }
    for toleration in items(&class.value, "/scheduling/tolerations") {
        push_new(spec, "tolerations", toleration.clone());
    }
    Ok(())
}

fn add_tolerations(spec: &mut Map<String, Value>) {
    for key in DEFAULT_TOLERATIONS {
        let tolerated = spec.get("tolerations").and_then(Value::as_array).into_iter().flatten().any(|toleration| {
            let same_key = text(toleration, "/key") == key || text(toleration, "/key").is_empty();
            same_key && matches!(text(toleration, "/effect"), "" | "NoExecute")
        });
        if !tolerated {
            let toleration = json!({
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": TOLERATION_SECONDS,
            });
            push_new(spec, "tolerations", toleration);
        }
    }
}

fn push_new(members: &mut Map<String, Value>, list: &str, element: Value) {
    let list = members.entry(list).or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut().filter(|list| !list.contains(&element)) {
        list.push(element);
    }
}

/// Converts `matchLabelKeys` and `mismatchLabelKeys` to requirements with the pod's own labels.
fn merge_label_keys(pod: &mut Value) {
    let labels = pod.pointer("/metadata/labels").cloned().unwrap_or_default();
    let constraints = pod.pointer_mut("/spec/topologySpreadConstraints").and_then(Value::as_array_mut);
    for constraint in constraints.into_iter().flatten() {
        add_requirements(constraint, &labels);
    }
    for side in ["podAffinity", "podAntiAffinity"] {
        let required = format!("/spec/affinity/{side}/requiredDuringSchedulingIgnoredDuringExecution");
        for term in pod.pointer_mut(&required).and_then(Value::as_array_mut).into_iter().flatten() {
            add_requirements(term, &labels);
        }
        let preferred = format!("/spec/affinity/{side}/preferredDuringSchedulingIgnoredDuringExecution");
        for weighted in pod.pointer_mut(&preferred).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(term) = weighted.get_mut("podAffinityTerm") {
                add_requirements(term, &labels);
            }
        }
    }
}

fn add_requirements(term: &mut Value, labels: &Value) {
    if term.get("labelSelector").is_none() {
        return;
    }
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys: Vec<String> =
            items(term, &format!("/{field}")).iter().filter_map(Value::as_str).map(str::to_owned).collect();
        for key in keys {
            if let Some(value) = labels.get(&key) {
                let requirement = json!({"key": key, "operator": operator, "values": [value]});
                push_new(child_mut(term, "labelSelector"), "matchExpressions", requirement);
            }
        }
    }
}
