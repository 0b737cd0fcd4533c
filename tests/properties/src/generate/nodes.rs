//! Nodes: most are ordinary machines in a few zones, and some are unusual.

use serde_json::{Value, json};

use super::random::{Random, Recipe};

/// The number of features of [`node`].
pub const N_FEATURES: usize = 20;

pub(super) const IMAGES: [&str; 5] =
    ["app:v1", "app:v2", "registry.example/db:latest", "cache:latest", "tools@sha256:0a"];

#[must_use]
pub fn name(number: u8) -> String {
    format!("n{number}")
}

pub(super) fn taint(random: &mut Random) -> Value {
    json!({
        "key": random.pick(&["dedicated", "slow", "node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready"]),
        "value": random.pick(&["", "x", "y"]),
        "effect": random.pick(&["NoSchedule", "PreferNoSchedule", "NoExecute"]),
    })
}

fn labels(recipe: &Recipe, name: &str) -> Value {
    let mut random = recipe.base();
    let mut labels = json!({"kubernetes.io/hostname": name});
    labels["topology.kubernetes.io/zone"] = json!(random.pick(&["z0", "z1", "z2"]));
    labels["rack"] = json!(random.pick(&["r0", "r1", "r2", "r3"]));
    labels["disk"] = json!(random.pick(&["ssd", "hdd"]));
    if let Some(mut random) = recipe.feature(0) {
        labels["topology.kubernetes.io/region"] = json!(random.pick(&["north", "south"]));
    }
    if let Some(mut random) = recipe.feature(1) {
        labels["rank"] = json!(random.pick(&["1", "5", "10", "-3", "007", "9223372036854775808", "high", ""]));
    }
    let mut without = |feature: u32, keys: &[&str]| {
        if recipe.has(feature)
            && let Some(map) = labels.as_object_mut()
        {
            map.retain(|key, _| !keys.contains(&key.as_str()));
        }
    };
    without(2, &["topology.kubernetes.io/zone"]);
    without(3, &["rack", "disk"]);
    without(4, &["kubernetes.io/hostname"]);
    if recipe.has(5) {
        // Two nodes may have the same host name.
        labels["kubernetes.io/hostname"] = json!("n1");
    }
    if recipe.has(6) { Value::Null } else { labels }
}

fn allocatable(recipe: &Recipe) -> Value {
    let mut random = Random::new(recipe.seed ^ 1);
    let mut allocatable = json!({
        "cpu": random.pick(&["1", "2", "4", "8", "1500m"]),
        "memory": random.pick(&["1Gi", "2Gi", "4Gi", "16Gi", "3000000k"]),
        "ephemeral-storage": random.pick(&["10Gi", "100Gi"]),
        "pods": (1 + random.below(9)).to_string(),
    });
    if let Some(mut random) = recipe.feature(7) {
        allocatable["example.com/gpu"] = json!(random.below(4).to_string());
    }
    if let Some(mut random) = recipe.feature(8) {
        allocatable["hugepages-2Mi"] = json!(random.pick(&["0", "4Mi", "1Gi"]));
        allocatable["example.com/fpga"] = json!("1");
    }
    if let Some(mut random) = recipe.feature(9) {
        allocatable["cpu"] = json!(random.pick(&["1000000", "9223372036854775807", "123456789"]));
        allocatable["memory"] = json!(random.pick(&["8Ei", "9223372036854775807", "1Pi"]));
        allocatable["pods"] = json!("110");
    }
    if let Some(mut random) = recipe.feature(10) {
        let zero = random.pick(&["cpu", "memory", "pods", "ephemeral-storage"]);
        allocatable[*zero] = json!("0");
    }
    if recipe.has(11) { json!({}) } else { allocatable }
}

/// A node of that name.
#[must_use]
pub fn node(number: u8, recipe: &Recipe) -> Value {
    let name = name(number);
    let mut spec = json!({});
    if recipe.has(12) {
        spec["unschedulable"] = json!(true);
    }
    if let Some(mut random) = recipe.feature(13) {
        spec["taints"] = json!([taint(&mut random)]);
    }
    if let Some(mut random) = recipe.feature(14) {
        // Taints are identified by key and effect.
        spec["taints"] = json!([
            {"key": "dedicated", "value": random.pick(&["x", "y"]), "effect": "NoSchedule"},
            {"key": "dedicated", "value": random.pick(&["x", "y"]), "effect": "PreferNoSchedule"},
            {"key": "slow", "effect": random.pick(&["PreferNoSchedule", "NoExecute"])},
        ]);
    }
    let mut status = json!({"allocatable": allocatable(recipe)});
    if let Some(mut random) = recipe.feature(15) {
        let image = |random: &mut Random| json!({"names": random.some(&IMAGES), "sizeBytes": random.pick(&[0_i64, 5_000_000, 300_000_000, 40_000_000_000])});
        status["images"] = (0..=random.below(3)).map(|_| image(&mut random)).collect();
    }
    if let Some(mut random) = recipe.feature(16) {
        status["declaredFeatures"] =
            json!(random.some(&["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "Other"]));
    }
    if recipe.has(17) {
        // An image that is listed twice under one name.
        status["images"] = json!([
            {"names": ["app:v1", "app:v1"], "sizeBytes": 100_000_000},
            {"names": ["app:v1"], "sizeBytes": 200_000_000},
        ]);
    }
    if let Some(mut random) = recipe.feature(18) {
        status["conditions"] = json!([{"type": "Ready", "status": random.pick(&["True", "False", "Unknown"])}]);
    }
    let mut metadata = json!({"name": name, "uid": format!("{name}-uid"), "labels": labels(recipe, &name)});
    if recipe.has(19) {
        metadata["annotations"] = json!({"note": "text"});
    }
    json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status})
}
