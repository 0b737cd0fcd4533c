//! scheduler_perf's workloads by its names, with its nodes, pods and sizes (`test/integration/scheduler_perf` in
//! kubernetes/kubernetes).

use berth_model::api;
use berth_testing::{NodeMaker, PodMaker, node, pod};
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Sizes of workloads are written down for a cluster of this size.
const FULL_SIZE: usize = 5000;

/// A cluster, pods that are there when the clock starts, and pods whose scheduling is measured.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// As scheduler_perf calls it.
    pub name: &'static str,
    /// The zones that nodes are spread over.
    zones: &'static [&'static str],
    /// How many pods there are before, in a cluster of 5,000 nodes.
    n_initial: usize,
    initial: fn(PodMaker) -> PodMaker,
    n_measured: usize,
    measured: fn(PodMaker) -> PodMaker,
    /// The namespaces of both.
    namespaces: [&'static str; 2],
    objects: fn() -> Vec<Value>,
}

const MOONS: &[&str] = &["moon-1", "moon-2", "moon-3"];

/// Every workload.
pub const WORKLOADS: [Workload; 10] = [
    Workload { name: "SchedulingBasic", n_initial: 1000, n_measured: 10_000, ..BLANK },
    Workload {
        name: "SchedulingPodAntiAffinity",
        n_measured: 2000,
        initial: anti_affinity,
        measured: anti_affinity,
        namespaces: ["sched-0", "sched-1"],
        ..BLANK
    },
    Workload {
        name: "SchedulingPodMatchingAntiAffinity",
        initial: anti_affinity,
        measured: |pod| pod.label("color", "green"),
        namespaces: ["sched-0", "sched-1"],
        ..BLANK
    },
    Workload {
        name: "SchedulingPodAffinity",
        zones: &["zone1"],
        n_initial: 5000,
        initial: affinity,
        measured: affinity,
        namespaces: ["sched-0", "sched-1"],
        ..BLANK
    },
    Workload {
        name: "SchedulingPreferredPodAffinity",
        n_initial: 5000,
        initial: preferred_affinity,
        measured: preferred_affinity,
        namespaces: ["sched-0", "sched-1"],
        ..BLANK
    },
    Workload {
        name: "SchedulingPreferredPodAntiAffinity",
        n_initial: 5000,
        initial: preferred_anti_affinity,
        measured: preferred_anti_affinity,
        namespaces: ["sched-0", "sched-1"],
        ..BLANK
    },
    Workload {
        name: "SchedulingNodeAffinity",
        zones: &["zone1"],
        n_initial: 5000,
        n_measured: 10_000,
        initial: node_affinity,
        measured: node_affinity,
        ..BLANK
    },
    Workload {
        name: "TopologySpreading",
        zones: MOONS,
        n_initial: 5000,
        measured: |pod| spreading(pod, "DoNotSchedule"),
        ..BLANK
    },
    Workload {
        name: "PreferredTopologySpreading",
        zones: MOONS,
        n_initial: 5000,
        measured: |pod| spreading(pod, "ScheduleAnyway"),
        ..BLANK
    },
    Workload {
        name: "DefaultTopologySpreading",
        zones: MOONS,
        n_initial: 5000,
        n_measured: 10_000,
        measured: |pod| pod.label("app", "scheduler-perf"),
        namespaces: ["default", "service-ns"],
        objects: service,
        ..BLANK
    },
];

const BLANK: Workload = Workload {
    name: "",
    zones: &[],
    n_initial: 1000,
    initial: |pod| pod,
    n_measured: 5000,
    measured: |pod| pod,
    namespaces: ["default", "default"],
    objects: Vec::new,
};

