//! The scenarios: a pod that a plugin must examine, and pods on nodes that the plugin must know.

use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const DEVICES: &str = "resource.k8s.io/v1";

/// The measurement of one row of the table.
pub(crate) struct Scenario {
    pub(crate) plugin: &'static str,
    /// Plugins that run beside the measured plugin.
    pub(crate) helpers: &'static [&'static str],
    /// A few words that describe the pod.
    pub(crate) pod: &'static str,
    pub(crate) fits_nowhere: bool,
    /// `metadata.labels` and `spec` of the pod to place.
    pub(crate) incoming: fn() -> Value,
    /// `metadata.labels` and `spec` of a pod on a node, by the pod's number.
    pub(crate) placed: fn(u32) -> Value,
    /// Other objects that come with a pod on a node, by the numbers of the pod and of the node.
    pub(crate) of_pod: fn(u32, u32) -> Vec<Value>,
    pub(crate) of_node: fn(u32) -> Vec<Value>,
    pub(crate) objects: fn() -> Vec<Value>,
}

/// A plain pod among plain pods.
const PLAIN: Scenario = Scenario {
    plugin: "",
    helpers: &[],
    pod: "plain",
    fits_nowhere: false,
    incoming: plain,
    placed: |_| plain(),
    of_pod: |_, _| Vec::new(),
    of_node: |_| Vec::new(),
    objects: Vec::new,
};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario { plugin: "SchedulingGates", ..PLAIN },
    Scenario { plugin: "PrioritySort", ..PLAIN },
    Scenario { plugin: "NodeUnschedulable", ..PLAIN },
    Scenario {
        plugin: "NodeName",
        pod: "for one node",
        incoming: || json!({"spec": {"nodeName": "node-00007"}}),
        ..PLAIN
    },
    Scenario {
        plugin: "TaintToleration",
        pod: "tolerates one taint",
        incoming: || json!({"spec": {"tolerations": [{"key": "example.com/a", "operator": "Exists"}]}}),
        ..PLAIN
    },
    Scenario { plugin: "NodeAffinity", pod: "required and preferred", incoming: node_affinity, ..PLAIN },
    Scenario {
        plugin: "NodePorts",
        pod: "a host port",
        incoming: || ports(8_001),
        placed: |index| ports(8_000 + index % 50),
        ..PLAIN
    },
    Scenario { plugin: "NodeResourcesFit", ..PLAIN },
    Scenario {
        plugin: "VolumeRestrictions",
        pod: "a disk in line",
        incoming: || disk("wanted"),
        placed: |index| disk(&format!("disk-{index}")),
        ..PLAIN
    },
    Scenario { plugin: "VolumeRestrictions", pod: "a claim for one pod", incoming: || with_claim("alone"), ..VOLUMES },
    Scenario { plugin: "NodeVolumeLimits", pod: "a bound claim", ..VOLUMES },
    Scenario { plugin: "NodeVolumeLimits", pod: "a claim to provision", incoming: || with_claim("made"), ..VOLUMES },
    Scenario { plugin: "VolumeBinding", pod: "a bound claim", ..VOLUMES },
    Scenario { plugin: "VolumeBinding", pod: "a claim to provision", incoming: || with_claim("made"), ..VOLUMES },
    Scenario {
        plugin: "VolumeBinding",
        pod: "one of as many local volumes as nodes",
        incoming: || with_claim("local"),
        ..VOLUMES
    },
    Scenario { plugin: "VolumeZone", pod: "a bound claim", ..VOLUMES },
    Scenario {
        plugin: "PodTopologySpread",
        pod: "over zones and hosts",
        incoming: spread,
        placed: |index| app(index % 10),
        ..PLAIN
    },
    Scenario { plugin: "InterPodAffinity", pod: "three terms", incoming: pod_affinity, placed: app_alone, ..PLAIN },
    Scenario {
        plugin: "DynamicResources",
        pod: "one device of 12 a node",
        incoming: || json!({"spec": {"resourceClaims": [{"name": "device", "resourceClaimName": "incoming"}]}}),
        placed: |index| json!({"spec": {"resourceClaims": [{"name": "device", "resourceClaimName": format!("claim-{index}")}]}}),
        of_pod: |index, node| vec![allocated(index, node)],
        of_node: |node| vec![slice(node)],
        objects: || {
            vec![object(DEVICES, "DeviceClass", "gpu", json!({"spec": {}})), device_claim("incoming", json!({}))]
        },
        ..PLAIN
    },
    Scenario {
        plugin: "DefaultPreemption",
        helpers: &["NodeResourcesFit"],
        pod: "fits nowhere",
        fits_nowhere: true,
        incoming: || {
            json!({"spec": {"priority": 1000, "containers": [
                {"name": "main", "resources": {"requests": {"cpu": "16", "memory": "1Gi"}}},
            ]}})
        },
        ..PLAIN
    },
    Scenario { plugin: "NodeResourcesBalancedAllocation", ..PLAIN },
    Scenario { plugin: "ImageLocality", ..PLAIN },
    Scenario { plugin: "DefaultBinder", ..PLAIN },
    Scenario {
        plugin: "NodeDeclaredFeatures",
        pod: "a feature",
        incoming: || {
            json!({"spec": {"containers": [
                {"name": "main", "restartPolicyRules": [{"action": "RestartAllContainers"}]},
            ]}})
        },
        ..PLAIN
    },
];

