//! The uids of pods in cases. A pod has one uid from the first step to the last step: its own uid, or `namespace/name`.

use serde_json::{Value, json};

/// The pod with its uid. `null` stands for an empty pod.
pub(crate) fn with_uid(pod: &Value) -> Value {
    let mut pod = if pod.is_null() { json!({}) } else { pod.clone() };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let [uid, namespace, name] = ["uid", "namespace", "name"].map(|key| text(&pod["metadata"][key]));
    // A pod whose metadata has another form is refused when the pod is read.
    let has_metadata = pod.is_object() && (pod["metadata"].is_null() || pod["metadata"].is_object());
    if uid.is_empty() && has_metadata {
        pod["metadata"]["uid"] = Value::from(format!("{namespace}/{name}"));
    }
    pod
}

/// The object. A pod gets its uid, because plugins whose manifest names `v1/Pod` also see pods as objects.
pub(crate) fn with_uid_of_pod(object: &Value) -> Value {
    let is_pod = object["apiVersion"] == "v1" && object["kind"] == "Pod";
    if is_pod { with_uid(object) } else { object.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_without_a_uid_is_known_by_its_names() {
        let uid = |pod: Value| with_uid(&pod)["metadata"]["uid"].clone();
        assert_eq!(uid(json!({"metadata": {"name": "web", "namespace": "team"}})), "team/web");
        assert_eq!(uid(json!({"metadata": {"name": "web", "namespace": "team", "uid": "7"}})), "7");
        assert_eq!(uid(Value::Null), "/");
        assert_eq!(with_uid(&json!({"metadata": 5})), json!({"metadata": 5}));
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}});
        assert_eq!(with_uid_of_pod(&service), service);
    }
}
