//! Volumes and claims for them: the storage, the pods' claims, and the state of both.

use std::collections::BTreeMap;

use properties::generate::{nodes, random::Random};
use serde_json::{Value, json};

use crate::{
    outcomes::name,
    step::{Step, namespace},
};

pub(crate) const VOLUMES: &str = "/api/v1/persistentvolumes";
pub(crate) const CLAIMS: &str = "/api/v1/persistentvolumeclaims";
const STORAGE: &str = "/apis/storage.k8s.io/v1";
/// A driver that limits the number of its volumes on a node.
const DRIVER: &str = "disk.csi.example.com";
/// A driver that reports the free capacity in each zone.
const TRACKED_DRIVER: &str = "tracked.csi.example.com";
const NAMESPACES: [&str; 3] = ["red", "green", "blue"];
/// The classes of claims. Volumes of the last class would be bound when the claim is created, but no such controller
/// runs.
const CLASSES: [&str; 8] = ["local", "local", "local", "dynamic", "dynamic", "zonal", "tracked", "immediate"];
const SIZES: [&str; 4] = ["1Gi", "5Gi", "5Gi", "20Gi"];
const ZONES: [&str; 3] = ["z0", "z1", "z2"];
const ZONE: &str = "topology.kubernetes.io/zone";
/// The number of claims with a volume in each namespace that several pods may name.
const N_SHARED: u64 = 4;

/// The driver that creates volumes for the class, if there is one.
pub(crate) fn provisioner(class: &str) -> Option<&'static str> {
    match class {
        "dynamic" | "zonal" => Some(DRIVER),
        "tracked" => Some(TRACKED_DRIVER),
        _ => None,
    }
}

/// Classes, drivers, the limits of nodes, and volumes.
pub(crate) fn offers(random: &mut Random, n_nodes: u8) -> Vec<(String, Value)> {
    let class = |name: &str, mode: &str| {
        let provisioner = provisioner(name).unwrap_or("kubernetes.io/no-provisioner");
        json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode})
    };
    let mut zonal = class("zonal", "WaitForFirstConsumer");
    zonal["allowedTopologies"] = json!([{"matchLabelExpressions": [{"key": ZONE, "values": ["z0", "z1"]}]}]);
    let late = ["local", "dynamic", "tracked"].map(|name| class(name, "WaitForFirstConsumer"));
    let classes = late.into_iter().chain([zonal, class("immediate", "Immediate")]);
    let mut objects: Vec<_> = classes.map(|class| (format!("{STORAGE}/storageclasses"), class)).collect();
    for (driver, is_tracked) in [(DRIVER, false), (TRACKED_DRIVER, true)] {
        let driver = json!({"metadata": {"name": driver}, "spec": {"storageCapacity": is_tracked}});
        objects.push((format!("{STORAGE}/csidrivers"), driver));
    }
    for zone in ZONES {
        let mut capacity = json!({
            "metadata": {"name": zone},
            "storageClassName": "tracked",
            "nodeTopology": {"matchLabels": {ZONE: zone}},
        });
        capacity["capacity"] = room(random);
        objects.push((format!("{STORAGE}/namespaces/red/csistoragecapacities"), capacity));
    }
    for number in 0..n_nodes {
        if random.chance(80) {
            objects.push((format!("{STORAGE}/csinodes"), attachments(random, number)));
        }
        if random.chance(70) {
            objects.push((VOLUMES.to_owned(), local(random, number, 0)));
        }
    }
    for namespace in NAMESPACES {
        objects.extend((0..N_SHARED).flat_map(|number| shared(namespace, number)));
    }
    objects
}

/// A change of the storage.
pub(crate) fn change(random: &mut Random, n_nodes: u8) -> Step {
    let number = u8::try_from(random.below(u64::from(n_nodes))).unwrap_or_default();
    match random.below(6) {
        0 => {
            let path = format!("{STORAGE}/namespaces/red/csistoragecapacities/{}", random.pick(&ZONES));
            Step::Change { path, patch: json!({"capacity": room(random)}) }
        }
        1 => Step::Delete { path: format!("{STORAGE}/csinodes/{}", nodes::name(number)) },
        2 => Step::Create { collection: format!("{STORAGE}/csinodes"), object: attachments(random, number) },
        _ => {
            let generation = 1 + random.below(20);
            Step::Create { collection: VOLUMES.to_owned(), object: local(random, number, generation) }
        }
    }
}

/// Gives volumes to the pod, and returns the steps that create the pod's own claims.
pub(crate) fn claim_some(random: &mut Random, pod: &mut Value) -> Vec<Step> {
    let collection = format!("/api/v1/namespaces/{}/persistentvolumeclaims", namespace(pod));
    let mut steps = Vec::new();
    let mut volumes = Vec::new();
    for number in 0..=random.below(2) {
        let source = match random.below(10) {
            0..=1 => json!({"persistentVolumeClaim": {"claimName": format!("shared-{}", random.below(N_SHARED))}}),
            2..=3 => disk(random),
            _ => {
                let claim = format!("{}-{number}", name(pod));
                if random.chance(95) {
                    let object = json!({"metadata": {"name": claim}, "spec": wish(random)});
                    steps.push(Step::Create { collection: collection.clone(), object });
                }
                json!({"persistentVolumeClaim": {"claimName": claim}})
            }
        };
        let mut volume = source;
        volume["name"] = json!(format!("volume-{number}"));
        volumes.push(volume);
    }
    pod["spec"]["volumes"] = json!(volumes);
    steps
}

