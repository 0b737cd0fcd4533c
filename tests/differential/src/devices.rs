//! Devices and claims for them (KEP-4381): the drivers' offers, the pods' claims, and the work of the claims'
//! controller.

use std::collections::BTreeMap;

use properties::generate::{nodes, random::Random};
use serde_json::{Value, json};

use crate::{
    outcomes::{name, without_uids},
    step::{Step, namespace},
};

const GROUP: &str = "/apis/resource.k8s.io/v1";
pub(crate) const CLAIMS: &str = "/apis/resource.k8s.io/v1/resourceclaims";
const DRIVER: &str = "gpu.example.com";
/// The classes of claims; some classes are more frequent.
const CLASSES: [&str; 3] = ["gpu", "gpu", "large-gpu"];
/// The number of claims in each namespace that several pods may name.
const N_SHARED: u64 = 3;

/// The classes, and the slices of nodes and of the network.
pub(crate) fn offers(random: &mut Random, n_nodes: u8) -> Vec<(String, Value)> {
    let any = format!("device.driver == '{DRIVER}'");
    let large = format!("device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].model == 'large'");
    let class = |(name, expression): (&str, &str)| {
        let selector = json!({"cel": {"expression": expression}});
        (format!("{GROUP}/deviceclasses"), json!({"metadata": {"name": name}, "spec": {"selectors": [selector]}}))
    };
    let mut objects: Vec<_> = [("gpu", any.as_str()), ("large-gpu", large.as_str())].map(class).into();
    let with_devices: Vec<u8> = (0..n_nodes).filter(|_| random.chance(60)).collect();
    for number in with_devices {
        let node = nodes::name(number);
        let mut slice = slice(random, &node);
        slice["spec"]["nodeName"] = json!(node);
        objects.push((format!("{GROUP}/resourceslices"), slice));
    }
    let mut everywhere = slice(random, "everywhere");
    everywhere["spec"]["allNodes"] = json!(true);
    objects.push((format!("{GROUP}/resourceslices"), everywhere));
    let mut zone = slice(random, "zone");
    let in_zone = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z0", "z1"]});
    zone["spec"]["nodeSelector"] = json!({"nodeSelectorTerms": [{"matchExpressions": [in_zone]}]});
    objects.push((format!("{GROUP}/resourceslices"), zone));
    objects
}

/// A change of the devices of a node; `None` if the node has no devices.
pub(crate) fn change(random: &mut Random, n_nodes: u8) -> Step {
    let number = u8::try_from(random.below(u64::from(n_nodes))).unwrap_or_default();
    let pool = nodes::name(number);
    let patch = json!({"spec": {"devices": devices(random)}});
    Step::Change { path: format!("{GROUP}/resourceslices/{pool}"), patch }
}

/// Adds claims to the pod, and returns the steps that create the pod's own claims. There are also steps for shared
/// claims, which the API server refuses from the second time on.
pub(crate) fn claim_some(random: &mut Random, pod: &mut Value) -> Vec<Step> {
    let collection = format!("{GROUP}/namespaces/{}/resourceclaims", namespace(pod));
    let mut steps = Vec::new();
    let mut named = Vec::new();
    for number in 0..=random.below(2) {
        let shared = random.chance(25).then(|| format!("shared-{}", random.below(N_SHARED)));
        // If a pod names a claim twice, kube-scheduler reserves the claim twice, and the API server refuses the second
        // reservation.
        let is_new = |name: &String| named.iter().all(|it: &Value| it["resourceClaimName"] != json!(name));
        let name = shared.filter(is_new).unwrap_or_else(|| format!("{}-{number}", name(pod)));
        let local = format!("devices-{number}");
        named.push(json!({"name": local, "resourceClaimName": name}));
        let object = json!({"metadata": {"name": name}, "spec": {"devices": requests(random)}});
        steps.push(Step::Create { collection: collection.clone(), object });
    }
    let claims = named.iter().map(|claim| json!({"name": claim["name"]})).collect::<Vec<_>>();
    pod["spec"]["containers"][0]["resources"]["claims"] = json!(claims);
    pod["spec"]["resourceClaims"] = json!(named);
    steps
}