/// Pods with a bound claim each, and a pod to place that also has a bound claim.
const VOLUMES: Scenario = Scenario {
    incoming: || with_claim("bound"),
    placed: |index| with_claim(&format!("claim-{index}")),
    of_pod: |index, node| {
        let volume = volume(&format!("pv-{index}"), "made", "Bound", (ZONE, &format!("zone-{}", node % 3)));
        vec![volume, claim(&format!("claim-{index}"), "made", Some(&format!("pv-{index}")))]
    },
    of_node: |node| {
        let name = format!("node-{node:05}");
        let driver = json!({"spec": {"drivers": [{"name": "disk", "allocatable": {"count": 25}}]}});
        vec![
            object("storage.k8s.io/v1", "CSINode", &name, driver),
            volume(&format!("local-{node}"), "local", "Available", (HOST, &name)),
        ]
    },
    objects: volume_objects,
    ..PLAIN
};

pub(crate) fn node(index: u32) -> Value {
    let name = format!("node-{index:05}");
    let effect = if index.is_multiple_of(20) { "NoSchedule" } else { "PreferNoSchedule" };
    let taints = if index.is_multiple_of(10) {
        json!([{"key": "example.com/batch", "value": "true", "effect": effect}])
    } else {
        json!([])
    };
    json!({
        "metadata": {"name": name, "labels": {
            HOST: name,
            ZONE: format!("zone-{}", index % 3),
            "disktype": if index.is_multiple_of(2) { "ssd" } else { "hdd" },
        }},
        "spec": {"taints": taints, "unschedulable": index % 10 == 1},
        "status": {
            "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"},
            "images": [{"names": ["example.com/web:1"], "sizeBytes": 300_000_000}],
            "declaredFeatures": ["RestartAllContainersOnContainerExits"],
        },
    })
}

fn plain() -> Value {
    json!({"spec": {"containers": [{"name": "main", "image": "example.com/web:1",
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}]}})
}

fn ports(port: u32) -> Value {
    json!({"spec": {"containers": [{"name": "main", "ports": [{"hostPort": port, "protocol": "TCP"}]}]}})
}

fn node_affinity() -> Value {
    let zone = json!({"key": ZONE, "operator": "In", "values": ["zone-1", "zone-2"]});
    let preference = json!({"matchExpressions": [{"key": "disktype", "operator": "In", "values": ["ssd"]}]});
    json!({"spec": {"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "preference": preference}],
    }}}})
}

fn disk(name: &str) -> Value {
    json!({"spec": {"volumes": [{"name": "data", "gcePersistentDisk": {"pdName": name}}]}})
}

fn with_claim(name: &str) -> Value {
    json!({"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}})
}

fn app(number: u32) -> Value {
    let mut pod = plain();
    pod["metadata"]["labels"] = json!({"app": format!("app-{number}")});
    pod
}

fn spread() -> Value {
    let mut pod = app(1);
    let constraint = |key: &str, when: &str| {
        json!({"maxSkew": 5000, "topologyKey": key, "whenUnsatisfiable": when,
            "labelSelector": {"matchLabels": {"app": "app-1"}}})
    };
    pod["spec"]["topologySpreadConstraints"] =
        json!([constraint(ZONE, "DoNotSchedule"), constraint(HOST, "ScheduleAnyway")]);
    pod
}

fn term(key: &str, app: &str) -> Value {
    json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}})
}