/// The phase of each volume and claim, and its counterpart.
pub(crate) fn outcomes(volumes: &[Value], claims: &[Value]) -> BTreeMap<String, String> {
    let of_volume = |volume: &Value| {
        let claim = &volume["spec"]["claimRef"];
        let text = format!("{} for {}/{}", volume["status"]["phase"], claim["namespace"], claim["name"]);
        (name(volume).to_owned(), text)
    };
    let of_claim = |claim: &Value| {
        let annotations = &claim["metadata"]["annotations"];
        let text = format!("{} by {}, {annotations}", claim["status"]["phase"], claim["spec"]["volumeName"]);
        (format!("{}/{}", namespace(claim), name(claim)), text)
    };
    volumes.iter().map(of_volume).chain(claims.iter().map(of_claim)).collect()
}

fn room(random: &mut Random) -> Value {
    json!(random.pick(&["0", "2Gi", "10Gi", "100Gi"]))
}

fn attachments(random: &mut Random, number: u8) -> Value {
    let node = nodes::name(number);
    let driver = |name: &str, count: u64| json!({"name": name, "nodeID": node, "topologyKeys": [ZONE], "allocatable": {"count": count}});
    let drivers = [driver(DRIVER, 1 + random.below(3)), driver(TRACKED_DRIVER, random.below(3))];
    json!({"metadata": {"name": node}, "spec": {"drivers": drivers}})
}

fn local(random: &mut Random, number: u8, generation: u64) -> Value {
    let node = nodes::name(number);
    let mut volume = volume(&format!("local-{node}-{generation}"), "local", "kubernetes.io/hostname", &node);
    // kube-scheduler takes any of several volumes of the same size.
    let mebibytes = 1024 * random.pick(&[1, 5, 5, 20]) + 32 * u64::from(number) + generation;
    volume["spec"]["capacity"] = json!({"storage": format!("{mebibytes}Mi")});
    volume["spec"]["local"] = json!({"path": "/mnt/disk"});
    volume["spec"]["accessModes"] = json!([mode(random)]);
    volume
}

/// A volume that can only be used on nodes with this label.
pub(crate) fn volume(name: &str, class: &str, label: &str, value: &str) -> Value {
    let term = json!({"matchExpressions": [{"key": label, "operator": "In", "values": [value]}]});
    json!({"metadata": {"name": name}, "spec": {
        "capacity": {"storage": "20Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": class,
        "persistentVolumeReclaimPolicy": "Retain",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }})
}

/// A claim and its volume, which name each other.
fn shared(namespace: &str, number: u64) -> [(String, Value); 2] {
    let (claim, name) = (format!("shared-{number}"), format!("shared-{namespace}-{number}"));
    let handle = json!({"driver": DRIVER, "volumeHandle": name});
    let mut volume = volume(&name, "", ZONE, "z1");
    let spec = &mut volume["spec"];
    spec["claimRef"] =
        json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": namespace, "name": claim});
    let mut mode = "ReadWriteOnce";
    match number {
        0 => spec["csi"] = handle,
        1 => {
            mode = "ReadWriteOncePod";
            spec["csi"] = handle;
            spec["nodeAffinity"] = Value::Null;
        }
        2 => {
            mode = "ReadWriteMany";
            spec["nfs"] = json!({"server": "nfs.example.com", "path": "/"});
            spec["nodeAffinity"] = Value::Null;
            volume["metadata"]["labels"] = json!({ZONE: "z0__z2"});
        }
        _ => {
            spec["awsElasticBlockStore"] = json!({"volumeID": format!("vol-{namespace}")});
            spec["nodeAffinity"] = Value::Null;
            volume["metadata"]["labels"] = json!({"failure-domain.beta.kubernetes.io/zone": "z0"});
        }
    }
    volume["spec"]["accessModes"] = json!([mode]);
    let wish = json!({
        "accessModes": [mode],
        "storageClassName": "",
        "volumeName": name,
        "resources": {"requests": {"storage": "1Gi"}},
    });
    let claims = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims");
    [(VOLUMES.to_owned(), volume), (claims, json!({"metadata": {"name": claim}, "spec": wish}))]
}

fn wish(random: &mut Random) -> Value {
    let class = if random.chance(3) { "no-such-class" } else { *random.pick(&CLASSES) };
    json!({
        "accessModes": [mode(random)],
        "storageClassName": class,
        "resources": {"requests": {"storage": random.pick(&SIZES)}},
    })
}

fn mode(random: &mut Random) -> &'static str {
    if random.chance(20) { "ReadWriteOncePod" } else { "ReadWriteOnce" }
}

/// A disk that the pod names itself. Another pod may name the same disk.
fn disk(random: &mut Random) -> Value {
    let (disk, read_only) = (format!("disk-{}", random.below(3)), random.chance(50));
    match random.below(4) {
        0 => json!({"gcePersistentDisk": {"pdName": disk, "readOnly": read_only}}),
        1 => json!({"awsElasticBlockStore": {"volumeID": disk, "readOnly": read_only}}),
        2 => json!({"iscsi": {"targetPortal": "10.0.0.1", "iqn": disk, "lun": 0, "readOnly": read_only}}),
        _ => json!({"rbd": {"monitors": ["10.0.0.2"], "image": disk, "pool": "rbd", "readOnly": read_only}}),
    }
}
