//! What-if questions in batches: these pods, on the cluster with these nodes added or taken away, in each of these variants.
//!
//! Requests and answers are JSON with a version. Nothing is reserved by an answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    cluster::{AddNodesError, Cluster, ClusterNode, ClusterPod},
    manifest::ReadError,
    outcome::{Eviction, PodOutcome},
    place::{Conditions, PlaceError, Placing},
    report::API_VERSION,
};

/// A batch of questions.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WhatIfRequest {
    /// [`API_VERSION`].
    pub api_version: String,
    /// `WhatIf`.
    pub kind: String,
    /// Pods, or workloads of which pods are made: they are placed in each variant.
    #[serde(default)]
    pub pods: Vec<Value>,
    /// The cluster with changes; none asks about the cluster as it is.
    #[serde(default)]
    pub variants: Vec<Variant>,
    /// Groups of nodes that could be made larger: of each, how many nodes would take how many of the pods.
    #[serde(default)]
    pub node_groups: Vec<NodeGroup>,
}

/// The cluster with changes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Variant {
    /// Stands in the answer.
    #[serde(default)]
    pub name: String,
    /// Nodes that come.
    #[serde(default)]
    pub add_nodes: Vec<AddedNodes>,
    /// Names of nodes that go. Their pods are made again and placed after those of the question.
    #[serde(default)]
    pub remove_nodes: Vec<String>,
}

/// Nodes that come.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddedNodes {
    /// How many.
    pub count: usize,
    /// A Node as the template of all.
    pub node: Value,
}

/// Nodes that are alike and of which there may be more.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeGroup {
    /// Stands in the answer.
    pub name: String,
    /// A Node as the template of all.
    pub node: Value,
    /// How many more there may be.
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
    /// The state of the cluster that was asked about: [`Cluster::state_token`]. An answer reserves nothing, so compare the token before you
    /// act on the answer.
    pub cluster_state: String,
    /// Answers in the order of the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<VariantAnswer>,
    /// Answers in the order of the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub node_groups: Vec<NodeGroupAnswer>,
    /// What was given and does not count, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What happens in one variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VariantAnswer {
    /// The name in the request.
    pub name: String,
    /// How many pods get a node.
    pub placed: usize,
    /// How many get none.
    pub pending: usize,
    /// How many pods each node gets that gets any.
    pub nodes_used: BTreeMap<String, usize>,
    /// The pods of the question, then those of nodes that go.
    pub pods: Vec<PodOutcome>,
    /// Pods that make room.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evictions: Vec<Eviction>,
}

/// What one group of nodes could do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeGroupAnswer {
    /// The name in the request.
    pub name: String,
    /// The fewest more nodes with which as many pods are placed as with all that there may be.
    pub nodes: usize,
    /// How many pods are placed then, on nodes of the group and on others.
    pub placed: usize,
    /// Pods that get no node then.
    pub pending: Vec<PodOutcome>,
}

/// How large a batch may be. It is checked before anything is placed, and `is_over` of the [`Conditions`] while it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchBounds {
    /// Variants, one for each step of the search for the size of a node group included.
    pub variants: usize,
    /// Pods of one variant.
    pub pods: usize,
    /// Nodes that one variant adds.
    pub nodes: usize,
}

/// Why a batch has no answer.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// The request is larger than allowed.
    #[error("{what}: {given} exceeds the limit of {most}")]
    TooLarge {
        /// Which field.
        what: &'static str,
        /// How many were given.
        given: usize,
        /// The largest number that is allowed.
        most: usize,
    },
    /// The request cannot be read.
    #[error("{reason}")]
    Unreadable {
        /// What is wrong, with line and column.
        reason: String,
    },
    /// Another version or kind.
    #[error("{field}: unsupported value `{given}`: use `{known}`")]
    Unknown {
        /// Which field.
        field: &'static str,
        /// What was given.
        given: String,
        /// What would be right.
        known: &'static str,
    },
    /// Pods that cannot be read.
    #[error("{0}")]
    Pods(Box<ReadError>),
    /// A pod in question is on a node of the cluster.
    #[error("pods: {pod} is already on a node")]
    OnNode {
        /// Its namespace and name.
        pod: String,
    },
    /// Nodes that cannot be added.
    #[error("{variant}: {error}")]
    Nodes {
        /// The name of the variant or group.
        variant: String,
        /// What is wrong.
        #[source]
        error: Box<AddNodesError>,
    },
    /// A node is not there.
    #[error("{variant}: removeNodes: node {node} not found")]
    NoSuchNode {
        /// The name of the variant.
        variant: String,
        /// The node.
        node: String,
    },
    /// Placing took too long, or broke.
    #[error(transparent)]
    Place(#[from] PlaceError),
}

/// How a batch is answered.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// How large it may be.
    pub bounds: BatchBounds,
    /// The profile that serves the pods in question, whichever scheduler they name; `None`: the one that they name.
    pub scheduler_name: Option<&'a str>,
}

