//! What-if questions in batches. Some pods are placed in several variants of the cluster, with nodes added or removed.
//!
//! Requests and answers are JSON with a version. An answer reserves nothing.

mod groups;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::groups::{AskedPod, NewNode, NodeGroupAnswer};
use crate::{
    cluster::{AddNodesError, Cluster, ClusterNode, ClusterPod},
    manifest::{self, ReadError},
    outcome::{Eviction, PodOutcome},
    place::{Conditions, PlaceError, Placing},
    report::API_VERSION,
};

const KIND: &str = "WhatIf";

/// The number of pods or nodes that are made between two checks of the time.
const CHUNK: usize = 64;

/// A batch of questions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WhatIfRequest {
    /// [`API_VERSION`].
    pub api_version: String,
    /// `WhatIf`.
    pub kind: String,
    /// The pods, or workloads from which pods are made. They are placed in each variant.
    #[serde(default)]
    pub pods: Vec<Value>,
    /// The variants of the cluster. If there are none, the question is about the cluster without changes.
    #[serde(default)]
    pub variants: Vec<Variant>,
    /// The groups of nodes that could grow. For each group, the answer contains the number of nodes that are needed and
    /// the number of pods that are then placed.
    #[serde(default)]
    pub node_groups: Vec<NodeGroup>,
}

/// A variant of the cluster.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Variant {
    /// The name of the variant in the answer.
    #[serde(default)]
    pub name: String,
    /// The nodes that are added.
    #[serde(default)]
    pub add_nodes: Vec<AddedNodes>,
    /// The names of the nodes that are removed. Their pods are created again, and are placed after the pods of the
    /// question.
    #[serde(default)]
    pub remove_nodes: Vec<String>,
}

/// Nodes that are added.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddedNodes {
    /// The number of nodes.
    pub count: usize,
    /// The template of all added nodes: a Node.
    pub node: Value,
}

/// A group of similar nodes that may grow.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeGroup {
    /// The name of the group in the answer.
    pub name: String,
    /// The template of all added nodes: a Node.
    pub node: Value,
    /// The maximum number of additional nodes.
    pub max_nodes: usize,
}

/// The answers to a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WhatIfAnswer {
    /// [`API_VERSION`].
    pub api_version: &'static str,
    /// `WhatIfAnswer`.
    pub kind: &'static str,
    /// The state of the cluster that the answer is about: [`Cluster::state_token`]. An answer reserves nothing, so
    /// compare the token with the token of a new answer before you act.
    pub cluster_state: String,
    /// The answers, in the order of the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<VariantAnswer>,
    /// The answers, in the order of the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub node_groups: Vec<NodeGroupAnswer>,
    /// The parts of the input that have no effect, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The result in one variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VariantAnswer {
    /// The name in the request.
    pub name: String,
    /// The number of pods that get a node.
    pub placed: usize,
    /// The number of pods that get no node.
    pub pending: usize,
    /// The number of pods that each node gets, for nodes that get pods.
    pub nodes_used: BTreeMap<String, usize>,
    /// The pods of the question, followed by the pods of removed nodes.
    pub pods: Vec<PodOutcome>,
    /// The pods that are evicted to make room.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evictions: Vec<Eviction>,
}

/// The maximum size of a batch. The size is checked before any pod is placed. `is_over` of the [`Conditions`] is
/// checked while pods are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchBounds {
    /// The number of variants. Each step of the search for the size of a node group counts as one variant.
    pub variants: usize,
    /// The number of pods in one variant.
    pub pods: usize,
    /// The number of nodes that one variant adds.
    pub nodes: usize,
    /// The bytes of all pods, and of the nodes that one variant adds, as JSON: the size of each template times the
    /// number of its copies.
    pub bytes: usize,
}

