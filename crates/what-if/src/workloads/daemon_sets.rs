//! The pods of DaemonSets. Each DaemonSet has one pod for each node on which the pod may run.
//!
//! The rules are <https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/>, and `NodeShouldRunDaemonPod`
//! in `pkg/controller/daemon/daemon_controller.go`.

use berth_model::{api, selector::NodeMatcher, toleration};
use serde_json::{Value, json};

use super::{namespace_of, pod};
use crate::fields::{child, letters, text};

/// The key and effect of the taints that every pod of a DaemonSet tolerates.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// The key and effect of the taint that a DaemonSet's pods in the host network tolerate in addition.
const TOLERATED_IN_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// A DaemonSet, and the pods that it creates.
#[derive(Clone, Debug)]
pub(crate) struct DaemonSet {
    object: Value,
    spec: api::PodSpec,
}

impl DaemonSet {
    /// Makes a DaemonSet from its object. `spec` is the spec of the pod template.
    pub(crate) fn new(object: Value, mut spec: api::PodSpec) -> Self {
        spec.tolerations.extend(tolerations(spec.host_network).map(|(key, effect)| api::Toleration {
            key: key.to_owned(),
            operator: "Exists".to_owned(),
            effect: effect.to_owned(),
            ..api::Toleration::default()
        }));
        Self { object, spec }
    }

    pub(crate) fn namespace(&self) -> &str {
        namespace_of(&self.object)
    }

    pub(crate) fn name(&self) -> &str {
        text(&self.object, "/metadata/name")
    }

    /// The DaemonSet's pod for this node; `None` if the DaemonSet must not have a pod on the node.
    pub(crate) fn pod_for(&self, node: &api::Node) -> Option<Value> {
        self.runs_on(node).then(|| self.make(&node.metadata.name))
    }

    fn runs_on(&self, node: &api::Node) -> bool {
        let Self { spec, .. } = self;
        let (name, labels) = (&node.metadata.name, &node.metadata.labels);
        let is_named = spec.node_name.is_empty() || spec.node_name == *name;
        let mut wanted = spec.node_selector.iter().flatten();
        let is_selected = wanted.all(|(key, value)| labels.get(key) == Some(value));
        let required =
            spec.affinity.as_ref().and_then(|it| it.node_affinity.as_ref()).and_then(|it| it.required.as_ref());
        let has_affinity =
            required.is_none_or(|selector| NodeMatcher::compile(selector).matches(name, labels).unwrap_or(false));
        let mut taints = node.spec.taints.clone();
        if node.spec.unschedulable {
            let (key, effect) = ("node.kubernetes.io/unschedulable".to_owned(), "NoSchedule".to_owned());
            taints.push(api::Taint { key, effect, ..api::Taint::default() });
        }
        let untolerated = toleration::first_untolerated(&taints, &spec.tolerations, false);
        is_named && is_selected && has_affinity && untolerated.is_none()
    }

    fn make(&self, node: &str) -> Value {
        let name = format!("{}-{}", self.name(), letters((self.namespace(), self.name(), node), 5));
        let mut pod = pod(&self.object, "/spec/template", name);
        let spec = child(&mut pod, "spec");
        // A template whose value is not a list was already refused.
        if let Value::Array(given) = spec.entry("tolerations").or_insert_with(|| json!([])) {
            let own = tolerations(self.spec.host_network);
            given.extend(own.map(|(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect})));
        }
        let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
        let affinity = crate::fields::fields(spec.entry("affinity").or_insert(Value::Null));
        let node_affinity = crate::fields::fields(affinity.entry("nodeAffinity").or_insert(Value::Null));
        node_affinity
            .insert("requiredDuringSchedulingIgnoredDuringExecution".to_owned(), json!({"nodeSelectorTerms": [term]}));
        pod
    }
}

fn tolerations(is_in_host_network: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    TOLERATED.into_iter().chain(is_in_host_network.then_some(TOLERATED_IN_HOST_NETWORK))
}

#[cfg(test)]
mod tests {
    use berth_testing::node;

    use super::*;

    #[test]
    fn a_pod_runs_on_each_node_that_it_selects_and_tolerates() {
        let object = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "logs"},
            "spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}});
        let spec = serde_json::from_value(object["spec"]["template"]["spec"].clone()).unwrap();
        let set = DaemonSet::new(object, spec);
        let ssd = |name: &str| node(name).label("disk", "ssd");
        let pod = set.pod_for(&ssd("a").unschedulable().build()).expect("it tolerates a cordon");
        let terms = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(terms["nodeSelectorTerms"][0]["matchFields"][0]["values"], json!(["a"]));
        assert!(set.pod_for(&node("b").build()).is_none());
        assert!(set.pod_for(&ssd("c").taint("gpu", "", "NoSchedule").build()).is_none());
        assert!(set.pod_for(&ssd("d").taint("node.kubernetes.io/not-ready", "", "NoExecute").build()).is_some());
    }
}
