//! The pods that controllers would create, if they do not exist yet: the pods of Deployments, ReplicaSets,
//! StatefulSets, Jobs and ReplicationControllers. DaemonSets, which have a pod for each node, are in [`daemon_sets`].
//!
//! The rules come from the documentation of each kind, and from `pkg/controller` for names and labels. Kubernetes
//! generates some names at random. Here, these names depend on the owner, so that two runs give the same result.

pub(crate) mod daemon_sets;

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use crate::fields::{child, fields, items, letters, text};

/// Label of the pods of one revision of a Deployment.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// The objects that a workload's controllers would create.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// Further objects, such as the claims of a StatefulSet's pods.
    pub(crate) objects: Vec<Value>,
    pub(crate) pods: Vec<Value>,
}

/// The controllers of the existing pods. Pods that are finished or being deleted do not count.
#[derive(Debug, Default)]
pub(crate) struct Controlled {
    /// The number of pods, by kind, namespace and name of their controller.
    n_pods: FxHashMap<(String, String, String), u64>,
    /// The number of other objects, by kind, namespace and name of their controller.
    n_objects: FxHashMap<(String, String, String), u64>,
    /// The kind, namespace and name of every object.
    names: rustc_hash::FxHashSet<(String, String, String)>,
}

/// An unusable field of a workload.
#[derive(Debug)]
pub(crate) struct BadField {
    /// The field, as a JSON pointer.
    pub(crate) field: &'static str,
    pub(crate) reason: String,
}

impl Controlled {
    pub(crate) fn see(&mut self, object: &Value) {
        let namespace = namespace_of(object);
        let kind = text(object, "/kind");
        self.names.insert((kind.to_owned(), namespace.to_owned(), text(object, "/metadata/name").to_owned()));
        let mut owners = items(object, "/metadata/ownerReferences").iter();
        let Some(owner) = owners.find(|owner| owner["controller"] == true) else { return };
        let key = (text(owner, "/kind").to_owned(), namespace.to_owned(), text(owner, "/name").to_owned());
        if kind != "Pod" {
            *self.n_objects.entry(key).or_default() += 1;
        } else if is_active(object) {
            *self.n_pods.entry(key).or_default() += 1;
        }
    }

    fn n_pods(&self, kind: &str, namespace: &str, name: &str) -> u64 {
        self.n_pods.get(&(kind.to_owned(), namespace.to_owned(), name.to_owned())).copied().unwrap_or(0)
    }

    fn owns_objects(&self, kind: &str, namespace: &str, name: &str) -> bool {
        self.n_objects.contains_key(&(kind.to_owned(), namespace.to_owned(), name.to_owned()))
    }

    pub(crate) fn has(&self, kind: &str, namespace: &str, name: &str) -> bool {
        self.names.contains(&(kind.to_owned(), namespace.to_owned(), name.to_owned()))
    }
}

/// Whether the object is a workload from which pods are made, by its kind.
pub(crate) fn is_workload(object: &Value) -> bool {
    let group = text(object, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
    matches!(
        (group, text(object, "/kind")),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet") | ("batch", "Job") | ("", "ReplicationController")
    )
}

/// The objects that the controllers of a workload would create, with at most `n_most` pods.
pub(crate) fn expand(workload: &Value, controlled: &Controlled, n_most: u64) -> Result<Made, BadField> {
    if !text(workload, "/metadata/deletionTimestamp").is_empty() {
        return Ok(Made::default());
    }
    match text(workload, "/kind") {
        "Deployment" => deployment(workload, controlled, n_most),
        "StatefulSet" => stateful_set(workload, controlled, n_most),
        "Job" => job(workload, controlled, n_most),
        kind => replicas(kind, workload, controlled, n_most),
    }
}

/// A whole number of pods; `default` if the field is absent.
fn count(workload: &Value, field: &'static str, default: u64, n_most: u64) -> Result<u64, BadField> {
    let number = match workload.pointer(field) {
        None | Some(Value::Null) => default,
        Some(given) => given
            .as_u64()
            .ok_or_else(|| BadField { field, reason: format!("{given} must be a non-negative integer") })?,
    };
    if number > n_most {
        let reason = format!("{number} pods are too many: the limit of a simulation leaves room for {n_most}");
        return Err(BadField { field, reason });
    }
    Ok(number)
}

/// The Deployment's ReplicaSet, and its pods. A Deployment with existing ReplicaSets creates nothing, because the
/// ReplicaSets create the pods.
fn deployment(workload: &Value, controlled: &Controlled, n_most: u64) -> Result<Made, BadField> {
    let (namespace, name) = (namespace_of(workload), text(workload, "/metadata/name"));
    if controlled.owns_objects("Deployment", namespace, name) {
        return Ok(Made::default());
    }
    let template = &workload["spec"]["template"];
    let hash = letters(template.to_string(), 10);
    let mut set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"namespace": namespace, "name": format!("{name}-{hash}"), "uid": format!("{namespace}/{name}-{hash}"),
            "labels": template.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({})),
            "ownerReferences": reference(workload)},
        "spec": {"replicas": workload.pointer("/spec/replicas").cloned().unwrap_or_else(|| json!(1)),
            "selector": workload.pointer("/spec/selector").cloned().unwrap_or_else(|| json!({})), "template": template},
    });
    child(&mut set["metadata"], "labels").insert(TEMPLATE_HASH.to_owned(), json!(hash));
    child(&mut set["spec"]["selector"], "matchLabels").insert(TEMPLATE_HASH.to_owned(), json!(hash));
    child(&mut set["spec"]["template"]["metadata"], "labels").insert(TEMPLATE_HASH.to_owned(), json!(hash));
    let mut made = replicas("ReplicaSet", &set, controlled, n_most)?;
    made.objects.push(set);
    Ok(made)
}