/// The reason why a batch has no answer.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// The request is larger than allowed.
    #[error("{what}: {given} exceeds the limit of {most}")]
    TooLarge {
        /// The field.
        what: &'static str,
        /// The number that was given.
        given: usize,
        /// The maximum number.
        most: usize,
    },
    /// The request cannot be read.
    #[error("{reason}")]
    Unreadable {
        /// The mistake, with line and column.
        reason: String,
    },
    /// The version or kind is not known.
    #[error("{field}: unsupported value `{given}`: use `{known}`")]
    Unknown {
        /// The field.
        field: &'static str,
        /// The value that was given.
        given: String,
        /// The value that is expected.
        known: &'static str,
    },
    /// The pods cannot be read.
    #[error("{0}")]
    Pods(Box<ReadError>),
    /// The objects of the question make no pod.
    #[error("pods: found neither a pod nor an object that creates pods, such as a Deployment")]
    NoPods,
    /// A pod of the question is on a node of the cluster.
    #[error(
        "pods: {pod} is already on a node of the cluster: leave it out, or remove its metadata.uid to ask about another pod like it"
    )]
    OnNode {
        /// The pod's namespace and name.
        pod: String,
    },
    /// The nodes cannot be added.
    #[error("{variant}: {error}")]
    Nodes {
        /// The name of the variant or group.
        variant: String,
        /// The mistake.
        #[source]
        error: Box<AddNodesError>,
    },
    /// A node does not exist.
    #[error("{variant}: removeNodes: node {node} not found")]
    NoSuchNode {
        /// The name of the variant.
        variant: String,
        /// The node.
        node: String,
    },
    /// Placing took too long, or failed.
    #[error(transparent)]
    Place(#[from] PlaceError),
}

/// The settings with which a batch is answered.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The maximum size of the batch.
    pub bounds: BatchBounds,
    /// The profile that serves the pods of the question, regardless of the schedulers that the pods name. `None` stands
    /// for the profiles that the pods name.
    pub scheduler_name: Option<&'a str>,
}

impl BatchBounds {
    /// The maximum size of a request from a person or an autoscaler.
    pub const DEFAULT: Self = Self { variants: 1000, pods: 10_000, nodes: 10_000, bytes: 128 << 20 };
}

/// Answers a batch about a cluster. The pending pods of the cluster are left out, because the request contains the pods
/// to place.
///
/// # Errors
/// The request exceeds the bounds or is invalid, or it takes too long.
pub fn what_if(
    cluster: &Cluster,
    request: &WhatIfRequest,
    batch: &Batch<'_>,
    conditions: Conditions<'_>,
) -> Result<WhatIfAnswer, BatchError> {
    let question = question(cluster, request, batch)?;
    answer(cluster, question, request, batch, &mut Placing::new(cluster, conditions), cluster.state_token())
}

/// Answers a batch about the cluster of a scheduler that `placing` follows. `cluster` has objects that the scheduler does
/// not know, but that decide which pods a question makes. `cluster_state` is the token of the answer.
///
/// # Errors
/// Fails as [`what_if`] does. After [`BatchError::Place`], the cluster may be changed, and `placing` must not be used
/// again.
pub fn what_if_followed(
    placing: &mut Placing<'_>,
    cluster: &Cluster,
    request: &WhatIfRequest,
    batch: &Batch<'_>,
    cluster_state: String,
) -> Result<WhatIfAnswer, BatchError> {
    let question = question(cluster, request, batch)?;
    answer(cluster, question, request, batch, placing, cluster_state)
}

