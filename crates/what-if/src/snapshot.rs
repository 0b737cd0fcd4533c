//! A cluster as a file. The file contains the parts of each object that scheduling reads. On request, names are
//! replaced by digests.
//!
//! Unknown texts are treated as names, so that new parts of the API are hidden until they are listed below.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::fields::{fields, items_mut};

/// The parts of a container that are kept. Other parts, such as the container's environment, may contain secrets, and
/// no scheduler reads them.
const CONTAINER: [&str; 6] = ["name", "image", "resources", "ports", "restartPolicy", "restartPolicyRules"];
/// Annotations that repeat the whole object.
const COPIES: [&str; 1] = ["kubectl.kubernetes.io/last-applied-configuration"];

/// Fields with texts that are words of the API and not names.
const WORDS: &[&str] = &[
    "accessModes",
    "allocatable",
    "apiVersion",
    "capacity",
    "completionMode",
    "creationTimestamp",
    "deletionTimestamp",
    "effect",
    "kind",
    "lastTransitionTime",
    "limits",
    "maxUnavailable",
    "minAvailable",
    "nodeAffinityPolicy",
    "nodeTaintsPolicy",
    "operator",
    "overhead",
    "phase",
    "podFixed",
    "preemptionPolicy",
    "protocol",
    "reclaimPolicy",
    "requests",
    "resourceVersion",
    "restartPolicy",
    "schedulerName",
    "startTime",
    "status",
    "type",
    "unhealthyPodEvictionPolicy",
    "volumeBindingMode",
    "volumeMode",
    "whenUnsatisfiable",
];

/// Maps whose keys are keys of labels.
const BY_LABEL: [&str; 3] = ["labels", "matchLabels", "nodeSelector"];
/// Fields that contain keys of labels.
const LABEL_KEYS: [&str; 4] = ["key", "topologyKey", "matchLabelKeys", "mismatchLabelKeys"];
/// Maps of texts that plugins may read. The texts may contain any name.
const DROPPED: [&str; 4] = ["annotations", "managedFields", "images", "message"];

/// Replaces names by digests. In a snapshot, a name always has the same digest, so that references still match.
#[derive(Clone, Debug)]
pub struct Redaction {
    salt: Vec<u8>,
}

impl Redaction {
    /// A redaction whose digests depend on `salt`. Without the salt, names cannot be found by trial.
    #[must_use]
    pub fn new(salt: &[u8]) -> Self {
        Self { salt: salt.to_owned() }
    }

    fn object(&self, object: &mut Value) {
        self.value(object, "");
    }

