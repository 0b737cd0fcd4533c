//! Makes changed copies of a cluster, with nodes added or removed.

use std::{ops::RangeInclusive, sync::Arc};

use berth_model::api;
use serde_json::{Value, json};

use super::{Cluster, ClusterNode, ClusterPod, build, known};
use crate::{
    admission::Admission,
    manifest::{self, Manifest, ReadError},
};

/// The annotation of a pod that a kubelet runs from its own file.
const MIRROR: &str = "kubernetes.io/config.mirror";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The maximum number of nodes that are added.
const MAX_ADDED: usize = 100_000;

/// The reason why nodes cannot be added.
#[derive(Debug, thiserror::Error)]
pub enum AddNodesError {
    /// The template cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A text contains no object, several objects, or an object that is not a node.
    #[error("{file}: a template must contain exactly one Node and nothing else")]
    NotOneNode {
        /// The name of the file in errors.
        file: String,
    },
    /// Two nodes would have the same name.
    #[error("node {0} already exists: give the template another metadata.name or a metadata.generateName")]
    NameTaken(String),
    /// The cluster would have too many nodes.
    #[error("{0} nodes are too many: at most {MAX_ADDED} can be added")]
    TooMany(usize),
}

impl ClusterNode {
    /// Reads a node from a text with one manifest, for [`Cluster::add_nodes`]. `file` is the name of the text in
    /// errors.
    ///
    /// # Errors
    /// The text cannot be read, or does not contain exactly one Node.
    pub fn read(file: &str, text: &str) -> Result<Self, AddNodesError> {
        let mut manifests = manifest::read(file, text);
        let one = (manifests.len() == 1).then(|| manifests.pop()).flatten();
        let not_one = || AddNodesError::NotOneNode { file: file.to_owned() };
        Self::of_manifest(&one.ok_or_else(not_one)??).unwrap_or_else(|| Err(not_one()))
    }

    /// Reads a node from an object. `origin` is its source, for errors.
    ///
    /// # Errors
    /// Fails as [`Self::read`] does.
    pub fn of_object(origin: &str, object: Value) -> Result<Self, AddNodesError> {
        let manifest = manifest::of_object(origin, object)?;
        let not_one = || Err(AddNodesError::NotOneNode { file: origin.to_owned() });
        Self::of_manifest(&manifest).unwrap_or_else(not_one)
    }

    /// The node in a manifest; `None` if the manifest is not a node.
    fn of_manifest(manifest: &Manifest) -> Option<Result<Self, AddNodesError>> {
        (manifest.object["kind"] == "Node").then(|| Ok(build::decode_node(manifest)?))
    }

    /// A copy of the node under another name.
    fn renamed(&self, name: &str) -> Self {
        let mut object = (*self.object).clone();
        object["metadata"]["name"] = json!(name);
        object["metadata"]["uid"] = json!(name);
        object["metadata"]["labels"][HOSTNAME] = json!(name);
        let mut node = (*self.node).clone();
        name.clone_into(&mut node.metadata.name);
        name.clone_into(&mut node.metadata.uid);
        node.metadata.labels.insert(HOSTNAME.to_owned(), name.to_owned());
        Self { node: Arc::new(node), object: Arc::new(object) }
    }

    /// The name of the copy with this number of a template.
    pub(crate) fn name_of_copy(&self, number: usize) -> String {
        match self.object.pointer("/metadata/generateName").and_then(Value::as_str) {
            Some(prefix) => format!("{prefix}{number}"),
            None => format!("{}-{number}", self.node.metadata.name),
        }
    }

    /// This node with new pods excluded, as after `kubectl cordon`.
    #[must_use]
    pub fn cordoned(&self) -> Self {
        let mut node = (*self.node).clone();
        node.spec.unschedulable = true;
        let mut object = (*self.object).clone();
        object["spec"]["unschedulable"] = json!(true);
        Self { node: Arc::new(node), object: Arc::new(object) }
    }
}