fn preferred(key: &str, app: &str) -> Value {
    json!({"weight": 10, "podAffinityTerm": term(key, app)})
}

/// A pod that keeps other pods of its app off its host, and prefers the zone of the next app.
fn app_alone(index: u32) -> Value {
    let mut pod = app(index % 1_000);
    pod["spec"]["affinity"] = json!({
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            [term(HOST, &format!("app-{}", index % 1_000))]},
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
            [preferred(ZONE, &format!("app-{}", (index + 1) % 1_000))]},
    });
    pod
}

fn pod_affinity() -> Value {
    let mut pod = app(1);
    pod["spec"]["affinity"] = json!({
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(ZONE, "app-1")],
            "preferredDuringSchedulingIgnoredDuringExecution": [preferred(ZONE, "app-3")]},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(HOST, "app-2")]},
    });
    pod
}

fn volume_objects() -> Vec<Value> {
    let class = |name: &str, provisioner: &str| {
        let fields = json!({"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"});
        object("storage.k8s.io/v1", "StorageClass", name, fields)
    };
    let mut alone = claim("alone", "made", Some("pv-bound"));
    alone["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
    vec![
        class("made", "disk"),
        class("local", "kubernetes.io/no-provisioner"),
        volume("pv-bound", "made", "Bound", (ZONE, "zone-1")),
        claim("bound", "made", Some("pv-bound")),
        claim("made", "made", None),
        claim("local", "local", None),
        alone,
    ]
}

fn volume(name: &str, class: &str, phase: &str, (label, value): (&str, &str)) -> Value {
    let requirement = json!({"key": label, "operator": "In", "values": [value]});
    let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}});
    let fields = json!({
        "spec": {"capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "csi": {"driver": "disk", "volumeHandle": name}, "nodeAffinity": affinity},
        "status": {"phase": phase},
    });
    let mut volume = object("v1", "PersistentVolume", name, fields);
    if label == ZONE {
        volume["metadata"]["labels"] = json!({ ZONE: value });
    }
    volume
}

fn claim(name: &str, class: &str, volume: Option<&str>) -> Value {
    let fields = json!({
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": "10Gi"}}},
        "status": {"phase": if volume.is_some() { "Bound" } else { "Pending" }},
    });
    let mut claim = object("v1", "PersistentVolumeClaim", name, fields);
    claim["metadata"]["namespace"] = json!("default");
    if let Some(volume) = volume {
        claim["spec"]["volumeName"] = json!(volume);
        claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    }
    claim
}

fn slice(node: u32) -> Value {
    let name = format!("node-{node:05}");
    let devices: Vec<Value> = (0..12).map(|number| json!({"name": format!("gpu-{number}")})).collect();
    let pool = json!({"name": name, "generation": 1, "resourceSliceCount": 1});
    let fields = json!({"spec": {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "devices": devices}});
    object(DEVICES, "ResourceSlice", &name, fields)
}

fn device_claim(name: &str, status: Value) -> Value {
    let request =
        json!({"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}});
    let fields = json!({"spec": {"devices": {"requests": [request]}}, "status": status});
    let mut claim = object(DEVICES, "ResourceClaim", name, fields);
    claim["metadata"]["namespace"] = json!("default");
    claim
}

/// The claim of a pod on a node, with the next device of the node.
fn allocated(index: u32, node: u32) -> Value {
    let pool = format!("node-{node:05}");
    let device = format!("gpu-{}", (index - node) / 5_000 % 12);
    let result = json!({"request": "r", "driver": "gpu.example.com", "pool": pool, "device": device});
    let user = json!({"resource": "pods", "name": format!("pod-{index:05}"), "uid": format!("pod-{index:05}")});
    let status = json!({"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]});
    device_claim(&format!("claim-{index}"), status)
}

fn object(api_version: &str, kind: &str, name: &str, mut fields: Value) -> Value {
    fields["apiVersion"] = json!(api_version);
    fields["kind"] = json!(kind);
    fields["metadata"] = json!({"name": name, "uid": name, "resourceVersion": "1"});
    fields
}
