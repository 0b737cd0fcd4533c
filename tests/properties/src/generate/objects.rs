//! The objects of other kinds that plugins read: namespaces, owners of pods, storage, devices, budgets.

use serde_json::{Value, json};

use super::{
    NAMESPACES, nodes,
    random::{Random, Recipe},
    selectors,
};

/// The number of features that an object may have.
pub const N_FEATURES: usize = 8;

/// The kinds, each with its name in registrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Namespace,
    Service,
    ReplicaSet,
    StatefulSet,
    Volume,
    Claim,
    Class,
    CsiNode,
    CsiDriver,
    Capacity,
    Attachment,
    Budget,
    DeviceClaim,
    Slice,
    DeviceClass,
}

impl Kind {
    pub const ALL: [Kind; 15] = [
        Kind::Namespace,
        Kind::Service,
        Kind::ReplicaSet,
        Kind::StatefulSet,
        Kind::Volume,
        Kind::Claim,
        Kind::Class,
        Kind::CsiNode,
        Kind::CsiDriver,
        Kind::Capacity,
        Kind::Attachment,
        Kind::Budget,
        Kind::DeviceClaim,
        Kind::Slice,
        Kind::DeviceClass,
    ];

    /// The name of the kind in events.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Kind::Namespace => "Namespace",
            Kind::Service => "Service",
            Kind::ReplicaSet => "apps/ReplicaSet",
            Kind::StatefulSet => "apps/StatefulSet",
            Kind::Volume => "PersistentVolume",
            Kind::Claim => "PersistentVolumeClaim",
            Kind::Class => "storage.k8s.io/StorageClass",
            Kind::CsiNode => "storage.k8s.io/CSINode",
            Kind::CsiDriver => "storage.k8s.io/CSIDriver",
            Kind::Capacity => "storage.k8s.io/CSIStorageCapacity",
            Kind::Attachment => "storage.k8s.io/VolumeAttachment",
            Kind::Budget => "policy/PodDisruptionBudget",
            Kind::DeviceClaim => "resource.k8s.io/ResourceClaim",
            Kind::Slice => "resource.k8s.io/ResourceSlice",
            Kind::DeviceClass => "resource.k8s.io/DeviceClass",
        }
    }
}

const DRIVERS: [&str; 2] = ["csi.example.com", "other.example.com"];
const CLASSES: [&str; 4] = ["class-0", "class-1", "class-2", ""];
const GI: [&str; 4] = ["1Gi", "5Gi", "10Gi", "100Gi"];

/// The object with this number, as the API server would send it.
#[must_use]
pub fn object(kind: Kind, number: u8, recipe: &Recipe) -> Value {
    let mut random = recipe.base();
    let mut object = match kind {
        Kind::Namespace => {
            let labels = if recipe.has(0) { json!({}) } else { json!({"team": random.pick(&["a", "b"])}) };
            json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": NAMESPACES[usize::from(number) % NAMESPACES.len()], "labels": labels}})
        }
        Kind::Service => {
            let app = random.pick(&["web", "db", "cache"]);
            let selector = if recipe.has(0) { json!({}) } else { json!({"app": app}) };
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("service-{number}")}, "spec": {"selector": selector}})
        }
        Kind::ReplicaSet | Kind::StatefulSet => {
            let kind = if kind == Kind::ReplicaSet { "ReplicaSet" } else { "StatefulSet" };
            json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "owner", "uid": format!("{kind}-uid")},
                "spec": {"selector": selectors::labels(&mut random)}})
        }
        Kind::Volume => volume(number, recipe),
        Kind::Claim => claim(number, recipe),
        Kind::Class => class(number, recipe),
        Kind::CsiNode => csi_node(number, recipe),
        Kind::CsiDriver => json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
            "metadata": {"name": DRIVERS[usize::from(number) % 2]}, "spec": {"storageCapacity": random.chance(50)}}),
        Kind::Capacity => json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
            "metadata": {"name": format!("capacity-{number}")}, "storageClassName": format!("class-{}", random.below(3)),
            "nodeTopology": {"matchLabels": {"topology.kubernetes.io/zone": random.pick(&["z0", "z1", "z2"])}},
            "capacity": random.pick(&GI)}),
        Kind::Attachment => json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
            "metadata": {"name": format!("attachment-{number}")},
            "spec": {"attacher": random.pick(&DRIVERS), "nodeName": nodes::name(u8::try_from(random.below(20)).unwrap_or(0)),
                "source": {"persistentVolumeName": format!("volume-{}", random.below(8))}}}),
        Kind::Budget => json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": format!("budget-{number}")}, "spec": {"selector": selectors::labels(&mut random)},
            "status": {"disruptionsAllowed": random.below(3)}}),
        Kind::DeviceClaim => device_claim(number, recipe),
        Kind::Slice => slice(number, recipe),
        Kind::DeviceClass => device_class(number, recipe),
    };
    let is_global = matches!(
        kind,
        Kind::Namespace
            | Kind::Volume
            | Kind::Class
            | Kind::CsiNode
            | Kind::CsiDriver
            | Kind::Attachment
            | Kind::Slice
            | Kind::DeviceClass
    );
    if !is_global {
        object["metadata"]["namespace"] = json!(NAMESPACES[usize::from(number) % NAMESPACES.len()]);
    }
    object["metadata"]["resourceVersion"] = json!(format!("{}", recipe.fingerprint() % 1_000_000 + 1));
    if object["metadata"]["uid"].is_null() {
        object["metadata"]["uid"] = json!(format!("{kind:?}-{number}-{:x}", recipe.seed));
    }
    object
}