/// The pods of the request with their claims.
fn question(cluster: &Cluster, request: &WhatIfRequest, batch: &Batch<'_>) -> Result<Cluster, BatchError> {
    let bounds = batch.bounds;
    request.check(bounds)?;
    check_size("pods", request.pods.len(), bounds.pods)?;
    // Workloads are refused before their pods are made.
    let templates = || request.pods.iter().map(|object| (copies(object), object));
    let n_pods = templates().fold(0_usize, |sum, (count, _)| sum.saturating_add(count));
    check_size("pods", n_pods, bounds.pods)?;
    check_size("the bytes of all pods", n_bytes(templates()), bounds.bytes)?;
    let mut question = cluster.pods_in_question(&request.pods).map_err(|error| BatchError::Pods(error.into()))?;
    if let Some(scheduler_name) = batch.scheduler_name {
        question.serve_by(scheduler_name);
    }
    check_size("pods", question.pods().len(), bounds.pods)?;
    if question.pods().is_empty() && !request.pods.is_empty() {
        return Err(BatchError::NoPods);
    }
    Ok(question)
}

fn answer(
    cluster: &Cluster,
    question: Cluster,
    request: &WhatIfRequest,
    batch: &Batch<'_>,
    placing: &mut Placing<'_>,
    cluster_state: String,
) -> Result<WhatIfAnswer, BatchError> {
    if let Some(pod) = question.pods().iter().find(|pod| placing.is_on_node(&pod.pod.metadata.uid)) {
        let metadata = &pod.pod.metadata;
        return Err(BatchError::OnNode { pod: format!("{}/{}", metadata.namespace, metadata.name) });
    }
    let mut asking = Asking { cluster, question, placing, scheduler_name: batch.scheduler_name };
    let variants = request.variants.iter().map(|variant| {
        let nodes = variant.templates()?;
        let (placed, evictions) = asking.place(&variant.name, &variant.remove_nodes, &nodes)?;
        Ok::<_, BatchError>(VariantAnswer::new(&variant.name, placed, evictions))
    });
    let variants = variants.collect::<Result<_, _>>()?;
    let groups = request.node_groups.iter().map(|group| asking.size(group));
    let node_groups = groups.collect::<Result<_, _>>()?;
    let warnings = cluster.warnings().to_vec();
    Ok(WhatIfAnswer { api_version: API_VERSION, kind: "WhatIfAnswer", cluster_state, variants, node_groups, warnings })
}

/// A batch that is being answered.
struct Asking<'a, 'p> {
    cluster: &'a Cluster,
    /// The pods of the question and their claims, without nodes.
    question: Cluster,
    placing: &'a mut Placing<'p>,
    /// The profile that serves every pod, if there is one.
    scheduler_name: Option<&'a str>,
}