/// The pods of ReplicaSets and ReplicationControllers.
fn replicas(kind: &str, workload: &Value, controlled: &Controlled, n_most: u64) -> Result<Made, BadField> {
    let (namespace, name) = (namespace_of(workload), text(workload, "/metadata/name"));
    let n_wanted = count(workload, "/spec/replicas", 1, n_most)?;
    let n_there = controlled.n_pods(kind, namespace, name);
    let pod = |number: u64| {
        let pod_name = format!("{name}-{}", letters((namespace, name, number), 5));
        pod(workload, "/spec/template", pod_name)
    };
    Ok(Made { pods: (n_there..n_wanted).map(pod).collect(), ..Made::default() })
}

fn stateful_set(workload: &Value, controlled: &Controlled, n_most: u64) -> Result<Made, BadField> {
    let (namespace, name) = (namespace_of(workload), text(workload, "/metadata/name"));
    let n_wanted = count(workload, "/spec/replicas", 1, n_most)?;
    let start = count(workload, "/spec/ordinals/start", 0, u64::MAX - n_most)?;
    let mut made = Made::default();
    for ordinal in start..start + n_wanted {
        let pod_name = format!("{name}-{ordinal}");
        if controlled.has("Pod", namespace, &pod_name) {
            continue;
        }
        let mut pod = pod(workload, "/spec/template", pod_name.clone());
        let labels = child(&mut pod["metadata"], "labels");
        labels.insert("statefulset.kubernetes.io/pod-name".to_owned(), json!(pod_name));
        labels.insert("apps.kubernetes.io/pod-index".to_owned(), json!(ordinal.to_string()));
        let mut volumes = items(&pod, "/spec/volumes").to_vec();
        for template in items(workload, "/spec/volumeClaimTemplates") {
            let volume = text(template, "/metadata/name");
            let claim = format!("{volume}-{pod_name}");
            volumes.retain(|other| text(other, "/name") != volume);
            volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": claim}}));
            if !controlled.has("PersistentVolumeClaim", namespace, &claim) {
                made.objects.push(self::claim(namespace, &claim, template, None));
            }
        }
        child(&mut pod, "spec").insert("volumes".to_owned(), volumes.into());
        made.pods.push(pod);
    }
    Ok(made)
}

/// The pods of a Job that run at the same time. Their number is `parallelism`, but at most the number of pods that have
/// not succeeded yet.
fn job(workload: &Value, controlled: &Controlled, n_most: u64) -> Result<Made, BadField> {
    let (namespace, name) = (namespace_of(workload), text(workload, "/metadata/name"));
    let is_finished = items(workload, "/status/conditions")
        .iter()
        .any(|condition| matches!(text(condition, "/type"), "Complete" | "Failed") && condition["status"] == "True");
    if workload.pointer("/spec/suspend") == Some(&Value::Bool(true)) || is_finished {
        return Ok(Made::default());
    }
    let n_parallel = count(workload, "/spec/parallelism", 1, n_most)?;
    let is_work_queue = workload.pointer("/spec/completions").is_none_or(Value::is_null);
    let default = if is_work_queue { n_parallel.max(1) } else { 1 };
    let n_completions = count(workload, "/spec/completions", default, u64::MAX)?;
    let n_succeeded = count(workload, "/status/succeeded", 0, u64::MAX)?;
    let n_wanted = n_parallel.min(n_completions.saturating_sub(n_succeeded));
    let n_there = controlled.n_pods("Job", namespace, name);
    let is_indexed = text(workload, "/spec/completionMode") == "Indexed";
    let pod = |number: u64| {
        let suffix = letters((namespace, name, number), 5);
        let pod_name = if is_indexed { format!("{name}-{number}-{suffix}") } else { format!("{name}-{suffix}") };
        let mut pod = pod(workload, "/spec/template", pod_name);
        let labels = child(&mut pod["metadata"], "labels");
        for label in ["batch.kubernetes.io/job-name", "job-name"] {
            labels.insert(label.to_owned(), json!(name));
        }
        if is_indexed {
            let index = json!(number.to_string());
            labels.insert("batch.kubernetes.io/job-completion-index".to_owned(), index.clone());
            child(&mut pod["metadata"], "annotations")
                .insert("batch.kubernetes.io/job-completion-index".to_owned(), index);
        }
        pod
    };
    let first = if is_indexed { n_succeeded + n_there } else { n_there };
    let n_missing = n_wanted.saturating_sub(n_there);
    Ok(Made { pods: (first..first + n_missing).map(pod).collect(), ..Made::default() })
}

