//! A cluster as data: its nodes, its pods, and the other objects that plugins read.

mod build;
mod change;
mod known;
mod reader;

use std::{collections::BTreeSet, sync::Arc};

use berth_model::api;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub use self::{change::AddNodesError, reader::ClusterReader};
use crate::{simulation::Simulation, workloads::daemon_sets::DaemonSet};

/// A cluster. A clone copies no objects.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    nodes: Vec<ClusterNode>,
    /// Pods in the order in which they arrive.
    pods: Vec<ClusterPod>,
    objects: Vec<Arc<Value>>,
    daemon_sets: Vec<Arc<DaemonSet>>,
    warnings: Vec<String>,
}

/// A node of a [`Cluster`].
#[derive(Clone, Debug)]
pub struct ClusterNode {
    /// The node in the scheduler's form.
    pub node: Arc<api::Node>,
    /// The complete node.
    pub object: Arc<Value>,
}

/// A pod of a [`Cluster`].
#[derive(Clone, Debug)]
pub struct ClusterPod {
    /// The pod in the scheduler's form.
    pub pod: Arc<api::Pod>,
    /// The complete pod.
    pub object: Arc<Value>,
    /// The pod in the form of the simulated scheduler's table, if the pod comes from a scheduler that is followed.
    /// `pod` and `object` then have only the names, the owner, the node and the scheduler.
    pub(crate) known: Option<Arc<berth_model::Pod>>,
}

impl Cluster {
    /// The nodes in their order.
    #[must_use]
    pub fn nodes(&self) -> &[ClusterNode] {
        &self.nodes
    }

    /// The pods in their order, including pods on nodes. No pod is finished.
    #[must_use]
    pub fn pods(&self) -> &[ClusterPod] {
        &self.pods
    }

    /// The other objects.
    #[must_use]
    pub fn objects(&self) -> &[Arc<Value>] {
        &self.objects
    }

    /// The pods that wait for a node.
    pub fn pending(&self) -> impl Iterator<Item = &ClusterPod> {
        self.pods.iter().filter(|pod| pod.is_pending())
    }

    /// Warnings about input that the simulation ignores. Each warning is one sentence.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Adds an object that is neither a node nor a pod, for the pods of a question.
    pub fn add_object(&mut self, object: Arc<Value>) {
        self.objects.push(object);
    }

    /// Adds a sentence to [`Self::warnings`].
    pub fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    /// The schedulers that pending pods name.
    #[must_use]
    pub fn scheduler_names(&self) -> BTreeSet<&str> {
        self.pending().map(|pod| pod.pod.spec.scheduler_name.as_str()).collect()
    }

    /// Makes every pod that waits for a node name this scheduler.
    pub fn serve_by(&mut self, scheduler_name: &str) {
        for pod in self.pods.iter_mut().filter(|pod| pod.is_pending() && pod.pod.spec.scheduler_name != scheduler_name)
        {
            *pod = pod.served_by(scheduler_name);
        }
    }

    /// A token that changes when an object is added, changed or removed. The token is a digest of kinds, names and
    /// `resourceVersion`s. For an object without a `resourceVersion`, the token also depends on the object's text.
    #[must_use]
    pub fn state_token(&self) -> String {
        let nodes = self.nodes.iter().map(|node| &node.object);
        let pods = self.pods.iter().map(|pod| &pod.object);
        let all = nodes.chain(pods).chain(&self.objects);
        let mut lines: Vec<String> = all.map(|object| identity(object)).collect();
        lines.sort_unstable();
        let digest = Sha256::digest(lines.join("\n"));
        digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Shows the whole cluster to the scheduler of a simulation. This includes the pods that wait for a node, which the
    /// scheduler has not tried yet. `whole_pods` keeps the JSON of pods for plugins that read it.
    pub fn show(&self, simulation: &mut Simulation<'_>, whole_pods: bool) {
        self.show_without_pending(simulation, whole_pods);
        for pod in self.pending() {
            pod.arrive(simulation, whole_pods);
        }
    }

    /// Shows the cluster to the scheduler of a simulation without the pods that wait for a node.
    pub fn show_without_pending(&self, simulation: &mut Simulation<'_>, whole_pods: bool) {
        simulation.tell_time();
        for node in &self.nodes {
            simulation.handle(berth_scheduler::Event::NodeApplied(Box::new((*node.node).clone())));
        }
        for object in &self.objects {
            let event = simulation.server_mut().apply((**object).clone());
            simulation.handle(event);
        }
        for pod in self.pods.iter().filter(|pod| !pod.is_pending()) {
            pod.arrive(simulation, whole_pods);
        }
        simulation.handle(berth_scheduler::Event::Synced);
    }
}

/// The kind, namespace, name and version of an object.
fn identity(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let version = match text("/metadata/resourceVersion") {
        "" => object.to_string(),
        version => version.to_owned(),
    };
    let names = ["/kind", "/metadata/namespace", "/metadata/name"].map(text);
    format!("{} {version}", names.join("/"))
}

impl ClusterPod {
    /// Whether the pod waits for a node.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.pod.spec.node_name.is_empty()
    }

    /// Creates the pod in the API server of a simulation, and sends the event to the simulation's scheduler. With
    /// `whole`, the pod has its JSON.
    pub fn arrive(&self, simulation: &mut Simulation<'_>, whole: bool) {
        if let Some(known) = &self.known {
            let symbols = &simulation.scheduler().cache().table().symbols;
            let sym = |name: &str| symbols.lookup(name).unwrap_or_default();
            let (node_name, scheduler_name) = (sym(&self.pod.spec.node_name), sym(&self.pod.spec.scheduler_name));
            let known = berth_model::Pod { node_name, scheduler_name, ..berth_model::Pod::clone(known) };
            return simulation.show_pod(Arc::new(known));
        }
        let mut pod = Box::new((*self.pod).clone());
        if whole {
            pod.json = Some(self.object.to_string().into_bytes().into());
        }
        let event = simulation.server_mut().create_pod(pod);
        simulation.handle(event);
    }
}
