//! The capacity of a node: resources, places for pods, ports.
//!
//! <https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/>,
//! <https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers>,
//! <https://kubernetes.io/docs/concepts/scheduling-eviction/pod-overhead/>.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Facts, items, quantity::thousandths, text};
use crate::generate::objects::Kind;

type Amounts = BTreeMap<String, i128>;

fn amounts(object: &Value, pointer: &str) -> Amounts {
    let entries = object.pointer(pointer).and_then(Value::as_object);
    let read = |(name, amount): (&String, &Value)| (name.clone(), thousandths(amount.as_str().unwrap_or_default()));
    entries.into_iter().flatten().map(read).collect()
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        *sum.entry(name.clone()).or_default() += amount;
    }
}

fn is_sidecar(container: &Value) -> bool {
    text(container, "/restartPolicy") == "Always"
}

/// The most that the pod uses at any time, plus its overhead. Requests of the whole pod replace the requests of its
/// containers.
fn requests(pod: &Value) -> Amounts {
    let mut running = Amounts::new();
    let mut most: Vec<Amounts> = Vec::new();
    for container in items(pod, "/spec/initContainers") {
        let asked = amounts(container, "/resources/requests");
        if is_sidecar(container) {
            add(&mut running, &asked);
            most.push(running.clone());
        } else {
            let mut starting = running.clone();
            add(&mut starting, &asked);
            most.push(starting);
        }
    }
    for container in items(pod, "/spec/containers") {
        add(&mut running, &amounts(container, "/resources/requests"));
    }
    most.push(running);
    let mut requests = Amounts::new();
    for moment in most {
        for (name, amount) in moment {
            let entry = requests.entry(name).or_default();
            *entry = amount.max(*entry);
        }
    }
    requests.extend(amounts(pod, "/spec/resources/requests"));
    add(&mut requests, &amounts(pod, "/spec/overhead"));
    // The request of a pod is also a quantity, so it has the same maximum.
    requests.values_mut().for_each(|amount| *amount = (*amount).min(i128::from(i64::MAX) * 1_000));
    requests
}

/// Whether the resource may come from a device of a class (KEP-5004), because the node does not offer it.
fn comes_from_devices(facts: &Facts<'_>, resource: &str) -> bool {
    let classes = facts.objects.iter().filter(|((kind, ..), _)| *kind == Kind::DeviceClass);
    classes.into_iter().any(|(_, class)| text(class, "/spec/extendedResourceName") == resource)
}

/// The requested resources that are not available. Other resources may be exceeded by pods that were not scheduled.
pub(super) fn exceeded(facts: &Facts<'_>, pod: &Value, node: &Value, on_node: &[&Value]) -> Vec<String> {
    let allocatable = amounts(node, "/status/allocatable");
    let mut used = Amounts::new();
    on_node.iter().for_each(|other| add(&mut used, &requests(other)));
    let mut broken = Vec::new();
    for (name, amount) in requests(pod) {
        let offered = allocatable.get(&name).copied().unwrap_or(0);
        let sum = used.get(&name).copied().unwrap_or(0) + amount;
        if amount > 0 && sum > offered && !(offered == 0 && comes_from_devices(facts, &name)) {
            broken.push(format!("{sum} of {offered} thousandths of {name} are used"));
        }
    }
    let places = allocatable.get("pods").copied().unwrap_or(0) / 1_000;
    if on_node.len() as i128 + 1 > places {
        broken.push(format!("{} pods in {places} places", on_node.len() + 1));
    }
    broken
}

/// The address, protocol and number of each port that the running pod uses on its host.
fn host_ports(pod: &Value) -> BTreeSet<(String, String, u64)> {
    let sidecars = items(pod, "/spec/initContainers").iter().filter(|container| is_sidecar(container));
    let ports = sidecars.chain(items(pod, "/spec/containers")).flat_map(|container| items(container, "/ports"));
    let or = |text: &str, default: &str| if text.is_empty() { default.to_owned() } else { text.to_owned() };
    let read = |port: &Value| {
        let number = port["hostPort"].as_u64().unwrap_or(0);
        (or(text(port, "/hostIP"), "0.0.0.0"), or(text(port, "/protocol"), "TCP"), number)
    };
    ports.map(read).filter(|(_, _, number)| *number > 0).collect()
}

pub(super) fn taken_ports(pod: &Value, on_node: &[&Value]) -> Vec<String> {
    let mut broken = Vec::new();
    for (address, protocol, number) in host_ports(pod) {
        for (other_address, other_protocol, other_number) in on_node.iter().flat_map(|other| host_ports(other)) {
            let meets = address == other_address || address == "0.0.0.0" || other_address == "0.0.0.0";
            if meets && protocol == other_protocol && number == other_number {
                broken.push(format!("port {number}/{protocol} of {address} is taken"));
            }
        }
    }
    broken
}
