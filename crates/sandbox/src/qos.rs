//! The quality-of-service class of a pod.

use serde_json::Value;

use crate::object::text;
use crate::pod_defaults::containers;
use crate::quantity::Quantity;

const COMPUTE: [&str; 2] = ["cpu", "memory"];

/// `Guaranteed`, `Burstable` or `BestEffort`, by the requests and limits of all containers.
pub(crate) fn class(pod: &Value) -> &'static str {
    let containers = containers(pod, &["containers", "initContainers"]);
    let amount = |container: &Value, side: &str, resource: &str| {
        Quantity::parse(text(container, &format!("/resources/{side}/{resource}")))
            .filter(|quantity| !quantity.is_zero())
    };
    let mut any = false;
    let mut guaranteed = true;
    for (_, container) in &containers {
        for resource in COMPUTE {
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
