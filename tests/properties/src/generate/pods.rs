//! Placed and pending pods, with all fields of their spec that a default plugin reads.

use serde_json::{Value, json};

use super::{
    NAMESPACES,
    nodes::{self, IMAGES},
    random::{Random, Recipe},
    selectors,
};

/// The number of features of [`pod`].
pub const N_FEATURES: usize = 40;

/// The place of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    Pending,
    /// The pod is on this node.
    On(&'a str),
    /// Pending, and nominated to this node.
    Nominated(&'a str),
}

pub(super) fn pod_labels(random: &mut Random) -> Value {
    json!({
        "app": random.pick(&["web", "db", "cache"]),
        "tier": random.pick(&["front", "back"]),
        "rev": random.pick(&["1", "2"]),
    })
}

fn requests(recipe: &Recipe) -> Value {
    let mut random = recipe.base();
    let mut requests = json!({
        "cpu": random.pick(&["100m", "250m", "500m", "1", "2", "0", "1n"]),
        "memory": random.pick(&["64Mi", "128Mi", "512Mi", "1Gi", "0", "1500m"]),
    });
    if recipe.has(0) {
        requests = json!({});
    }
    if let Some(mut random) = recipe.feature(1) {
        requests["example.com/gpu"] = json!(random.pick(&["0", "1", "2"]));
    }
    if let Some(mut random) = recipe.feature(2) {
        requests["hugepages-2Mi"] = json!(random.pick(&["2Mi", "4Mi"]));
        requests["example.com/fpga"] = json!("1");
        requests["ephemeral-storage"] = json!(random.pick(&["1Gi", "50Gi"]));
    }
    if let Some(mut random) = recipe.feature(3) {
        requests["cpu"] = json!(random.pick(&["100", "1000000", "9223372036854775807", "9000000000000000"]));
        requests["memory"] = json!(random.pick(&["1Ti", "8Ei", "9223372036854775807"]));
    }
    requests
}

fn small(random: &mut Random) -> Value {
    json!({"requests": {"cpu": random.pick(&["50m", "300m", "1500m"]), "memory": random.pick(&["32Mi", "700Mi"])}})
}

fn containers(recipe: &Recipe, spec: &mut Value) {
    let mut first = json!({"name": "main", "image": "app:v1", "resources": {"requests": requests(recipe)}});
    if let Some(mut random) = recipe.feature(4) {
        first["image"] = json!(random.pick(&IMAGES));
    }
    if let Some(mut random) = recipe.feature(5) {
        let port = |random: &mut Random| {
            json!({
                "containerPort": 80, "hostPort": random.pick(&[80, 443, 8080, 0]),
                "protocol": random.pick(&["TCP", "UDP", "SCTP"]),
                "hostIP": random.pick(&["", "0.0.0.0", "10.0.0.1", "10.0.0.2", "::"]),
            })
        };
        first["ports"] = (0..=random.below(2)).map(|_| port(&mut random)).collect();
    }
    if recipe.has(6) {
        first["restartPolicyRules"] = json!([{"action": "RestartAllContainers"}]);
    }
    let mut containers = vec![first];
    if let Some(mut random) = recipe.feature(7) {
        containers.push(json!({"name": "second", "image": random.pick(&IMAGES), "resources": small(&mut random)}));
    }
    spec["containers"] = json!(containers);
    let mut init = Vec::new();
    if let Some(mut random) = recipe.feature(8) {
        init.push(json!({"name": "first-init", "image": "tools", "resources": small(&mut random)}));
    }
    if let Some(mut random) = recipe.feature(9) {
        init.push(json!({
            "name": "sidecar", "image": "tools", "restartPolicy": "Always", "resources": small(&mut random),
            "ports": [{"containerPort": 1, "hostPort": random.pick(&[0, 443, 9090])}],
        }));
        init.push(json!({"name": "last-init", "image": "cache", "resources": small(&mut random)}));
    }
    spec["initContainers"] = json!(init);
    if let Some(mut random) = recipe.feature(10) {
        spec["overhead"] = json!({"cpu": random.pick(&["10m", "600m"]), "memory": "16Mi"});
    }
    if let Some(mut random) = recipe.feature(11) {
        spec["resources"] = json!({"requests": {"cpu": random.pick(&["1", "3"])}});
    }
}

/// Rules about nodes.
fn node_rules(recipe: &Recipe, spec: &mut Value, affinity: &mut Value) {
    if let Some(mut random) = recipe.feature(12) {
        spec["nodeSelector"] = match random.below(4) {
            0 => json!({"topology.kubernetes.io/zone": random.pick(&["z0", "z1", "z9"])}),
            1 => json!({}),
            _ => json!({"disk": random.pick(&["ssd", "hdd"])}),
        };
    }
    if let Some(mut random) = recipe.feature(13) {
        let terms: Vec<Value> = (0..=random.below(2)).map(|_| selectors::node_term(&mut random)).collect();
        affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"nodeSelectorTerms": terms});
    }
    if let Some(mut random) = recipe.feature(14) {
        let term =
            |random: &mut Random| json!({"weight": 1 + random.below(100), "preference": selectors::node_term(random)});
        affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
            (0..=random.below(2)).map(|_| term(&mut random)).collect();
    }
    if let Some(mut random) = recipe.feature(15) {
        // This is the form that the DaemonSet controller writes.
        let name = nodes::name(u8::try_from(random.below(20)).unwrap_or(0));
        affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
        ]});
    }
    let mut tolerations = Vec::new();
    if let Some(mut random) = recipe.feature(16) {
        for _ in 0..=random.below(3) {
            tolerations.push(toleration(&mut random));
        }
    }
    if recipe.has(17) {
        tolerations.push(json!({"operator": "Exists"}));
    }
    spec["tolerations"] = json!(tolerations);
}

