//! A small cluster for a plugin's own tests: no wasm, no scheduler, no API server.
//!
//! ```text
//! let mut cluster = Cluster::default();
//! cluster.node(r#"{"metadata": {"name": "a", "labels": {"disk": "ssd"}}}"#);
//! let pod = cluster.pending(r#"{"metadata": {"name": "p", "namespace": "default"}}"#);
//! let answers = cluster.ask(&mut plugin, &pod)?;
//! assert_eq!(answers.scores["a"], 100);
//! ```
//!
//! Objects are those of Kubernetes, as JSON. A test panics on one that does not decode: it is the test that is wrong.

use std::{collections::BTreeMap, sync::Arc};

use berth_framework::{Call, CycleId, Plugin, Status};
use berth_model::{ClusterTable, NodeIdx, NodeSet, ObjectKey, Pod, PodIdx, Time, api, intern};

/// Nodes, pods on them, and other objects.
#[derive(Debug, Default)]
pub struct Cluster {
    table: ClusterTable,
    n_nodes: u32,
    n_pods: u32,
    n_cycles: u64,
}

/// What a plugin said about every node, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Why a node does not pass, as `explain` says.
    pub rejected: BTreeMap<String, Status>,
    /// Of the nodes that pass; normalised if the plugin normalises.
    pub scores: BTreeMap<String, i64>,
}

#[expect(clippy::panic, reason = "a test with an unreadable object is wrong")]
fn read<T: serde::de::DeserializeOwned>(json: &str) -> T {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error} in {json}"))
}

impl Cluster {
    /// Adds a node. The position is that of its row in [`Self::table`].
    pub fn node(&mut self, json: &str) -> NodeIdx {
        let node = intern::node(&read::<api::Node>(json), &mut self.table.symbols);
        let idx = NodeIdx(self.n_nodes);
        self.n_nodes += 1;
        self.table.set_node(idx, &node);
        idx
    }

    /// Adds a pod to the node that its `spec.nodeName` names; one without a known node is left out.
    pub fn pod(&mut self, json: &str) {
        let pod = self.pending(json);
        let Some(node) = self.table.find(pod.node_name) else { return };
        self.table.add_requested(node, &pod.placed_requests, pod.placed_non_zero, 1);
        let mut ports = self.table.host_ports(node).to_vec();
        ports.extend_from_slice(&pod.host_ports);
        self.table.set_host_ports(node, ports);
        self.table.pods_mut().place(PodIdx(self.n_pods), Arc::new(pod), node);
        self.n_pods += 1;
    }

    /// Takes the pods of this name off their nodes, whose columns stay as they are.
    pub fn remove_pod(&mut self, name: &str) {
        let table = self.table.pods_mut();
        let gone: Vec<PodIdx> = table.iter().filter(|(_, pod, _)| *pod.name == *name).map(|(idx, _, _)| idx).collect();
        for idx in gone {
            table.remove(idx);
        }
    }

    /// Adds an object of another kind.
    pub fn object(&mut self, json: &str) {
        let object: serde_json::Value = read(json);
        let change = ObjectKey::of(&object).change(Some(Arc::from(json.as_bytes())));
        self.table.objects_mut().apply(&change);
    }

    /// A pod to ask about.
    pub fn pending(&mut self, json: &str) -> Pod {
        let mut pod: api::Pod = read(json);
        pod.json = Some(Arc::from(json.as_bytes()));
        intern::pod(&pod, &mut self.table.symbols)
    }

    /// The table that plugins see.
    #[must_use]
    pub fn table(&self) -> &ClusterTable {
        &self.table
    }

    /// Runs PreFilter, Filter, PreScore, Score and normalising over all nodes in one cycle.
    ///
    /// # Errors
    /// The status with which the plugin turned the pod down before Filter, or broke.
    pub fn ask(&mut self, plugin: &mut dyn Plugin, pod: &Pod) -> Result<Answers, Status> {
        self.n_cycles += 1;
        let call = Call { cycle: CycleId(self.n_cycles), now: Time::default(), pod, table: &self.table };
        let answers = ask(plugin, &call);
        plugin.end_cycle(call.cycle);
        answers
    }
}

fn ask(plugin: &mut dyn Plugin, call: &Call<'_>) -> Result<Answers, Status> {
    let table = call.table;
    let name = |node: NodeIdx| table.symbols.text(table.name(node)).to_owned();
    let mut answers = Answers::default();
    let mut passed = table.nodes().clone();
    if !skipped(plugin.pre_filter().map(|point| point.pre_filter(call)))?
        && let Some(filter) = plugin.filter()
    {
        filter.filter(call, &mut passed)?;
        let mut rejected = table.nodes().clone();
        rejected.subtract(&passed);
        for explanation in filter.explain(call, &rejected)? {
            let statuses = explanation.nodes.iter().map(|node| (name(node), explanation.status.clone()));
            answers.rejected.extend(statuses);
        }
    }
    if !skipped(plugin.pre_score().map(|point| point.pre_score(call, &passed)))? {
        let scores = score(plugin, call, &passed)?;
        answers.scores = passed.iter().map(name).zip(scores).collect();
    }
    Ok(answers)
}

fn score(plugin: &mut dyn Plugin, call: &Call<'_>, nodes: &NodeSet) -> Result<Vec<i64>, Status> {
    let mut scores = Vec::new();
    if let Some(point) = plugin.score() {
        point.score(call, nodes, &mut scores)?;
    }
    if let Some(point) = plugin.normalize() {
        point.normalize(call, nodes, &mut scores)?;
    }
    Ok(scores)
}

/// Whether a preparing call asked to be left out.
fn skipped<T>(answer: Option<Result<T, Status>>) -> Result<bool, Status> {
    match answer {
        Some(Err(status)) if status == Status::skip() => Ok(true),
        Some(Err(status)) => Err(status),
        Some(Ok(_)) | None => Ok(false),
    }
}
