//! Makes a cluster and the pending pod from a JSON document.
//!
//! The document has the form of the golden cases: `objects` with a list of objects for each kind, `pod`, and `profile`.
//! Objects that cannot be decoded are left out, as in the watches.

use berth_model::{Pod, api};
use berth_testing::{TestCluster, node, pod};
use serde_json::{Value, json};

/// The maximum number of objects of each kind. More would only cost time.
const MAX_OBJECTS: usize = 64;

/// A cluster, and the objects in it that are changed later.
pub(crate) struct FuzzCluster {
    pub(crate) cluster: TestCluster,
    pub(crate) nodes: Vec<api::Node>,
    /// The objects other than nodes and pods.
    pub(crate) others: Vec<Value>,
}

impl FuzzCluster {
    /// `None` if there is no pod.
    pub(crate) fn build(document: &Value) -> Option<(Self, Pod)> {
        let pod: api::Pod = serde_json::from_value(document.get("pod")?.clone()).ok()?;
        let mut built = Self { cluster: TestCluster::default(), nodes: Vec::new(), others: Vec::new() };
        let objects = document.get("objects").and_then(Value::as_object);
        for (plural, objects) in objects.into_iter().flatten() {
            for object in objects.as_array().into_iter().flatten().take(MAX_OBJECTS) {
                match plural.as_str() {
                    "nodes" => built.add_node(object),
                    "pods" => built.add_pod(object),
                    _ => built.add_other(object),
                }
            }
        }
        built.cluster.settle();
        let pod = built.cluster.intern(&pod);
        Some((built, pod))
    }

    fn add_node(&mut self, object: &Value) {
        // The API server never has an object without a name.
        if let Ok(node) = serde_json::from_value::<api::Node>(object.clone())
            && !node.metadata.name.is_empty()
        {
            self.cluster.set_node(&node);
            self.nodes.push(node);
        }
    }

    fn add_pod(&mut self, object: &Value) {
        if let Ok(pod) = serde_json::from_value::<api::Pod>(object.clone()) {
            // A pod on a node that has no uid is refused.
            let _ = self.cluster.set_pod(&pod);
        }
    }

    fn add_other(&mut self, object: &Value) {
        self.cluster.set_object(object);
        self.others.push(object.clone());
    }
}

/// Two nodes, one of which has a pod, and a pod with many features.
pub(crate) fn small() -> (FuzzCluster, Pod) {
    let small_node = |name: &str| {
        let labelled = node(name).label("kubernetes.io/hostname", name).label("zone", "a");
        let sized = labelled.allocatable("cpu", "4").allocatable("memory", "8Gi").allocatable("pods", "10");
        let tainted = sized.allocatable("example.com/gpu", "2").taint("k", "v", "PreferNoSchedule");
        tainted.image("example.com/web:1", 300_000_000).json()
    };
    let selector = json!({"matchLabels": {"app": "web"}});
    let term = json!({"topologyKey": "zone", "labelSelector": selector});
    let preferred = json!([{"weight": 5, "podAffinityTerm": term}]);
    let spread = json!([{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": selector}]);
    let containers = json!([{"name": "main", "image": "example.com/web:1", "ports": [{"hostPort": 80}],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"}}}]);
    let small_pod = |name: &str, on: &str| {
        let pod = pod(name).label("app", "web").on(on).spec("containers", containers.clone());
        pod.spec("nodeSelector", json!({"zone": "a"}))
            .spec("affinity", json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}))
            .spec("topologySpreadConstraints", spread.clone())
            .spec("volumes", json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]))
            .json()
    };
    let objects = json!({"nodes": [small_node("one"), small_node("two")], "pods": [small_pod("placed", "one")]});
    let document = json!({"objects": objects, "pod": small_pod("incoming", "")});
    FuzzCluster::build(&document).unwrap_or_else(|| unreachable!("the pod above decodes"))
}
