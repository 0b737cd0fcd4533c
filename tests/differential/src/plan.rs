//! The events of a round, which depend on its seed. The events use nodes and pods of `properties::generate`, in a form
//! that an API server accepts.

use std::collections::VecDeque;

use properties::generate::{
    nodes, pods,
    pods::Place,
    random::{Random, Recipe},
};
use serde_json::{Value, json};

use crate::{
    devices,
    outcomes::{is_failing, is_gated, is_unschedulable, name},
    round_kind::RoundKind,
    step::{NODES, Step, create_node, path_of},
    volumes,
};

/// Draws steps at random.
pub(crate) struct Plan {
    random: Random,
    n_pods: u32,
    n_nodes: u8,
    kind: RoundKind,
    /// The steps that belong to the step before.
    next: VecDeque<Step>,
}

/// The features of [`pods::pod`] that a pod may have. Volumes and devices are left out, because their objects do not
/// exist, and so are fields that only a kubelet or a controller writes.
const POD_FEATURES: [u32; 30] =
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 26, 32, 35, 36, 37, 38];
/// The features of [`nodes::node`] that a node may have. Images are left out: kube-scheduler only learns the number of
/// nodes with an image when the node itself changes, while Berth learns this number immediately.
const NODE_FEATURES: [u32; 18] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 19];
/// The features of pods that let another binding bring a pod back, which depends on the time in a backlog; and the
/// feature that makes all taints equal.
const NOT_IN_BACKLOGS: [u32; 4] = [17, 18, 19, 22];
/// The percentage of steps that create a pod, while the cluster does not have too many pods.
const CREATES: u64 = 62;
/// The percentage of the other steps that change the devices of a node or the storage, if there are any.
const CHANGES_OF_RESOURCES: u64 = 25;
/// If there are more pods than this number, steps delete some pods.
const MANY_PODS: usize = 60;

impl Plan {
    pub(crate) fn new(seed: u64, n_nodes: u8, kind: RoundKind) -> Self {
        Self { random: Random::new(seed), n_pods: 0, n_nodes, kind, next: VecDeque::new() }
    }

    /// The objects that exist before nodes and pods, with their collections: namespaces, and a service in one
    /// namespace. The default constraints spread over the service's pods.
    pub(crate) fn surroundings(&mut self) -> Vec<(String, Value)> {
        let namespace = |(name, team)| {
            let labels = json!({"team": team});
            ("/api/v1/namespaces".to_owned(), json!({"metadata": {"name": name, "labels": labels}}))
        };
        let mut objects: Vec<_> = [("red", "a"), ("green", "b"), ("blue", "a")].map(namespace).into();
        let service =
            json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
        objects.push(("/api/v1/namespaces/red/services".to_owned(), service));
        match self.kind {
            RoundKind::Devices => objects.extend(devices::offers(&mut self.random, self.n_nodes)),
            RoundKind::Volumes => objects.extend(volumes::offers(&mut self.random, self.n_nodes)),
            RoundKind::Steps | RoundKind::Backlog => {}
        }
        objects
    }

    /// The nodes at the beginning.
    pub(crate) fn nodes(&mut self) -> Vec<Value> {
        (0..self.n_nodes).map(|number| self.node(number)).collect()
    }

    /// Larger nodes for many pods. Each has another number of taints that pods try to avoid.
    pub(crate) fn ranked_nodes(&mut self) -> Vec<Value> {
        let mut nodes = self.nodes();
        for (rank, node) in nodes.iter_mut().enumerate() {
            let taint = |number| json!({"key": format!("rank-{number}"), "effect": "PreferNoSchedule"});
            let mut taints: Vec<Value> = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
            taints.retain(|taint| taint["effect"] != "PreferNoSchedule");
            taints.extend((0..rank).map(taint));
            node["spec"]["taints"] = json!(taints);
            node["status"]["images"] = self.images();
            let allocatable = &mut node["status"]["allocatable"];
            allocatable["cpu"] = json!(format!("{}m", 8000 + 500 * self.random.below(48)));
            allocatable["memory"] = json!(format!("{}Mi", 8192 + 700 * self.random.below(64)));
            allocatable["pods"] = json!((10 + self.random.below(100)).to_string());
        }
        nodes
    }