impl ClusterPod {
    /// Whether the pod stays on its node as long as the node exists. This is so for a pod of a DaemonSet, and for a pod
    /// that the kubelet runs from a file.
    #[must_use]
    pub fn belongs_to_its_node(&self) -> bool {
        let metadata = &self.pod.metadata;
        let is_of_node = |owner: &api::OwnerReference| matches!(owner.kind.as_str(), "DaemonSet" | "Node");
        metadata.annotations.contains_key(MIRROR) || metadata.owner_references.iter().any(is_of_node)
    }

    /// Whether a controller creates another pod when this pod no longer exists.
    #[must_use]
    pub fn has_controller(&self) -> bool {
        self.pod.metadata.owner_references.iter().any(|owner| owner.controller)
    }

    /// The pod that the controller creates when this pod no longer exists: a copy with another uid and without a node.
    /// The copy has the same name, so that people recognise the pod.
    #[must_use]
    pub fn made_again(&self) -> Self {
        let mut pod = (*self.pod).clone();
        pod.metadata.uid = format!("{}+", pod.metadata.uid);
        pod.metadata.resource_version.clear();
        pod.metadata.deletion_timestamp = None;
        pod.spec.node_name.clear();
        let resource_claim_statuses = std::mem::take(&mut pod.status.resource_claim_statuses);
        pod.status = api::PodStatus { resource_claim_statuses, ..api::PodStatus::default() };
        let mut object = (*self.object).clone();
        object["metadata"]["uid"] = json!(pod.metadata.uid);
        if let Some(spec) = object["spec"].as_object_mut() {
            spec.remove("nodeName");
        }
        object["status"] = json!({"resourceClaimStatuses": pod.status.resource_claim_statuses});
        let known = self.known.as_ref().map(|known| Arc::new(known::made_again(known, &pod.metadata.uid)));
        Self { pod: Arc::new(pod), object: Arc::new(object), known }
    }

    /// A copy of the pod on a node.
    #[must_use]
    pub fn on(&self, node: &str) -> Self {
        let mut placed = self.clone();
        node.clone_into(&mut Arc::make_mut(&mut placed.pod).spec.node_name);
        Arc::make_mut(&mut placed.object)["spec"]["nodeName"] = json!(node);
        placed
    }

    /// A copy of the pod that evicts no other pod.
    #[must_use]
    pub fn evicting_none(&self) -> Self {
        let mut pod = self.clone();
        Arc::make_mut(&mut pod.pod).spec.preemption_policy = Some("Never".to_owned());
        Arc::make_mut(&mut pod.object)["spec"]["preemptionPolicy"] = json!("Never");
        pod
    }

    /// A copy of the pod for the profile of this name.
    #[must_use]
    pub fn served_by(&self, scheduler_name: &str) -> Self {
        let mut pod = self.clone();
        scheduler_name.clone_into(&mut Arc::make_mut(&mut pod.pod).spec.scheduler_name);
        Arc::make_mut(&mut pod.object)["spec"]["schedulerName"] = json!(scheduler_name);
        pod
    }

    /// A copy of the pod under another name and uid.
    #[must_use]
    pub fn named(&self, name: &str) -> Self {
        let mut pod = (*self.pod).clone();
        name.clone_into(&mut pod.metadata.name);
        pod.metadata.uid = format!("{}/{name}", pod.metadata.namespace);
        let mut object = (*self.object).clone();
        object["metadata"]["name"] = json!(name);
        object["metadata"]["uid"] = json!(pod.metadata.uid);
        Self { pod: Arc::new(pod), object: Arc::new(object), known: None }
    }
}

impl Cluster {
    /// Removes nodes, and returns their number. Their pods then wait for a node, except the pods that belong to their
    /// nodes.
    pub fn remove_nodes(&mut self, is_removed: impl Fn(&ClusterNode) -> bool) -> usize {
        let n_before = self.nodes.len();
        let (removed, nodes) = std::mem::take(&mut self.nodes).into_iter().partition::<Vec<_>, _>(is_removed);
        self.nodes = nodes;
        let names: rustc_hash::FxHashSet<&str> = removed.iter().map(|node| node.node.metadata.name.as_str()).collect();
        let mut n_without_controller = 0_usize;
        let pods = std::mem::take(&mut self.pods).into_iter().filter_map(|pod| {
            if !names.contains(pod.pod.spec.node_name.as_str()) {
                return Some(pod);
            }
            n_without_controller += usize::from(!pod.has_controller() && !pod.belongs_to_its_node());
            (!pod.belongs_to_its_node()).then(|| pod.made_again())
        });
        self.pods = pods.collect();
        if n_without_controller > 0 {
            self.warnings.push(format!(
                "pods of the removed nodes that have no controller, so that nothing recreates them: {n_without_controller}"
            ));
        }
        n_before - self.nodes.len()
    }

