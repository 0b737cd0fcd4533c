//! The cells of the built-in kinds, in the order of their columns.

use serde_json::{Value, json};

use super::age::since;
use crate::fields::json::{items, text};
use crate::kinds::Kind;
use crate::selectors::spec_selector;

const NONE: &str = "<none>";
/// The cells of one object, in the order of the columns.
pub(super) fn of(kind: &Kind, object: &Value) -> Vec<Value> {
    let at = |pointer: &str| Value::from(text(object, pointer));
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let (name, age) = (at("/metadata/name"), Value::from(since(text(object, "/metadata/creationTimestamp"))));
    match kind.plural.as_str() {
        "pods" => pod(object),
        "nodes" => node(object),
        "events" => event(object),
        "namespaces" => vec![name, at("/status/phase"), age],
        "leases" => vec![name, at("/spec/holderIdentity"), age],
        "priorityclasses" => {
            let is_default = object.get("globalDefault") == Some(&Value::Bool(true));
            vec![name, number("/value").into(), is_default.into(), age, at("/preemptionPolicy")]
        }
        "poddisruptionbudgets" => {
            let bound = |pointer: &str| object.pointer(pointer).map_or_else(|| "N/A".into(), plain);
            let allowed = number("/status/disruptionsAllowed").into();
            vec![name, bound("/spec/minAvailable"), bound("/spec/maxUnavailable"), allowed, age]
        }
        "deployments" => {
            let ready = format!("{}/{}", number("/status/readyReplicas"), number("/spec/replicas"));
            let (updated, available) = (number("/status/updatedReplicas"), number("/status/availableReplicas"));
            let mut cells = vec![name, ready.into(), updated.into(), available.into(), age];
            cells.extend(template(object, true));
            cells
        }
        "replicasets" | "replicationcontrollers" => {
            let (desired, current) = (number("/spec/replicas"), number("/status/replicas"));
            let mut cells = vec![name, desired.into(), current.into(), number("/status/readyReplicas").into(), age];
            cells.extend(template(object, true));
            cells
        }
        "statefulsets" => {
            let ready = format!("{}/{}", number("/status/readyReplicas"), number("/spec/replicas"));
            let mut cells = vec![name, ready.into(), age];
            cells.extend(template(object, false));
            cells
        }
        "services" => service(object, name, age),
        "configmaps" => {
            let count = |field: &str| object.get(field).and_then(Value::as_object).map_or(0, serde_json::Map::len);
            vec![name, (count("data") + count("binaryData")).into(), age]
        }
        "persistentvolumeclaims" | "persistentvolumes" => volume(kind, object, name, age),
        "storageclasses" => {
            let expands = object.get("allowVolumeExpansion") == Some(&Value::Bool(true));
            vec![name, at("/provisioner"), at("/reclaimPolicy"), at("/volumeBindingMode"), expands.into(), age]
        }
        "resourceclaims" => vec![name, claim_state(object).into(), age],
        "resourceslices" => vec![name, at("/spec/nodeName"), at("/spec/driver"), at("/spec/pool/name"), age],
        "networkpolicies" => {
            let selector = object.pointer("/spec/podSelector").map(spec_selector::to_query).unwrap_or_default();
            vec![name, if selector.is_empty() { NONE.into() } else { selector.into() }, age]
        }
        "runtimeclasses" => vec![name, at("/handler"), age],
        "customresourcedefinitions" => vec![name, at("/metadata/creationTimestamp")],
        _ => vec![name, age],
    }
}

