//! The cluster with which `berth plugin bench` times a plugin, and the questions about this cluster. `verify` asks the
//! same questions, so a plugin that `verify` accepts does not fault in `bench`.

use berth_framework::{Call, ObjectKind, Plugin, PluginFactory, Status};
use berth_model::{NodeSet, Pod, api};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::{
    harness::{HarnessError, PluginHarness},
    random::{Random, node, node_name, pod},
    situation::Situation,
};

/// The number of pods about which the plugin is asked.
pub(crate) const N_QUESTIONS: u64 = 50;
/// Pods on each node.
pub(crate) const PODS_PER_NODE: u64 = 10;
/// The number of different pods on nodes. Further pods are copies of these pods with other names, because a new pod
/// takes much longer to make than to place.
const N_DIFFERENT: u64 = 1000;

/// A situation with further nodes, and ten pods on each node. The plugin has not received the cluster yet.
pub(crate) struct FullCluster<'s> {
    pub(crate) harness: PluginHarness,
    situation: &'s Situation,
    random: Random,
    /// Pods on nodes that serve as templates for all other pods. Each has the names of its last copy.
    different: Vec<Placed>,
    /// Whether the plugin also sees pods as objects.
    sees_pod_objects: bool,
    n_asked: u64,
}

struct Placed {
    decoded: api::Pod,
    json: Value,
}

/// A kind of call.
pub(crate) type CallName = &'static str;

/// Watches the calls, for example their times.
pub(crate) trait Observer {
    fn call<R>(&mut self, name: CallName, work: impl FnOnce() -> R) -> R;

    /// The points of `names` are not called for a pod. `why` continues a sentence after "because".
    fn left_out(&mut self, names: &[CallName], why: &str);
}

/// The points after PreFilter.
const AFTER_PRE_FILTER: [CallName; 4] = ["Filter", "PreScore", "Score", "NormalizeScore"];

/// Only makes the calls.
pub(crate) struct Unobserved;

impl Observer for Unobserved {
    fn call<R>(&mut self, _name: CallName, work: impl FnOnce() -> R) -> R {
        work()
    }

    fn left_out(&mut self, _names: &[CallName], _why: &str) {}
}

impl<'s> FullCluster<'s> {
    pub(crate) fn new(
        factory: &dyn PluginFactory,
        situation: &'s Situation,
        seed: u64,
        n_nodes: u64,
    ) -> Result<Self, HarnessError> {
        let mut harness = PluginHarness::new(factory, situation.args())?;
        situation.enter(&mut harness)?;
        let is_pod = |kind: &ObjectKind| kind.api_version == "v1" && kind.kind == "Pod";
        let sees_pod_objects = factory.manifest().needs.objects.iter().any(is_pod);
        let random = Random::new(seed);
        let mut cluster = Self { harness, situation, random, different: Vec::new(), sees_pod_objects, n_asked: 0 };
        for number in 0..n_nodes {
            let node = node(&mut cluster.random, number);
            cluster.harness.set_node(&api::Node::deserialize(&node)?);
            cluster.harness.set_object(&node);
            for number in number * PODS_PER_NODE..(number + 1) * PODS_PER_NODE {
                cluster.place(number)?;
            }
        }
        Ok(cluster)
    }

    /// Puts the pod with this number on its node.
    fn place(&mut self, number: u64) -> Result<(), HarnessError> {
        let node_name = node_name(number / PODS_PER_NODE);
        if number < N_DIFFERENT {
            let json = pod(&mut self.random, number, Some(&node_name));
            self.different.push(Placed { decoded: api::Pod::deserialize(&json)?, json });
        }
        let [name, uid] = names(number);
        let sees_pod_objects = self.sees_pod_objects;
        let Some(Placed { decoded, json }) = self.different.get_mut(copied(number)) else { return Ok(()) };
        if sees_pod_objects {
            let mut object = json.clone();
            (object["metadata"]["name"], object["metadata"]["uid"]) = (json!(name), json!(uid));
            object["spec"]["nodeName"] = json!(node_name);
            self.harness.set_object(&object);
        }
        (decoded.metadata.name, decoded.metadata.uid, decoded.spec.node_name) = (name, uid, node_name);
        self.harness.cluster_mut().set_pod(decoded)?;
        Ok(())
    }

