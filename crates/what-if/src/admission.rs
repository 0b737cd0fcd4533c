//! Applies the API server's changes of a new pod before the scheduler sees it: defaults, and the admission plugins
//! `Priority` and `RuntimeClass` (<https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/>).
//!
//! A pod with a uid comes from an API server. Such a pod already has these changes, and is not changed again.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::fields::{child, fields, items, items_mut, letters, text};

/// The classes that exist in every cluster (`pkg/apis/scheduling/v1/helpers.go`).
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// The objects that admission reads.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    priority_classes: BTreeMap<String, Value>,
    runtime_classes: BTreeMap<String, Value>,
    /// The beginning of the uids of new pods.
    uid_prefix: &'static str,
}

/// A mistake in a pod.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The field, as a JSON pointer.
    pub(crate) field: &'static str,
    pub(crate) reason: String,
}

impl Admission {
    /// An admission that gives new pods uids with this prefix.
    pub(crate) fn with_uids_below(uid_prefix: &'static str) -> Self {
        Self { uid_prefix, ..Self::default() }
    }

    /// Records a class, and ignores other objects.
    pub(crate) fn see(&mut self, object: &Value) {
        let classes = match text(object, "/kind") {
            "PriorityClass" => &mut self.priority_classes,
            "RuntimeClass" => &mut self.runtime_classes,
            _ => return,
        };
        classes.insert(text(object, "/metadata/name").to_owned(), object.clone());
    }

    /// Changes a new pod as the API server would. `number` distinguishes pods with generated names.
    pub(crate) fn admit(&self, pod: &mut Value, number: usize) -> Result<(), Refusal> {
        if !text(pod, "/metadata/uid").is_empty() {
            return Ok(());
        }
        let metadata = child(pod, "metadata");
        let namespace = metadata.entry("namespace").or_insert_with(|| json!("default"));
        let namespace = namespace.as_str().unwrap_or_default().to_owned();
        if let Some(prefix) = metadata.get("generateName").and_then(Value::as_str)
            && !metadata.contains_key("name")
        {
            let name = format!("{prefix}{}", letters((prefix, number), 5));
            metadata.insert("name".to_owned(), json!(name));
        }
        let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
        let uid = format!("{}{namespace}/{name}", self.uid_prefix);
        metadata.insert("uid".to_owned(), json!(uid));
        let spec = child(pod, "spec");
        spec.entry("schedulerName").or_insert_with(|| json!("default-scheduler"));
        fill_containers(spec);
        self.set_priority(spec)?;
        self.apply_runtime_class(spec)?;
        merge_label_keys(pod);
        Ok(())
    }

    fn set_priority(&self, spec: &mut Map<String, Value>) -> Result<(), Refusal> {
        let name = spec.get("priorityClassName").and_then(Value::as_str).unwrap_or_default();
        let class = match name {
            "" => self.priority_classes.values().find(|class| class["globalDefault"] == true),
            name => self.priority_classes.get(name),
        };
        let system = SYSTEM_CLASSES.iter().find(|(class, _)| *class == name).map(|(_, value)| *value);
        let priority = class.and_then(|class| class["value"].as_i64()).or(system);
        match priority {
            None if name.is_empty() => {}
            None => {
                let reason = format!(
                    "PriorityClass {name} not found: add it to the files, or set spec.priority and leave the name out"
                );
                return Err(Refusal { field: "/spec/priorityClassName", reason });
            }
            Some(priority) => {
                spec.insert("priority".to_owned(), json!(priority));
            }
        }
        if let Some(policy) = class.and_then(|class| class.get("preemptionPolicy")) {
            spec.entry("preemptionPolicy").or_insert_with(|| policy.clone());
        }
        Ok(())
    }