fn pod(pod: &Value) -> Vec<Value> {
    let statuses = items(pod, "/status/containerStatuses");
    let ready = statuses.iter().filter(|status| status.get("ready") == Some(&Value::Bool(true))).count();
    let restarts: i64 = statuses.iter().filter_map(|status| status.get("restartCount").and_then(Value::as_i64)).sum();
    let status = match (pod.pointer("/metadata/deletionTimestamp"), text(pod, "/status/reason")) {
        (Some(_), _) => "Terminating",
        (None, "") => pod_phase(pod),
        (None, reason) => reason,
    };
    let or_none = |pointer: &str| Value::from(Some(text(pod, pointer)).filter(|text| !text.is_empty()).unwrap_or(NONE));
    let gates = items(pod, "/spec/readinessGates").len();
    vec![
        text(pod, "/metadata/name").into(),
        format!("{ready}/{}", items(pod, "/spec/containers").len()).into(),
        status.into(),
        restarts.to_string().into(),
        since(text(pod, "/metadata/creationTimestamp")).into(),
        or_none("/status/podIP"),
        or_none("/spec/nodeName"),
        or_none("/status/nominatedNodeName"),
        if gates == 0 { NONE.into() } else { format!("0/{gates}").into() },
    ]
}

fn pod_phase(pod: &Value) -> &str {
    let gated = items(pod, "/status/conditions")
        .iter()
        .any(|condition| text(condition, "/type") == "PodScheduled" && text(condition, "/reason") == "SchedulingGated");
    if gated { "SchedulingGated" } else { text(pod, "/status/phase") }
}

fn node(node: &Value) -> Vec<Value> {
    let condition = items(node, "/status/conditions").iter().find(|condition| text(condition, "/type") == "Ready");
    let mut status = match condition.map(|condition| text(condition, "/status")) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if node.pointer("/spec/unschedulable") == Some(&Value::Bool(true)) {
        status.push_str(",SchedulingDisabled");
    }
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let roles: Vec<&str> =
        labels.into_iter().flatten().filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/")).collect();
    let address = |kind: &str| {
        let found = items(node, "/status/addresses").iter().find(|address| text(address, "/type") == kind);
        found.map_or(NONE, |address| text(address, "/address")).to_owned()
    };
    let info = |field: &str| {
        let found = text(node, &format!("/status/nodeInfo/{field}"));
        if found.is_empty() { "<unknown>".to_owned() } else { found.to_owned() }
    };
    let architecture = text(node, "/status/nodeInfo/architecture");
    let kernel = match architecture {
        "" => info("kernelVersion"),
        architecture => format!("{} ({architecture})", info("kernelVersion")),
    };
    vec![
        text(node, "/metadata/name").into(),
        status.into(),
        if roles.is_empty() { NONE.into() } else { roles.join(",").into() },
        since(text(node, "/metadata/creationTimestamp")).into(),
        text(node, "/status/nodeInfo/kubeletVersion").into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        info("osImage").into(),
        kernel.into(),
        info("containerRuntimeVersion").into(),
    ]
}

fn event(event: &Value) -> Vec<Value> {
    let first_of = |pointers: &[&str]| {
        pointers.iter().map(|pointer| text(event, pointer)).find(|text| !text.is_empty()).unwrap_or_default().to_owned()
    };
    let first = first_of(&["/firstTimestamp", "/eventTime"]);
    let last = first_of(&["/series/lastObservedTime", "/lastTimestamp", "/eventTime"]);
    let count =
        event.pointer("/series/count").or(event.get("count")).and_then(Value::as_i64).filter(|&count| count > 0);
    let kind = text(event, "/involvedObject/kind").to_lowercase();
    let source = match (text(event, "/source/component"), text(event, "/source/host")) {
        ("", _) => {
            let (controller, instance) = (text(event, "/reportingComponent"), text(event, "/reportingInstance"));
            if instance.is_empty() { controller.to_owned() } else { format!("{controller}, {instance}") }
        }
        (component, "") => component.to_owned(),
        (component, host) => format!("{component}, {host}"),
    };
    vec![
        since(&last).into(),
        text(event, "/type").into(),
        text(event, "/reason").into(),
        format!("{kind}/{}", text(event, "/involvedObject/name")).into(),
        text(event, "/involvedObject/fieldPath").into(),
        source.into(),
        text(event, "/message").trim().into(),
        since(&first).into(),
        count.unwrap_or(1).into(),
        text(event, "/metadata/name").into(),
    ]
}