    fn value(&self, value: &mut Value, field: &str) {
        match value {
            Value::Object(map) => self.map(map, field),
            Value::Array(list) => list.iter_mut().for_each(|item| self.value(item, field)),
            Value::String(text) if LABEL_KEYS.contains(&field) => *text = self.label_key(text),
            Value::String(text) if !WORDS.contains(&field) => *text = self.name(text),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn map(&self, map: &mut Map<String, Value>, field: &str) {
        map.retain(|key, _| !DROPPED.contains(&key.as_str()));
        if BY_LABEL.contains(&field) && map.values().all(Value::is_string) {
            let pairs = std::mem::take(map).into_iter();
            map.extend(
                pairs.map(|(key, value)| (self.label_key(&key), json!(self.name(value.as_str().unwrap_or_default())))),
            );
            return;
        }
        for (key, value) in map.iter_mut() {
            // The keys of `requests` and similar maps are resources. The texts in these maps are quantities.
            let field = if WORDS.contains(&field) && value.is_string() { field } else { key };
            self.value(value, field);
        }
    }

    /// Keeps the keys of Kubernetes' own labels, because these keys have a meaning for schedulers.
    fn label_key(&self, key: &str) -> String {
        let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
        let is_known = prefix == "kubernetes.io" || prefix.ends_with(".kubernetes.io") || prefix.ends_with("k8s.io");
        if is_known || key == "metadata.name" { key.to_owned() } else { self.name(key) }
    }

    /// The digest of a name. Numbers and truth values are kept, because their values are compared.
    #[must_use]
    pub fn name(&self, name: &str) -> String {
        let is_plain = name.is_empty() || name.parse::<i64>().is_ok() || matches!(name, "true" | "false");
        if is_plain {
            return name.to_owned();
        }
        let mut hasher = Sha256::new();
        hasher.update(&self.salt);
        hasher.update(name);
        let digest = hasher.finalize();
        digest.iter().take(6).fold("x".to_owned(), |text, byte| format!("{text}{byte:02x}"))
    }
}

/// The objects as one `List`, reduced to the parts that scheduling reads.
#[must_use]
pub fn snapshot<'a>(objects: impl Iterator<Item = &'a Value>, redaction: Option<&Redaction>) -> Value {
    let items = objects.map(|object| {
        let mut object = object.clone();
        cut_down(&mut object);
        if let Some(redaction) = redaction {
            redaction.object(&mut object);
        }
        object
    });
    json!({"apiVersion": "v1", "kind": "List", "items": items.collect::<Vec<_>>()})
}

fn cut_down(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata") {
        let metadata = fields(metadata);
        metadata.remove("managedFields");
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            COPIES.iter().for_each(|copy| {
                annotations.remove(*copy);
            });
        }
    }
    for spec in ["/spec", "/spec/template/spec"] {
        let Some(Value::Object(spec)) = object.pointer_mut(spec) else { continue };
        for list in ["containers", "initContainers"] {
            for container in items_mut(spec, list) {
                fields(container).retain(|field, _| CONTAINER.contains(&field.as_str()));
            }
        }
        spec.remove("ephemeralContainers");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot_of(object: Value) -> Value {
        snapshot([object].iter(), Some(&Redaction::new(b"salt")))["items"][0].clone()
    }

    #[test]
    fn secrets_are_left_out_in_any_snapshot() {
        let pod = json!({"kind": "Pod", "metadata": {"name": "a", "managedFields": [1], "annotations": {COPIES[0]: "all", "own": "1"}},
            "spec": {"containers": [{"name": "c", "env": [{"value": "secret"}], "args": ["secret"], "resources": {}}]}});
        let text = snapshot([pod].iter(), None).to_string();
        assert!(!text.contains("secret") && !text.contains("managedFields") && !text.contains("all"), "{text}");
        assert!(text.contains("\"own\":\"1\""), "{text}");
    }

    #[test]
    fn names_are_digests_and_references_stay() {
        let pod = snapshot_of(
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "labels": {"tier": "gold",
            "topology.kubernetes.io/zone": "west", "cores": "8"}}, "spec": {"nodeName": "n1", "schedulerName": "default-scheduler",
            "nodeSelector": {"tier": "gold"}, "containers": [{"name": "web", "resources": {"requests": {"cpu": "1", "example.com/gpu": "2"}}}],
            "tolerations": [{"key": "tier", "operator": "Equal", "value": "gold", "effect": "NoSchedule"}]}}),
        );
        let node = snapshot_of(
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"tier": "gold"}}}),
        );
        assert_eq!(pod["spec"]["nodeName"], node["metadata"]["name"]);
        assert_eq!(pod["spec"]["nodeSelector"], node["metadata"]["labels"]);
        let toleration = &pod["spec"]["tolerations"][0];
        let key = toleration["key"].as_str().unwrap();
        assert_eq!(node["metadata"]["labels"][key], toleration["value"]);
        assert_eq!((&toleration["operator"], &toleration["effect"]), (&json!("Equal"), &json!("NoSchedule")));
        assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"], json!({"cpu": "1", "example.com/gpu": "2"}));
        assert_eq!((&pod["kind"], &pod["spec"]["schedulerName"]), (&json!("Pod"), &json!("default-scheduler")));
        let text = pod.to_string();
        for name in ["web", "shop", "gold", "n1", "west", "tier"] {
            assert!(!text.contains(&format!("\"{name}\"")), "{name} is in {text}");
        }
        assert!(text.contains("topology.kubernetes.io/zone") && text.contains("\"8\""), "{text}");
    }
}
