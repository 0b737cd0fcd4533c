//! One cycle of the volume plugins at 5,000 nodes with 50,000 placed pods, each with a claim of its own.
//!
//! `cargo bench -p berth-builtins --bench volumes`. PreFilter and Filter over all nodes (no sampling), then Reserve and
//! its undoing. Between two cycles a pod comes to a node, or leaves it again with its claim unbound. Prints medians in
//! microseconds, plugin by plugin.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark stops where its set-up fails, and prints")]

use std::time::{Duration, Instant};

use berth_framework::{Call, CycleId, Plugin};
use berth_model::{Delta, Node, NodeIdx, ObjectChange, Pod, PodIdx, Snapshot, api, intern};
use serde_json::{Value, json};

const N_NODES: u32 = 5_000;
const N_PODS: u32 = 50_000;
const N_CYCLES: usize = 201;
const PLUGINS: [&str; 4] = ["VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"];
const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

fn main() {
    let mut snapshot = cluster();
    let cases = [
        ("no volumes", pod(&mut snapshot, "incoming", None)),
        ("bound, in one zone", pod(&mut snapshot, "incoming", Some("bound"))),
        ("to be provisioned", pod(&mut snapshot, "incoming", Some("made"))),
        ("one of 5,000 local volumes", pod(&mut snapshot, "incoming", Some("local"))),
    ];
    let plugins = PLUGINS.iter().map(|name| berth_builtins::factory(name).unwrap().build("null").unwrap());
    let mut plugins: Vec<Box<dyn Plugin>> = plugins.collect();
    let (first, _) = cycle(&mut plugins, &snapshot, &cases[1].1, 0);
    println!("first cycle, counting everything: {first:.1?} by plugin");
    println!("{:<28}{:>10}  {PLUGINS:?}", "pod with a claim that is", "total us");
    for (what, pod) in &cases {
        measure(what, &mut plugins, &mut snapshot, pod);
    }
}