    /// Takes the pod with this number from its node.
    pub(crate) fn remove(&mut self, number: u64) {
        let [name, uid] = names(number);
        self.harness.remove_pod(&uid);
        if self.sees_pod_objects
            && let Some(Placed { decoded, .. }) = self.different.get(copied(number))
        {
            let namespace = &decoded.metadata.namespace;
            let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name}});
            self.harness.cluster_mut().remove_object(&object);
        }
    }

    /// The next pod to ask about: a pod of the situation, or a random pod if the situation has no pods.
    pub(crate) fn next_pod(&mut self) -> Result<Pod, HarnessError> {
        let number = self.n_asked;
        self.n_asked += 1;
        let json = self.situation.pending(number).unwrap_or_else(|| pod(&mut self.random, number, None));
        let mut pod = api::Pod::deserialize(&json)?;
        pod.json = Some(json.to_string().into_bytes().into());
        Ok(self.harness.intern(&pod))
    }

    /// Asks about all pods. Before each question one pod leaves its node.
    pub(crate) fn ask(&mut self, observer: &mut impl Observer) -> Result<(), HarnessError> {
        observer.call("sync (full)", || self.harness.sync())?;
        for number in 0..N_QUESTIONS {
            self.remove(number);
            observer.call("sync (one pod)", || self.harness.sync())?;
            let pod = self.next_pod()?;
            self.harness.sync()?;
            self.harness.in_cycle(&pod, |plugin, call| cycle(plugin, call, observer))?;
        }
        Ok(())
    }
}

/// The position of the pod of which the pod on a node with this number is a copy.
fn copied(number: u64) -> usize {
    usize::try_from(number % N_DIFFERENT).unwrap_or_default()
}

/// The name and the uid of the pod on a node with this number.
fn names(number: u64) -> [String; 2] {
    [format!("pod-{number}"), format!("uid-{number}")]
}

/// The points up to Score, about every node.
fn cycle(plugin: &mut dyn Plugin, call: &Call<'_>, observer: &mut impl Observer) -> Result<(), Status> {
    let mut nodes = call.table.nodes().clone();
    let mut filters = true;
    if let Some(point) = plugin.pre_filter() {
        match observer.call("PreFilter", || point.pre_filter(call)) {
            Ok(_) => {}
            // Filter has nothing to do for this pod, but Score may have something to do.
            Err(status) if status == Status::skip() => {
                filters = false;
                observer.left_out(&AFTER_PRE_FILTER[..1], "PreFilter has nothing to do for the pod (Skip)");
            }
            Err(status) if status.code.is_rejected() => {
                let why = format!("PreFilter rejected the pod: {}", status.message());
                observer.left_out(&AFTER_PRE_FILTER, &why);
                return Ok(());
            }
            Err(status) => return Err(status),
        }
    }
    if filters && let Some(point) = plugin.filter() {
        observer.call("Filter", || point.filter(call, &mut nodes))?;
        let mut rejected = call.table.nodes().clone();
        rejected.subtract(&nodes);
        if !rejected.is_empty() {
            observer.call("NodeToStatus", || point.node_to_status(call, &rejected))?;
        }
    }
    score(plugin, call, &nodes, observer)
}

fn score(
    plugin: &mut dyn Plugin,
    call: &Call<'_>,
    nodes: &NodeSet,
    observer: &mut impl Observer,
) -> Result<(), Status> {
    if nodes.is_empty() {
        observer.left_out(&AFTER_PRE_FILTER[1..], "Filter rejected every node");
        return Ok(());
    }
    if let Some(point) = plugin.pre_score() {
        match observer.call("PreScore", || point.pre_score(call, nodes)) {
            Ok(()) => {}
            Err(status) if status == Status::skip() => {
                observer.left_out(&AFTER_PRE_FILTER[2..], "PreScore has nothing to do for the pod (Skip)");
                return Ok(());
            }
            Err(status) => return Err(status),
        }
    }
    let mut scores = Vec::new();
    if let Some(point) = plugin.score() {
        observer.call("Score", || point.score(call, nodes, &mut scores))?;
    }
    if let Some(point) = plugin.normalize() {
        observer.call("NormalizeScore", || point.normalize(call, nodes, &mut scores))?;
    }
    Ok(())
}