    /// A pod for a backlog. It preempts no pod and waits for no other pod, and its priority is unique.
    pub(crate) fn patient_pod(&mut self) -> Value {
        let features: Vec<u32> =
            POD_FEATURES.into_iter().filter(|feature| !NOT_IN_BACKLOGS.contains(feature)).collect();
        let mut pod = self.pod(&features);
        pod["spec"]["preemptionPolicy"] = json!("Never");
        pod["spec"]["priority"] = json!(self.random.below(1000) * 100_000 + u64::from(self.n_pods));
        pod
    }

    /// The next change, which depends on the existing pods and nodes.
    pub(crate) fn step(&mut self, pods: &[Value], nodes: &[Value]) -> Step {
        if let Some(step) = self.next.pop_front() {
            return step;
        }
        let gated: Vec<&Value> = pods.iter().filter(|pod| is_gated(pod)).collect();
        if pods.len() < MANY_PODS && self.random.chance(CREATES) {
            return self.create_pod();
        }
        let has_resources = matches!(self.kind, RoundKind::Devices | RoundKind::Volumes);
        if has_resources && self.random.chance(CHANGES_OF_RESOURCES) {
            let change = if self.kind == RoundKind::Devices { devices::change } else { volumes::change };
            return change(&mut self.random, self.n_nodes);
        }
        match self.random.below(10) {
            0..=1 if !gated.is_empty() => {
                let pod = *self.random.pick(&gated);
                Step::Change { path: path_of(pod), patch: json!({"spec": {"schedulingGates": []}}) }
            }
            0..=5 if !pods.is_empty() => delete(self.random.pick(pods)),
            6..=8 if !nodes.is_empty() => {
                let node = self.random.pick(nodes).clone();
                self.change(&node)
            }
            _ => self.come_or_go(nodes),
        }
    }

    /// All waiting pods except the last pod, because a scheduler may try any of several waiting pods first after an
    /// event. Pods with failing attempts are included.
    pub(crate) fn superfluous(pods: &[Value]) -> Vec<Step> {
        let mut waiting: Vec<&Value> = pods.iter().filter(|pod| is_unschedulable(pod)).collect();
        waiting.sort_by_key(|pod| name(pod));
        waiting.pop();
        waiting.extend(pods.iter().filter(|pod| is_failing(pod)));
        waiting.into_iter().map(delete).collect()
    }

    /// Creates a pod, and the claims that it names before or after it.
    fn create_pod(&mut self) -> Step {
        let mut pod = self.pod(&POD_FEATURES);
        let claim_some = match self.kind {
            RoundKind::Devices => devices::claim_some,
            RoundKind::Volumes => volumes::claim_some,
            RoundKind::Steps | RoundKind::Backlog => return Step::CreatePod(pod),
        };
        if self.random.chance(30) {
            return Step::CreatePod(pod);
        }
        self.next.extend(claim_some(&mut self.random, &mut pod));
        if self.random.chance(15) {
            return Step::CreatePod(pod);
        }
        self.next.push_back(Step::CreatePod(pod));
        self.next.pop_front().unwrap_or_else(|| unreachable!("the pod itself, if nothing else"))
    }

    fn come_or_go(&mut self, nodes: &[Value]) -> Step {
        let n_wanted = usize::from(self.n_nodes);
        if nodes.len() > n_wanted / 2 && (nodes.len() >= n_wanted || self.random.chance(50)) {
            return Step::Delete { path: format!("{NODES}/{}", name(self.random.pick(nodes))) };
        }
        let is_free = |number: &u8| nodes.iter().all(|node| name(node) != nodes::name(*number));
        let free: Vec<u8> = (0..self.n_nodes.saturating_mul(2)).filter(is_free).collect();
        let number = if free.is_empty() { 0 } else { *self.random.pick(&free) };
        create_node(self.node(number))
    }