fn measure(what: &str, plugins: &mut [Box<dyn Plugin>], snapshot: &mut Snapshot, incoming: &Pod) {
    let mut times: Vec<[Duration; 4]> = Vec::new();
    let mut n_passed = 0;
    for number in 0..N_CYCLES {
        change_something(snapshot, number);
        let (time, n) = cycle(plugins, snapshot, incoming, number);
        times.push(time);
        n_passed = n;
    }
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let median = |of: &dyn Fn(&[Duration; 4]) -> f64| {
        let mut all: Vec<f64> = times.iter().map(of).collect();
        all.sort_unstable_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let total = median(&|time| time.iter().map(|time| micros(*time)).sum());
    let each: Vec<String> = (0..4).map(|at| format!("{:.1}", median(&|time| micros(time[at])))).collect();
    println!("{what:<28}{total:>10.1}  {each:?}, {n_passed} nodes pass");
}

/// Time by plugin, and how many nodes passed.
fn cycle(plugins: &mut [Box<dyn Plugin>], snapshot: &Snapshot, pod: &Pod, number: usize) -> ([Duration; 4], usize) {
    let call = Call { cycle: CycleId(number as u64), pod, snapshot };
    let mut candidates = snapshot.nodes().clone();
    let mut times = [Duration::ZERO; 4];
    for (plugin, time) in plugins.iter_mut().zip(&mut times) {
        let start = Instant::now();
        if plugin.pre_filter().unwrap().pre_filter(&call).is_ok() {
            plugin.filter().unwrap().filter(&call, &mut candidates).unwrap();
        }
        *time = start.elapsed();
    }
    let chosen = candidates.iter().next();
    for (plugin, time) in plugins.iter_mut().zip(&mut times) {
        let start = Instant::now();
        if let Some((node, point)) = chosen.zip(plugin.reserve()) {
            assert!(point.reserve(&call, node).is_success());
            point.unreserve(&call, node);
        }
        plugin.end_cycle(call.cycle);
        *time += start.elapsed();
    }
    (times, candidates.len())
}

/// The last pod leaves and its claim is unbound; then both come back.
fn change_something(snapshot: &mut Snapshot, number: usize) {
    let last = N_PODS - 1;
    if number.is_multiple_of(2) {
        snapshot.pods_mut().remove(PodIdx(last));
        put(snapshot, &claim(&format!("claim-{last}"), "made", None));
    } else {
        put(snapshot, &claim(&format!("claim-{last}"), "made", Some(&format!("pv-{last}"))));
        place(snapshot, last);
    }
}

fn cluster() -> Snapshot {
    let mut snapshot = Snapshot::default();
    for index in 0..N_NODES {
        let name = format!("node-{index:05}");
        let labels = [(ZONE, format!("zone-{}", index % 3)), (HOST, name.clone())];
        let mut labels: Vec<_> =
            labels.map(|(key, value)| (snapshot.symbols.intern(key), snapshot.symbols.intern(&value))).to_vec();
        labels.sort_unstable();
        let node = Node { name: snapshot.symbols.intern(&name), labels, ..Node::default() };
        snapshot.add_node(NodeIdx(index));
        snapshot.set_name(NodeIdx(index), node.name);
        snapshot.set_labels(NodeIdx(index), &node.labels);
        let driver = json!({"name": "disk", "allocatable": {"count": 25}});
        put(&mut snapshot, &object("storage.k8s.io/v1", "CSINode", &name, json!({"spec": {"drivers": [driver]}})));
        let volume = volume(&format!("local-{index}"), "local", "Available", (HOST, &name));
        put(&mut snapshot, &volume);
    }
    for (name, provisioner) in [("made", "disk"), ("local", "kubernetes.io/no-provisioner")] {
        let class = json!({"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"});
        put(&mut snapshot, &object("storage.k8s.io/v1", "StorageClass", name, class));
    }
    for index in 0..N_PODS {
        let volume = volume(&format!("pv-{index}"), "made", "Bound", (ZONE, &format!("zone-{}", index % N_NODES % 3)));
        put(&mut snapshot, &volume);
        put(&mut snapshot, &claim(&format!("claim-{index}"), "made", Some(&format!("pv-{index}"))));
        place(&mut snapshot, index);
    }
    put(&mut snapshot, &volume("pv-bound", "made", "Bound", (ZONE, "zone-1")));
    put(&mut snapshot, &claim("bound", "made", Some("pv-bound")));
    put(&mut snapshot, &claim("made", "made", None));
    put(&mut snapshot, &claim("local", "local", None));
    snapshot
}

fn place(snapshot: &mut Snapshot, index: u32) {
    let pod = pod(snapshot, &format!("pod-{index}"), Some(&format!("claim-{index}")));
    snapshot.pods_mut().place(PodIdx(index), pod.into(), NodeIdx(index % N_NODES));
}

fn pod(snapshot: &mut Snapshot, name: &str, claim: Option<&str>) -> Pod {
    let volumes = claim.map(|claim| json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}}));
    let pod: api::Pod = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"volumes": volumes.into_iter().collect::<Vec<_>>()},
    }))
    .unwrap();
    intern::pod(&pod, &mut snapshot.symbols)
}

fn volume(name: &str, class: &str, phase: &str, (label, value): (&str, &str)) -> Value {
    let requirement = json!({"key": label, "operator": "In", "values": [value]});
    let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}});
    let mut volume = object(
        "v1",
        "PersistentVolume",
        name,
        json!({
            "spec": {"capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
                "csi": {"driver": "disk", "volumeHandle": name}, "nodeAffinity": affinity},
            "status": {"phase": phase},
        }),
    );
    if label == ZONE {
        volume["metadata"]["labels"] = json!({ ZONE: value });
    }
    volume
}

fn claim(name: &str, class: &str, volume: Option<&str>) -> Value {
    let mut claim = object(
        "v1",
        "PersistentVolumeClaim",
        name,
        json!({
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
                "resources": {"requests": {"storage": "10Gi"}}},
            "status": {"phase": "Pending"},
        }),
    );
    claim["metadata"]["namespace"] = json!("default");
    if let Some(volume) = volume {
        claim["spec"]["volumeName"] = json!(volume);
        claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    }
    claim
}

fn object(api_version: &str, kind: &str, name: &str, mut body: Value) -> Value {
    body["apiVersion"] = json!(api_version);
    body["kind"] = json!(kind);
    body["metadata"] = json!({"name": name, "uid": name, "resourceVersion": "1"});
    body
}

fn put(snapshot: &mut Snapshot, object: &Value) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let change = ObjectChange {
        api_version: text("/apiVersion"),
        kind: text("/kind"),
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name"),
        json: Some(object.to_string().into_bytes().into()),
    };
    snapshot.apply(&Delta { objects: vec![change], ..Delta::default() });
}