/// A pod of a workload, according to its template.
pub(crate) fn pod(workload: &Value, template: &str, name: String) -> Value {
    let template = workload.pointer(template).unwrap_or(&Value::Null);
    let given = &template["metadata"];
    let mut metadata = json!({
        "namespace": namespace_of(workload), "name": name, "ownerReferences": reference(workload),
    });
    for field in ["labels", "annotations"] {
        if let Some(map) = given.get(field).filter(|map| !map.is_null()) {
            fields(&mut metadata).insert(field.to_owned(), map.clone());
        }
    }
    let spec = template.get("spec").cloned().unwrap_or_else(|| json!({}));
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// A claim for a volume, according to `template`.
pub(crate) fn claim(namespace: &str, name: &str, template: &Value, owner: Option<Value>) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": namespace, "name": name, "uid": format!("{namespace}/{name}"),
            "labels": template.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({}))},
        "spec": template.get("spec").cloned().unwrap_or_else(|| json!({})),
        "status": {"phase": "Pending"},
    });
    if let Some(owner) = owner {
        claim["metadata"]["ownerReferences"] = json!([owner]);
    }
    claim
}

/// The `metadata.ownerReferences` of an object that a workload controls.
pub(crate) fn reference(owner: &Value) -> Value {
    let (namespace, name) = (namespace_of(owner), text(owner, "/metadata/name"));
    let uid = owner.pointer("/metadata/uid").cloned().unwrap_or_else(|| json!(format!("{namespace}/{name}")));
    json!([{"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": name, "uid": uid, "controller": true}])
}

/// `metadata.namespace`; `default` if it is left out.
pub(crate) fn namespace_of(object: &Value) -> &str {
    let namespace = text(object, "/metadata/namespace");
    if namespace.is_empty() { "default" } else { namespace }
}

fn is_active(pod: &Value) -> bool {
    !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") && text(pod, "/metadata/deletionTimestamp").is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(workload: &Value, there: &[Value]) -> Vec<String> {
        let mut controlled = Controlled::default();
        there.iter().for_each(|object| controlled.see(object));
        let made = expand(workload, &controlled, 100).unwrap();
        made.pods.iter().map(|pod| text(pod, "/metadata/name").to_owned()).collect()
    }

    #[test]
    fn a_deployment_makes_a_replica_set_and_its_pods() {
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {}}}});
        let made = expand(&deployment, &Controlled::default(), 100).unwrap();
        let [first, second] = made.pods.as_slice() else { panic!("{made:?}") };
        let hash = text(first, "/metadata/labels/pod-template-hash");
        assert!(text(first, "/metadata/name").starts_with(&format!("web-{hash}-")), "{first}");
        assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
        let [set] = made.objects.as_slice() else { panic!("{made:?}") };
        assert_eq!(set["metadata"]["name"], format!("web-{hash}"));
        assert_eq!(set["spec"]["selector"]["matchLabels"]["pod-template-hash"], hash);
        let mut controlled = Controlled::default();
        controlled.see(set);
        assert!(expand(&deployment, &controlled, 100).unwrap().pods.is_empty(), "its ReplicaSet makes them");
    }

    #[test]
    fn only_pods_that_are_missing_are_made() {
        let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "a"}, "spec": {"replicas": 3}});
        let pod = |phase: &str| json!({"kind": "Pod", "metadata": {"name": phase, "namespace": "a", "ownerReferences": reference(&set)}, "status": {"phase": phase}});
        assert_eq!(names(&set, &[pod("Running"), pod("Failed")]).len(), 2);
        let stateful = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {"replicas": 3, "ordinals": {"start": 5}}});
        let there = json!({"kind": "Pod", "metadata": {"name": "db-6"}});
        assert_eq!(names(&stateful, &[there]), ["db-5", "db-7"]);
    }

    #[test]
    fn a_job_makes_the_pods_that_run_at_once() {
        let job = |spec: Value, status: Value| {
            let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"}, "spec": spec, "status": status});
            names(&job, &[]).len()
        };
        assert_eq!(job(json!({"parallelism": 4}), json!({})), 4);
        assert_eq!(job(json!({"parallelism": 4, "completions": 10}), json!({"succeeded": 8})), 2);
        assert_eq!(job(json!({"parallelism": 4, "completions": 2, "completionMode": "Indexed"}), json!({})), 2);
        assert_eq!(job(json!({"suspend": true}), json!({})), 0);
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        let set = |replicas: Value| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": {"replicas": replicas}});
        let error = |replicas: Value| expand(&set(replicas), &Controlled::default(), 100).unwrap_err();
        assert!(error(json!(-1)).reason.contains("must be a non-negative integer"));
        assert!(error(json!(101)).reason.contains("leaves room for 100"));
        assert_eq!(error(json!("two")).field, "/spec/replicas");
    }
}