    fn change(&mut self, node: &Value) -> Step {
        let mut path = format!("{NODES}/{}", name(node));
        let patch = match self.random.below(6) {
            0 => json!({"spec": {"unschedulable": self.random.chance(50)}}),
            1 => json!({"spec": {"taints": []}}),
            2 => {
                let effect = self.random.pick(&["NoSchedule", "PreferNoSchedule", "NoExecute"]);
                json!({"spec": {"taints": [{"key": "dedicated", "value": "x", "effect": effect}]}})
            }
            3 => json!({"metadata": {"labels": {"disk": self.random.pick(&["ssd", "hdd"])}}}),
            4 => {
                json!({"metadata": {"labels": {"topology.kubernetes.io/zone": self.random.pick(&["z0", "z1", "z2"])}}})
            }
            _ => {
                let cpu = self.random.pick(&["500m", "2", "8", "16"]);
                let pods = (1 + self.random.below(12)).to_string();
                path.push_str("/status");
                json!({"status": {"allocatable": {"cpu": cpu, "memory": "16Gi", "pods": pods}}})
            }
        };
        Step::Change { path, patch }
    }

    /// Images with the same size on all nodes, because the size on the first node counts.
    fn images(&mut self) -> Value {
        let sizes = [("app:v1", 900_000_000_u64), ("cache:latest", 5_000_000_000), ("app:v2", 300_000_000)];
        let there = sizes.into_iter().filter(|_| self.random.chance(30)).collect::<Vec<_>>();
        there.into_iter().map(|(name, size)| json!({"names": [name], "sizeBytes": size})).collect()
    }

    fn node(&mut self, number: u8) -> Value {
        let recipe = self.recipe(&NODE_FEATURES, 4);
        let mut node = nodes::node(number, &recipe);
        countable(&mut node["status"]["allocatable"]);
        node["status"]["capacity"] = node["status"]["allocatable"].clone();
        as_new(node)
    }

    fn pod(&mut self, features: &[u32]) -> Value {
        let recipe = self.recipe(features, 4);
        let mut pod = pods::pod(0, &recipe, 0, Place::Pending);
        pod["metadata"]["name"] = json!(format!("p{:05}", self.n_pods));
        pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
        countable(&mut pod["spec"]["containers"][0]["resources"]["requests"]);
        self.n_pods += 1;
        as_new(pod)
    }

    /// Up to `most` of these features.
    fn recipe(&mut self, features: &[u32], most: u64) -> Recipe {
        let n_features = self.random.below(most + 1);
        let chosen = (0..n_features).map(|_| 1_u64 << self.random.pick(features)).fold(0, |all, one| all | one);
        Recipe { seed: self.random.number(), features: chosen }
    }
}

/// Limits amounts to numbers that fit into 64 bits even as thousandths, in sums and times a hundred. kube-scheduler
/// continues with 0 or with a truncated number for larger amounts, and Berth with the largest possible number.
fn countable(amounts: &mut Value) {
    const LARGEST: &str = "9223372036854775807";
    if amounts["cpu"] == LARGEST {
        amounts["cpu"] = json!("1000000");
    }
    if amounts["memory"] == LARGEST || amounts["memory"] == "8Ei" {
        amounts["memory"] = json!("1Pi");
    }
}

fn delete(pod: &Value) -> Step {
    Step::Delete { path: path_of(pod) }
}

/// The object without the fields that the API server sets.
fn as_new(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["uid", "resourceVersion"] {
            metadata.remove(field);
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_steps() {
        let steps = |seed, kind| {
            let mut plan = Plan::new(seed, 4, kind);
            let nodes = plan.nodes();
            (0..30).map(|_| plan.step(&[], &nodes).describe()).collect::<Vec<_>>()
        };
        for kind in [RoundKind::Devices, RoundKind::Volumes] {
            assert_eq!(steps(3, kind), steps(3, kind));
            assert_ne!(steps(3, kind), steps(4, kind));
        }
    }

    #[test]
    fn of_pods_that_wait_the_last_stays() {
        let waiting = |name: &str| {
            json!({"metadata": {"name": name, "namespace": "red"}, "spec": {},
                "status": {"conditions": [{"type": "PodScheduled", "reason": "Unschedulable"}]}})
        };
        let bound = json!({"metadata": {"name": "p0"}, "spec": {"nodeName": "n1"}});
        let steps = Plan::superfluous(&[waiting("p2"), bound, waiting("p1")]);
        assert_eq!(steps.iter().map(Step::describe).collect::<Vec<_>>(), ["delete /api/v1/namespaces/red/pods/p1"]);
    }
}
