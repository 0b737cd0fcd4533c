//! Clusters from a seed: the same seed gives the same cluster on every machine.

use serde_json::{Value, json};

/// A generator of numbers (SplitMix64), which is only good enough to vary clusters.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<'a>(&mut self, among: &[&'a str]) -> &'a str {
        let at = usize::try_from(self.below(among.len() as u64)).unwrap_or(0);
        among.get(at).copied().unwrap_or_default()
    }
}

pub(crate) fn node_name(number: u64) -> String {
    format!("node-{number}")
}

/// A node with random size, zone, labels, taints, images and annotations.
pub(crate) fn node(random: &mut Random, number: u64) -> Value {
    let mut labels = json!({
        "kubernetes.io/hostname": node_name(number),
        "topology.kubernetes.io/zone": random.pick(&["a", "b", "c"]),
    });
    if random.chance(50) {
        labels["disk"] = json!(random.pick(&["ssd", "hdd"]));
    }
    if random.chance(30) {
        labels["example.com/rank"] = json!(random.below(100).to_string());
    }
    let mut taints = Vec::new();
    if random.chance(15) {
        taints.push(json!({"key": "dedicated", "value": random.pick(&["x", "y"]), "effect": "NoSchedule"}));
    }
    if random.chance(15) {
        taints.push(json!({"key": "slow", "effect": "PreferNoSchedule"}));
    }
    let images: Vec<Value> = (0..random.below(3))
        .map(|image| json!({"names": [format!("registry.example/app-{image}:v1")], "sizeBytes": 50_000_000 * (image + 1)}))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node_name(number), "labels": labels, "annotations": {"note": random.below(5).to_string()}},
        "spec": {"unschedulable": random.chance(5), "taints": taints},
        "status": {
            "allocatable": {
                "cpu": (1 + random.below(32)).to_string(),
                "memory": format!("{}Gi", 1 + random.below(128)),
                "pods": "110",
                "example.com/gpu": random.below(5).to_string(),
            },
            "images": images,
        },
    })
}

/// A pod on a node, or a pending pod for `None`.
pub(crate) fn pod(random: &mut Random, number: u64, node: Option<&str>) -> Value {
    let app = random.pick(&["web", "db", "cache"]);
    let mut spec = json!({
        "containers": [{
            "name": "main",
            "image": format!("registry.example/app-{}:v1", random.below(3)),
            "resources": {"requests": {
                "cpu": format!("{}m", 50 * random.below(20)),
                "memory": format!("{}Mi", 64 * random.below(20)),
            }},
        }],
        "priority": random.below(3) * 100,
    });
    if let Some(node) = node {
        spec["nodeName"] = json!(node);
    }
    if random.chance(20) {
        spec["nodeSelector"] = json!({"disk": "ssd"});
    }
    if random.chance(30) {
        spec["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]);
    }
    if random.chance(10) {
        spec["containers"][0]["ports"] = json!([{"hostPort": 8000 + random.below(3)}]);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("pod-{number}"),
            "namespace": random.pick(&["default", "team-a"]),
            "uid": format!("uid-{number}"),
            "labels": {"app": app},
        },
        "spec": spec,
        "status": {"qosClass": random.pick(&["Guaranteed", "Burstable", "BestEffort"])},
    })
}