    fn apply_runtime_class(&self, spec: &mut Map<String, Value>) -> Result<(), Refusal> {
        let Some(name) = spec.get("runtimeClassName").and_then(Value::as_str).filter(|name| !name.is_empty()) else {
            return Ok(());
        };
        let class = self.runtime_classes.get(name).ok_or_else(|| Refusal {
            field: "/spec/runtimeClassName",
            reason: format!("RuntimeClass {name} not found: add it to the files, or leave the field out"),
        })?;
        if let Some(overhead) = class.pointer("/overhead/podFixed") {
            spec.insert("overhead".to_owned(), overhead.clone());
        }
        if let Some(wanted) = class.pointer("/scheduling/nodeSelector").and_then(Value::as_object) {
            let selector = fields(spec.entry("nodeSelector").or_insert(Value::Null));
            selector.extend(wanted.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        if let [_, ..] = items(class, "/scheduling/tolerations") {
            let more = items(class, "/scheduling/tolerations").iter().cloned();
            match spec.entry("tolerations").or_insert_with(|| json!([])) {
                Value::Array(tolerations) => tolerations.extend(more),
                other => *other = more.collect(),
            }
        }
        Ok(())
    }
}

/// Sets the defaults of ports and requests (`SetDefaults_Pod` in `pkg/apis/core/v1/defaults.go`).
fn fill_containers(spec: &mut Map<String, Value>) {
    let has_host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers"] {
        for container in items_mut(spec, list) {
            for port in items_mut(fields(container), "ports") {
                let port = fields(port);
                port.entry("protocol").or_insert_with(|| json!("TCP"));
                if let Some(number) = port.get("containerPort").cloned().filter(|_| has_host_network) {
                    port.entry("hostPort").or_insert(number);
                }
            }
            request_limits(container);
        }
    }
}

/// Sets requests to the limits where there is a limit but no request.
fn request_limits(container: &mut Value) {
    let Some(limits) = container.pointer("/resources/limits").and_then(Value::as_object).cloned() else { return };
    let resources = child(container, "resources");
    let requests = fields(resources.entry("requests").or_insert(Value::Null));
    for (resource, limit) in limits {
        requests.entry(resource).or_insert(limit);
    }
}

/// Adds `matchLabelKeys` and `mismatchLabelKeys` of affinity terms to the selectors of the terms. The API server does
/// this when a pod is created (KEP-3633).
fn merge_label_keys(pod: &mut Value) {
    let labels = pod.pointer("/metadata/labels").cloned().unwrap_or_default();
    for affinity in ["podAffinity", "podAntiAffinity"] {
        for list in
            ["requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"]
        {
            let terms = pod.pointer_mut(&format!("/spec/affinity/{affinity}/{list}")).and_then(Value::as_array_mut);
            for term in terms.into_iter().flatten() {
                let is_weighted = term.get("podAffinityTerm").is_some();
                let term = if is_weighted { &mut term["podAffinityTerm"] } else { term };
                merge_into_selector(term, &labels);
            }
        }
    }
}

fn merge_into_selector(term: &mut Value, labels: &Value) {
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys: Vec<Value> = items(term, &format!("/{field}")).to_vec();
        for key in keys {
            let Some(value) = key.as_str().and_then(|key| labels.get(key)) else { continue };
            let requirement = json!({"key": key, "operator": operator, "values": [value]});
            let selector = child(term, "labelSelector");
            match selector.entry("matchExpressions").or_insert_with(|| json!([])) {
                Value::Array(expressions) => expressions.push(requirement),
                other => *other = json!([requirement]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(pod: &Value, classes: &[Value]) -> Result<Value, Refusal> {
        let mut admission = Admission::default();
        classes.iter().for_each(|class| admission.see(class));
        let mut pod = pod.clone();
        admission.admit(&mut pod, 0)?;
        Ok(pod)
    }

    #[test]
    fn a_new_pod_gets_what_the_api_server_gives() {
        let pod = json!({"metadata": {"name": "web", "labels": {"rev": "1"}}, "spec": {
            "hostNetwork": true, "priorityClassName": "high",
            "containers": [{"ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}}}],
            "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"matchLabelKeys": ["rev", "none"]}]}},
        }});
        let high =
            json!({"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"});
        let admitted = admit(&pod, &[high]).unwrap();
        assert_eq!((&admitted["metadata"]["namespace"], &admitted["spec"]["priority"]), (&json!("default"), &json!(7)));
        assert_eq!(admitted["spec"]["preemptionPolicy"], "Never");
        let container = &admitted["spec"]["containers"][0];
        assert_eq!(container["ports"][0]["hostPort"], 80);
        assert_eq!(container["resources"]["requests"], json!({"cpu": "1", "memory": "1Gi"}));
        let term = &admitted["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
        assert_eq!(
            term["labelSelector"]["matchExpressions"],
            json!([{"key": "rev", "operator": "In", "values": ["1"]}])
        );
    }

    #[test]
    fn a_pod_of_an_api_server_stays_as_it_is() {
        let pod = json!({"metadata": {"name": "web", "uid": "1"}, "spec": {"priorityClassName": "gone"}});
        assert_eq!(admit(&pod, &[]).unwrap(), pod);
    }

    #[test]
    fn classes_that_are_not_there_are_named() {
        let error = admit(&json!({"metadata": {"name": "a"}, "spec": {"priorityClassName": "gone"}}), &[]).unwrap_err();
        assert_eq!(error.field, "/spec/priorityClassName");
        assert!(error.reason.starts_with("PriorityClass gone not found"), "{error:?}");
        let kata =
            json!({"kind": "RuntimeClass", "metadata": {"name": "kata"}, "overhead": {"podFixed": {"cpu": "1"}}});
        let pod = json!({"metadata": {"name": "a"}, "spec": {"runtimeClassName": "kata"}});
        assert_eq!(admit(&pod, &[kata]).unwrap()["spec"]["overhead"], json!({"cpu": "1"}));
    }
}