    /// Adds `n` nodes like `template`, with the pods of DaemonSets for these nodes. The name of each node consists of
    /// the template's name and a number.
    ///
    /// # Errors
    /// There are too many nodes, or a name is taken.
    pub fn add_nodes(&mut self, n: usize, template: &ClusterNode) -> Result<(), AddNodesError> {
        let (nodes, mut pods) = self.new_nodes(1..=n, template)?;
        self.nodes.extend(nodes);
        // Pods of DaemonSets exist before any other pod is placed on the node.
        pods.append(&mut self.pods);
        self.pods = pods;
        Ok(())
    }

    /// The nodes with these numbers that [`Self::add_nodes`] would add, and the pods of DaemonSets for them.
    pub(crate) fn new_nodes(
        &self,
        numbers: RangeInclusive<usize>,
        template: &ClusterNode,
    ) -> Result<(Vec<ClusterNode>, Vec<ClusterPod>), AddNodesError> {
        if *numbers.end() > MAX_ADDED {
            return Err(AddNodesError::TooMany(*numbers.end()));
        }
        let taken: rustc_hash::FxHashSet<&str> =
            self.nodes.iter().map(|node| node.node.metadata.name.as_str()).collect();
        let (mut nodes, mut daemons, admission) = (Vec::new(), Vec::new(), self.admission());
        for number in numbers {
            let name = template.name_of_copy(number);
            if taken.contains(name.as_str()) {
                return Err(AddNodesError::NameTaken(name));
            }
            let node = template.renamed(&name);
            let pods = self.daemon_sets.iter().filter_map(|set| set.pod_for(&node.node));
            daemons.extend(pods.filter_map(|pod| daemon_pod(pod, &admission)));
            nodes.push(node);
        }
        Ok((nodes, daemons))
    }

    /// The pods of a question with their claims, as they would be created in this cluster. A pod without a uid gets a
    /// uid that no pod of the cluster has.
    pub(crate) fn pods_in_question(&self, objects: &[Value]) -> Result<Cluster, ReadError> {
        let mut builder = build::Builder::new(Vec::new()).with_uids_below("asked/");
        self.objects.iter().for_each(|object| builder.look_at(object));
        for (at, object) in objects.iter().enumerate() {
            builder.add(manifest::of_object(&format!("pods[{at}]"), object.clone())?);
        }
        let (question, errors) = builder.finish();
        match errors.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(question),
        }
    }

    fn admission(&self) -> Admission {
        let mut admission = Admission::default();
        self.objects.iter().for_each(|object| admission.see(object));
        admission
    }

    /// The pods of a text with manifests, including workloads, as they would be created in this cluster. `file` is the
    /// name of the text in errors.
    ///
    /// # Errors
    /// The mistakes in each of the objects.
    pub fn read_pods(&self, file: &str, text: &str) -> Result<Vec<ClusterPod>, Vec<ReadError>> {
        let mut builder = build::Builder::new(Vec::new());
        self.objects.iter().for_each(|object| builder.look_at(object));
        for manifest in manifest::read(file, text) {
            match manifest {
                Ok(manifest) => builder.add(manifest),
                Err(error) => return Err(vec![error]),
            }
        }
        let (cluster, errors) = builder.finish();
        if errors.is_empty() { Ok(cluster.pods) } else { Err(errors) }
    }
}

/// Makes a pod of a DaemonSet. `None` if the pod cannot be read, although its template was read when the cluster was
/// made.
fn daemon_pod(mut object: Value, admission: &Admission) -> Option<ClusterPod> {
    admission.admit(&mut object, 0).ok()?;
    let pod = serde_json::from_value(object.clone()).ok()?;
    Some(ClusterPod { pod: Arc::new(pod), object: Arc::new(object), known: None })
}
