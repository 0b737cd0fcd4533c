//! Defaults inside pods and pod templates.

use serde_json::{Map, Value, json};

use crate::fields::json::{as_map, child_mut, default_to, text};

const CONTAINER_LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Defaults of a pod outside its spec.
pub(super) fn fill_pod(pod: &mut Value) {
    default_to(child_mut(pod, "spec"), "enableServiceLinks", true);
    fill_spec(pod);
}

/// Defaults of the `spec` of a pod or of a template.
pub(super) fn fill_spec(owner: &mut Value) {
    let spec = child_mut(owner, "spec");
    default_to(spec, "restartPolicy", "Always");
    default_to(spec, "terminationGracePeriodSeconds", 30);
    default_to(spec, "dnsPolicy", "ClusterFirst");
    default_to(spec, "securityContext", json!({}));
    default_to(spec, "schedulerName", "default-scheduler");
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in CONTAINER_LISTS {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            fill_container(container, host_network);
        }
    }
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        fill_volume(as_map(volume));
    }
}

fn fill_container(container: &mut Value, host_network: bool) {
    let pull_policy = if pulls_always(text(container, "/image")) { "Always" } else { "IfNotPresent" };
    let members = as_map(container);
    default_to(members, "resources", json!({}));
    default_to(members, "terminationMessagePath", "/dev/termination-log");
    default_to(members, "terminationMessagePolicy", "File");
    default_to(members, "imagePullPolicy", pull_policy);
    for port in members.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let port = as_map(port);
        default_to(port, "protocol", "TCP");
        if let Some(number) = port.get("containerPort").cloned().filter(|_| host_network) {
            default_to(port, "hostPort", number);
        }
    }
    for variable in members.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(reference) = variable.pointer_mut("/valueFrom/fieldRef") {
            default_to(as_map(reference), "apiVersion", "v1");
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = members.get_mut(probe) {
            fill_probe(as_map(probe));
        }
    }
    if let Some(resources) = members.get_mut("resources") {
        request_limits(as_map(resources));
    }
}

/// Sets a request to the limit if a resource has a limit but no request.
fn request_limits(resources: &mut Map<String, Value>) {
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let requests = as_map(resources.entry("requests").or_insert(Value::Null));
    for (resource, limit) in limits {
        requests.entry(resource).or_insert(limit);
    }
}

fn fill_probe(probe: &mut Map<String, Value>) {
    for (field, number) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        default_to(probe, field, number);
    }
    if let Some(action) = probe.get_mut("httpGet") {
        default_to(as_map(action), "path", "/");
        default_to(as_map(action), "scheme", "HTTP");
    }
}

fn fill_volume(volume: &mut Map<String, Value>) {
    for source in ["configMap", "secret", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source) {
            default_to(as_map(source), "defaultMode", 420);
        }
    }
    if let Some(host_path) = volume.get_mut("hostPath") {
        default_to(as_map(host_path), "type", "");
    }
    let only_name = volume.len() == 1 && volume.contains_key("name");
    if only_name {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
}

fn pulls_always(image: &str) -> bool {
    let after_host = image.rsplit('/').next().unwrap_or(image);
    match after_host.split_once('@') {
        Some(_) => false,
        None => after_host.split_once(':').is_none_or(|(_, tag)| tag == "latest"),
    }
}
