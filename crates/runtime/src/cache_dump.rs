//! The reaction to SIGUSR2, as in kube-scheduler (`pkg/scheduler/backend/cache/debugger`): the log gets the cache, the
//! queue, and their differences from the API server's lists. `/debug/cache` shows cache and queue as JSON.
//!
//! The data is read from the copy that follows the scheduler. Changes between the copy and the list appear as
//! differences.

mod compare;
mod node;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use berth_cluster::Client;
use berth_model::{ClusterTable, Pod};
use berth_scheduler::{ClusterView, PodPlace};
use berth_serving::{ReadModel as _, endpoints::KeptAnswer};
use berth_telemetry::clock;
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use self::{
    compare::{Differences, Listed},
    node::NodeDump,
};
use crate::follower::Follower;

/// Cache and queue at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dump {
    /// The nodes by name: the nodes of the cache, and the nodes that only pods refer to.
    nodes: BTreeMap<String, NodeDump>,
    queue: Vec<QueuedPodDump>,
    /// The `schedulerName`s of the profiles.
    scheduler_names: Vec<String>,
}

/// A pod, by the names that people and the API server use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct DumpedPod {
    namespace: String,
    name: String,
    uid: String,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct QueuedPodDump {
    pod: DumpedPod,
    queue: &'static str,
    attempts: u32,
    nominated_node: String,
    rejected_by: String,
    gated_by: String,
}

/// A dump as JSON. Names are values and not keys, so that a reader can replace them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DumpDocument<'a> {
    /// The time to which the data belongs, in milliseconds since 1970.
    as_of_milliseconds: u64,
    /// Whether all data is from that time. Otherwise, some of the data is older or missing.
    is_whole: bool,
    nodes: Vec<NamedNode<'a>>,
    queue: &'a [QueuedPodDump],
    scheduler_names: &'a [String],
}

#[derive(Serialize)]
struct NamedNode<'a> {
    name: &'a str,
    #[serde(flatten)]
    node: &'a NodeDump,
}

/// The routes for callers that may see every pod.
pub(crate) fn routes(follower: Follower) -> Router {
    Router::new().route("/debug/cache", get(show)).with_state((follower, KeptAnswer::default()))
}

async fn show(State((follower, kept)): State<(Follower, KeptAnswer)>) -> Response {
    let make = async { follower.read(document).await.flatten() };
    match kept.get(make).await {
        Some(document) => ([(header::CONTENT_TYPE, "application/json")], document).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the scheduler did not answer in time\n").into_response(),
    }
}

fn document(view: &ClusterView) -> Option<Bytes> {
    let dump = Dump::of(view);
    let document = serde_json::to_vec(&DumpDocument {
        as_of_milliseconds: clock::wall(view.as_of()),
        is_whole: view.is_complete(),
        nodes: dump.nodes.iter().map(|(name, node)| NamedNode { name, node }).collect(),
        queue: &dump.queue,
        scheduler_names: &dump.scheduler_names,
    });
    // These structs have no value that JSON cannot have.
    document.inspect_err(|error| warn!(%error, "the cache cannot be shown")).ok().map(Bytes::from)
}

impl Dump {
    /// The data of the scheduler's copy.
    pub(crate) fn of(view: &ClusterView) -> Self {
        let table = view.table();
        let mut queue: Vec<QueuedPodDump> = Vec::new();
        for pod in view.pods() {
            let PodPlace::Queued(waiting) = pod.place() else { continue };
            let record = &waiting.record;
            queue.push(QueuedPodDump {
                pod: DumpedPod::of(&record.pod, table),
                queue: waiting.queue.as_str(),
                attempts: record.attempts,
                nominated_node: table.symbols.text(record.pod.nominated_node_name).to_owned(),
                rejected_by: record.rejectors.join(","),
                gated_by: record.gated_by.as_deref().unwrap_or_default().to_owned(),
            });
        }
        let scheduler_names = view.scheduler_names().map(str::to_owned).collect();
        Self { nodes: node::all(view), queue, scheduler_names }
    }

    fn log(&self) {
        let n_pods: usize = self.nodes.values().map(|node| node.pods.len()).sum();
        info!(nodes = self.nodes.len(), pods = n_pods, queued_pods = self.queue.len(), "dump of cache and queue");
        for (name, node) in &self.nodes {
            node.log(name);
        }
        for QueuedPodDump { pod, queue, attempts, nominated_node, rejected_by, gated_by } in &self.queue {
            let DumpedPod { namespace, name, uid } = pod;
            info!(
                name,
                namespace,
                %uid,
                queue,
                attempts,
                nominated_node,
                rejected_by,
                gated_by,
                "queued pod"
            );
        }
    }
}

impl DumpedPod {
    fn of(pod: &Pod, table: &ClusterTable) -> Self {
        Self {
            namespace: table.symbols.text(pod.namespace).to_owned(),
            name: pod.name.to_string(),
            uid: pod.uid.to_string(),
        }
    }
}

impl std::fmt::Display for DumpedPod {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{} ({})", self.namespace, self.name, self.uid)
    }
}

/// Waits for SIGUSR2 from now on. The future handles the signal and never ends. `dump` asks for the scheduler's data;
/// `None` means that there was no answer in time.
///
/// # Errors
/// The signal cannot be listened for.
pub(crate) fn on_signal<Asked: Future<Output = Option<Dump>> + Send>(
    client: Client,
    dump: impl Fn() -> Asked + Send,
) -> Result<impl Future<Output = ()> + Send> {
    let mut signals = signal(SignalKind::user_defined2()).context("cannot listen for SIGUSR2")?;
    Ok(async move {
        while signals.recv().await.is_some() {
            match dump().await {
                Some(dump) => report(&client, &dump).await,
                None => warn!("cache and queue are not dumped: the scheduler did not answer in time"),
            }
        }
    })
}

async fn report(client: &Client, dump: &Dump) {
    dump.log();
    match Listed::from_server(client).await {
        Some(listed) => Differences::between(dump, &listed).log(),
        None => warn!("cache and queue are not compared with the API server: it did not list nodes and pods in time"),
    }
}
