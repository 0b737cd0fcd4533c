//! Differences of the cache and the queue from the API server's lists.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use berth_cluster::{Client, WatchEvent, Watches, spawn_watches};
use berth_model::api;
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::{Dump, DumpedPod};

/// The maximum time for the lists.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);

/// The nodes, and the pods that are not finished.
#[derive(Debug, Default)]
pub(super) struct Listed {
    nodes: BTreeSet<String>,
    pods: Vec<api::Pod>,
}

impl Listed {
    /// The lists from the API server; `None` if the lists are not complete within a minute.
    pub(super) async fn from_server(client: &Client) -> Option<Self> {
        let (sink, mut events) = mpsc::channel(256);
        let watches = spawn_watches(client, Watches { pods: true, nodes: true, ..Watches::default() }, &sink);
        let mut listed = Self::default();
        let complete = async {
            let mut unlisted = 2;
            while unlisted > 0 {
                match events.recv().await? {
                    WatchEvent::PodApplied(pod) => listed.pods.push(*pod),
                    WatchEvent::NodeApplied(node) => drop(listed.nodes.insert(node.metadata.name)),
                    WatchEvent::PodsSynced { .. } | WatchEvent::NodesSynced => unlisted -= 1,
                    // Such a difference is a change after one list, while the other list is still arriving.
                    WatchEvent::PodDeleted(_)
                    | WatchEvent::NodeDeleted(_)
                    | WatchEvent::ObjectApplied { .. }
                    | WatchEvent::ObjectDeleted { .. }
                    | WatchEvent::Synced { .. }
                    | WatchEvent::Forbidden { .. }
                    | WatchEvent::Ended { .. } => {}
                }
            }
            Some(())
        };
        let complete = tokio::time::timeout(LIST_TIMEOUT, complete).await;
        watches.shutdown().await;
        complete.ok()??;
        Some(listed)
    }
}

/// The names that only one side has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Differences {
    missed_nodes: Vec<String>,
    redundant_nodes: Vec<String>,
    missed_pods: Vec<String>,
    redundant_pods: Vec<String>,
}

impl Differences {
    /// Compares the two. Pods are identified by their uids. Pending pods of other schedulers are not expected in the
    /// queue.
    pub(super) fn between(dump: &Dump, listed: &Listed) -> Self {
        let known_nodes: BTreeSet<&String> =
            dump.nodes.iter().filter(|(_, node)| node.is_known()).map(|(name, _)| name).collect();
        let known = dump.nodes.values().flat_map(|node| &node.pods).chain(dump.queue.iter().map(|it| &it.pod));
        let known: BTreeMap<&str, &DumpedPod> = known.map(|pod| (pod.uid.as_str(), pod)).collect();
        let is_ours =
            |pod: &&api::Pod| !pod.spec.node_name.is_empty() || dump.scheduler_names.contains(&pod.spec.scheduler_name);
        let expected = listed.pods.iter().filter(is_ours).map(|pod| {
            let api::ObjectMeta { namespace, name, uid, .. } = pod.metadata.clone();
            DumpedPod { namespace, name, uid }
        });
        let missed = expected.filter(|pod| !known.contains_key(pod.uid.as_str()));
        let existing: BTreeSet<&str> = listed.pods.iter().map(|pod| pod.metadata.uid.as_str()).collect();
        let redundant = known.iter().filter(|(uid, _)| !existing.contains(*uid));
        Self {
            missed_nodes: listed.nodes.iter().filter(|name| !known_nodes.contains(name)).cloned().collect(),
            redundant_nodes: known_nodes
                .iter()
                .filter(|name| !listed.nodes.contains(**name))
                .map(|it| (*it).clone())
                .collect(),
            missed_pods: missed.map(|pod| pod.to_string()).collect(),
            redundant_pods: redundant.map(|(_, pod)| pod.to_string()).collect(),
        }
    }

    pub(super) fn log(&self) {
        if *self == Self::default() {
            return info!("cache and queue agree with the API server's lists");
        }
        let Self { missed_nodes, redundant_nodes, missed_pods, redundant_pods } = self;
        warn!(
            missed_nodes = missed_nodes.join(", "),
            redundant_nodes = redundant_nodes.join(", "),
            missed_pods = missed_pods.join(", "),
            redundant_pods = redundant_pods.join(", "),
            "cache and queue differ from the API server's lists"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cache_dump::NodeDump, cache_dump::QueuedPodDump};

    fn named(name: &str) -> DumpedPod {
        DumpedPod { namespace: "default".to_owned(), name: name.to_owned(), uid: format!("uid-{name}") }
    }

    fn pod(name: &str, scheduler_name: &str, node: &str) -> api::Pod {
        let mut pod = api::Pod::default();
        pod.metadata.namespace = "default".to_owned();
        pod.metadata.name = name.to_owned();
        pod.metadata.uid = format!("uid-{name}");
        pod.spec.scheduler_name = scheduler_name.to_owned();
        pod.spec.node_name = node.to_owned();
        pod
    }

    #[test]
    fn what_one_side_lacks_is_named() {
        let queued = QueuedPodDump {
            pod: named("waits"),
            queue: "active",
            attempts: 0,
            nominated_node: String::new(),
            rejected_by: String::new(),
            gated_by: String::new(),
        };
        let dump = Dump {
            nodes: BTreeMap::from([
                ("a".to_owned(), NodeDump::known(vec![named("runs"), named("ghost")])),
                ("gone".to_owned(), NodeDump::known(Vec::new())),
                ("only-of-pods".to_owned(), NodeDump::default()),
            ]),
            queue: vec![queued],
            scheduler_names: vec!["ours".to_owned()],
        };
        let listed = Listed {
            nodes: BTreeSet::from(["a".to_owned(), "new".to_owned()]),
            pods: vec![
                pod("runs", "ours", "a"),
                pod("waits", "ours", ""),
                pod("unseen", "ours", ""),
                pod("unseen-running", "other", "a"),
                pod("foreign", "other", ""),
            ],
        };
        let expected = Differences {
            missed_nodes: vec!["new".to_owned()],
            redundant_nodes: vec!["gone".to_owned()],
            missed_pods: vec![named("unseen").to_string(), named("unseen-running").to_string()],
            redundant_pods: vec![named("ghost").to_string()],
        };
        assert_eq!(Differences::between(&dump, &listed), expected);
    }
}