fn service(service: &Value, name: Value, age: Value) -> Vec<Value> {
    let ports: Vec<String> = items(service, "/spec/ports")
        .iter()
        .map(|port| format!("{}/{}", port.get("port").unwrap_or(&Value::Null), text(port, "/protocol")))
        .collect();
    let or_none = |text: String| if text.is_empty() { NONE.to_owned() } else { text };
    let selector = service.pointer("/spec/selector").map(spec_selector::to_query).unwrap_or_default();
    vec![
        name,
        text(service, "/spec/type").into(),
        or_none(text(service, "/spec/clusterIP").to_owned()).into(),
        NONE.into(),
        or_none(ports.join(",")).into(),
        age,
        or_none(selector).into(),
    ]
}

fn volume(kind: &Kind, object: &Value, name: Value, age: Value) -> Vec<Value> {
    let at = |pointer: &str| Value::from(text(object, pointer));
    let bound = !text(object, "/spec/volumeName").is_empty();
    let modes_at =
        if kind.plural == "persistentvolumes" || !bound { "/spec/accessModes" } else { "/status/accessModes" };
    let modes: Vec<&str> = items(object, modes_at)
        .iter()
        .map(|mode| match mode.as_str().unwrap_or_default() {
            "ReadWriteOnce" => "RWO",
            "ReadOnlyMany" => "ROX",
            "ReadWriteMany" => "RWX",
            "ReadWriteOncePod" => "RWOP",
            other => other,
        })
        .collect();
    let modes = Value::from(modes.join(","));
    let attributes = Value::from(
        Some(text(object, "/spec/volumeAttributesClassName")).filter(|name| !name.is_empty()).unwrap_or("<unset>"),
    );
    if kind.plural == "persistentvolumeclaims" {
        let capacity = if bound { at("/status/capacity/storage") } else { "".into() };
        let modes = if bound { modes } else { "".into() };
        let class = at("/spec/storageClassName");
        return vec![
            name,
            at("/status/phase"),
            at("/spec/volumeName"),
            capacity,
            modes,
            class,
            attributes,
            age,
            at("/spec/volumeMode"),
        ];
    }
    let claim = match text(object, "/spec/claimRef/name") {
        "" => String::new(),
        claim => format!("{}/{claim}", text(object, "/spec/claimRef/namespace")),
    };
    let policy = at("/spec/persistentVolumeReclaimPolicy");
    let (phase, class, reason) = (at("/status/phase"), at("/spec/storageClassName"), at("/status/reason"));
    let capacity = at("/spec/capacity/storage");
    vec![name, capacity, modes, policy, phase, claim.into(), class, attributes, reason, age, at("/spec/volumeMode")]
}

fn claim_state(claim: &Value) -> String {
    let mut states = Vec::new();
    if claim.pointer("/metadata/deletionTimestamp").is_some() {
        states.push("deleted");
    }
    match claim.pointer("/status/allocation") {
        Some(_) => states.push("allocated"),
        None => states.push("pending"),
    }
    if !items(claim, "/status/reservedFor").is_empty() {
        states.push("reserved");
    }
    states.join(",")
}

fn template(object: &Value, with_selector: bool) -> Vec<Value> {
    let containers = items(object, "/spec/template/spec/containers");
    let all = |field: &str| containers.iter().map(|container| text(container, field)).collect::<Vec<_>>().join(",");
    let mut cells = vec![all("/name").into(), all("/image").into()];
    if with_selector {
        cells.push(object.pointer("/spec/selector").map(spec_selector::to_query).unwrap_or_default().into());
    }
    cells
}

fn plain(value: &Value) -> Value {
    json!(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}