fn toleration(random: &mut Random) -> Value {
    let key = random.pick(&["dedicated", "slow", "node.kubernetes.io/unschedulable"]);
    let effect = random.pick(&["", "NoSchedule", "PreferNoSchedule", "NoExecute"]);
    if random.chance(50) {
        json!({"key": key, "operator": "Exists", "effect": effect})
    } else {
        json!({"key": key, "operator": random.pick(&["", "Equal"]), "value": random.pick(&["", "x", "y"]), "effect": effect})
    }
}

/// Rules about other pods.
fn pod_rules(recipe: &Recipe, spec: &mut Value, affinity: &mut Value) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let weighted =
        |random: &mut Random| json!({"weight": 1 + random.below(100), "podAffinityTerm": selectors::pod_term(random)});
    if let Some(mut random) = recipe.feature(18) {
        affinity["podAffinity"][REQUIRED] = (0..=random.below(2)).map(|_| selectors::pod_term(&mut random)).collect();
    }
    if let Some(mut random) = recipe.feature(19) {
        affinity["podAntiAffinity"][REQUIRED] =
            (0..=random.below(2)).map(|_| selectors::pod_term(&mut random)).collect();
    }
    if let Some(mut random) = recipe.feature(20) {
        affinity["podAffinity"][PREFERRED] = (0..=random.below(2)).map(|_| weighted(&mut random)).collect();
    }
    if let Some(mut random) = recipe.feature(21) {
        affinity["podAntiAffinity"][PREFERRED] = (0..=random.below(2)).map(|_| weighted(&mut random)).collect();
    }
    let mut constraints = Vec::new();
    if let Some(mut random) = recipe.feature(22) {
        constraints.push(selectors::spread(&mut random, "DoNotSchedule"));
        if random.chance(30) {
            constraints.push(selectors::spread(&mut random, "DoNotSchedule"));
        }
    }
    if let Some(mut random) = recipe.feature(23) {
        constraints.push(selectors::spread(&mut random, "ScheduleAnyway"));
    }
    // The API server accepts only one constraint for each pair of key and action.
    constraints.dedup_by_key(|it| (it["topologyKey"].to_string(), it["whenUnsatisfiable"].to_string()));
    spec["topologySpreadConstraints"] = json!(constraints);
}

fn volumes(recipe: &Recipe, spec: &mut Value) {
    let mut volumes = Vec::new();
    if let Some(mut random) = recipe.feature(24) {
        let first = random.below(6);
        for claim in [first, first + 1].into_iter().take(1 + usize::from(random.chance(30))) {
            let claim = format!("claim-{}", claim % 6);
            volumes.push(json!({"name": format!("v-{claim}"), "persistentVolumeClaim": {"claimName": claim}}));
        }
    }
    if let Some(mut random) = recipe.feature(25) {
        volumes.push(match random.below(6) {
            0 => json!({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}),
            1 => json!({"name": "disk", "gcePersistentDisk": {"pdName": random.pick(&["a", "b"]), "readOnly": random.chance(50)}}),
            2 => json!({"name": "disk", "awsElasticBlockStore": {"volumeID": random.pick(&["a", "b"])}}),
            3 => json!({"name": "disk", "iscsi": {"iqn": random.pick(&["a", "b"]), "readOnly": random.chance(50)}}),
            4 => json!({"name": "disk", "rbd": {"monitors": random.some(&["m1", "m2"]), "image": "i", "pool": "p", "readOnly": random.chance(50)}}),
            _ => json!({"name": "secrets", "csi": {"driver": random.pick(&["csi.example.com", "other.example.com"])}}),
        });
    }
    if recipe.has(26) {
        volumes.push(json!({"name": "pictures", "image": {"reference": "cache"}}));
        volumes.push(json!({"name": "tmp", "emptyDir": {}}));
    }
    spec["volumes"] = json!(volumes);
}