/// The changes by the claims' controller after pods are deleted: it removes the reservations of deleted pods, and
/// deallocates a claim without reservations. Returns patches with their paths.
pub(crate) fn release(claim: &Value, pods: &[Value]) -> Vec<(String, Value)> {
    let reserved = claim["status"]["reservedFor"].as_array().cloned().unwrap_or_default();
    // A pod has different uids on the two sides. Names are unique.
    let is_there =
        |consumer: &&Value| pods.iter().any(|pod| namespace(pod) == namespace(claim) && consumer["name"] == name(pod));
    let left: Vec<&Value> = reserved.iter().filter(is_there).collect();
    if left.len() == reserved.len() {
        return Vec::new();
    }
    let path = format!("{GROUP}/namespaces/{}/resourceclaims/{}", namespace(claim), name(claim));
    let status = format!("{path}/status");
    if !left.is_empty() {
        return vec![(status, json!({"status": {"reservedFor": left}}))];
    }
    let free = json!({"status": {"reservedFor": null, "allocation": null}});
    vec![(status, free), (path, json!({"metadata": {"finalizers": null}}))]
}

/// The devices allocated to each claim, and the pods for which it is reserved.
pub(crate) fn outcomes(claims: &[Value]) -> BTreeMap<String, String> {
    let outcome = |claim: &Value| {
        let mut status = claim["status"].clone();
        if let Some(allocation) = status["allocation"].as_object_mut() {
            allocation.remove("allocationTimestamp");
        }
        let finalizers = &claim["metadata"]["finalizers"];
        (format!("{}/{}", namespace(claim), name(claim)), without_uids(&format!("{status} {finalizers}")))
    };
    claims.iter().map(outcome).collect()
}

fn slice(random: &mut Random, pool: &str) -> Value {
    json!({
        "metadata": {"name": pool},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
            "devices": devices(random),
        },
    })
}

fn devices(random: &mut Random) -> Value {
    let device = |number: u64, random: &mut Random| {
        let mut device = json!({
            "name": format!("gpu-{number}"),
            "attributes": {
                "model": {"string": random.pick(&["small", "large"])},
                "numa": {"int": random.below(2)},
            },
            "capacity": {"memory": {"value": random.pick(&["16Gi", "40Gi", "80Gi"])}},
        });
        if random.chance(20) {
            device["attributes"]["rack"] = json!({"string": random.pick(&["r0", "r1"])});
        }
        device
    };
    let n_devices = 1 + random.below(4);
    let devices: Vec<Value> = (0..n_devices).map(|number| device(number, random)).collect();
    json!(devices)
}

fn requests(random: &mut Random) -> Value {
    let memory = |least: &str| {
        let expression = format!("device.capacity['{DRIVER}'].memory.compareTo(quantity('{least}')) >= 0");
        json!([{"cel": {"expression": expression}}])
    };
    // Without this condition, devices without the attribute would cause an error. The next search would then begin at a
    // node that depends on the number of nodes visited before.
    let attributes = format!("device.attributes['{DRIVER}']");
    let rack = json!([{"cel": {"expression": format!("has({attributes}.rack) && {attributes}.rack == 'r0'")}}]);
    let class = if random.chance(5) { "no-such-class" } else { *random.pick(&CLASSES) };
    let exactly = |name: &str| json!({"name": name, "exactly": {"deviceClassName": class}});
    let with = |name: &str, field: &str, value: Value| {
        let mut request = exactly(name);
        request["exactly"][field] = value;
        request
    };
    match random.below(8) {
        0 => json!({"requests": [with("some", "count", json!(2))]}),
        1 => json!({"requests": [with("all", "allocationMode", json!("All"))]}),
        2 => json!({"requests": [with("big", "selectors", memory("40Gi"))]}),
        3 => json!({"requests": [{"name": "best", "firstAvailable": [
            {"name": "big", "deviceClassName": "gpu", "selectors": memory("80Gi")},
            {"name": "two", "deviceClassName": class, "count": 2},
            {"name": "any", "deviceClassName": "gpu"},
        ]}]}),
        4 => json!({
            "requests": [exactly("a"), exactly("b")],
            "constraints": [{"requests": ["a", "b"], "matchAttribute": format!("{DRIVER}/numa")}],
        }),
        5 if random.chance(30) => json!({"requests": [with("rack", "selectors", rack)]}),
        _ => json!({"requests": [exactly("a")]}),
    }
}