impl Workload {
    /// The workload of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        WORKLOADS.iter().find(|workload| workload.name.eq_ignore_ascii_case(name))
    }

    /// Nodes with 4 CPUs, 32 GiB and room for 110 pods.
    #[must_use]
    pub fn nodes(&self, n_nodes: usize) -> Vec<api::Node> {
        let zones = self.zones.iter().copied().cycle();
        let zones = zones.map(Some).chain(std::iter::repeat(None));
        (0..n_nodes).zip(zones).map(|(index, zone)| make_node(index, zone).build()).collect()
    }

    /// Services and their like.
    #[must_use]
    pub fn objects(&self) -> Vec<Value> {
        (self.objects)()
    }

    /// The pods that are there when the clock starts.
    #[must_use]
    pub fn initial_pods(&self, n_nodes: usize) -> Vec<api::Pod> {
        let n_pods = scaled(self.n_initial, n_nodes);
        (0..n_pods).map(|index| (self.initial)(make_pod("init", index, self.namespaces[0])).build()).collect()
    }

    /// The pods whose scheduling is measured. With `n_shapes` above 1 they differ in a label, in turn.
    #[must_use]
    pub fn measured_pods(&self, n_nodes: usize, n_pods: Option<usize>, n_shapes: usize) -> Vec<api::Pod> {
        let n_pods = n_pods.unwrap_or_else(|| scaled(self.n_measured, n_nodes));
        let make = |index: usize| {
            let pod = (self.measured)(make_pod("pod", index, self.namespaces[1]));
            if n_shapes > 1 { pod.label("shape", &(index % n_shapes).to_string()) } else { pod }
        };
        (0..n_pods).map(|index| make(index).build()).collect()
    }
}

fn scaled(n_pods: usize, n_nodes: usize) -> usize {
    (n_pods * n_nodes / FULL_SIZE).max(10)
}

fn make_node(index: usize, zone: Option<&str>) -> NodeMaker {
    let name = format!("node-{index:05}");
    let node = node(&name).label(HOSTNAME, &name);
    let node = node.allocatable("cpu", "4").allocatable("memory", "32Gi").allocatable("pods", "110");
    if let Some(zone) = zone { node.label(ZONE, zone) } else { node }
}

fn make_pod(prefix: &str, index: usize, namespace: &str) -> PodMaker {
    let name = format!("{prefix}-{index:05}");
    let resources = json!({"cpu": "100m", "memory": "500Mi"});
    let container = json!({"name": "pause", "image": "registry.k8s.io/pause:3.10", "ports": [{"containerPort": 80}],
        "resources": {"requests": resources, "limits": resources}});
    pod(&name)
        .namespace(namespace)
        .uid(&format!("uid-{name}"))
        .resource_version("1")
        .spec("schedulerName", json!("default-scheduler"))
        .spec("containers", json!([container]))
}

fn term(color: &str, topology_key: &str) -> Value {
    json!({"labelSelector": {"matchLabels": {"color": color}}, "topologyKey": topology_key,
        "namespaces": ["sched-1", "sched-0"]})
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn anti_affinity(pod: PodMaker) -> PodMaker {
    let affinity = json!({"podAntiAffinity": {REQUIRED: [term("green", HOSTNAME)]}});
    pod.label("color", "green").label("name", "test").spec("affinity", affinity)
}

fn affinity(pod: PodMaker) -> PodMaker {
    pod.label("color", "blue").spec("affinity", json!({"podAffinity": {REQUIRED: [term("blue", ZONE)]}}))
}

fn preferred_affinity(pod: PodMaker) -> PodMaker {
    let preferred = json!([{"weight": 1, "podAffinityTerm": term("red", HOSTNAME)}]);
    pod.label("color", "red").spec("affinity", json!({"podAffinity": {PREFERRED: preferred}}))
}

fn preferred_anti_affinity(pod: PodMaker) -> PodMaker {
    let preferred = json!([{"weight": 1, "podAffinityTerm": term("yellow", HOSTNAME)}]);
    pod.label("color", "yellow").spec("affinity", json!({"podAntiAffinity": {PREFERRED: preferred}}))
}

fn node_affinity(pod: PodMaker) -> PodMaker {
    let expression = json!({"key": ZONE, "operator": "In", "values": ["zone1", "zone2"]});
    let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]});
    pod.spec("affinity", json!({"nodeAffinity": {REQUIRED: terms}}))
}

fn spreading(pod: PodMaker, action: &str) -> PodMaker {
    let constraint = json!({"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": action,
        "labelSelector": {"matchLabels": {"color": "blue"}}});
    pod.label("color", "blue").spec("topologySpreadConstraints", json!([constraint]))
}

fn service() -> Vec<Value> {
    vec![json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "service", "namespace": "service-ns"},
        "spec": {"selector": {"app": "scheduler-perf"}}})]
}
