//! Facts about a pod that follow from its fields.

use berth_model::quantity::Quantity;
use serde_json::Value;

use super::json::{is_being_deleted, items, text};

/// The resources that determine the class.
const QOS_RESOURCES: [&str; 2] = ["cpu", "memory"];

/// The quality-of-service class: `Guaranteed`, `Burstable` or `BestEffort`. The class depends on the requests and
/// limits of all containers.
pub(crate) fn qos_class(pod: &Value) -> &'static str {
    let containers = containers(pod, &["containers", "initContainers"]);
    let amount = |container: &Value, side: &str, resource: &str| {
        text(container, &format!("/resources/{side}/{resource}"))
            .parse::<Quantity>()
            .ok()
            .filter(|quantity| !quantity.is_zero())
    };
    let mut any = false;
    let mut guaranteed = true;
    for (_, container) in &containers {
        for resource in QOS_RESOURCES {
            let request = amount(container, "requests", resource);
            let limit = amount(container, "limits", resource);
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && request == limit;
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// The containers in the named lists of a pod's spec, each with its path, such as `spec.containers[0]`.
pub(crate) fn containers<'a>(pod: &'a Value, lists: &[&'static str]) -> Vec<(String, &'a Value)> {
    let mut found = Vec::new();
    for list in lists {
        for (position, container) in items(pod, &format!("/spec/{list}")).iter().enumerate() {
            found.push((format!("spec.{list}[{position}]"), container));
        }
    }
    found
}

/// Whether the pod's condition `Ready` is true.
pub(crate) fn is_ready(pod: &Value) -> bool {
    items(pod, "/status/conditions")
        .iter()
        .any(|condition| text(condition, "/type") == "Ready" && text(condition, "/status") == "True")
}

/// Whether the containers have ended and will not start again.
pub(crate) fn is_finished(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// Whether the pod does not run now and will not run later: it has finished, or it was deleted before it got a node.
pub(crate) fn is_done(pod: &Value) -> bool {
    is_finished(pod) || is_being_deleted(pod) && text(pod, "/spec/nodeName").is_empty()
}