fn class(number: u8, recipe: &Recipe) -> Value {
    let mut random = recipe.base();
    let mode = random.pick(&["Immediate", "WaitForFirstConsumer", "WaitForFirstConsumer"]);
    let provisioner = random.pick(&["csi.example.com", "other.example.com", "kubernetes.io/no-provisioner"]);
    let mut class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": format!("class-{}", number % 3)}, "provisioner": provisioner, "volumeBindingMode": mode});
    if recipe.has(0) {
        class["allowedTopologies"] = json!([{"matchLabelExpressions": [
            {"key": "topology.kubernetes.io/zone", "values": random.some(&["z0", "z1", "z2"])}]}]);
    }
    class
}

fn csi_node(number: u8, recipe: &Recipe) -> Value {
    let mut random = recipe.base();
    let driver = |driver: &&str, random: &mut Random| json!({"name": driver, "nodeID": "x", "allocatable": {"count": random.below(4)}});
    let mut drivers: Vec<Value> = random.some(&DRIVERS).into_iter().map(|it| json!({"name": it})).collect();
    if !recipe.has(0) {
        drivers = DRIVERS.iter().map(|it| driver(it, &mut random)).collect();
    }
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": nodes::name(number)},
        "spec": {"drivers": drivers}})
}

fn device_class(number: u8, recipe: &Recipe) -> Value {
    let mut class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
        "metadata": {"name": format!("device-class-{}", number % 3)}, "spec": {}});
    if recipe.has(0) {
        class["spec"]["selectors"] = json!([{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]);
    }
    if recipe.has(1) {
        class["spec"]["extendedResourceName"] = json!("example.com/gpu");
    }
    class
}

fn zone_affinity(random: &mut Random) -> Value {
    json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [random.pick(&["z0", "z1", "z2"])]}]}]}})
}

fn volume(number: u8, recipe: &Recipe) -> Value {
    let mut random = recipe.base();
    let mut volume = json!({"apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": format!("volume-{number}"), "labels": {"app": random.pick(&["web", "db"])}},
        "spec": {"capacity": {"storage": random.pick(&GI)}, "accessModes": access_modes(&mut random),
            "storageClassName": random.pick(&CLASSES), "csi": {"driver": random.pick(&DRIVERS), "volumeHandle": format!("h{}", random.below(9))}},
        "status": {"phase": "Available"}});
    if let Some(mut random) = recipe.feature(0) {
        volume["spec"]["nodeAffinity"] = zone_affinity(&mut random);
    }
    if let Some(mut random) = recipe.feature(1) {
        let claim = random.below(18);
        volume["spec"]["claimRef"] =
            json!({"name": format!("claim-{}", claim % 6), "namespace": NAMESPACES[number as usize % 3]});
    }
    if let Some(mut random) = recipe.feature(2) {
        volume["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!(random.pick(&["z0", "z1", "z0__z1"]));
    }
    if recipe.has(3) {
        volume["spec"]["volumeMode"] = json!("Block");
    }
    if recipe.has(4)
        && let Some(spec) = volume["spec"].as_object_mut()
    {
        spec.remove("csi");
        spec.insert("gcePersistentDisk".to_owned(), json!({"pdName": format!("d{}", random.below(3))}));
    }
    volume
}

fn access_modes(random: &mut Random) -> Value {
    json!(random.pick(&[
        &["ReadWriteOnce"][..],
        &["ReadWriteMany", "ReadWriteOnce"],
        &["ReadWriteOncePod"],
        &["ReadWriteOnce"]
    ]))
}