impl WhatIfRequest {
    /// Reads a request in JSON or YAML.
    ///
    /// # Errors
    /// The text is not JSON or YAML, or has unknown fields.
    pub fn read(text: &str) -> Result<Self, BatchError> {
        let read = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| error.to_string())
        } else {
            serde_saphyr::from_str(text).map_err(|error| error.without_snippet().to_string())
        };
        read.map_err(|reason| BatchError::Unreadable { reason })
    }

    /// Asks which nodes the pods of the manifests `pods` get on the present cluster and, if there are changes, on the
    /// changed cluster. `added` is the number of nodes that are added, with the manifest of such a node.
    ///
    /// # Errors
    /// A manifest cannot be read, or the manifest of the node is not a single object.
    pub fn of_manifests(
        pods: &str,
        added: Option<(usize, &str)>,
        remove_nodes: Vec<String>,
    ) -> Result<Self, Box<ReadError>> {
        let objects = |file: &str, text: &str| -> Result<Vec<Value>, Box<ReadError>> {
            let read = manifest::read(file, text).into_iter();
            read.map(|manifest| manifest.map(|manifest| manifest.object).map_err(Box::new)).collect()
        };
        let pods = objects("pods", pods)?;
        let mut add_nodes = Vec::new();
        if let Some((count, text)) = added {
            const FILE: &str = "node";
            let [node] = <[Value; 1]>::try_from(objects(FILE, text)?).map_err(|objects| {
                let reason = format!("expected the manifest of one Node, not {} objects", objects.len());
                Box::new(ReadError { file: FILE.to_owned(), line: None, object: None, field: None, reason })
            })?;
            add_nodes.push(AddedNodes { count, node });
        }
        let mut variants = vec![Variant { name: "The cluster as it is".to_owned(), ..Variant::default() }];
        if !add_nodes.is_empty() || !remove_nodes.is_empty() {
            variants.push(Variant { name: "The changed cluster".to_owned(), add_nodes, remove_nodes });
        }
        Ok(Self { api_version: API_VERSION.to_owned(), kind: KIND.to_owned(), pods, variants, node_groups: Vec::new() })
    }

    fn check(&self, bounds: BatchBounds) -> Result<(), BatchError> {
        let known = [("apiVersion", &self.api_version, API_VERSION), ("kind", &self.kind, KIND)];
        if let Some((field, given, known)) = known.into_iter().find(|(_, given, known)| given != known) {
            return Err(BatchError::Unknown { field, given: given.clone(), known });
        }
        // The search for the size of a group halves the range in each step.
        let steps = self.node_groups.iter().map(|group| 2 + group.max_nodes.checked_ilog2().unwrap_or(0) as usize);
        check_size("variants", self.variants.len() + steps.sum::<usize>(), bounds.variants)?;
        for variant in &self.variants {
            let n_added = variant.add_nodes.iter().fold(0_usize, |sum, added| sum.saturating_add(added.count));
            check_size("variants[].addNodes[].count", n_added, bounds.nodes)?;
            let added = variant.add_nodes.iter().map(|added| (added.count, &added.node));
            check_size("the bytes of all nodes of variants[].addNodes", n_bytes(added), bounds.bytes)?;
        }
        let largest = self.node_groups.iter().map(|group| group.max_nodes).max().unwrap_or(0);
        check_size("nodeGroups[].maxNodes", largest, bounds.nodes)?;
        let groups = self.node_groups.iter().map(|group| n_bytes([(group.max_nodes, &group.node)].into_iter()));
        check_size("the bytes of all nodes of nodeGroups[]", groups.max().unwrap_or(0), bounds.bytes)
    }
}

/// The number of pods that an object makes at most. An object that is not a workload counts as one pod.
fn copies(object: &Value) -> usize {
    let numbers = ["/spec/replicas", "/spec/parallelism"];
    let number = numbers.into_iter().find_map(|field| object.pointer(field).and_then(Value::as_u64));
    usize::try_from(number.unwrap_or(1).max(1)).unwrap_or(usize::MAX)
}

/// The bytes of all copies of these templates as JSON.
fn n_bytes<'a>(templates: impl Iterator<Item = (usize, &'a Value)>) -> usize {
    let sizes = templates.map(|(count, template)| count.saturating_mul(template.to_string().len()));
    sizes.fold(0, usize::saturating_add)
}

fn check_size(what: &'static str, given: usize, most: usize) -> Result<(), BatchError> {
    if given > most { Err(BatchError::TooLarge { what, given, most }) } else { Ok(()) }
}

impl Variant {
    fn templates(&self) -> Result<Vec<(usize, ClusterNode)>, BatchError> {
        let templates = self.add_nodes.iter().map(|added| Ok((added.count, template(&self.name, &added.node)?)));
        templates.collect()
    }
}

fn template(variant: &str, node: &Value) -> Result<ClusterNode, BatchError> {
    let origin = format!("{variant}: node");
    ClusterNode::of_object(&origin, node.clone())
        .map_err(|error| BatchError::Nodes { variant: variant.to_owned(), error: error.into() })
}

impl Asking<'_, '_> {
    /// Places the pods in one variant, and reverts all changes.
    fn place(
        &mut self,
        variant: &str,
        removed: &[String],
        added: &[(usize, ClusterNode)],
    ) -> Result<(Vec<PodOutcome>, Vec<Eviction>), BatchError> {
        let fork = self.placing.fork();
        let placed = self.change_and_place(variant, removed, added);
        self.placing.revert(fork)?;
        placed
    }