fn devices(recipe: &Recipe, spec: &mut Value, status: &mut Value) {
    let mut claims = Vec::new();
    if let Some(mut random) = recipe.feature(27) {
        let name = format!("devices-{}", random.below(5));
        claims.push(json!({"name": "own", "resourceClaimName": name}));
    }
    if let Some(mut random) = recipe.feature(28) {
        claims.push(json!({"name": "made", "resourceClaimTemplateName": "template"}));
        if random.chance(70) {
            let name = format!("devices-{}", random.below(5));
            status["resourceClaimStatuses"] = json!([{"name": "made", "resourceClaimName": name}]);
        }
    }
    spec["resourceClaims"] = json!(claims);
}

fn status(recipe: &Recipe, status: &mut Value) {
    if let Some(mut random) = recipe.feature(29) {
        // A resize that is in progress.
        let more = json!({"cpu": random.pick(&["200m", "3"]), "memory": "256Mi"});
        status["containerStatuses"] =
            json!([{"name": "main", "resources": {"requests": more}, "allocatedResources": more}]);
    }
    if recipe.has(30) {
        status["conditions"] =
            json!([{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]);
    }
    if let Some(mut random) = recipe.feature(31) {
        status["startTime"] =
            json!(random.pick(&["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2025-12-31T23:59:59Z"]));
    }
}

fn metadata(number: u8, recipe: &Recipe, revision: u8) -> Value {
    let mut random = recipe.base();
    let namespace = random.pick(&NAMESPACES);
    let labels =
        if recipe.has(32) { json!({}) } else { pod_labels(&mut Random::new(recipe.seed ^ u64::from(revision) << 8)) };
    let uid = format!("pod-{number}-{:x}", recipe.fingerprint());
    let name = format!("p{number}");
    let mut metadata = json!({"name": name, "namespace": namespace, "uid": uid, "labels": labels, "resourceVersion": (u32::from(revision) + 1).to_string()});
    if recipe.has(33) {
        metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    if let Some(mut random) = recipe.feature(34) {
        let kind = random.pick(&["ReplicaSet", "StatefulSet", "Job"]);
        metadata["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": kind, "name": "owner", "uid": format!("{kind}-uid"), "controller": true}]);
    }
    metadata
}

/// The pod with this number. Another `revision` of the same pod has other labels.
#[must_use]
pub fn pod(number: u8, recipe: &Recipe, revision: u8, place: Place<'_>) -> Value {
    let mut spec = json!({"schedulerName": "default-scheduler"});
    let (mut affinity, mut pod_status) = (json!({}), json!({"phase": "Pending"}));
    containers(recipe, &mut spec);
    node_rules(recipe, &mut spec, &mut affinity);
    pod_rules(recipe, &mut spec, &mut affinity);
    volumes(recipe, &mut spec);
    devices(recipe, &mut spec, &mut pod_status);
    status(recipe, &mut pod_status);
    spec["affinity"] = affinity;
    spec["priority"] = json!(recipe.base().pick(&[0, 0, 10, 1000]));
    if let Some(mut random) = recipe.feature(35) {
        spec["priority"] = json!(random.pick(&[-10, 0, 10, 1000, 2_000_000_000]));
    }
    if recipe.has(36) {
        spec["preemptionPolicy"] = json!("Never");
    }
    if recipe.has(37) {
        spec["hostNetwork"] = json!(true);
        spec["hostUsers"] = json!(false);
    }
    match place {
        Place::Pending => {
            if recipe.has(38) {
                spec["schedulingGates"] = json!([{"name": "example.com/wait"}, {"name": "another"}]);
            }
        }
        Place::On(node) => {
            spec["nodeName"] = json!(node);
            pod_status["phase"] = json!("Running");
        }
        Place::Nominated(node) => pod_status["nominatedNodeName"] = json!(node),
    }
    let metadata = metadata(number, recipe, revision);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": pod_status})
}