/// A claim in one of the namespaces, bound or not.
fn claim(number: u8, recipe: &Recipe) -> Value {
    let mut random = recipe.base();
    let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": format!("claim-{}", number / 3), "annotations": {}},
        "spec": {"accessModes": access_modes(&mut random), "resources": {"requests": {"storage": random.pick(&GI)}},
            "storageClassName": random.pick(&CLASSES)},
        "status": {"phase": "Pending"}});
    if let Some(mut random) = recipe.feature(0) {
        claim["spec"]["volumeName"] = json!(format!("volume-{}", random.below(8)));
        claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = json!("yes");
        claim["status"]["phase"] = json!("Bound");
    }
    if let Some(mut random) = recipe.feature(1) {
        claim["spec"]["volumeName"] = json!(format!("volume-{}", random.below(8)));
    }
    if let Some(mut random) = recipe.feature(2) {
        claim["spec"]["selector"] = selectors::labels(&mut random);
    }
    if recipe.has(3) {
        claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    if recipe.has(4) {
        claim["status"]["phase"] = json!("Lost");
    }
    if let Some(mut random) = recipe.feature(5) {
        claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] =
            json!(nodes::name(u8::try_from(random.below(20)).unwrap_or(0)));
    }
    claim
}

fn request(name: &str, random: &mut Random) -> Value {
    let mut exactly =
        json!({"deviceClassName": format!("device-class-{}", random.below(3)), "count": 1 + random.below(2)});
    match random.below(6) {
        0 => exactly = json!({"deviceClassName": "device-class-0", "allocationMode": "All"}),
        1 => {
            let expression = random.pick(&[
                "device.attributes['gpu.example.com'].model == 'big'",
                "device.capacity['gpu.example.com'].memory.compareTo(quantity('8Gi')) >= 0",
                "device.attributes['gpu.example.com'].missing",
            ]);
            exactly["selectors"] = json!([{"cel": {"expression": expression}}]);
        }
        2 => exactly["tolerations"] = json!([{"operator": "Exists"}]),
        _ => {}
    }
    json!({"name": name, "exactly": exactly})
}

fn device_claim(number: u8, recipe: &Recipe) -> Value {
    let mut random = recipe.base();
    let mut requests = vec![request("r0", &mut random)];
    if let Some(mut random) = recipe.feature(0) {
        requests.push(request("r1", &mut random));
    }
    if recipe.has(1) {
        requests = vec![json!({"name": "either", "firstAvailable": [
            {"name": "good", "deviceClassName": "device-class-1", "count": 2},
            {"name": "plain", "deviceClassName": "device-class-0", "count": 1},
        ]})];
    }
    let mut spec = json!({"devices": {"requests": requests}});
    if recipe.has(2) {
        spec["devices"]["constraints"] = json!([{"requests": [], "matchAttribute": "gpu.example.com/model"}]);
    }
    let mut status = json!({});
    if let Some(mut random) = recipe.feature(3) {
        let node = nodes::name(u8::try_from(random.below(10)).unwrap_or(0));
        status["allocation"] = json!({
            "devices": {"results": [{"request": "r0", "driver": "gpu.example.com", "pool": node, "device": format!("d{}", random.below(3))}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]},
        });
        if recipe.has(4) {
            status["reservedFor"] = json!([{"resource": "pods", "name": "somebody", "uid": "somebody-uid"}]);
        }
    }
    let mut metadata = json!({"name": format!("devices-{}", number / 3)});
    if recipe.has(5) {
        metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec, "status": status})
}

fn slice(number: u8, recipe: &Recipe) -> Value {
    let mut random = recipe.base();
    let node = nodes::name(number);
    let device = |at: u64, random: &mut Random| {
        let mut device = json!({"name": format!("d{at}"),
            "attributes": {"model": {"string": random.pick(&["big", "small"])}, "cores": {"int": random.below(64)}},
            "capacity": {"memory": {"value": random.pick(&["4Gi", "8Gi", "80Gi"])}}});
        if random.chance(10) {
            device["taints"] = json!([{"key": "broken", "effect": random.pick(&["NoSchedule", "NoExecute"])}]);
        }
        device
    };
    let devices: Vec<Value> = (0..=random.below(3)).map(|at| device(at, &mut random)).collect();
    let mut spec = json!({"driver": "gpu.example.com", "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "nodeName": node, "devices": devices});
    if recipe.has(0) {
        spec["pool"]["resourceSliceCount"] = json!(2);
    }
    if recipe.has(1)
        && let Some(map) = spec.as_object_mut()
    {
        map.remove("nodeName");
        map.insert("allNodes".to_owned(), json!(true));
    }
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": format!("slice-{number}")}, "spec": spec})
}