    fn change_and_place(
        &mut self,
        variant: &str,
        removed: &[String],
        added: &[(usize, ClusterNode)],
    ) -> Result<(Vec<PodOutcome>, Vec<Eviction>), BatchError> {
        let mut displaced = Vec::new();
        for node in removed {
            let pods = self
                .placing
                .remove_node(node)
                .ok_or_else(|| BatchError::NoSuchNode { variant: variant.to_owned(), node: node.clone() })?;
            displaced.extend(pods.iter().filter(|pod| !pod.belongs_to_its_node()).map(ClusterPod::made_again));
        }
        // A profile that serves every pod also serves pods that name another scheduler.
        if let Some(scheduler_name) = self.scheduler_name.filter(|_| self.placing.is_following()) {
            displaced.iter_mut().for_each(|pod| *pod = pod.served_by(scheduler_name));
        }
        for (n, template) in added {
            self.add_nodes(variant, *n, template)?;
        }
        self.placing.settle()?;
        self.placing.forget_outcomes();
        self.question.objects().iter().for_each(|object| self.placing.add_object(object));
        for pods in [self.question.pods(), displaced.as_slice()] {
            for some in pods.chunks(CHUNK) {
                self.placing.check_time()?;
                some.iter().for_each(|pod| self.placing.arrive(pod));
            }
        }
        self.placing.settle()?;
        Ok(self.placing.outcomes())
    }

    fn add_nodes(&mut self, variant: &str, n: usize, template: &ClusterNode) -> Result<(), BatchError> {
        let refused = |error: AddNodesError| BatchError::Nodes { variant: variant.to_owned(), error: error.into() };
        for first in (1..=n).step_by(CHUNK) {
            self.placing.check_time()?;
            let last = n.min(first + CHUNK - 1);
            let (nodes, daemons) = self.cluster.new_nodes(first..=last, template).map_err(refused)?;
            if let Some(taken) = nodes.iter().find(|node| self.placing.has_node(&node.node.metadata.name)) {
                return Err(refused(AddNodesError::NameTaken(taken.node.metadata.name.clone())));
            }
            nodes.iter().for_each(|node| self.placing.add_node(node));
            daemons.iter().for_each(|pod| self.placing.arrive(pod));
        }
        Ok(())
    }

    /// The smallest number of nodes of the group with which as many pods are placed as with all nodes of the group.
    fn size(&mut self, group: &NodeGroup) -> Result<NodeGroupAnswer, BatchError> {
        let template = template(&group.name, &group.node)?;
        let mut place = |n: usize| self.place(&group.name, &[], &[(n, template.clone())]);
        let n_placed = |pods: &[PodOutcome]| pods.iter().filter(|pod| pod.node.is_some()).count();
        let (mut best, _) = place(group.max_nodes)?;
        let most = n_placed(&best);
        let (mut too_few, mut enough) = (None, group.max_nodes);
        while enough > too_few.map_or(0, |few: usize| few + 1) {
            let middle = too_few.map_or(0, |few| few + 1).midpoint(enough);
            let (pods, _) = place(middle)?;
            if n_placed(&pods) >= most {
                (enough, best) = (middle, pods);
            } else {
                too_few = Some(middle);
            }
        }
        Ok(NodeGroupAnswer::new(group, enough, &template, &self.question, best))
    }
}

impl VariantAnswer {
    fn new(name: &str, pods: Vec<PodOutcome>, evictions: Vec<Eviction>) -> Self {
        let mut nodes_used = BTreeMap::new();
        for node in pods.iter().filter_map(|pod| pod.node.clone()) {
            *nodes_used.entry(node).or_default() += 1;
        }
        let placed = pods.iter().filter(|pod| pod.node.is_some()).count();
        let pending = pods.len() - placed;
        Self { name: name.to_owned(), placed, pending, nodes_used, pods, evictions }
    }
}
