//! Admission: rules that look beyond the object, such as priorities, runtime classes and namespaces.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::api::Api;
use crate::kinds::Kind;
use crate::object::{Object, as_map, child_mut, default_to, items, text};
use crate::status::{Answer, StatusError};
use crate::{clock, qos};

/// Tolerations that every pod gets, so that a node's short absence doesn't evict it.
const DEFAULT_TOLERATIONS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const TOLERATION_SECONDS: i64 = 300;

/// Checks that the namespace is there and not going away.
pub(crate) fn namespace_exists(api: &Api, kind: &Kind, namespace: &str, name: &str) -> Answer<()> {
    if namespace.is_empty() {
        return Ok(());
    }
    let namespaces = api.store.collection("namespaces");
    let Some(object) = namespaces.get(namespace) else {
        let namespaces = api.registry.built_in("", "namespaces");
        return Err(
            namespaces.map_or_else(StatusError::no_such_resource, |kind| StatusError::not_found(&kind, namespace))
        );
    };
    if object.value.pointer("/metadata/deletionTimestamp").is_none() {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let message = format!("namespace {namespace} is being terminated");
    let error = StatusError::forbidden(kind, name, &why);
    Err(error.cause("NamespaceTerminating", &message, Some("metadata.namespace")))
}

/// Runs the admission of a new object.
pub(crate) fn create(api: &Api, kind: &Kind, namespace: &str, value: &mut Value) -> Answer<()> {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => admit_pod(api, kind, namespace, value),
        ("", "persistentvolumeclaims") => {
            admit_volume_claim(api, value);
            Ok(())
        }
        ("scheduling.k8s.io", "priorityclasses") => admit_priority_class(api, kind, value),
        _ => Ok(()),
    }
}