impl BatchBounds {
    /// What a person or an autoscaler may ask in one request.
    pub const DEFAULT: Self = Self { variants: 1000, pods: 10_000, nodes: 10_000 };
}

/// Answers a batch about a cluster. Its pods that wait are left out: what is to be placed stands in the request.
///
/// # Errors
/// The request is larger than the bounds or makes no sense, or it takes too long.
pub fn what_if(
    cluster: &Cluster,
    request: &WhatIfRequest,
    batch: &Batch<'_>,
    conditions: Conditions<'_>,
) -> Result<WhatIfAnswer, BatchError> {
    let bounds = batch.bounds;
    request.check(bounds)?;
    check_size("pods", request.pods.len(), bounds.pods)?;
    let mut question = cluster.pods_in_question(&request.pods).map_err(|error| BatchError::Pods(error.into()))?;
    if let Some(scheduler_name) = batch.scheduler_name {
        question.serve_by(scheduler_name);
    }
    check_size("pods", question.pods().len(), bounds.pods)?;
    let placing = Placing::new(cluster, conditions);
    if let Some(pod) = question.pods().iter().find(|pod| placing.is_on_node(&pod.pod.metadata.uid)) {
        let metadata = &pod.pod.metadata;
        return Err(BatchError::OnNode { pod: format!("{}/{}", metadata.namespace, metadata.name) });
    }
    let mut asking = Asking { cluster, question, placing };
    let variants = request.variants.iter().map(|variant| {
        let nodes = variant.templates()?;
        let (placed, evictions) = asking.place(&variant.name, &variant.remove_nodes, &nodes)?;
        Ok::<_, BatchError>(VariantAnswer::new(&variant.name, placed, evictions))
    });
    let variants = variants.collect::<Result<_, _>>()?;
    let groups = request.node_groups.iter().map(|group| asking.size(group));
    let node_groups = groups.collect::<Result<_, _>>()?;
    let warnings = cluster.warnings().to_vec();
    let cluster_state = cluster.state_token();
    Ok(WhatIfAnswer { api_version: API_VERSION, kind: "WhatIfAnswer", cluster_state, variants, node_groups, warnings })
}

/// A batch that is being answered.
struct Asking<'a, 'p> {
    cluster: &'a Cluster,
    /// The pods in question and their claims, without nodes.
    question: Cluster,
    placing: Placing<'p>,
}

impl WhatIfRequest {
    /// Reads a request in JSON or YAML.
    ///
    /// # Errors
    /// The text is neither JSON nor YAML, or has fields that are not known.
    pub fn read(text: &str) -> Result<Self, BatchError> {
        let read = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| error.to_string())
        } else {
            serde_saphyr::from_str(text).map_err(|error| error.without_snippet().to_string())
        };
        read.map_err(|reason| BatchError::Unreadable { reason })
    }

    fn check(&self, bounds: BatchBounds) -> Result<(), BatchError> {
        let known = [("apiVersion", &self.api_version, API_VERSION), ("kind", &self.kind, "WhatIf")];
        if let Some((field, given, known)) = known.into_iter().find(|(_, given, known)| given != known) {
            return Err(BatchError::Unknown { field, given: given.clone(), known });
        }
        // The search for the size of a group halves what is left.
        let steps = self.node_groups.iter().map(|group| 2 + group.max_nodes.checked_ilog2().unwrap_or(0) as usize);
        check_size("variants", self.variants.len() + steps.sum::<usize>(), bounds.variants)?;
        for variant in &self.variants {
            let n_added = variant.add_nodes.iter().fold(0_usize, |sum, added| sum.saturating_add(added.count));
            check_size("variants[].addNodes[].count", n_added, bounds.nodes)?;
        }
        let largest = self.node_groups.iter().map(|group| group.max_nodes).max().unwrap_or(0);
        check_size("nodeGroups[].maxNodes", largest, bounds.nodes)
    }
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
    /// Places the pods in one variant, and takes everything back.
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
        for (n, template) in added {
            let (nodes, daemons) = self
                .cluster
                .new_nodes(*n, template)
                .map_err(|error| BatchError::Nodes { variant: variant.to_owned(), error: error.into() })?;
            nodes.iter().for_each(|node| self.placing.add_node(node));
            daemons.iter().for_each(|pod| self.placing.arrive(pod));
        }
        self.placing.settle()?;
        self.placing.forget_outcomes();
        self.question.objects().iter().for_each(|object| self.placing.add_object(object));
        self.question.pods().iter().chain(&displaced).for_each(|pod| self.placing.arrive(pod));
        self.placing.settle()?;
        Ok(self.placing.outcomes())
    }

    /// The fewest nodes of the group with which as many pods are placed as with all of them.
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
        let pending = best.into_iter().filter(|pod| pod.node.is_none()).collect();
        Ok(NodeGroupAnswer { name: group.name.clone(), nodes: enough, placed: most, pending })
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