fn admit_pod(api: &Api, kind: &Kind, namespace: &str, pod: &mut Value) -> Answer<()> {
    let name = text(pod, "/metadata/name").to_owned();
    let refuse = |why: String| StatusError::forbidden(kind, &name, &why);
    admit_priority(api, pod).map_err(refuse)?;
    let spec = child_mut(pod, "spec");
    add_tolerations(spec);
    admit_runtime_class(api, pod).map_err(refuse)?;
    let spec = child_mut(pod, "spec");
    let account = spec.get("serviceAccountName").or(spec.get("serviceAccount")).cloned();
    let account = account.unwrap_or_else(|| "default".into());
    spec.insert("serviceAccountName".to_owned(), account.clone());
    spec.insert("serviceAccount".to_owned(), account);
    merge_label_keys(pod);
    let class = qos::class(pod);
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

fn admit_priority(api: &Api, pod: &mut Value) -> Result<(), String> {
    let class_name = text(pod, "/spec/priorityClassName").to_owned();
    let classes = api.store.collection("priorityclasses.scheduling.k8s.io");
    let class: Option<Arc<Object>> = if class_name.is_empty() {
        let is_default = |object: &&Arc<Object>| object.value.get("globalDefault") == Some(&Value::Bool(true));
        classes.list("").0.iter().find(is_default).cloned()
    } else {
        let class = classes.get(&class_name);
        Some(class.ok_or_else(|| format!("no PriorityClass with name {class_name} was found"))?)
    };
    let (priority, policy) = match &class {
        Some(class) => (
            class.value.get("value").and_then(Value::as_i64).unwrap_or(0),
            text(&class.value, "/preemptionPolicy").to_owned(),
        ),
        None => (0, "PreemptLowerPriority".to_owned()),
    };
    let computed = "must not be provided in pod spec; priority admission controller computed";
    let given = "from the given PriorityClass name";
    let spec = child_mut(pod, "spec");
    if let Some(own) = spec.get("priority").and_then(Value::as_i64).filter(|&own| own != priority) {
        return Err(format!("the integer value of priority ({own}) {computed} {priority} {given}"));
    }
    if let Some(own) = spec.get("preemptionPolicy").and_then(Value::as_str).filter(|&own| own != policy) {
        return Err(format!("the string value of PreemptionPolicy ({own}) {computed} {policy} {given}"));
    }
    if let Some(class) = class {
        spec.insert("priorityClassName".to_owned(), class.name().into());
    }
    spec.insert("priority".to_owned(), priority.into());
    spec.insert("preemptionPolicy".to_owned(), policy.into());
    Ok(())
}

fn admit_runtime_class(api: &Api, pod: &mut Value) -> Result<(), String> {
    let name = text(pod, "/spec/runtimeClassName").to_owned();
    let overhead = pod.pointer("/spec/overhead").cloned();
    if name.is_empty() {
        return match overhead {
            Some(_) => {
                Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead".to_owned())
            }
            None => Ok(()),
        };
    }
    let class = api.store.collection("runtimeclasses.node.k8s.io").get(&name);
    let class = class.ok_or_else(|| format!("pod rejected: RuntimeClass \"{name}\" not found"))?;
    let fixed = class.value.pointer("/overhead/podFixed").cloned();
    if overhead.is_some() && overhead != fixed {
        return Err("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned());
    }
    let spec = child_mut(pod, "spec");
    if let Some(fixed) = fixed {
        spec.insert("overhead".to_owned(), fixed);
    }
    if let Some(wanted) = class.value.pointer("/scheduling/nodeSelector").and_then(Value::as_object) {
        let selector = as_map(spec.entry("nodeSelector").or_insert(Value::Null));
        for (key, value) in wanted {
            if let Some(own) = selector.get(key).filter(|own| *own != value) {
                let (own, value) = (own.as_str().unwrap_or_default(), value.as_str().unwrap_or_default());
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
                ));
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

/// Turns `matchLabelKeys` and `mismatchLabelKeys` into requirements over the pod's own labels.
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

/// A claim that says nothing about its class gets the default one. An empty name is a choice too.
fn admit_volume_claim(api: &Api, claim: &mut Value) {
    let annotations = claim.pointer("/metadata/annotations");
    let is_old_form = annotations.is_some_and(|all| all.get("volume.beta.kubernetes.io/storage-class").is_some());
    if is_old_form || claim.pointer("/spec/storageClassName").is_some() {
        return;
    }
    if let Some(class) = default_storage_class(api) {
        child_mut(claim, "spec").insert("storageClassName".to_owned(), class.name().into());
    }
}

/// The newest of the storage classes that are marked as default.
pub(crate) fn default_storage_class(api: &Api) -> Option<Arc<Object>> {
    let (classes, _) = api.store.collection("storageclasses.storage.k8s.io").list("");
    let is_default = |class: &Arc<Object>| {
        let annotations = class.value.pointer("/metadata/annotations");
        let marked = |name: &str| annotations.and_then(|all| all.get(name)) == Some(&Value::from("true"));
        marked("storageclass.kubernetes.io/is-default-class")
            || marked("storageclass.beta.kubernetes.io/is-default-class")
    };
    let created = |class: &Arc<Object>| text(&class.value, "/metadata/creationTimestamp").to_owned();
    // Of several in one second the first by name counts.
    classes.into_iter().filter(is_default).rev().max_by_key(created)
}

fn admit_priority_class(api: &Api, kind: &Kind, class: &mut Value) -> Answer<()> {
    if class.get("globalDefault") == Some(&Value::Bool(true)) {
        let name = text(class, "/metadata/name");
        let (classes, _) = api.store.collection("priorityclasses.scheduling.k8s.io").list("");
        let is_default = |object: &&Arc<Object>| object.value.get("globalDefault") == Some(&Value::Bool(true));
        if let Some(other) = classes.iter().find(is_default) {
            let other = other.name();
            let why = format!("PriorityClass {other} is already marked as default. Only one default can exist");
            return Err(StatusError::forbidden(kind, name, &why));
        }
    } else {
        as_map(class).remove("globalDefault");
    }
    default_to(as_map(class), "preemptionPolicy", "PreemptLowerPriority");
    Ok(())
}
